#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-format has nothing to change.

usage: format.py ROOT
"""

import os
import shutil
import subprocess
import sys

import tree


def main(root):
    # Versions differ in what they would do: Debian 12's is the one that counts.
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if program is None:
        print("clang-format is missing: run tools/packages")
        return 1
    paths = tree.files(root, tree.CPP)
    run = subprocess.run(
        [program, "--dry-run", "-Werror", "--style=file"] + [os.path.join(root, p) for p in paths], check=False
    )
    if run.returncode != 0:
        print(f"to repair: cd {root} && {program} -i FILE...")
        return 1
    return tree.report("format", [], len(paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
