# SPDX-License-Identifier: Apache-2.0
"""Holes, fallocate(2) and what a file occupies."""

import os

from calls import COLLAPSE_RANGE, INSERT_RANGE, KEEP_SIZE, PUNCH_HOLE, UNSHARE_RANGE, ZERO_RANGE, fallocate
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
PAGE = 4096


def new(box, content=b""):
    fd = box.open("f", RW | CREAT)
    if content:
        os.pwrite(fd, content, 0)
    return fd


def blocks(fd):
    """Occupied 512-byte blocks once all is on the disk."""
    os.fsync(fd)
    return os.fstat(fd).st_blocks


def extents(fd):
    """Where the data is, as SEEK_DATA and SEEK_HOLE tell it."""
    found, at = [], 0
    while True:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return found
        at = os.lseek(fd, start, os.SEEK_HOLE)
        found.append((start, at))


def show(box, fd):
    box(blocks, fd)
    box(extents, fd)
    box.stat(fd, "size")


@case
def hole_between_data(box):
    fd = new(box)
    os.pwrite(fd, b"a" * PAGE, 0)
    os.pwrite(fd, b"b" * PAGE, 100 * PAGE)
    show(box, fd)
    box(os.pread, fd, PAGE, 50 * PAGE)
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        for at in (0, 1, PAGE - 1, PAGE, 50 * PAGE, 100 * PAGE, 101 * PAGE - 1, 101 * PAGE, 200 * PAGE, -1):
            box(os.lseek, fd, at, whence)


@case
def seeking_moves_the_position(box):
    fd = new(box)
    os.pwrite(fd, b"data", 10 * PAGE)
    box(os.lseek, fd, 0, os.SEEK_DATA)
    box(os.read, fd, 4)
    box(os.lseek, fd, 0, os.SEEK_HOLE)
    box(os.read, fd, 4)
    box(os.lseek, fd, 1 << 50, os.SEEK_DATA)
    box(os.lseek, fd, 0, os.SEEK_CUR)


@case
def empty_and_all_hole(box):
    fd = new(box)
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        box(os.lseek, fd, 0, whence)
    show(box, fd)
    box(os.ftruncate, fd, 1 << 20)
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        box(os.lseek, fd, 0, whence)
        box(os.lseek, fd, (1 << 20) - 1, whence)
    show(box, fd)


@case
def hole_of_4_gigabytes(box):
    fd = new(box)
    os.pwrite(fd, b"x" * PAGE, 5 << 30)
    show(box, fd)
    box(os.ftruncate, fd, 1 << 42)
    show(box, fd)
    fd = box.open("f", R)
    box(extents, fd)


@case
def seek_in_directories_and_fifos(box):
    fd = box.open(".", R)
    os.mkfifo("p")
    box(os.lseek, box.open("p", RW), 0, os.SEEK_DATA)
    box(os.lseek, fd, 0, os.SEEK_SET)


MODES = {
    "allocate": 0,
    "keep size": KEEP_SIZE,
    "punch": PUNCH_HOLE | KEEP_SIZE,
    "zero": ZERO_RANGE,
    "zero keep": ZERO_RANGE | KEEP_SIZE,
}
RANGES = {
    "first page": (0, PAGE),
    "inside a page": (100, 200),
    "across pages": (PAGE - 100, PAGE + 200),
    "aligned middle": (2 * PAGE, 3 * PAGE),
    "over the end": (9 * PAGE, 5 * PAGE),
    "beyond the end": (20 * PAGE, PAGE),
    "all": (0, 10 * PAGE),
}


@case(each=[(f"{mode}, {where}", mode, where) for mode in MODES for where in RANGES])
def modes(box, mode, where):
    fd = new(box, b"".join(bytes([65 + i]) * PAGE for i in range(10)))
    box(fallocate, fd, MODES[mode], *RANGES[where])
    box.stat(fd, "size")
    box(lambda: os.pread(fd, 40 * PAGE, 0), label="content")
    if MODES[mode] & PUNCH_HOLE:
        show(box, fd)


@case(each=[("collapse", COLLAPSE_RANGE), ("insert", INSERT_RANGE)])
def moving_ranges(box, mode):
    fd = new(box, b"".join(bytes([65 + i]) * PAGE for i in range(10)))
    box(fallocate, fd, mode, 2 * PAGE, 3 * PAGE)
    box.stat(fd, "size")


@case
def refusals(box):
    fd = new(box, b"x" * PAGE)
    box(fallocate, fd, 0, 0, 0)
    box(fallocate, fd, 0, -1, 10)
    box(fallocate, fd, 0, 10, -1)
    box(fallocate, fd, PUNCH_HOLE, 0, 10)
    box(fallocate, fd, PUNCH_HOLE | ZERO_RANGE | KEEP_SIZE, 0, 10)
    box(fallocate, fd, 0x4000, 0, 10)
    box(fallocate, fd, COLLAPSE_RANGE | KEEP_SIZE, 0, PAGE)
    box(fallocate, fd, 0, (1 << 63) - 10, 100)
    box(fallocate, fd, 0, 1 << 60, 10)
    box(fallocate, box.open("f", R), 0, 0, 10)
    box(fallocate, box.open(".", R), 0, 0, 10)
    os.mkfifo("p")
    box(fallocate, box.open("p", RW), 0, 0, 10)
    box(fallocate, fd, UNSHARE_RANGE, 0, PAGE)
    box(os.posix_fallocate, fd, 0, 3 * PAGE)
    show(box, fd)


@case
def allocated_space_is_kept(box):
    fd = new(box)
    box(fallocate, fd, KEEP_SIZE, 0, 16 * PAGE)
    show(box, fd)
    box(fallocate, fd, 0, 0, 16 * PAGE)
    show(box, fd)
    box(os.pread, fd, 10, PAGE)
    os.pwrite(fd, b"x", 5 * PAGE)
    show(box, fd)
    box(os.ftruncate, fd, 0)
    show(box, fd)


@case
def punching_through_the_cache(box):
    fd = new(box, b"x" * (4 * PAGE))
    other = box.open("f", R)
    box(lambda: os.pread(other, 4 * PAGE, 0).count(b"x"), label="before")
    box(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, PAGE, PAGE)
    box(lambda: os.pread(other, 4 * PAGE, 0).count(b"x"), label="after")
    box(os.pwrite, fd, b"new", PAGE + 5)
    box(lambda: os.pread(other, 4 * PAGE, 0).count(b"x"), label="and after a write")


@case
def fallocate_moves_times(box):
    fd = new(box, b"x" * PAGE)
    os.utime("f", (1, 1))
    box(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 0, 100)
    box.say("mtime moved", os.stat("f").st_mtime != 1)
    os.utime("f", (1, 1))
    box(fallocate, fd, 0, 0, 2 * PAGE)
    box.say("mtime moved", os.stat("f").st_mtime != 1)
    os.utime("f", (1, 1))
    box(fallocate, fd, KEEP_SIZE, 0, 4 * PAGE)
    box.say("atime kept", os.stat("f").st_atime == 1)


@case
def blocks_of_small_things(box):
    fd = new(box, b"x")
    show(box, fd)
    os.mkdir("d")
    box.stat("d", "size", "blocks", "blksize")
    os.symlink("x" * 10, "short")
    os.symlink("x" * 200, "long")
    box.stat("short", "size", "blocks", "blksize")
    box.stat("long", "size", "blocks")
    os.mkfifo("p")
    box.stat("p", "size", "blocks", "blksize")
    box.stat("f", "blksize")


@case
def copies_keep_holes(box):
    """cp --sparse and SEEK_DATA copies, by hand."""
    fd = new(box)
    for at in (3, 50, 51, 90):
        os.pwrite(fd, b"data", at * PAGE)
    os.ftruncate(fd, 100 * PAGE)
    to = box.open("g", RW | CREAT)
    for start, end in extents(fd):
        os.pwrite(to, os.pread(fd, end - start, start), start)
    os.ftruncate(to, os.fstat(fd).st_size)
    show(box, to)
    box(lambda: os.pread(fd, 1 << 20, 0) == os.pread(to, 1 << 20, 0), label="the same")


@case
def file_system_figures(box):
    fd = new(box, b"x")
    for where in (".", "f", fd):
        found = os.statvfs(where)
        box.say("names", found.f_namemax)
        box.say("units", (found.f_bsize, found.f_frsize))
        box.say("sane", found.f_blocks >= found.f_bfree >= found.f_bavail and found.f_files >= found.f_ffree)
        box.say("enough", found.f_blocks > 1000 and found.f_files > 1000)
    box.say("limits", [os.pathconf(".", name) for name in ("PC_NAME_MAX", "PC_PATH_MAX", "PC_PIPE_BUF")])
    box.say("read only", bool(os.statvfs(".").f_flag & os.ST_RDONLY))
