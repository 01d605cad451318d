# SPDX-License-Identifier: Apache-2.0
"""FIFOs, sockets and device nodes."""

import os
import socket
import stat

from calls import mknodat
from runner import case

R, W, RW = os.O_RDONLY, os.O_WRONLY, os.O_RDWR


@case
def fifo_between_processes(box):
    box(os.mkfifo, "p", 0o640)
    box.stat("p")

    def act():
        fd = os.open("p", W)
        os.write(fd, b"through the pipe")

    pid = box.start(act)
    fd = box.open("p", R)
    box(os.read, fd, 100)
    os.waitpid(pid, 0)
    box(os.read, fd, 100)
    box(os.unlink, "p")


@case
def fifo_is_no_file(box):
    os.mkfifo("p")
    fd = box.open("p", RW)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.pread, fd, 1, 0)
    box(os.pwrite, fd, b"x", 0)
    box(os.ftruncate, fd, 0)
    box(os.truncate, "p", 0)
    box(os.write, fd, b"abc")
    box(os.read, fd, 10)
    box(os.fchmod, fd, 0o600)
    box(os.utime, "p", (1, 2))
    box.stat("p", "mode", "mtime_ns", "size")
    box(os.link, "p", "q")
    box(os.rename, "p", "r")
    box.stat("q", "nlink")
    box(os.mkfifo, "q")


@case
def two_names_of_a_fifo(box):
    os.mkfifo("p")
    os.link("p", "q")
    reader = os.open("p", R | os.O_NONBLOCK)
    writer = box.open("q", W | os.O_NONBLOCK)
    box(os.write, writer, b"across")
    box(lambda: os.read(reader, 10), label="read")


@case
def socket_accepts(box):
    os.umask(0o027)
    listener = socket.socket(socket.AF_UNIX)
    box(listener.bind, "s")
    box(listener.listen)
    box.stat("s")

    def act():
        client = socket.socket(socket.AF_UNIX)
        client.connect("s")
        client.sendall(b"hello")

    pid = box.start(act)
    accepted, _ = listener.accept()
    box(accepted.recv, 100)
    os.waitpid(pid, 0)
    box(socket.socket(socket.AF_UNIX).bind, "s")
    listener.close()
    box(socket.socket(socket.AF_UNIX).connect, "s")
    box(os.unlink, "s")
    box(socket.socket(socket.AF_UNIX).connect, "s")


@case
def socket_of_datagrams(box):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box(listener.bind, "s")
    os.rename("s", "moved")
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box(client.sendto, b"x", "moved", label="sendto")
    box(listener.recv, 10)
    box(client.sendto, b"x", "s", label="sendto")
    box(socket.socket(socket.AF_UNIX).connect, "moved")
    box.make("f")
    box(client.connect, "f")


KINDS = {
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "file": stat.S_IFREG,
    "no type": 0,
    "directory": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "unknown": 0o030000,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
}


@case(each=[(name, kind) for name, kind in KINDS.items()])
def mknod(box, kind):
    os.umask(0o026)
    box(mknodat, "n", kind | 0o666, os.makedev(1, 3))
    box(mknodat, "n", kind | 0o666, os.makedev(1, 3))
    box(mknodat, "none/n", kind | 0o666, os.makedev(1, 3))
    box(mknodat, "m/", kind | 0o666, os.makedev(1, 3))
    if os.path.lexists("n"):
        box(os.rename, "n", "moved")
        box(os.chmod, "moved", 0o4711)
        box.stat("moved")
        box(os.unlink, "moved")


@case(root=True, each=[(f"{major},{minor}", major, minor)
                       for major, minor in ((0, 0), (1, 3), (255, 255), (256, 256), (4095, 1048575))])  # fmt: skip
def device_numbers(box, major, minor):
    for kind, name in ((stat.S_IFCHR, "c"), (stat.S_IFBLK, "b")):
        box(mknodat, name, kind | 0o600, os.makedev(major, minor))
        box(os.lstat, name, show=lambda found: (os.major(found.st_rdev), os.minor(found.st_rdev)))


@case(root=True)
def devices_are_for_root(box):
    os.chmod(".", 0o777)
    box(mknodat, "c", stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def act(box):
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            box(mknodat, "n", kind | 0o666, os.makedev(1, 3))
        box(mknodat, "whiteout", stat.S_IFCHR, 0)
        box(mknodat, "p", stat.S_IFIFO | 0o666)
        box.stat("p")
        box(os.unlink, "c")

    box.actor(1000, 1000, [], act)


@case(root=True)
def device_attributes(box):
    mknodat("c", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    box(os.chown, "c", 1000, 1001)
    box(os.chmod, "c", 0o620)
    box(os.utime, "c", (1, 2))
    box(os.link, "c", "d")
    box(os.truncate, "c", 0)
    box(os.setxattr, "c", "user.x", b"y")
    box.stat("d", "mode", "nlink", "uid", "gid", "size", "mtime_ns", "blocks")


@case
def extended_attributes_of_nodes(box):
    os.mkfifo("p")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    for name in ("p", "s"):
        box(os.setxattr, name, "user.x", b"y")
        box(os.getxattr, name, "user.x")
        box(os.listxattr, name)
