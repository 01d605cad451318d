# SPDX-License-Identifier: Apache-2.0
"""Hard links and symlinks."""

import os

from calls import fchmodat2, lchown, utimensat
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


@case
def names_of_one_file(box):
    box.make("a", b"content")
    os.mkdir("d")
    box(os.link, "a", "b")
    box(os.link, "b", "d/c")
    box.stat("a", "nlink")
    fd = box.open("b", RW)
    box(os.write, fd, b"CON")
    box.read("d/c")
    box(os.chmod, "d/c", 0o600)
    box.stat("a")
    box(os.unlink, "a")
    box.stat("b", "nlink")
    box(os.truncate, "d/c", 3)
    box.stat("b", "size")


@case(each=[("symlink", lambda: os.symlink("t", "a")), ("fifo", lambda: os.mkfifo("a")),
            ("directory", lambda: os.mkdir("a"))])  # fmt: skip
def link_to(box, make):
    make()
    box(os.link, "a", "b", follow_symlinks=False)
    box(os.link, "a", "c", follow_symlinks=True)
    box.stat("a", "nlink", "mode")


@case
def link_to_what_a_symlink_names(box):
    box.make("f", b"x")
    os.symlink("f", "l")
    box(os.link, "l", "hard of l", follow_symlinks=False)
    box(os.link, "l", "hard of f", follow_symlinks=True)
    box.stat("f", "nlink")
    box.stat("l", "nlink")
    box(os.readlink, "hard of l")


@case
def link_over_what_exists(box):
    box.make("a")
    box.make("b")
    os.mkdir("d")
    os.symlink("none", "l")
    for name in ("a", "b", "d", "l"):
        box(os.link, "a", name)
    box.stat("a", "nlink")


@case
def many_links(box):
    box.make("f")
    for i in range(200):
        os.link("f", f"l{i}")
    box.stat("f", "nlink")
    for i in range(0, 200, 2):
        os.unlink(f"l{i}")
    box.stat("l1", "nlink")
    box(lambda: len(os.listdir(".")), label="entries")


@case
def links_of_directories(box):
    os.mkdir("d")
    box.stat("d", "nlink")
    for name in ("a", "b", "c"):
        os.mkdir(f"d/{name}")
    box.make("d/f")
    box.stat("d", "nlink")
    box(os.rmdir, "d/b")
    box.stat("d", "nlink")
    box(os.rename, "d/c", "c")
    box.stat("d", "nlink")
    box.stat(".", "nlink")


@case
def link_changes_ctime_and_the_directory(box):
    box.make("f")
    os.mkdir("d")
    os.utime("d", ns=(10**18, 10**18))
    os.utime("f", ns=(10**18, 10**18))
    before = os.stat("f").st_ctime_ns
    while os.stat("f").st_ctime_ns == before:
        os.link("f", "d/g")
        if os.stat("f").st_ctime_ns == before:
            os.unlink("d/g")
    box.say("mtime kept", os.stat("f").st_mtime_ns == 10**18)
    box.say("directory's mtime moved", os.stat("d").st_mtime_ns != 10**18)


TARGETS = {
    "plain": "file",
    "missing": "none",
    "below": "dir/in",
    "up and down": "dir/../file",
    "dot": ".",
    "slashes": "dir//in",
    "trailing slash": "dir/",
    "file with slash": "file/",
    "to a link": "second",
    "to itself": "l",
    "spaces and bytes": "a b\n\udcff",
    "255 bytes": "n" * 255,
    "a long name": "n" * 300,
    "1000 bytes": "d/" * 499 + "ff",
    "4000 bytes": "./" * 1998 + "file",
    "4095 bytes": "./" * 2045 + "/file",
    "4096 bytes": "./" * 2045 + "./file",
}


@case(each=[(name, target) for name, target in TARGETS.items()])
def symlink_target(box, target):
    box.make("file", b"file")
    os.mkdir("dir")
    box.make("dir/in", b"in")
    os.symlink("file", "second")
    box(os.symlink, target, "l")
    box(os.readlink, "l")
    box.stat("l")
    box.stat("l", "mode", follow=True)
    box(lambda: os.open("l", R) and "opened", label="open")
    box(os.rename, "l", "dir/moved")
    box(os.readlink, "dir/moved")
    box(os.unlink, "dir/moved")


@case
def symlinks_have_no_mode_of_their_own(box):
    os.umask(0o077)
    os.symlink("t", "l")
    box.stat("l")
    box(os.chmod, "l", 0o600)
    box(fchmodat2, "l", 0o600, 0x100)
    box.make("t")
    box(os.chmod, "l", 0o604)
    box.stat("l", "mode")
    box.stat("t", "mode")


@case
def symlinks_own_owner_and_times(box):
    box.make("t")
    os.symlink("t", "l")
    box(lchown, "l", -1, os.getgid())
    box(utimensat, "l", ((1, 2), (3, 4)), 0x100)
    box.stat("l", "mtime_ns")
    box.say("target's untouched", os.stat("t").st_mtime_ns != 3 * 10**9 + 4)
    box(utimensat, "l", ((5, 6), (7, 8)))
    box.stat("t", "mtime_ns", "atime_ns")
    box.stat("l", "mtime_ns")


@case
def chains_of_symlinks(box):
    box.make("f", b"end")
    os.symlink("f", "l0")
    for i in range(1, 45):
        os.symlink(f"l{i - 1}", f"l{i}")
    for i in (0, 10, 38, 39, 40, 41, 44):
        box(lambda: os.open(f"l{i}", R) and "opened", label=f"open l{i}")
        box(os.stat, f"l{i}", show=lambda found: found.st_size)


@case
def symlinks_inside_a_path(box):
    os.makedirs("a/b/c")
    box.make("a/b/c/f", b"deep")
    os.symlink("a/b", "x")
    os.symlink("b/c", "a/y")
    os.symlink("../..", "a/b/up")
    box(lambda: os.open("x/c/f", R) and "opened", label="open x/c/f")
    box(os.stat, "a/y/f", show=lambda found: found.st_size)
    box(os.stat, "x/../y/f", show=lambda found: found.st_size)
    box(os.stat, "x/up/x/c/f", show=lambda found: found.st_size)
    box(os.listdir, "x/up/a/y")
    box(os.unlink, "x/c/../c/f")
    box(os.rmdir, "x/c")
    box(os.rmdir, "x")
    box(os.unlink, "x")


@case
def symlink_replaced_while_used(box):
    box.make("a", b"A")
    box.make("b", b"B")
    os.symlink("a", "l")
    for i in range(10):
        os.symlink("ba"[i % 2], "new")
        os.rename("new", "l")
        with open("l", "rb") as file:
            box.say("through", file.read())


@case
def symlink_over_what_exists(box):
    box.make("f")
    os.mkdir("d")
    os.symlink("x", "l")
    for name in ("f", "d", "l", "none/x", "f/x"):
        box(os.symlink, "t", name)
    box(os.symlink, "", "empty")
    box(os.readlink, "f")
    box(os.readlink, "d")
    box(os.readlink, "none")


@case
def directory_operations_through_a_symlink(box):
    os.mkdir("d")
    os.symlink("d", "l")
    box(os.mkdir, "l/x")
    box.make("l/f")
    box(os.listdir, "l")
    box(os.rmdir, "l")
    box(os.mkdir, "l")
    box(os.unlink, "l/f")
    box(os.rename, "l", "m")
    box(os.readlink, "m")
    os.symlink("none", "dangling")
    box(os.mkdir, "dangling")
    box(os.mkdir, "dangling/")
    box(os.mkfifo, "dangling")


@case
def readlink_into_a_small_buffer(box):
    import ctypes

    from calls import LIBC

    os.symlink("0123456789", "l")
    for size in (1, 5, 10, 11):
        buffer = ctypes.create_string_buffer(size + 1)
        box.say(f"readlink {size}", (LIBC.readlink(b"l", buffer, size), buffer.raw[:size]))
    box.say("readlink 0", (LIBC.readlink(b"l", buffer, 0), ctypes.get_errno()))
