# SPDX-License-Identifier: Apache-2.0
"""open(2): its flags, what they do to the file, and fcntl(2) afterwards."""

import fcntl
import os
import stat

from calls import AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW, linkat, openat2
from runner import case

R, W, RW = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREAT, EXCL, TRUNC, APPEND = os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND
RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_NO_XDEV = 4, 8, 1


@case(each=[(name, how) for name, how in (("read", R), ("write", W), ("both", RW))])
def access_mode(box, how):
    box.make("f", b"content")
    fd = box.open("f", how)
    box(os.read, fd, 3)
    box(os.write, fd, b"XY")
    box(os.pread, fd, 10, 0)
    box(os.ftruncate, fd, 4)
    box(os.posix_fallocate, fd, 0, 6)
    box(fcntl.fcntl, fd, fcntl.F_GETFL, show=lambda flags: flags & os.O_ACCMODE)
    box.close(fd)


@case(each=[(f"{how}{' append' * bool(append)}", how, append) for how in (R, W, RW) for append in (0, APPEND)])
def truncating(box, how, append):
    box.make("f", b"content")
    fd = box.open("f", how | TRUNC | append)
    box.stat("f", "size", "mode")
    box(os.write, fd, b"new")
    box.read("f")


@case
def creating_sets_mode_and_owner(box):
    for mask in (0, 0o022, 0o027, 0o077, 0o777):
        os.umask(mask)
        box.open(f"f{mask:o}", W | CREAT, 0o7777)
        box(os.mkdir, f"d{mask:o}", 0o7777)
        box(os.mkfifo, f"p{mask:o}", 0o666)
    os.umask(0o022)


@case
def creating_without_permission_bits_still_writes(box):
    fd = box.open("f", RW | CREAT | EXCL, 0)
    box(os.write, fd, b"abc")
    box(os.pread, fd, 10, 0)
    box.stat("f")
    fd = box.open("g", W | CREAT, 0o400)
    box(os.write, fd, b"abc")


@case
def existing_keeps_its_mode(box):
    box.make("f", b"old", 0o604)
    fd = box.open("f", W | CREAT, 0o777)
    box.stat("f")
    box(os.write, fd, b"N")
    fd = box.open("f", W | CREAT | TRUNC, 0o777)
    box.stat("f")


@case
def exclusive(box):
    box.make("f")
    os.symlink("f", "l")
    os.symlink("none", "dangling")
    os.mkdir("d")
    for name in ("f", "l", "dangling", "d"):
        box.open(name, W | CREAT | EXCL)
    box.open("new", W | CREAT | EXCL)
    box.open("new", W | CREAT | EXCL)
    box.open("f", R | EXCL)
    box.open("none", R | EXCL)


@case
def creating_through_a_dangling_link(box):
    os.mkdir("d")
    os.symlink("d/f", "l")
    fd = box.open("l", W | CREAT)
    box(os.write, fd, b"x")
    os.symlink("none/f", "m")
    box.open("m", W | CREAT)
    os.symlink("d", "e")
    box.open("e", W | CREAT)
    box.open("l", W | CREAT | os.O_NOFOLLOW)
    os.symlink("g", "k")
    box.open("k", W | CREAT | os.O_NOFOLLOW)


@case
def directory_flag(box):
    box.make("f")
    os.mkdir("d")
    os.symlink("d", "l")
    os.mkfifo("p")
    for name in ("f", "d", "l", "p", "none"):
        box.open(name, R | os.O_DIRECTORY)
        box.open(name, R | os.O_DIRECTORY | os.O_NOFOLLOW)
    box.open("d", RW)
    box.open("d", RW | os.O_DIRECTORY)
    box.open("d", R | TRUNC)
    box.open("d", R | CREAT)


@case
def directory_descriptor(box):
    os.mkdir("d")
    fd = box.open("d", R)
    box(os.read, fd, 10)
    box(os.pread, fd, 10, 0)
    box(os.write, fd, b"x")
    box(os.ftruncate, fd, 0)
    box(os.fsync, fd)
    box(os.fdatasync, fd)
    box(os.fchmod, fd, 0o700)
    box(os.lseek, fd, 0, os.SEEK_SET)
    box.stat(fd, "mode")


@case
def path_descriptor(box):
    box.make("f", b"content")
    os.symlink("f", "l")
    for name in ("f", "l"):
        fd = box.open(name, os.O_PATH | os.O_NOFOLLOW)
        box(os.read, fd, 10)
        box(os.write, fd, b"x")
        box(os.fchmod, fd, 0o600)
        box(os.fchown, fd, -1, -1)
        box(os.ftruncate, fd, 0)
        box(os.fsync, fd)
        box(os.listxattr, fd)
        box(fcntl.flock, fd, fcntl.LOCK_SH)
        box.stat(fd, "mode", "size")
    box(os.readlink, "", dir_fd=fd)
    fd = box.open("f", os.O_PATH)
    again = box(os.open, f"/proc/self/fd/{fd}", RW, label="reopen", show=lambda _: "fd")
    box(os.pwrite, again, b"CON", 0)
    box.read("f")


@case
def path_descriptor_of_a_removed_file(box):
    box.make("f", b"content")
    fd = box.open("f", os.O_PATH)
    box(os.unlink, "f")
    box.stat(fd, "nlink", "size")
    again = box(os.open, f"/proc/self/fd/{fd}", R, label="reopen", show=lambda _: "fd")
    if again is not None:
        box(os.read, again, 10)


@case
def nofollow(box):
    box.make("f")
    os.symlink("f", "l")
    os.mkdir("d")
    box.make("d/x")
    os.symlink("d", "e")
    box.open("l", R | os.O_NOFOLLOW)
    box.open("e/x", R | os.O_NOFOLLOW)
    box.open("e", R | os.O_NOFOLLOW)
    box.open("e/", R | os.O_NOFOLLOW)
    box.open("l", os.O_PATH | os.O_NOFOLLOW)
    box.open("l", W | TRUNC | os.O_NOFOLLOW)


@case(each=[("read", R), ("write", W), ("both", RW)])
def unnamed_file(box, how):
    """O_TMPFILE, or its refusal."""
    fd = box.open(".", how | os.O_TMPFILE, 0o640)
    if fd is None:
        return
    box(os.write, fd, b"hidden")
    box.stat(fd)
    box(linkat, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "named", AT_SYMLINK_FOLLOW, label="linkat")
    box.stat(fd)


@case
def unnamed_file_exclusive_and_wrong(box):
    box.make("f")
    fd = box.open(".", RW | os.O_TMPFILE | EXCL)
    if fd is not None:
        box(linkat, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "n", AT_SYMLINK_FOLLOW, label="linkat")
    box.open("f", RW | os.O_TMPFILE)
    box.open("none", RW | os.O_TMPFILE)
    box.open("", RW | os.O_TMPFILE)


@case
def link_of_an_open_file(box):
    box.make("f", b"content")
    fd = box.open("f", RW)
    source = f"/proc/self/fd/{fd}"
    box(linkat, AT_FDCWD, source, AT_FDCWD, "g", AT_SYMLINK_FOLLOW, label="linkat by /proc")
    box(linkat, AT_FDCWD, source, AT_FDCWD, "h", 0, label="linkat of /proc's link")
    box.stat(fd, "nlink")
    box(os.unlink, "f")
    box(linkat, AT_FDCWD, source, AT_FDCWD, "again", AT_SYMLINK_FOLLOW, label="linkat by /proc")
    box(os.unlink, "g")
    box(os.unlink, "again")
    box.stat(fd, "nlink")
    box(linkat, AT_FDCWD, source, AT_FDCWD, "revived", AT_SYMLINK_FOLLOW, label="linkat by /proc")


@case(root=True)
def link_of_a_descriptor(box):
    box.make("f", b"content")
    fd = box.open("f", R)
    box(linkat, fd, "", AT_FDCWD, "g", AT_EMPTY_PATH)
    path = box.open("f", os.O_PATH)
    box(linkat, path, "", AT_FDCWD, "h", AT_EMPTY_PATH)


@case(each=[("read", R), ("write", W), ("both", RW)])
def append(box, how):
    box.make("f", b"0123456789")
    fd = box.open("f", how | APPEND)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.write, fd, b"ab")
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.lseek, fd, 3, os.SEEK_SET)
    box(os.write, fd, b"cd")
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.read, fd, 5)
    box(os.ftruncate, fd, 4)
    box(os.write, fd, b"ef")
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.writev, fd, [b"gh", b"ij"])
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box.read("f")


@case
def append_ignores_the_offset_of_pwrite(box):
    """As pwrite(2) says of Linux."""
    box.make("f", b"0123456789")
    fd = box.open("f", RW | APPEND)
    box(os.pwrite, fd, b"ab", 2)
    box(os.pwritev, fd, [b"cd", b"ef"], 0)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box.read("f")


@case
def two_append_descriptors(box):
    a = box.open("f", W | CREAT | APPEND)
    b = box.open("f", W | APPEND)
    plain = box.open("f", RW)
    for i in range(3):
        box(os.write, a, b"a%d" % i)
        box(os.write, b, b"bb%d" % i)
    box(os.write, plain, b"PP")
    box(os.write, a, b"end")
    box.read("f")


@case
def append_set_later(box):
    box.make("f", b"0123456789")
    fd = box.open("f", RW)
    box(os.write, fd, b"ab")
    box(fcntl.fcntl, fd, fcntl.F_SETFL, APPEND)
    box(fcntl.fcntl, fd, fcntl.F_GETFL, show=lambda flags: bool(flags & APPEND))
    box(os.write, fd, b"cd")
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.pwrite, fd, b"ef", 0)
    other = box.open("f", W)
    box(os.pwrite, other, b"end", 20)
    box(os.write, fd, b"gh")
    box(fcntl.fcntl, fd, fcntl.F_SETFL, 0)
    box(os.lseek, fd, 4, os.SEEK_SET)
    box(os.write, fd, b"ij")
    box.read("f")


@case
def append_taken_away_later(box):
    box.make("f", b"0123456789")
    fd = box.open("f", W | APPEND)
    box(os.write, fd, b"ab")
    box(fcntl.fcntl, fd, fcntl.F_SETFL, 0)
    box(os.lseek, fd, 0, os.SEEK_SET)
    box(os.write, fd, b"cd")
    box(os.pwrite, fd, b"ef", 5)
    box.read("f")
    box(fcntl.fcntl, fd, fcntl.F_SETFL, APPEND)
    box(os.write, fd, b"gh")
    box.read("f")


@case(each=[("sync", os.O_SYNC), ("dsync", os.O_DSYNC), ("noatime", os.O_NOATIME), ("nonblock", os.O_NONBLOCK),
            ("noctty", os.O_NOCTTY), ("cloexec", os.O_CLOEXEC), ("largefile", os.O_LARGEFILE)])  # fmt: skip
def other_flags(box, flag):
    box.make("f", b"0123456789")
    fd = box.open("f", RW | flag)
    box(os.write, fd, b"ab")
    box(os.read, fd, 3)
    box(fcntl.fcntl, fd, fcntl.F_GETFL, show=lambda flags: bool(flags & flag))
    fd = box.open("new", W | CREAT | flag)
    box(os.write, fd, b"cd")


@case
def direct(box):
    """O_DIRECT: what is aligned works; ext4 refuses the rest and FUSE need not, so that is not logged."""
    import mmap

    buffer = mmap.mmap(-1, 8192)
    buffer.write(b"d" * 8192)
    fd = box.open("f", RW | CREAT | os.O_DIRECT)
    box(lambda: os.write(fd, buffer), label="write 8192")
    box(lambda: os.preadv(fd, [buffer], 0), label="read 8192")
    box(lambda: os.preadv(fd, [buffer], 4096), label="read at 4096")
    box(lambda: os.preadv(fd, [buffer], 8192), label="read at the end")
    box.stat("f", "size")
    box(fcntl.fcntl, fd, fcntl.F_GETFL, show=lambda flags: bool(flags & os.O_DIRECT))


@case
def resolving_rules(box):
    os.mkdir("d")
    box.make("d/f")
    os.symlink("d", "l")
    os.symlink("../d/f", "d/up")
    for path in ("d/f", "l/f", "d/../d/f", "../none", "d/up"):
        for rule in (RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_NO_XDEV):
            box(openat2, path, R, rule, show=lambda _: "fd")


@case
def open_of_fifo_and_socket(box):
    import socket

    os.mkfifo("p")
    made = socket.socket(socket.AF_UNIX)
    made.bind("s")
    box.open("p", W | os.O_NONBLOCK)
    box.open("p", R | os.O_NONBLOCK)
    box.open("p", W | os.O_NONBLOCK)
    box.open("s", R)
    box.open("s", W | os.O_NONBLOCK)
    box.open("s", os.O_PATH)
    box(os.truncate, "s", 0)
    box(os.truncate, "p", 0)


@case
def many_descriptors_of_one_file(box):
    box.make("f", b"0123456789")
    files = [os.open("f", RW) for _ in range(100)]
    for i, fd in enumerate(files):
        os.pwrite(fd, b"%02d" % i, i * 2)
    box.say("sizes", sorted({os.fstat(fd).st_size for fd in files}))
    for fd in files:
        os.close(fd)
    box.read("f")


@case
def mode_changes_do_not_touch_open_files(box):
    box.make("f", b"content")
    fd = box.open("f", RW)
    box(os.chmod, "f", 0)
    box(os.write, fd, b"CON")
    box(os.pread, fd, 10, 0)
    box(os.ftruncate, fd, 5)
    box.stat(fd)
    box(os.fchmod, fd, 0o640)
    box(os.open, "f", os.O_RDONLY | os.O_CREAT, stat.S_IRUSR, show=lambda _: "fd")
