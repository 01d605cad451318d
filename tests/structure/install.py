#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives all that it should, and an outside user can build with it, in both usual ways.

usage: install.py ROOT BUILD CXX
"""

import os
import shlex
import subprocess
import sys
import tempfile

import tree

PROGRAMS = ["sandbox-exec", "sandbox-mount", "sandboxd"]
PAGES = ["man1/sandbox-exec.1", "man1/sandbox-mount.1", "man7/sandbox-mux.7", "man8/sandboxd.8"]
DOCS = ["CHANGELOG.md", "LICENSE", "README.md"]
EXPECTED_OUTPUT = "/src disconnected\n"


def run(words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(words)}: code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def missing(root, prefix, installed):
    wanted = ["bin/" + p for p in PROGRAMS] + ["share/man/" + p for p in PAGES] + ["share/doc/sandbar/" + d for d in DOCS]
    wanted += tree.files(root, (".h",), ("include",))
    problems = [f"{path} is not installed" for path in wanted if path not in installed]
    # Nothing that is for the build only: headers of src, test libraries.
    for path in installed:
        if path.startswith("include/") and not path.startswith("include/sandbar/"):
            problems.append(f"{path} is installed, but not public")
        if path.endswith(".a") and os.path.basename(path) != "libsandbar.a":
            problems.append(f"{path} is installed, but not public")
        if path.endswith((".cmake", ".pc")) and root in tree.read(prefix, path):
            problems.append(f"{path} names the source tree")
    return problems


def with_cmake(root, prefix, scratch, compiler):
    source = os.path.join(root, "tests/structure/install")
    build = os.path.join(scratch, "cmake")
    run(["cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}"])
    run(["cmake", "--build", build])
    return run([os.path.join(build, "user")])


def with_pkg_config(root, prefix, scratch, compiler, pc_folder):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, pc_folder))
    flags = run(["pkg-config", "--cflags", "--libs", "sandbar"], env=environment).split()
    program = os.path.join(scratch, "user")
    source = os.path.join(root, "tests/structure/install/main.cpp")
    run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags])
    return run([program])


def main(root, build, compiler):
    with tempfile.TemporaryDirectory() as scratch:
        prefix = os.path.join(scratch, "prefix")
        run(["cmake", "--install", build, "--prefix", prefix])
        installed = tree.files(prefix)
        problems = missing(root, prefix, installed)
        pc_folder = next((os.path.dirname(p) for p in installed if p.endswith("sandbar.pc")), "")
        outputs = {
            "find_package(sandbar)": with_cmake(root, prefix, scratch, compiler),
            "pkg-config sandbar": with_pkg_config(root, prefix, scratch, compiler, pc_folder),
        }
        problems += [f"{way}: the program says {text!r}" for way, text in outputs.items() if text != EXPECTED_OUTPUT]
        for program in PROGRAMS:
            if os.path.exists(os.path.join(prefix, "bin", program)):
                run([os.path.join(prefix, "bin", program), "--version"])
        return tree.report("install", problems, len(installed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
