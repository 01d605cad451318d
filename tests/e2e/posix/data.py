# SPDX-License-Identifier: Apache-2.0
"""Reading and writing: offsets, vectors, the end of the file, big offsets, sendfile and copy_file_range."""

import hashlib
import os

from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
GB = 1 << 30


def pattern(size, seed=0):
    """Bytes that show from where they are."""
    return b"".join(b"%08x" % (seed + i) for i in range(size // 8 + 1))[:size]


def new(box, content=b""):
    fd = box.open("f", RW | CREAT)
    if content:
        os.pwrite(fd, content, 0)
    return fd


@case
def position(box):
    fd = new(box, b"0123456789")
    box(os.read, fd, 4)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.write, fd, b"ab")
    box(os.lseek, fd, -3, os.SEEK_END)
    box(os.read, fd, 10)
    box(os.read, fd, 10)
    box(os.lseek, fd, 5, os.SEEK_END)
    box(os.read, fd, 10)
    box(os.lseek, fd, -1, os.SEEK_SET)
    box(os.lseek, fd, -100, os.SEEK_CUR)
    box(os.lseek, fd, 0, 99)
    box(os.lseek, fd, 0, os.SEEK_CUR)


@case
def positions_are_shared_by_dup_not_by_open(box):
    fd = new(box, b"0123456789")
    copy = os.dup(fd)
    other = os.open("f", R)
    box(os.read, fd, 4)
    box(lambda: os.read(copy, 2), label="read by the copy")
    box(lambda: os.read(other, 2), label="read by another")
    box.child(lambda: box(os.read, fd, 1))
    box(os.read, fd, 1)


@case(each=[(f"{size} at {offset}", size, offset) for size in (1, 4095, 4096, 4097)
            for offset in (0, 1, 4095, 4096, 5000)])  # fmt: skip
def pages(box, size, offset):
    fd = new(box, pattern(9000))
    box(os.pwrite, fd, b"#" * size, offset, show=str)
    box(os.pread, fd, 20000, 0)
    box(os.pread, fd, size + 2, max(offset - 1, 0))
    box.stat(fd, "size")


@case
def vectors(box):
    fd = new(box)
    box(os.writev, fd, [b"ab", b"", b"cde"])
    box(os.pwritev, fd, [b"XY", b"Z"], 1)
    first, second = bytearray(2), bytearray(8)
    box(lambda: os.preadv(fd, [first, second], 0), label="preadv")
    box.say("got", (bytes(first), bytes(second)))
    os.lseek(fd, 0, os.SEEK_SET)
    box(lambda: os.readv(fd, [first, second]), label="readv")
    box(os.lseek, fd, 0, os.SEEK_CUR)
    many = [bytes([i % 256]) for i in range(1024)]
    box(lambda: os.writev(fd, many), label="writev of 1024")
    box(lambda: os.writev(fd, many + [b"x"]), label="writev of 1025")
    box.stat(fd, "size")


@case
def nothing_to_do(box):
    fd = new(box, b"abc")
    box(os.write, fd, b"")
    box(os.read, fd, 0)
    box(os.pwrite, fd, b"", 100)
    box(os.pread, fd, 0, 100)
    box(os.pread, fd, 5, 3)
    box(os.pread, fd, 5, 1 << 40)
    box.stat(fd, "size")


@case
def offsets_that_are_none(box):
    fd = new(box, b"abc")
    box(os.pread, fd, 1, -1)
    box(os.pwrite, fd, b"x", -1)
    box(os.pread, fd, 10, (1 << 63) - 5)
    box(os.pwrite, fd, b"0123456789", (1 << 63) - 5)
    box(os.pwrite, fd, b"x", 1 << 60)
    box(os.ftruncate, fd, -1)
    box(os.ftruncate, fd, 1 << 62)
    box(os.truncate, "f", -1)
    box(os.truncate, "f", 1 << 62)


@case(each=[(name, offset) for name, offset in
            (("2G", 2 * GB - 3), ("4G", 4 * GB - 3), ("beyond 4G", 5 * GB + 1), ("1T", 1 << 40))])  # fmt: skip
def big_offset(box, offset):
    fd = new(box, b"start")
    box(os.pwrite, fd, b"012345", offset)
    box.stat("f", "size")
    box(os.pread, fd, 10, offset - 2)
    box(os.pread, fd, 10, offset + 4)
    box(os.pread, fd, 4, offset - 4096)
    box(os.lseek, fd, -4, os.SEEK_END)
    box(os.read, fd, 10)
    box(os.write, fd, b"more")
    box.stat("f", "size")
    box(os.truncate, "f", offset + 2)
    box(os.pread, fd, 10, offset - 2)
    box(os.ftruncate, fd, 7)
    box(os.pread, fd, 10, 0)


@case
def one_large_write(box):
    """More than a request of FUSE and a body of the protocol hold."""
    data = pattern(3_000_001)
    fd = new(box)
    box(os.write, fd, data)
    box(lambda: hashlib.sha1(os.pread(fd, 4_000_000, 0)).hexdigest(), label="content")
    box(lambda: len(os.pread(fd, 2_500_000, 1_000_000)), label="a part")
    box(os.pwrite, fd, data, 1_999_999)
    other = os.open("f", R)
    box(lambda: hashlib.sha1(os.pread(other, 9_000_000, 0)).hexdigest(), label="content for another")


@case
def many_small_writes(box):
    fd = new(box)
    for i in range(300):
        os.write(fd, b"%d," % i)
    box.read("f")
    for i in range(0, 1000, 7):
        os.pwrite(fd, b"#", i)
    box.read("f")


@case
def readers_see_writers(box):
    fd = new(box)
    other = box.open("f", R)
    for part in (b"one", b"two", b"three"):
        box(os.write, fd, part)
        box(os.pread, other, 100, 0)
    box(os.ftruncate, fd, 2)
    box(os.pread, other, 100, 0)
    box(os.pwrite, fd, b"again", 4)
    box(os.pread, other, 100, 0)
    box(os.read, other, 3)
    box.child(lambda: box(os.pwrite, fd, b"by a child", 0))
    box(os.pread, other, 100, 0)


@case
def growing_file_is_read_on(box):
    fd = new(box, b"abc")
    other = box.open("f", R)
    box(os.read, other, 100)
    box(os.read, other, 100)
    box(os.pwrite, fd, b"def", 3)
    box(os.read, other, 100)


@case
def a_shorter_overwrite_leaves_no_tail(box):
    for how in (os.O_TRUNC, 0):
        box.open("f", W | CREAT)
        with open("f", "wb") as file:
            file.write(b"long content")
        fd = box.open("f", W | how)
        box(os.write, fd, b"new")
        if not how:
            box(os.ftruncate, fd, 3)
        box.close(fd)
        box.read("f")


@case(each=[("up", (0, 1, 4096, 4097, 100_000)), ("down", (100_000, 4097, 4096, 1, 0)),
            ("both", (5000, 3, 5000, 0, 10))])  # fmt: skip
def truncating(box, sizes):
    fd = new(box, pattern(6000))
    for size in sizes:
        box(os.ftruncate, fd, size)
        box.stat("f", "size")
        box(os.pread, fd, 200_000, 0)
    for size in sizes:
        box(os.truncate, "f", size)
        box.read("f")


@case
def truncating_the_middle_of_a_page_zeroes_it(box):
    fd = new(box, b"x" * 5000)
    box(os.ftruncate, fd, 100)
    box(os.ftruncate, fd, 5000)
    box(lambda: os.pread(fd, 5000, 0).count(b"x"), label="bytes left")
    box(os.pwrite, fd, b"y", 6000)
    box(lambda: os.pread(fd, 7000, 5000).strip(b"\0"), label="beyond the old end")


@case
def copy_file_range_basics(box):
    fd = new(box, b"0123456789")
    to = box.open("g", RW | CREAT)
    box(os.copy_file_range, fd, to, 4)
    box(os.copy_file_range, fd, to, 100)
    box(os.copy_file_range, fd, to, 100)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.lseek, to, 0, os.SEEK_CUR)
    box(os.copy_file_range, fd, to, 3, offset_src=1, offset_dst=20)
    box(os.copy_file_range, fd, to, 3, offset_src=100)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box.read("g")


@case
def copy_file_range_within_a_file(box):
    fd = new(box, b"0123456789")
    other = box.open("f", RW)
    box(os.copy_file_range, fd, other, 3, offset_src=0, offset_dst=20)
    box(os.copy_file_range, fd, fd, 3, offset_src=0, offset_dst=5)
    box(os.copy_file_range, fd, other, 4, offset_src=0, offset_dst=2)
    box(os.copy_file_range, fd, fd, 4, offset_src=2, offset_dst=0)
    box.read("f")


@case
def copy_file_range_refusals(box):
    read = box.open("r", R | CREAT)
    write = box.open("w", W | CREAT)
    append = box.open("a", W | CREAT | os.O_APPEND)
    folder = box.open(".", R)
    os.mkfifo("p")
    pipe = box.open("p", RW)
    both = new(box, b"content")
    for other in (read, append, folder, pipe):
        box(os.copy_file_range, both, other, 3)
    for other in (write, folder, pipe):
        box(os.copy_file_range, other, both, 3)
    box(os.copy_file_range, both, write, 0)
    box(os.copy_file_range, both, write, 3, offset_src=0, offset_dst=(1 << 63) - 2)


@case
def copy_file_range_large(box):
    data = pattern(2_500_000)
    fd = new(box, data)
    to = box.open("g", RW | CREAT)
    left, at = len(data), 0
    while left:
        count = os.copy_file_range(fd, to, left, offset_src=at, offset_dst=at)
        left, at = left - count, at + count
    box(lambda: os.pread(to, len(data) + 1, 0) == data, label="the same")


@case
def copy_file_range_sees_what_was_just_written(box):
    fd = new(box, b"old old old")
    to = box.open("g", RW | CREAT)
    box(os.pwrite, to, b"0123456789", 0)
    box(os.pread, to, 20, 0)
    box(os.pwrite, fd, b"NEW", 4)
    box(os.copy_file_range, fd, to, 7, offset_src=0, offset_dst=1)
    box(os.pread, to, 20, 0)
    box.stat("g", "size")


@case
def sendfile(box):
    fd = new(box, b"0123456789")
    to = box.open("g", RW | CREAT)
    box(os.sendfile, to, fd, 2, 5)
    box(os.sendfile, to, fd, None, 4)
    box(os.lseek, fd, 0, os.SEEK_CUR)
    box(os.sendfile, to, fd, 8, 100)
    box(os.sendfile, to, fd, 100, 5)
    box(os.sendfile, fd, box.open(".", R), 0, 5)
    box(os.sendfile, box.open("h", W | CREAT | os.O_APPEND), fd, 0, 3)
    box.read("g")


@case
def splice_and_pipes(box):
    fd = new(box, b"0123456789")
    reader, writer = os.pipe()
    box(lambda: os.splice(fd, writer, 6, offset_src=2), label="splice from a file")
    box(lambda: os.splice(reader, fd, 6, offset_dst=8), label="splice to a file")
    box.read("f")


@case
def fsync_of_everything(box):
    fd = new(box, b"abc")
    box(os.fsync, fd)
    box(os.fdatasync, fd)
    box(os.fsync, box.open("f", R))
    box(os.fsync, box.open(".", R))
    os.mkfifo("p")
    box(os.fsync, box.open("p", RW))
    box(os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_DONTNEED)
    box(os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_WILLNEED)
    box(os.pread, fd, 10, 0)


@case(each=[("write", os.O_WRONLY), ("append", os.O_WRONLY | os.O_APPEND)])
def size_limit(box, flags):
    """RLIMIT_FSIZE."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
    fd = box.open("f", flags | CREAT)
    box(os.write, fd, b"01234567")
    box(os.write, fd, b"abcdef")
    box(os.write, fd, b"X")
    box(os.ftruncate, fd, 11)
    box(os.ftruncate, fd, 10)
    box(os.truncate, "f", 12)
    box.read("f")
