# SPDX-License-Identifier: Apache-2.0
"""rename(2) and renameat2(2) in all combinations."""

import os

from calls import RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, renameat2
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


def full(name):
    os.mkdir(name)
    os.close(os.open(name + "/in", W | CREAT, 0o644))


KINDS = {
    "file": lambda box, name: box.make(name, name.encode()),
    "empty dir": lambda box, name: os.mkdir(name),
    "full dir": lambda box, name: full(name),
    "symlink": lambda box, name: os.symlink("target", name),
    "nothing": lambda box, name: None,
}
FLAGS = {"plain": 0, "noreplace": RENAME_NOREPLACE, "exchange": RENAME_EXCHANGE}


@case(each=[(f"{flag} {a} to {b}", FLAGS[flag], KINDS[a], KINDS[b]) for flag in FLAGS for a in KINDS for b in KINDS])
def kinds(box, flags, source, target):
    os.mkdir("x")
    source(box, "a")
    target(box, "x/b")
    box(renameat2, "a", "x/b", flags)


@case(each=[(name, flags) for name, flags in FLAGS.items()])
def onto_itself(box, flags):
    box.make("f", b"x")
    os.link("f", "g")
    os.mkdir("d")
    box(renameat2, "f", "f", flags)
    box(renameat2, "d", "d", flags)
    box(renameat2, "f", "g", flags)
    box(renameat2, "./f", "d/../f", flags)


@case(each=[(name, flags) for name, flags in FLAGS.items()])
def into_itself(box, flags):
    os.makedirs("a/b/c")
    os.mkdir("e")
    box(renameat2, "a", "a/x", flags)
    box(renameat2, "a", "a/b", flags)
    box(renameat2, "a", "a/b/c", flags)
    box(renameat2, "a", "a/b/new", flags)
    box(renameat2, "a/b", "a", flags)
    box(renameat2, "a/b/c", "a", flags)
    box(renameat2, "a", "e/a", flags)


@case
def flags_together_and_unknown(box):
    box.make("a", b"a")
    box.make("b", b"b")
    box(renameat2, "a", "b", RENAME_NOREPLACE | RENAME_EXCHANGE)
    box(renameat2, "a", "b", RENAME_WHITEOUT | RENAME_EXCHANGE)
    box(renameat2, "a", "b", 8)
    box(renameat2, "a", "b", 0x80000000 - 0x100000000)


@case(each=[("alone", RENAME_WHITEOUT), ("noreplace", RENAME_WHITEOUT | RENAME_NOREPLACE)])
def whiteout(box, flags):
    box.make("a", b"a")
    box(renameat2, "a", "b", flags)
    box.make("c", b"c")
    box(renameat2, "b", "c", flags)


@case
def directories_move_with_what_is_in_them(box):
    os.makedirs("a/b/c")
    box.make("a/b/c/f", b"x")
    os.mkdir("t")
    fd = box.open("a/b/c/f", RW)
    inode = os.stat("a/b").st_ino
    box(os.rename, "a/b", "t/moved")
    box.say("same inode", os.stat("t/moved").st_ino == inode)
    box(os.write, fd, b"y")
    box.read("t/moved/c/f")
    box.stat("a", "nlink")
    box.stat("t", "nlink")
    box.stat("t/moved", "nlink")
    box(os.listdir, "t/moved/../moved/c/..")


@case
def parent_follows(box):
    """.. of a directory that moved."""
    os.makedirs("a/d")
    os.mkdir("b")
    here = box.open("a/d", R)
    box(os.rename, "a/d", "b/d")
    box.make("b/mark")
    box(os.listdir, "b/d/..")
    box(os.stat, "../mark", dir_fd=here, show=lambda _: "found")
    os.chdir("b/d")
    box(os.rename, "../d", "../../e")
    box(lambda: sorted(os.listdir("..")), label="listdir ..")


@case
def replacing_drops_a_link(box):
    box.make("a", b"new")
    box.make("b", b"old")
    os.link("b", "kept")
    fd = box.open("b", R)
    box(os.rename, "a", "b")
    box.stat("kept", "nlink")
    box.stat(fd, "nlink", "size")
    box(os.read, fd, 10)
    box.read("b")


@case
def inode_moves(box):
    box.make("a", b"a")
    inode = os.stat("a").st_ino
    box(os.rename, "a", "b")
    box.say("same inode", os.stat("b").st_ino == inode)
    box.make("c", b"c")
    box(renameat2, "b", "c", RENAME_EXCHANGE)
    box.say("same inode", os.stat("c").st_ino == inode)
    box.say("other inode", os.stat("b").st_ino != inode)


@case
def exchange_of_directory_and_file(box):
    full("d")
    box.make("f", b"x")
    os.mkdir("sub")
    os.rename("f", "sub/f")
    box(renameat2, "d", "sub/f", RENAME_EXCHANGE)
    box(os.listdir, "sub/f")
    box.read("d")
    box.stat(".", "nlink")
    box.stat("sub", "nlink")


@case
def exchange_of_ancestor(box):
    os.makedirs("a/b")
    box.make("f")
    box(renameat2, "a", "a/b", RENAME_EXCHANGE)
    box(renameat2, "a/b", "a", RENAME_EXCHANGE)
    box(renameat2, "a/b", "f", RENAME_EXCHANGE)


@case
def times_of_a_rename(box):
    os.mkdir("x")
    os.mkdir("y")
    box.make("x/a")
    for name in ("x", "y", "x/a"):
        os.utime(name, ns=(10**18, 10**18))
    box(os.rename, "x/a", "y/a")
    for name in ("x", "y", "y/a"):
        box.say(f"mtime of {name} moved", os.stat(name).st_mtime_ns != 10**18)


@case
def by_directory_descriptors(box):
    os.mkdir("x")
    os.mkdir("y")
    box.make("x/a", b"x")
    x, y = box.open("x", R), box.open("y", R)
    box(os.rename, "a", "b", src_dir_fd=x, dst_dir_fd=y)
    box(os.rename, "y/b", "c", dst_dir_fd=x)
    box(os.rename, "x", "z")
    box(os.rename, "c", "d", src_dir_fd=x, dst_dir_fd=x)
    box(os.listdir, x)


@case
def removed_directory_as_a_target(box):
    os.mkdir("d")
    box.make("f")
    fd = box.open("d", R)
    os.rmdir("d")
    box(os.rename, "f", "x", dst_dir_fd=fd)
    box(os.rename, "x", "f", src_dir_fd=fd)
    box(os.mkdir, "x", dir_fd=fd)
    box(os.stat, "x", dir_fd=fd)
    box(os.stat, ".", dir_fd=fd, show=lambda found: found.st_nlink)
    box(os.listdir, fd)


@case
def chains(box):
    """What editors and git do."""
    box.make("f", b"old")
    os.link("f", "f~")
    box.make("f.tmp", b"new")
    box(os.rename, "f.tmp", "f")
    box.read("f")
    box.read("f~")
    box.make("f.lock", b"newer")
    box.open("f.lock", W | CREAT | os.O_EXCL)
    box(os.rename, "f.lock", "f")
    box(os.rename, "f", "f~")
    box.make("f", b"last")


@case
def many_in_a_row(box):
    box.make("0", b"x")
    inode = os.stat("0").st_ino
    for i in range(50):
        os.rename(str(i), str(i + 1))
    box.say("same inode", os.stat("50").st_ino == inode)
    box(os.listdir, ".")


@case
def long_names(box):
    box.make("a")
    box(os.rename, "a", "n" * 255)
    box(os.rename, "n" * 255, "n" * 256)
    box(os.rename, "n" * 256, "a")
    box(renameat2, "n" * 255, "m" * 255, RENAME_NOREPLACE)
