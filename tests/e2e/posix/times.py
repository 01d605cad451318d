# SPDX-License-Identifier: Apache-2.0
"""Timestamps: setting them to the nanosecond, who may, and which calls move which."""

import os
import time

from calls import UTIME_NOW, UTIME_OMIT, futimens, utimensat
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
NOW, OMIT = (0, UTIME_NOW), (0, UTIME_OMIT)
OLD = 10**18
VALUES = {
    "zero": (0, 0),
    "one nanosecond": (1, 1),
    "last nanosecond": (1, 999_999_999),
    "before 1970": (-1, 0),
    "before 1970 with nanoseconds": (-5, 500_000_000),
    "1901": (-(1 << 31), 0),
    "before 1901": (-(1 << 31) - 1, 0),
    "2038": ((1 << 31) - 1, 5),
    "after 2038": (1 << 31, 7),
    "2106": (1 << 32, 9),
    "2446": (15_032_385_535, 0),
    "after 2446": (15_032_385_536, 0),
    "far": (1 << 40, 0),
    "very far": ((1 << 62), 0),
    "very long ago": (-(1 << 62), 0),
    "nanoseconds too many": (1, 1_000_000_000),
    "nanoseconds below 0": (1, -1),
}
KINDS = {"file": lambda box: box.make("x"), "directory": lambda box: os.mkdir("x"), "fifo": lambda box: os.mkfifo("x")}


@case(each=list(VALUES.items()))
def values(box, value):
    box.make("f")
    os.utime("f", ns=(OLD, OLD))
    box(utimensat, "f", (value, (77, 8)))
    box.stat("f", "atime_ns")
    box(utimensat, "f", ((99, 1), value))
    box.stat("f", "mtime_ns")


def relation(box, path, before, start):
    """Whether each time is as before, or of this case."""
    found = os.lstat(path)
    for which in ("atime", "mtime"):
        there = getattr(found, f"st_{which}_ns")
        box.say(f"{which} of {path}", "as before" if there == before else "now" if there >= start else str(there))


def started():
    """The present, as coarse as the file system's clock may be."""
    return time.time_ns() - 50_000_000


@case(each=[(f"{kind} {a} {m}", KINDS[kind], a, m) for kind in KINDS for a in ("now", "omit", "set")
            for m in ("now", "omit", "set")])  # fmt: skip
def now_and_omit(box, make, a, m):
    choice = {"now": NOW, "omit": OMIT, "set": (123, 456)}
    make(box)
    os.utime("x", ns=(OLD, OLD))
    start = started()
    box(utimensat, "x", (choice[a], choice[m]))
    relation(box, "x", OLD, start)


@case
def null_is_now(box):
    box.make("f")
    os.utime("f", ns=(OLD, OLD))
    start = started()
    box(utimensat, "f", None)
    relation(box, "f", OLD, start)
    fd = box.open("f", R)
    box(futimens, fd, ((5, 6), (7, 8)))
    box.stat(fd, "atime_ns", "mtime_ns")
    box(futimens, fd, None)
    box(os.utime, "f", (1.5, 2.25))
    box.stat("f", "atime_ns", "mtime_ns")


ACTORS = {"owner": 1000, "other": 1001, "root": 0}
CHANGES = {"set": ((1, 2), (3, 4)), "now": (NOW, NOW), "null": None, "omit": (OMIT, OMIT), "now and omit": (NOW, OMIT),
           "now and set": (NOW, (5, 6))}  # fmt: skip


@case(root=True, each=[(f"{what} by {who}, {mode:o}", CHANGES[what], ACTORS[who], mode)
                       for what in CHANGES for who in ACTORS for mode in (0o644, 0o666)])  # fmt: skip
def who_may(box, change, uid, mode):
    box.make("f")
    os.chown("f", 1000, 1000)
    os.chmod("f", mode)
    os.utime("f", ns=(OLD, OLD))
    start = started()
    box.actor(uid, uid, [], lambda box: box(utimensat, "f", change))
    relation(box, "f", OLD, start)


@case
def without_permission_bits(box):
    box.make("f")
    os.chmod("f", 0)
    box(utimensat, "f", ((1, 2), (3, 4)))
    box(utimensat, "f", None)
    os.chmod("f", 0o644)


CALLS = {
    "write": lambda: os.write(os.open("d/f", W), b"x"),
    "write nothing": lambda: os.write(os.open("d/f", W), b""),
    "append": lambda: os.write(os.open("d/f", W | os.O_APPEND), b"x"),
    "truncate": lambda: os.truncate("d/f", 1),
    "truncate to the same": lambda: os.truncate("d/f", 7),
    "ftruncate": lambda: os.ftruncate(os.open("d/f", RW), 1),
    "ftruncate to the same": lambda: os.ftruncate(os.open("d/f", RW), 7),
    "open truncating": lambda: os.open("d/f", W | os.O_TRUNC),
    "open": lambda: os.open("d/f", RW),
    "open creating": lambda: os.open("d/f", RW | CREAT),
    "create": lambda: os.open("d/new", W | CREAT),
    "mkdir": lambda: os.mkdir("d/new"),
    "symlink": lambda: os.symlink("t", "d/new"),
    "mkfifo": lambda: os.mkfifo("d/new"),
    "link": lambda: os.link("d/f", "d/new"),
    "unlink": lambda: os.unlink("d/g"),
    "rmdir": lambda: os.rmdir("d/e"),
    "rename": lambda: os.rename("d/f", "d/f2") or os.rename("d/f2", "d/f"),
    "rename out": lambda: os.rename("d/g", "out"),
    "chmod": lambda: os.chmod("d/f", 0o600),
    "chown": lambda: os.chown("d/f", -1, os.getgid()),
    "setxattr": lambda: os.setxattr("d/f", "user.x", b"y"),
    "stat": lambda: os.stat("d/f").st_size,
    "failed mkdir": lambda: os.mkdir("d/f"),
    "failed rmdir": lambda: os.rmdir("d/f"),
    "failed create": lambda: os.open("d/f", W | CREAT | os.O_EXCL),
}


@case(each=list(CALLS.items()))
def what_moves_what(box, call):
    os.mkdir("d")
    os.mkdir("d/e")
    box.make("d/f", b"content")
    box.make("d/g", b"")
    for path in ("d/f", "d/e", "d"):
        os.utime(path, ns=(OLD, OLD))
    start = started()
    box(call, label="call", show=lambda _: "ok")
    for path in ("d/f", "d"):
        found = os.stat(path)
        box.say(path, "as before" if found.st_mtime_ns == OLD else "now" if found.st_mtime_ns >= start else "strange")


@case(each=[(name, *how) for name, how in {
    "read": (lambda: os.read(os.open("d/f", R), 5), OLD, OLD + 10**9, "d/f"),
    "read of what is newer": (lambda: os.read(os.open("d/f", R), 5), OLD + 10**9, OLD, "d/f"),
    "read of nothing": (lambda: os.read(os.open("d/f", R), 0), OLD, OLD + 10**9, "d/f"),
    "listing": (lambda: os.listdir("d"), OLD, OLD + 10**9, "d"),
    "readlink": (lambda: os.readlink("d/l"), OLD, OLD + 10**9, "d/l"),
    "read without atime": (lambda: os.read(os.open("d/f", R | os.O_NOATIME), 5), OLD, OLD + 10**9, "d/f"),
}.items()])  # fmt: skip
def access_times(box, call, atime, mtime, path):
    """As relatime has it."""
    os.mkdir("d")
    box.make("d/f", b"content")
    os.symlink("target", "d/l")
    utimensat(path, (divmod(atime, 10**9), divmod(mtime, 10**9)), 0x100)
    start = started()
    box(call, label="call", show=lambda _: "ok")
    found = os.lstat(path)
    box.say("atime", "as before" if found.st_atime_ns == atime else "now" if found.st_atime_ns >= start else "strange")


@case
def times_survive_writing_and_closing(box):
    """What cp -p, tar and rsync do."""
    fd = box.open("f", W | CREAT)
    box(os.write, fd, b"content")
    box(futimens, fd, ((11, 12), (13, 14)))
    box(os.fchmod, fd, 0o600)
    box.close(fd)
    box.stat("f", "atime_ns", "mtime_ns", "size")
    fd = box.open("f", RW | os.O_APPEND)
    box(os.write, fd, b"more")
    box(os.utime, "f", ns=(21, 22))
    box.close(fd)
    box.stat("f", "atime_ns", "mtime_ns", "size")
    box(os.rename, "f", "g")
    box(os.link, "g", "h")
    box.stat("h", "atime_ns", "mtime_ns")


@case
def change_time_moves(box):
    """ctime, by everything that changes the inode."""
    box.make("f", b"x")
    calls = [lambda: os.chmod("f", 0o600), lambda: os.utime("f", (1, 1)), lambda: os.link("f", "g") or os.unlink("g"),
             lambda: os.setxattr("f", "user.a", b"x"), lambda: os.write(os.open("f", W), b"y"),
             lambda: os.rename("f", "h") or os.rename("h", "f"), lambda: os.truncate("f", 5)]  # fmt: skip
    for i, call in enumerate(calls):
        before = os.stat("f").st_ctime_ns
        tries = 0
        while os.stat("f").st_ctime_ns == before and tries < 1000:
            call()
            tries += 1
        box.say(f"ctime after {i}", "moved" if tries < 1000 else "stays")
    before = os.stat("f").st_ctime_ns
    os.read(os.open("f", R), 1)
    box.say("ctime after reading", os.stat("f").st_ctime_ns == before)
