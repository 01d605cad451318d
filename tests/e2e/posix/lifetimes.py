# SPDX-License-Identifier: Apache-2.0
"""Files and directories that are open while their names go, move or are taken over; forks; file identity."""

import os

from calls import futimens, statx
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


def new(box, name="f", content=b"content"):
    fd = box.open(name, RW | CREAT)
    os.pwrite(fd, content, 0)
    return fd


@case
def removed_file_works_on(box):
    fd = new(box)
    box(os.unlink, "f")
    box.stat(fd)
    box(os.pwrite, fd, b"CON", 0)
    box(os.write, fd, b"T")
    box(os.pread, fd, 20, 0)
    box(os.ftruncate, fd, 5)
    box(os.fchmod, fd, 0o600)
    box(os.fchown, fd, -1, os.getgid())
    box(os.posix_fallocate, fd, 0, 100)
    box(os.fsync, fd)
    box.stat(fd)
    box(os.setxattr, fd, "user.a", b"x")
    box(os.getxattr, fd, "user.a")
    box(os.listxattr, fd)
    box(os.removexattr, fd, "user.a")
    box(os.utime, fd, (1, 2))
    box.stat(fd, "mtime_ns", "atime_ns")
    box(os.stat, "f")


@case
def removed_file_and_its_successor(box):
    old = new(box, content=b"old")
    box(os.unlink, "f")
    fresh = box.open("f", RW | CREAT | os.O_EXCL)
    box(os.write, fresh, b"new")
    box(os.pread, old, 10, 0)
    box(os.pwrite, old, b"OLD!", 0)
    box(os.pread, fresh, 10, 0)
    box.say("two inodes", os.fstat(old).st_ino != os.fstat(fresh).st_ino)
    box.read("f")


@case
def removed_file_opened_again_by_its_descriptor(box):
    fd = new(box)
    box(os.unlink, "f")
    again = box(os.open, f"/proc/self/fd/{fd}", RW, label="open again", show=lambda _: "fd")
    if again is not None:
        box(os.pwrite, again, b"CON", 0, label="pwrite")
    box(os.pread, fd, 20, 0)
    box(os.truncate, f"/proc/self/fd/{fd}", 3, label="truncate by /proc")
    box(os.chmod, f"/proc/self/fd/{fd}", 0o640, label="chmod by /proc")
    box.stat(fd)


@case(each=[("read", R), ("write", W), ("append", W | os.O_APPEND)])
def removed_while_open_for(box, how):
    box.make("f", b"content")
    fd = box.open("f", how)
    box(os.unlink, "f")
    box(os.read, fd, 3)
    box(os.write, fd, b"XY")
    box(os.ftruncate, fd, 4)
    box.stat(fd)


@case
def renamed_file_works_on(box):
    fd = new(box)
    os.mkdir("d")
    box(os.rename, "f", "d/g")
    box(os.write, fd, b"CON")
    box.stat(fd)
    box.read("d/g")
    box(os.rename, "d", "e")
    box(os.write, fd, b"TENT")
    box.read("e/g")
    box(os.chmod, "e/g", 0o600)
    box.stat(fd)


@case
def replaced_file_works_on(box):
    old = new(box, "f", b"old")
    new(box, "g", b"new")
    box(os.rename, "g", "f")
    box(os.pread, old, 10, 0)
    box(os.pwrite, old, b"still", 0)
    box.stat(old, "nlink", "size")
    box.read("f")
    box(os.ftruncate, old, 0)
    box.read("f")


@case
def removed_directory(box):
    os.mkdir("d")
    fd = box.open("d", R)
    box(os.rmdir, "d")
    box.stat(fd)
    box(os.listdir, fd)
    box(os.open, "x", W | CREAT, dir_fd=fd)
    box(os.mkdir, "x", dir_fd=fd)
    box(os.symlink, "t", "x", dir_fd=fd)
    box(os.stat, "..", dir_fd=fd, show=lambda _: "found")
    box(os.fchmod, fd, 0o700)
    box(os.fsync, fd)
    box(os.fchdir, fd)
    os.chdir("/")


@case
def removed_directory_and_its_successor(box):
    os.mkdir("d")
    fd = box.open("d", R)
    os.rmdir("d")
    os.mkdir("d")
    box.make("d/x")
    box(os.listdir, fd)
    box(os.listdir, "d")
    box(os.stat, "x", dir_fd=fd)
    box.say("two inodes", os.fstat(fd).st_ino != os.stat("d").st_ino)


@case
def linked_file_after_one_name_is_gone(box):
    fd = new(box)
    os.link("f", "g")
    box(os.unlink, "f")
    box.stat(fd, "nlink")
    box(os.write, fd, b"CON")
    box.read("g")
    box(os.unlink, "g")
    box.stat(fd, "nlink")


@case
def removed_by_a_child(box):
    fd = new(box)
    box.child(lambda: box(os.unlink, "f"))
    box(os.pread, fd, 20, 0)
    box.stat(fd, "nlink")
    box(os.stat, "f")


@case
def made_by_a_child(box):
    box(os.stat, "f")

    def act():
        os.mkdir("d")
        box.make("f", b"by a child")

    box.child(act)
    box.read("f")
    box(os.listdir, "d")
    box.child(lambda: os.rmdir("d"))
    box(os.listdir, "d")
    box(os.mkdir, "d")


@case
def inherited_descriptors(box):
    fd = new(box)
    box.child(lambda: (os.write(fd, b"child"), os.unlink("f")))
    box(os.write, fd, b"me")
    box(os.pread, fd, 20, 0)


@case
def descriptor_sent_over_a_socket(box):
    import socket

    fd = new(box)
    ours, theirs = socket.socketpair()

    def act():
        _, files, _, _ = socket.recv_fds(theirs, 1, 1)
        box(lambda: os.pread(files[0], 20, 0), label="received")
        os.pwrite(files[0], b"sent", 0)

    pid = box.start(act)
    socket.send_fds(ours, [b"x"], [fd])
    os.waitpid(pid, 0)
    box.read("f")


@case
def many_removed_files(box):
    files = []
    for i in range(50):
        fd = os.open(f"f{i}", RW | CREAT)
        os.write(fd, b"%d" % i)
        os.unlink(f"f{i}")
        files.append(fd)
    box.say("content", [os.pread(fd, 10, 0) for fd in files][::7])
    box.say("links", {os.fstat(fd).st_nlink for fd in files} == {0})
    box.say("inodes", len({os.fstat(fd).st_ino for fd in files}))
    box(os.listdir, ".")


@case
def identity(box):
    """st_ino and st_dev tell objects apart and names of one object together."""
    box.make("f")
    os.mkdir("d")
    os.link("f", "d/g")
    os.symlink("f", "l")
    inodes = [os.lstat(name).st_ino for name in ("f", "d/g", "d", "l", ".")]
    box.say("inodes", [inodes.index(inode) for inode in inodes])
    box.say("devices", len({os.lstat(name).st_dev for name in ("f", "d", "l", ".")}))
    box.say("same file", os.path.samefile("l", "d/g"))
    box.say("statx agrees", statx("f")["ino"] == inodes[0])
    box.say("listing agrees", {e.inode() for e in os.scandir(".")} == {inodes[0], inodes[2], inodes[3]})
    os.rename("f", "h")
    box.say("kept", os.stat("h").st_ino == inodes[0])
    os.chmod("h", 0o600)
    box.say("kept", os.stat("h").st_ino == inodes[0])


@case
def types_in_listings(box):
    box.make("f")
    os.mkdir("d")
    os.symlink("f", "l")
    os.mkfifo("p")
    box.say("types", sorted((e.name, e.is_file(follow_symlinks=False), e.is_dir(follow_symlinks=False), e.is_symlink())
                            for e in os.scandir(".")))  # fmt: skip


@case
def statx_fields(box):
    box.make("f", b"content", 0o640)
    os.symlink("f", "l")
    os.mkdir("d")
    for name, flags in (("f", 0), ("l", 0), ("l", 0x100), ("d", 0), ("f", 0x2000), ("f", 0x4000)):
        found = statx(name, flags)
        box.say(f"statx {name} {flags:x}", [found[key] for key in ("mode", "nlink", "uid", "gid", "size")])
        box.say("basic fields", found["mask"] & 0x7FF == 0x7FF)
    box(statx, "f", 0, 0x80000000)
    box(statx, "f", 0x80000)


@case
def closing_reports_nothing(box):
    for flags in (R, W, RW, W | os.O_APPEND, W | os.O_SYNC):
        fd = box.open("f", flags | CREAT)
        copy = os.dup(fd)
        box.close(fd)
        box(lambda: os.fstat(copy).st_size, label="copy")
        os.close(copy)


@case
def times_of_a_removed_file(box):
    fd = new(box)
    os.unlink("f")
    box(futimens, fd, ((5, 6), (7, 8)))
    box.stat(fd, "mtime_ns", "atime_ns")


@case
def tree_removed_while_inside(box):
    os.makedirs("a/b/c")
    fd = box.open("a/b/c", R)
    box(os.rmdir, "a/b/c")
    box(os.rmdir, "a/b")
    box(os.rmdir, "a")
    box(os.stat, "..", dir_fd=fd, show=lambda found: found.st_nlink)
    box(os.mkdir, "../x", dir_fd=fd)
    box(os.listdir, ".")
