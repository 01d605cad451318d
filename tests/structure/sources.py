#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every source file is like: licence line, size, namespaces, and nothing of a workplace left in it.

usage: sources.py ROOT
"""

import re
import sys

import tree
from includes import LAYERS, layer_of

LICENCE = "SPDX-License-Identifier: Apache-2.0"
MOST_LINES = 500
MOST_FUNCTION_LINES = 60  # more is a warning
SCRIPTS = (".py", ".sh", ".cmake")  # a layer's CMakeLists.txt is a list of names

NAMESPACE = re.compile(r"^namespace (sandbar::\w+)", re.MULTILINE)
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b")


def licence_problem(lines):
    first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    return None if first and LICENCE in first[0] else f"the first line must have {LICENCE}"


def namespace_problems(path, text):
    """Folder = namespace. A lower layer's namespace may be opened to declare its types."""
    layer = layer_of(path)
    if layer is None or layer not in LAYERS:
        return
    if not re.search(r"^namespace ", text, re.MULTILINE):
        return  # macros only
    found = set(NAMESPACE.findall(text))
    own = f"sandbar::{layer}"
    lower = {"sandbar::" + entry.split("/")[0] for entry in LAYERS[layer]}
    for other in sorted(found - {own} - lower):
        yield f"opens {other}, but lies in src/{layer}"
    public = re.search(r"^namespace sandbar \{", text, re.MULTILINE)  # what include/sandbar declares is defined somewhere
    if own not in found and not public:
        yield f"does not open {own}"


def cpp_problems(path, text):
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines, more than {MOST_LINES}: one idea a file"
    if path.endswith(".h"):
        if re.search(r"^\s*using namespace", text, re.MULTILINE):
            yield "`using namespace` in a header"
        if "#pragma once" not in text:
            yield "no #pragma once"
    yield from namespace_problems(path, text)


def long_functions(text):
    """(line, length) of the functions outside classes that are too long, by clang-format's indentation."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"[A-Za-z_].*\{$", line) and not re.match(r"(namespace|class|struct|enum|union|extern)\b", line):
            start = number
        elif line.startswith("}") and start is not None:
            if number - start + 1 > MOST_FUNCTION_LINES:
                yield start, number - start + 1
            start = None


def check(root):
    problems, warnings, checked = [], [], 0
    programs = [p for p in tree.files(root, None, ("tools", ".ci")) if "." not in p.split("/")[-1]]
    for path in tree.files(root, tree.CPP + SCRIPTS) + programs:
        checked += 1
        text = tree.read(root, path)
        found = [licence_problem(text.splitlines())]
        if path.endswith(tree.CPP):
            found += cpp_problems(path, text)
            warnings += [f"{path}:{line}: a function of {size} lines" for line, size in long_functions(text)]
        if LEFTOVER.search(text) and not path.startswith("tests/structure/"):
            found.append("a TODO is left: do it, or answer Errc::unsupported and say so in the manual")
        problems += [f"{path}: {problem}" for problem in found if problem]
    return problems, warnings, checked


if __name__ == "__main__":
    all_problems, all_warnings, count = check(sys.argv[1])
    for warning in all_warnings:
        print(f"warning: {warning}")
    sys.exit(tree.report("sources", all_problems, count))
