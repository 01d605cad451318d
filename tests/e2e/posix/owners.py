# SPDX-License-Identifier: Apache-2.0
"""chmod and chown: who may, what they clear, what directories hand down."""

import os

from calls import fchmodat2, lchown
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


def owned(path, mode, uid=1000, gid=1000):
    os.chown(path, uid, gid, follow_symlinks=False)
    os.chmod(path, mode)


@case(each=[("file", lambda box: box.make("x")), ("directory", lambda box: os.mkdir("x")),
            ("fifo", lambda box: os.mkfifo("x"))])  # fmt: skip
def every_mode(box, make):
    make(box)
    for mode in (0, 0o1, 0o777, 0o1000, 0o2000, 0o4000, 0o7777, 0o644, 0o1777, 0o2755, 0o4711):
        box(os.chmod, "x", mode)
        box.stat("x", "mode")


@case
def chmod_ways(box):
    box.make("f")
    os.symlink("f", "l")
    fd = box.open("f", R)
    box(os.fchmod, fd, 0o640)
    box.stat("f", "mode")
    box(os.chmod, "l", 0o604)
    box.stat("f", "mode")
    box(fchmodat2, "f", 0o600, 0x100)
    box.stat("f", "mode")
    box(os.chmod, f"/proc/self/fd/{fd}", 0o660, label="chmod by /proc")
    box.stat(fd, "mode")
    box(os.chmod, "f", 0o100644)
    box.stat("f", "mode")


@case(root=True, each=[("owner", 1000, 1000, []), ("group", 1001, 1000, []), ("other", 1001, 1001, []),
                       ("root", 0, 0, [])])  # fmt: skip
def who_may_chmod(box, uid, gid, groups):
    for name in ("f", "d"):
        box.make(name) if name == "f" else os.mkdir(name)
        owned(name, 0o777)

    def act(box):
        for name in ("f", "d"):
            for mode in (0o644, 0o4755, 0o2755, 0o1777):
                box(os.chmod, name, mode)
                box.stat(name, "mode")

    box.actor(uid, gid, groups, act)


@case(root=True)
def chmod_drops_setgid_of_a_foreign_group(box):
    box.make("f")
    os.mkdir("d")
    for name in ("f", "d"):
        owned(name, 0o755, 1000, 3000)

    def act(box):
        for name in ("f", "d"):
            box(os.chmod, name, 0o2755)
            box.stat(name, "mode")

    box.actor(1000, 1000, [], act)
    box.actor(1000, 1000, [3000], act)


OWNERS = {
    "owner to self": ((1000, 1000, []), 1000, -1),
    "owner to another": ((1000, 1000, []), 1001, -1),
    "owner to own group": ((1000, 1000, []), -1, 1000),
    "owner to supplementary group": ((1000, 1000, [2000]), -1, 2000),
    "owner to foreign group": ((1000, 1000, [2000]), -1, 3000),
    "owner to both": ((1000, 1000, [2000]), 1000, 2000),
    "owner to nothing": ((1000, 1000, []), -1, -1),
    "other to self": ((1001, 1001, []), 1001, -1),
    "other to own group": ((1001, 1001, []), -1, 1001),
    "other to nothing": ((1001, 1001, []), -1, -1),
    "root to another": ((0, 0, []), 1234, 4321),
    "root to large": ((0, 0, []), 4_000_000_000, 4_000_000_001),
    "root to nothing": ((0, 0, []), -1, -1),
}


@case(root=True, each=[(name, *how) for name, how in OWNERS.items()])
def who_may_chown(box, actor, uid, gid):
    box.make("f")
    owned("f", 0o6755)
    os.mkdir("d")
    owned("d", 0o6755)
    os.symlink("f", "l")
    lchown("l", 1000, 1000)

    def act(box):
        for name in ("f", "d"):
            box(os.chown, name, uid, gid)
            box.stat(name)
        box(lchown, "l", uid, gid)
        box.stat("l", "uid", "gid")

    box.actor(*actor, act)


@case
def own_group_and_nobody_elses(box):
    box.make("f", b"x", 0o6755)
    box(os.chown, "f", os.getuid(), os.getgid())
    box.stat("f")
    box(os.chown, "f", -1, -1)
    box.stat("f")
    fd = box.open("f", R)
    box(os.fchown, fd, -1, os.getgid())
    box(os.chown, "none", -1, -1)


@case(root=True, each=[(f"{mode:o} by {uid}", mode, uid)
                       for mode in (0o4755, 0o2755, 0o2745, 0o6777, 0o6666) for uid in (0, 1000, 1001)])  # fmt: skip
def setuid_is_cleared(box, mode, uid):
    """By writing, truncating, allocating, copying, chown: each on a fresh file of 1000 that everybody may write."""
    os.chmod(".", 0o777)
    calls = {
        "write": lambda name: os.write(os.open(name, W), b"X"),
        "pwrite nothing": lambda name: os.write(os.open(name, W), b""),
        "append": lambda name: os.write(os.open(name, W | os.O_APPEND), b"X"),
        "truncate": lambda name: os.truncate(name, 1),
        "truncate to the same": lambda name: os.truncate(name, 7),
        "ftruncate": lambda name: os.ftruncate(os.open(name, W), 1),
        "open truncating": lambda name: os.close(os.open(name, W | os.O_TRUNC)),
        "fallocate": lambda name: os.posix_fallocate(os.open(name, W), 0, 100),
        "copy": lambda name: os.copy_file_range(os.open("source", R), os.open(name, W), 3, 0, 0),
        "rename": lambda name: os.rename(name, name + "2") or os.rename(name + "2", name),
        "link": lambda name: os.unlink(name + "3") if os.link(name, name + "3") else None,
        "utimes": lambda name: os.utime(name),
    }
    box.make("source", b"source", 0o644)
    for name in calls:
        box.make(name, b"content")
        os.chown(name, 1000, 1000)
        os.chmod(name, mode | 0o022)

    def act(box):
        for name, call in calls.items():
            box(call, name, label="")
            box.stat(name, "mode")

    box.actor(uid, uid, [], act)


@case
def own_setuid_files(box):
    for name in ("write", "truncate", "append"):
        box.make(name, b"content", 0o6755)
    box.stat("write", "mode")
    box(os.write, os.open("write", W), b"X", label="write")
    box.stat("write", "mode")
    box(os.truncate, "truncate", 2)
    box.stat("truncate", "mode")
    box(os.write, os.open("append", W | os.O_APPEND), b"X", label="append")
    box.stat("append", "mode")


@case
def setuid_and_mmap(box):
    import mmap

    box.make("f", b"content", 0o6755)
    map_ = mmap.mmap(os.open("f", RW), 7)
    map_[0:1] = b"C"
    map_.flush()
    box.stat("f", "mode")


@case(root=True, each=[("root", 0, 0, []), ("a member", 1000, 1000, [2000]), ("no member", 1000, 1000, []),
                       ("main group", 1000, 2000, [])])  # fmt: skip
def setgid_directory(box, uid, gid, groups):
    os.mkdir("d")
    owned("d", 0o2777, 1001, 2000)

    def act(box):
        os.umask(0)
        box.open("d/f", W | CREAT, 0o666)
        box.open("d/g", W | CREAT, 0o2775)
        box.open("d/x", W | CREAT, 0o2765)
        box(os.mkdir, "d/sub", 0o755)
        box(os.mkdir, "d/sub/below", 0o700)
        box(os.symlink, "t", "d/l")
        box(os.mkfifo, "d/p", 0o600)
        for name in ("f", "g", "x", "sub", "sub/below", "l", "p"):
            box.stat("d/" + name)
        box(os.mkdir, "d/set", 0o2755)
        box(os.chmod, "d/sub", 0o755)
        box.stat("d/sub", "mode")

    box.actor(uid, gid, groups, act)


@case
def umask_of_every_maker(box):
    for mask in (0, 0o022, 0o077, 0o137, 0o777):
        os.umask(mask)
        box.open(f"f{mask:o}", W | CREAT, 0o777)
        box(os.mkdir, f"d{mask:o}", 0o777)
        box(os.mkfifo, f"p{mask:o}", 0o777)
        box(os.symlink, "t", f"l{mask:o}")
        box(os.chmod, f"f{mask:o}", 0o777)
        for kind in "fdpl":
            box.stat(f"{kind}{mask:o}", "mode")
    os.umask(0o022)


@case
def chmod_changes_ctime_only(box):
    box.make("f", b"x")
    os.utime("f", ns=(10**18, 10**18))
    before = os.stat("f").st_ctime_ns
    while os.stat("f").st_ctime_ns == before:
        os.chmod("f", 0o600)
    box.stat("f", "mtime_ns", "atime_ns", "mode")


@case(root=True)
def files_of_any_owner(box):
    for uid in (0, 1, 65534, 65535, 65536, 100_000, 2**31 - 1, 2**31, 2**32 - 2):
        box.make(f"f{uid}")
        box(os.chown, f"f{uid}", uid, uid)
        box.stat(f"f{uid}", "uid", "gid")
