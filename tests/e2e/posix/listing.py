# SPDX-License-Identifier: Apache-2.0
"""Directories read from any position, by small pieces, and while they change. The order is the file system's own."""

import ctypes
import os

from calls import LIBC, all_names, getdents
from runner import case

R, W, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_CREAT
COUNT = 2000

LIBC.opendir.restype = LIBC.fdopendir.restype = ctypes.c_void_p
LIBC.readdir.restype = ctypes.c_void_p
LIBC.telldir.restype = ctypes.c_long


class Directory:
    """libc's DIR."""

    def __init__(self, path):
        self.at = ctypes.c_void_p(LIBC.opendir(os.fsencode(path)))

    def read(self):
        """The next name, None at the end."""
        found = LIBC.readdir(self.at)
        return ctypes.string_at(found + 19) if found else None  # d_name, of all machines with 64 bits

    def tell(self):
        return LIBC.telldir(self.at)

    def seek(self, position):
        LIBC.seekdir(self.at, ctypes.c_long(position))

    def rewind(self):
        LIBC.rewinddir(self.at)

    def rest(self):
        return list(iter(self.read, None))

    def close(self):
        LIBC.closedir(self.at)


# libc reads 32 KiB at a time: 200 of these are more.
LONG = "_" * 190


def fill(count, tail="", folder="d"):
    os.mkdir(folder)
    os.chdir(folder)
    for i in range(count):
        os.mknod(f"entry{i:05}{tail}")
    os.chdir("..")


def summary(names):
    """What does not depend on the order."""
    return f"{len(names)} names, {len(set(names))} different"


@case
def whole(box):
    fill(COUNT)
    names = sorted(os.listdir(b"d"))
    box.say("listdir", (summary(names), names[0], names[-1]))
    box.say("scandir", summary([e.name for e in os.scandir("d")]))
    directory = Directory("d")
    box.say("readdir", summary(directory.rest()))
    box.say("at the end", directory.rest())
    directory.rewind()
    box.say("rewound", summary(directory.rest()))
    directory.close()
    # Any position, in any order.
    directory = Directory("d")
    places = []
    while True:
        position = directory.tell()
        name = directory.read()
        if name is None:
            break
        places.append((position, name))
    box.say("positions", len({position for position, _ in places}) == len(places))
    wrong = 0
    for i in [(k * 769) % len(places) for k in range(40)]:
        directory.seek(places[i][0])
        wrong += directory.read() != places[i][1]
    box.say("wrong after seeking", wrong)
    directory.seek(places[len(places) // 2][0])
    box.say("rest", sorted(directory.rest()) == sorted(name for _, name in places[len(places) // 2 :]))
    directory.close()
    os.rename("d", "kept")
    for size in (64, 1000, 65536):
        fd = os.open("kept", R)
        names = all_names(fd, size) if size > 64 else [n for _ in range(100) for n, _, _ in getdents(fd, size)]
        box.say(f"getdents by {size}", summary(names) if size > 64 else len(set(names)) == len(names) >= 100)
        os.close(fd)


@case
def two_at_once(box):
    fill(200, LONG)
    first, second = Directory("d"), Directory("d")
    half = [first.read() for _ in range(100)]
    box.say("second", summary(second.rest()))
    box.say("first", summary(half + first.rest()))
    fd = box.open("d", R)
    copy = os.dup(fd)
    names = [n for n, _, _ in getdents(fd, 20000)]
    box.say("shared position", summary(names + all_names(copy)))
    box(os.lseek, fd, 0, os.SEEK_SET)
    box.say("from the start", summary(all_names(copy)))


@case
def buffers(box):
    fill(10)
    fd = box.open("d", R)
    box(getdents, fd, 0)
    box(getdents, fd, 10)
    box(getdents, fd, 23)
    box(lambda: len(getdents(fd, 32)), label="getdents 32")
    box(lambda: len(getdents(fd, 32)), label="getdents 32")
    box(lambda: len(all_names(fd)), label="the rest")
    box(getdents, fd, 10)
    box(getdents, fd, 1000)
    box(lambda: len(getdents(box.open("d/entry00001", R), 1000)), label="getdents of a file")


@case
def long_names_fill_buffers(box):
    os.mkdir("d")
    for i in range(100):
        os.close(os.open("d/" + f"{i:03}" * 85, W | CREAT))
    box.say("names", summary(os.listdir("d")))
    fd = os.open("d", R)
    box(lambda: len(all_names(fd, 300)), label="by 300")


@case
def dots(box):
    os.makedirs("d/e")
    entries = {name: kind for name, kind, _ in getdents(os.open("d/e", R), 1000)}
    box.say("entries", sorted(entries.items()))
    os.makedirs("empty")
    box.say("listdir", os.listdir("empty"))


@case
def inode_numbers_and_types(box):
    os.mkdir("d")
    os.mknod("d/f")
    os.mkdir("d/s")
    os.mkfifo("d/p")
    os.symlink("t", "d/l")
    entries = list(os.scandir("d"))
    box.say("inodes agree", all(e.inode() == os.lstat(e.path).st_ino for e in entries))
    box.say("types", sorted((name, kind) for name, kind, _ in getdents(os.open("d", R), 4000)))


@case
def made_while_listing(box):
    fill(200, LONG)
    directory = Directory("d")
    seen = [directory.read() for _ in range(50)]
    for i in range(50):
        os.mknod(f"d/new{i}")
    seen += directory.rest()
    box.say("old names", summary([name for name in seen if name.startswith(b"entry")]))
    new = [name for name in seen if name.startswith(b"new")]
    box.say("new names twice", len(new) - len(set(new)))
    directory.rewind()
    box.say("rewound", summary(directory.rest()))


@case
def removed_while_listing(box):
    fill(200, LONG)
    directory = Directory("d")
    seen = [name for name in (directory.read() for _ in range(60)) if name not in (b".", b"..")]
    for i in range(0, 200, 2):
        os.unlink(f"d/entry{i:05}{LONG}")
    seen += [name for name in directory.rest() if name not in (b".", b"..")]
    box.say("twice", len(seen) - len(set(seen)))
    left = {name.encode() for name in os.listdir("d")}
    box.say("lost", len(left - set(seen)))
    directory.rewind()
    box.say("rewound", summary(directory.rest()))


@case
def removing_what_is_listed(box):
    """rm -r by hand: read, remove, read on."""
    fill(200, LONG)
    directory = Directory("d")
    removed = 0
    while True:
        name = directory.read()
        if name is None:
            break
        if name not in (b".", b".."):
            os.unlink(b"d/" + name)
            removed += 1
    box.say("removed", removed)
    box(os.rmdir, "d")


@case
def renaming_what_is_listed(box):
    fill(200, LONG)
    directory = Directory("d")
    renamed = 0
    while True:
        name = directory.read()
        if name is None or renamed > 2000:
            break
        if name.startswith(b"entry"):
            os.rename(b"d/" + name, b"d/done" + name)
            renamed += 1
    box.say("renamed", renamed)
    box.say("left", sorted({name[:5] for name in os.listdir("d")}))


@case
def seen_at_once(box):
    """What was just made is listed, what was just removed is not."""
    os.mkdir("d")
    fd = os.open("d", R)
    for i in range(20):
        os.mkdir(f"d/{i}")
        os.lseek(fd, 0, os.SEEK_SET)
        box.say(f"with {i}", sorted(all_names(fd))[2:] == sorted(str(k).encode() for k in range(i + 1)))
    for i in range(20):
        os.rmdir(f"d/{i}")
        os.lseek(fd, 0, os.SEEK_SET)
        if i % 5 == 0:
            box.say(f"without {i}", len(all_names(fd)))


@case
def removed_directory_lists_nothing(box):
    os.mkdir("d")
    fd = box.open("d", R)
    os.rmdir("d")
    box(getdents, fd, 1000)
    box(os.lseek, fd, 0, os.SEEK_SET)
    box(getdents, fd, 1000)


@case
def strange_positions(box):
    fill(10)
    fd = box.open("d", R)
    box(os.lseek, fd, -1, os.SEEK_SET)
    box(os.lseek, fd, 0, os.SEEK_SET)
    box(lambda: len(all_names(fd)), label="names")
    box(lambda: os.lseek(fd, 0, os.SEEK_CUR) != 0, label="moved")
    box(os.lseek, fd, 0, os.SEEK_DATA)
