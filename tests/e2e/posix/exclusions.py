# SPDX-License-Identifier: Apache-2.0
"""Cases whose logs are allowed to differ, each with its reason. One that is the same by now fails the suite, too."""

import collections

# `cases`: a regular expression for whole names; `runs`: of "root", "user" and "read-only".
Exclusion = collections.namedtuple("Exclusion", "cases runs reason")

BOTH, ROOT, USER = ("root", "user"), ("root",), ("user",)

# fmt: off
EXCLUSIONS = (
    Exclusion(r"opens\.unnamed_file(\[write\]|\[both\]|_.*)", BOTH,
              "Debian 12's libfuse has no FUSE_TMPFILE: O_TMPFILE is EOPNOTSUPP, after which callers make a named file"),
    Exclusion(r"space\.moving_ranges\[.*", BOTH,
              "the kernel's FUSE refuses COLLAPSE_RANGE and INSERT_RANGE itself (fuse_file_fallocate)"),
    Exclusion(r"owners\.setuid_and_mmap", USER,
              "a mapped page reaches the sandbox as a write, which clears setuid bits there"),
    Exclusion(r"locks\.who_holds_an_ofd_lock", BOTH,
              "the kernel's FUSE does not tell these locks from a process' own, and gives the process"),
    Exclusion(r"links\.symlink_target\[up and down\]", BOTH,
              "safe root: a target with '..' behind a name is shown where it leads, as that name could become a link out"),
    Exclusion(r"errors\.every_path\[symlink to\]", BOTH, "safe root: it leaves links whose targets have '..' behind names"),
)
