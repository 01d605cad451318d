# SPDX-License-Identifier: Apache-2.0
"""mmap(2): shared and private, what others see, the end of the file."""

import mmap
import os
import signal

from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
PAGE = 4096
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


def new(box, content):
    fd = box.open("f", RW | CREAT)
    os.pwrite(fd, content, 0)
    return fd


def mapped(fd, length=PAGE, flags=mmap.MAP_SHARED, prot=READ | WRITE, offset=0):
    return mmap.mmap(fd, length, flags=flags, prot=prot, offset=offset)


@case
def shared_writes_reach_the_file(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10)
    map_[2:5] = b"abc"
    box(map_.flush)
    box.read("f")
    map_[0:1] = b"X"
    box(map_.close)
    box(os.fsync, fd)
    box.read("f")
    box.stat("f", "size")


@case
def written_data_is_seen_in_the_map(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10)
    box.say("map", map_[:])
    box(os.pwrite, fd, b"ab", 3)
    box.say("map", map_[:])
    other = box.open("f", W)
    box(os.pwrite, other, b"cd", 6)
    box.say("map", map_[:])
    box.child(lambda: box(os.pwrite, fd, b"Z", 0))
    box.say("map", map_[:])


@case
def mapped_data_is_seen_by_read(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10)
    map_[1:3] = b"ab"
    box(os.pread, fd, 10, 0)
    other = box.open("f", R)
    box(os.pread, other, 10, 0)


@case
def appended_data_beside_a_map(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10)
    map_[0:2] = b"ab"
    log = box.open("f", W | os.O_APPEND)
    box(os.write, log, b"more")
    box.say("map", map_[:])
    box(map_.flush)
    box.read("f")


@case
def private_writes_stay(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10, mmap.MAP_PRIVATE)
    map_[0:3] = b"abc"
    box(map_.flush)
    box.read("f")
    box.say("map", map_[:])
    readonly = mapped(box.open("f", R), 10, mmap.MAP_PRIVATE)
    readonly[0:1] = b"#"
    box.say("map", readonly[:])
    box.read("f")


@case(each=[(f"{name} {kind}", how, flags, prot)
            for name, how in (("read", R), ("write", W), ("both", RW))
            for kind, flags, prot in (
                ("shared read", mmap.MAP_SHARED, READ), ("shared write", mmap.MAP_SHARED, READ | WRITE),
                ("private read", mmap.MAP_PRIVATE, READ),
                ("private write", mmap.MAP_PRIVATE, READ | WRITE))])  # fmt: skip
def rights(box, how, flags, prot):
    box.make("f", b"0123456789")
    fd = box.open("f", how)
    box(lambda: mapped(fd, 10, flags, prot), label="mmap", show=lambda _: "ok")


@case
def what_cannot_be_mapped(box):
    os.mkfifo("p")
    for name, flags in ((".", R), ("p", RW)):
        fd = box.open(name, flags)
        box(lambda: mapped(fd, PAGE), label=f"mmap {name}", show=lambda _: "ok")


def touch(box, map_, at, write=False):
    """Reads or writes one byte in a child, and logs how the child ends."""

    def act():
        if write:
            map_[at : at + 1] = b"!"
        else:
            map_[at : at + 1]  # noqa: B018: the access is the point

    pid = box.start(act)
    status = os.waitpid(pid, 0)[1]
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    box.say(f"{'write' if write else 'read'} at {at}", ended)


@case
def beyond_the_end(box):
    """The rest of the last page reads as zeros and is not kept; the next page is SIGBUS."""
    fd = new(box, b"x" * 3 * PAGE)
    map_ = mapped(fd, 3 * PAGE)
    os.ftruncate(fd, 100)
    for at in (0, 99, 100, PAGE - 1, PAGE, 2 * PAGE):
        touch(box, map_, at)
        touch(box, map_, at, write=True)
    box.say("tail", map_[100:120].count(b"x"))
    os.ftruncate(fd, PAGE)
    box(lambda: os.pread(fd, PAGE, 0).count(b"x"), label="x left")


@case
def growing_under_a_map(box):
    fd = new(box, b"x" * 2 * PAGE)
    map_ = mapped(fd, 2 * PAGE)
    os.ftruncate(fd, 10)
    touch(box, map_, PAGE)
    os.ftruncate(fd, 2 * PAGE)
    touch(box, map_, PAGE)
    box.say("map", map_[:12])
    os.pwrite(fd, b"new", PAGE)
    box.say("map", map_[PAGE : PAGE + 5])


@case
def sparse_map(box):
    fd = new(box, b"")
    os.ftruncate(fd, 10 * PAGE)
    map_ = mapped(fd, 10 * PAGE)
    map_[5 * PAGE : 5 * PAGE + 4] = b"data"
    box(map_.flush, 5 * PAGE, PAGE)
    os.fsync(fd)
    box(os.lseek, fd, 0, os.SEEK_DATA)
    box(os.pread, fd, 8, 5 * PAGE - 2)
    box(lambda: os.fstat(fd).st_blocks, label="blocks")


@case
def map_outlives_the_descriptor_and_the_name(box):
    fd = new(box, b"0123456789")
    other = os.open("f", R)
    map_ = mapped(fd, 10)
    box.close(fd)
    map_[0:1] = b"A"
    os.unlink("f")
    map_[1:2] = b"B"
    box(map_.flush)
    box(os.pread, other, 10, 0, label="pread")
    box.say("map", map_[:])


@case
def maps_of_two_processes(box):
    fd = new(box, b"0123456789")
    map_ = mapped(fd, 10)

    def act():
        mine = mapped(os.open("f", RW), 10)
        mine[4:6] = b"ab"

    box.child(act)
    box.say("map", map_[:])
    box.read("f")


@case
def map_at_an_offset(box):
    fd = new(box, b"".join(bytes([65 + i]) * PAGE for i in range(4)))
    map_ = mapped(fd, PAGE, offset=2 * PAGE)
    box.say("map", map_[:3])
    map_[0:3] = b"xyz"
    box(map_.flush)
    box(os.pread, fd, 5, 2 * PAGE - 1)


@case
def large_map(box):
    size = 3 << 20
    fd = new(box, b"")
    os.ftruncate(fd, size)
    map_ = mapped(fd, size)
    for at in range(0, size, 50_000):
        map_[at : at + 6] = b"%06x" % at
    box(map_.flush)
    box(lambda: len([1 for at in range(0, size, 50_000) if os.pread(fd, 6, at) == b"%06x" % at]), label="found")
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    box(lambda: os.pread(fd, 6, 2_000_000), label="one")


@case
def truncating_and_writing_around_a_map(box):
    fd = new(box, b"old" * 1000)
    map_ = mapped(fd, 3000)
    map_[0:3] = b"NEW"
    again = box.open("f", W | os.O_TRUNC)
    box(os.write, again, b"short")
    box.stat("f", "size")
    box.say("map", map_[:8])
    box.read("f")


@case
def mapping_does_not_move_mtime_reading(box):
    fd = new(box, b"0123456789")
    os.utime("f", ns=(10**18, 10**18))
    map_ = mapped(fd, 10)
    box.say("byte", map_[0:1])
    box.say("mtime kept", os.stat("f").st_mtime_ns == 10**18)
    map_[0:1] = b"x"
    box(map_.flush)
    box.say("mtime moved", os.stat("f").st_mtime_ns != 10**18)
