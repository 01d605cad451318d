# SPDX-License-Identifier: Apache-2.0
"""The files of the source tree, as the structure tests see them: also without git (a tarball)."""

import os

SKIPPED = {".git", ".cache", "build", "__pycache__"}
CPP = (".h", ".cpp")


def files(root, suffixes=None, under=("",)):
    """Paths relative to root, sorted; only those that end in one of the suffixes, below one of `under`."""
    found = []
    for top in under:
        for folder, names, leaves in os.walk(os.path.join(root, top)):
            names[:] = [n for n in names if n not in SKIPPED and not n.startswith("build-")]
            found += [os.path.relpath(os.path.join(folder, leaf), root) for leaf in leaves]
    return sorted(f for f in set(found) if suffixes is None or f.endswith(suffixes))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as text:
        return text.read()


def report(what, problems, checked):
    """Prints the problems; returns the exit code. Nothing checked is a failure too: it means that we looked elsewhere."""
    for problem in problems:
        print(problem)
    if not checked:
        print(f"{what}: no file was found to check")
        return 1
    print(f"{what}: {checked} files checked, {len(problems)} problems")
    return 1 if problems else 0
