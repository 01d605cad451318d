# SPDX-License-Identifier: Apache-2.0
"""What a file system that is mounted read-only refuses, and with which of several errors that would all be true.

The cases share one folder, which prepare() makes before it is mounted.
"""

import fcntl
import mmap
import os

from calls import KEEP_SIZE, PUNCH_HOLE, fallocate, mknodat, renameat2, utimensat
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


def prepare(folder):
    os.mkdir(folder / "dir")
    os.mkdir(folder / "empty")
    for name, content in (("file", b"content"), ("other", b"x"), ("dir/in", b"in")):
        (folder / name).write_bytes(content)
    # Writable: whether EROFS or EACCES comes first depends on what is read-only, the file system or a mount of it.
    for name in ("file", "other"):
        os.chmod(folder / name, 0o666)
    os.setxattr(folder / "file", "user.a", b"value")
    os.symlink("file", folder / "link")
    os.symlink("none", folder / "dangling")
    os.mkfifo(folder / "fifo", 0o666)


def open_close(path, flags):
    os.close(os.open(path, flags, 0o644))


CALLS = {
    "open read": lambda path: open_close(path, R | os.O_NONBLOCK),
    "open write": lambda path: open_close(path, W | os.O_NONBLOCK),
    "open both": lambda path: open_close(path, RW | os.O_NONBLOCK),
    "open append": lambda path: open_close(path, W | os.O_APPEND | os.O_NONBLOCK),
    "open truncate": lambda path: open_close(path, R | os.O_TRUNC | os.O_NONBLOCK),
    "open create": lambda path: open_close(path, R | CREAT | os.O_NONBLOCK),
    "open create write": lambda path: open_close(path, W | CREAT | os.O_NONBLOCK),
    "open exclusive": lambda path: open_close(path, W | CREAT | os.O_EXCL),
    "open unnamed": lambda path: open_close(path, RW | os.O_TMPFILE),
    "access write": lambda path: os.access(path, os.W_OK),
    "access read": lambda path: os.access(path, os.R_OK),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": lambda path: mknodat(path, 0o100644),
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "rename from": lambda path: os.rename(path, "new"),
    "rename to": lambda path: os.rename("other", path),
    "rename noreplace": lambda path: renameat2("other", path, 1),
    "rename exchange": lambda path: renameat2("other", path, 2),
    "link from": lambda path: os.link(path, "new"),
    "link to": lambda path: os.link("other", path),
    "symlink": lambda path: os.symlink("x", path),
    "chmod": lambda path: os.chmod(path, 0o600),
    "chown": lambda path: os.chown(path, 1, 1),
    "truncate": lambda path: os.truncate(path, 1),
    "utimes": lambda path: utimensat(path, None),
    "setxattr": lambda path: os.setxattr(path, "user.b", b"x"),
    "removexattr": lambda path: os.removexattr(path, "user.a"),
    "removexattr of none": lambda path: os.removexattr(path, "user.none"),
    "getxattr": lambda path: os.getxattr(path, "user.a"),
}
PATHS = ("file", "dir", "empty", "dir/in", "link", "dangling", "fifo", "none", "none/x", "file/x", "none/", "dir/", ".",
         "")  # fmt: skip


@case(each=[(name, call) for name, call in CALLS.items()])
def every_path(box, call):
    for path in PATHS:
        box(call, path, label="")


@case
def open_files(box):
    fd = box.open("file", R)
    box(os.write, fd, b"x")
    box(os.ftruncate, fd, 0)
    box(os.fchmod, fd, 0o600)
    box(os.fchown, fd, 1, 1)
    box(os.utime, fd)
    box(os.setxattr, fd, "user.b", b"x")
    box(os.fsync, fd)
    box(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 0, 1)
    box(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    box(fcntl.lockf, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    box(os.pread, fd, 100, 0)
    box(os.fsync, box.open(".", R))


@case
def maps(box):
    fd = box.open("file", R)
    box(lambda: mmap.mmap(fd, 7, prot=mmap.PROT_READ | mmap.PROT_WRITE), label="shared", show=lambda _: "ok")
    private = mmap.mmap(fd, 7, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    private[0:1] = b"X"
    box.say("private", private[:])
    box.read("file")


@case
def fifo_can_be_written(box):
    reader = box.open("fifo", R | os.O_NONBLOCK)
    writer = box.open("fifo", W | os.O_NONBLOCK)
    box(os.write, writer, b"x")
    box(os.read, reader, 10)


@case
def reading_moves_no_time(box):
    before = os.stat("file").st_atime_ns
    box.read("file")
    box(os.listdir, "dir")
    box.say("moved", os.stat("file").st_atime_ns != before)


@case
def figures(box):
    box.say("flag", bool(os.statvfs(".").f_flag & os.ST_RDONLY))
    box(os.mkdir, "x", dir_fd=box.open("dir", R))


@case(root=True)
def another_user(box):
    def act(box):
        for call in ("open write", "access write", "mkdir", "unlink", "chmod", "truncate", "utimes", "setxattr"):
            for path in ("file", "other", "dir", "none"):
                box(CALLS[call], path, label=call)

    box.actor(1000, 1000, [], act)
