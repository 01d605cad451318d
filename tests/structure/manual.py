#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages and --help say the same: every option in both. Pages render without a warning.

usage: manual.py ROOT BIN VERSION    (BIN has the built programs)
"""

import os
import re
import subprocess
import sys

import tree

# The page of each program; each of its verbs is described there too.
PAGES = {"sandbox-mount": "sandbox-mount.1", "sandbox-exec": "sandbox-exec.1", "sandboxd": "sandboxd.8"}
OTHER_PAGES = ["sandbox-mux.7"]

# cli/help.h promises that names stand on lines that are indented by exactly two spaces.
HELP_ROW = re.compile(r"^  (\S.*?)(?:  .*)?$", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*|-[A-Za-z])(?![\w-])")


def help_text(program):
    run = subprocess.run([*program, "--help"], capture_output=True, text=True, check=False, timeout=30)
    if run.returncode != 0 or run.stderr:
        raise SystemExit(f"{' '.join(program)} --help: code {run.returncode}: {run.stderr}")
    return run.stdout


def section(text, title):
    found = re.search(rf"^{title}[^\n]*:\n((?:.+\n)*)", text, re.MULTILINE)
    return found.group(1) if found else ""


def help_options(program):
    """The options of a program and all its verbs, and the names of mount options."""
    text = help_text([program])
    pages = [text] + [help_text([program, verb]) for verb in HELP_ROW.findall(section(text, "Commands"))]
    options = set()
    for page in pages:
        for row in HELP_ROW.findall(section(page, "Options")):
            options |= set(OPTION.findall(row.split("  ")[0]))
    names = [re.match(r"[\w]+", row).group(0) for row in HELP_ROW.findall(section(text, "Mount options"))]
    return options, names


def page_options(source):
    """The options that the page explains: those in bold in the tags of its lists (.TP, or .It of mdoc)."""
    options = set()
    lines = source.replace("\\-", "-").splitlines()
    for at, line in enumerate(lines):
        if at > 0 and lines[at - 1].startswith(".TP") or line.startswith((".It", ".TQ", ".IP")):
            options |= set(OPTION.findall(re.sub(r"\\f.", " ", line)))
    return options


def compare(root, programs):
    problems = []
    for program, page in sorted(PAGES.items()):
        path = os.path.join("man", page)
        if not os.path.exists(os.path.join(root, path)):
            problems.append(f"{path} is missing")
            continue
        source = tree.read(root, path)
        in_help, mount_options = help_options(os.path.join(programs, program))
        in_page = page_options(source)
        problems += [f"{path}: {program} has {o}, the page has not" for o in sorted(in_help - in_page)]
        problems += [f"{path}: {o} is explained, but {program} --help has none" for o in sorted(in_page - in_help)]
        plain = re.sub(r"\\f.|\\", "", source)
        problems += [f"{path}: mount option {n} is missing" for n in mount_options if not re.search(rf"\b{n}\b", plain)]
    return problems


def render(root, page, version):
    path = os.path.join(root, "man", page)
    if not os.path.exists(path):
        return [f"man/{page} is missing"]
    run = subprocess.run(
        ["groff", "-ww", "-t", "-mandoc", "-Tutf8", "-rLL=79n", path], capture_output=True, text=True, check=False
    )
    problems = [f"man/{page}: {line}" for line in run.stderr.splitlines()]
    if run.returncode != 0 or not run.stdout.strip():
        problems.append(f"man/{page}: groff gives code {run.returncode} and {len(run.stdout)} bytes")
    if version not in tree.read(root, os.path.join("man", page)):
        problems.append(f"man/{page}: does not name version {version}")
    return problems


def changelog(root, version):
    text = tree.read(root, "CHANGELOG.md")
    return [] if re.search(rf"^## \[{re.escape(version)}\]", text, re.MULTILINE) else [f"CHANGELOG.md has no {version}"]


def main(root, programs, version):
    pages = list(PAGES.values()) + OTHER_PAGES
    problems = compare(root, programs) + changelog(root, version)
    for page in pages:
        problems += render(root, page, version)
    return tree.report("manual", problems, len(pages))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
