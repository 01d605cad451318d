#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, with the project's flags; include/sandbar as a user outside would compile it.

Headers that websocketpp's translation units include (C++17) must compile as C++17 too.

usage: headers.py ROOT BUILD
"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

import tree

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def commands(build):
    """For each folder the compiler and flags of one of its translation units."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as listing:
        entries = json.load(listing)
    found = {}
    for entry in entries:
        found.setdefault(os.path.dirname(entry["file"]), shlex.split(entry["command"]))
    return found


def flags_only(command):
    """The command without its launcher, input and output."""
    words = command[1:] if os.path.basename(command[0]) == "ccache" else command
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MF", "-MT", "-MQ"):
            skip = True
        elif word not in ("-MD", "-MMD"):
            kept.append(word)
    return kept


def user_command(compiler, root):
    return [compiler, "-std=c++20", *WARNINGS, "-I" + os.path.join(root, "include")]


def with_standard(command, standard):
    return [word for word in command if not word.startswith("-std=")] + ["-std=" + standard]


def jobs(root, build):
    by_folder = commands(build)
    compiler = flags_only(next(iter(by_folder.values())))[0]
    for path in tree.files(root, (".h",), ("include", "src", "tools", "tests/fakes", "tests/unit")):
        folder = os.path.join(root, os.path.dirname(path))
        if path.startswith("include/"):
            command = user_command(compiler, root)
        elif folder in by_folder:
            command = flags_only(by_folder[folder])
        else:  # headers without a source beside them: fakes
            command = user_command(compiler, root) + ["-I" + os.path.join(root, top) for top in ("src", "tests")]
            command += ["-D_FILE_OFFSET_BITS=64"]
        yield path, with_standard(command, "c++20")
        if os.path.basename(path).startswith("ws_") and path.startswith("src/net/"):
            yield path, with_standard(command, "c++17")


def compile_alone(root, path, command):
    unit = f'#include "{os.path.join(root, path)}"\n'
    run = subprocess.run(
        command + ["-fsyntax-only", "-x", "c++", "-"], input=unit, text=True, capture_output=True, check=False
    )
    standard = command[-1].removeprefix("-std=")
    return f"{path} as {standard}:\n{run.stderr}" if run.returncode != 0 else None


def main(root, build):
    root, build = os.path.realpath(root), os.path.realpath(build)
    todo = list(jobs(root, build))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: compile_alone(root, *job), todo))
    return tree.report("headers", [r for r in results if r], len(todo))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
