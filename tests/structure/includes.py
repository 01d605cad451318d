#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include rule: includes go downwards only, and each third-party header stays in its folder.

usage: includes.py ROOT
"""

import re
import sys

import tree

# What each layer may include besides itself. An entry with a '/' is one header instead of a whole layer.
LAYERS = {
    "base": set(),
    "wire": {"base"},
    "net": {"base"},
    "grant": {"base", "wire"},
    "mux": {"base", "wire", "net"},
    "client": {"base", "wire", "net", "mux"},
    # The remote file system's interface, and the structs, bounds and packed entries that it speaks in; no codec, no frame.
    "vfs": {"base", "client/remote_fs.h", "wire/dirents.h", "wire/ids.h", "wire/limits.h", "wire/messages.h"},
    "fuse": {"base", "vfs"},
    "agent": {"base", "wire", "net", "mux", "grant"},
    "control": {"base", "wire", "net", "grant"},
    "cli": {"base"},
}

# Our public headers: these two are base's offer to everybody; the rest is the client library's.
PUBLIC_EVERYWHERE = {"sandbar/error.h", "sandbar/result.h"}
PUBLIC_USERS = ("include/", "src/client/", "tools/", "examples/", "tests/")

# Third-party headers and the folders that may name them; a layer's unit tests and fuzzers count as the layer.
THIRD_PARTY = [
    (r"rapidjson/", ("src/wire/",)),
    (r"websocketpp/", ("src/net/",)),
    (r"boost/", ("src/net/",)),
    (r"curl/", ("src/net/",)),
    (r"openssl/", ("src/base/", "src/net/", "src/grant/", "src/control/")),
    (r"fuse3/|fuse(_\w+)?\.h$", ("src/fuse/",)),
    (r"CLI/", ("src/cli/", "tools/")),
    (r"sqlite3", ("src/control/",)),
    (r"archive(_entry)?\.h$", ("src/client/", "tools/")),
    (r"g(test|mock)/", ("tests/",)),
]

# What a third-party header may otherwise come from: the C and C++ libraries and the kernel.
SYSTEM = re.compile(r"^[a-z0-9_]+$|^(sys|linux|net|netinet|arpa|asm|bits)/[\w/]+\.h$|^[a-z0-9_]+\.h$|^sanitizer/\w+\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def standing_for(path):
    """The folder whose third-party rule applies: a unit test of net may name what net may."""
    unit = re.match(r"tests/unit/(\w+)/", path)
    return [path] + ([f"src/{unit.group(1)}/"] if unit else [])


def wrong_third_party(path, header):
    for pattern, folders in THIRD_PARTY:
        if re.match(pattern, header):
            if any(p.startswith(folders) for p in standing_for(path)):
                return None
            return f"<{header}> belongs to {' and '.join(folders)} only"
    if not SYSTEM.match(header):
        return f"<{header}> is neither the system's nor a library that tests/structure/includes.py knows"
    return None


def wrong_own(path, header):
    if header.startswith("sandbar/"):
        if header in PUBLIC_EVERYWHERE or path.startswith(PUBLIC_USERS):
            return None
        return f'"{header}" is the client library\'s: only client, tools and examples see it'
    target = header.split("/")[0]
    if path.startswith("include/"):
        return f'"{header}": a public header may include public headers only'
    layer = layer_of(path)
    if layer is None:  # tools and tests see all
        return None
    if layer not in LAYERS:
        return f"src/{layer} is no layer that tests/structure/includes.py knows"
    if target == layer or target in LAYERS[layer] or header in LAYERS[layer]:
        return None
    return f'"{header}": {layer} may include {", ".join(sorted(LAYERS[layer])) or "nothing else of ours"}'


def check(root):
    problems, checked = [], 0
    for path in tree.files(root, tree.CPP):
        if path.startswith("tests/structure/install/"):  # somebody else's program
            continue
        checked += 1
        for quote, header in INCLUDE.findall(tree.read(root, path)):
            wrong = wrong_own(path, header) if quote == '"' else wrong_third_party(path, header)
            if wrong:
                problems.append(f"{path}: {wrong}")
    return problems, checked


if __name__ == "__main__":
    sys.exit(tree.report("includes", *check(sys.argv[1])))
