# SPDX-License-Identifier: Apache-2.0
"""System calls that Python's os lacks, as functions that raise OSError."""

import ctypes
import os
import struct

LIBC = ctypes.CDLL(None, use_errno=True)

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_FOLLOW = 0x400
AT_SYMLINK_NOFOLLOW = 0x100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE, UNSHARE_RANGE = 1, 2, 8, 16, 32, 64
UTIME_NOW, UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
# The same on every machine.
SYS_OPENAT2 = 437
SYS_FCHMODAT2 = 452


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def path_bytes(path):
    return os.fsencode(path)


def renameat2(old, new, flags):
    checked(LIBC.renameat2(AT_FDCWD, path_bytes(old), AT_FDCWD, path_bytes(new), flags))


def linkat(old_dir, old, new_dir, new, flags):
    checked(LIBC.linkat(old_dir, path_bytes(old), new_dir, path_bytes(new), flags))


def fallocate(fd, mode, offset, length):
    checked(LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def mknodat(path, mode, device=0):
    checked(LIBC.mknodat(AT_FDCWD, path_bytes(path), mode, ctypes.c_uint64(device)))


def packed_times(times):
    return None if times is None else struct.pack("4q", *times[0], *times[1])


def utimensat(path, times, flags=0):
    """`times`: two pairs of seconds and nanoseconds, of access and modification; None: now."""
    checked(LIBC.utimensat(AT_FDCWD, path_bytes(path), packed_times(times), flags))


def futimens(fd, times):
    checked(LIBC.futimens(fd, packed_times(times)))


def statx(path, flags=0, mask=0xFFF):
    """stx_mask, stx_attributes_mask and such are the file system's own: only what cases compare is returned."""
    buffer = ctypes.create_string_buffer(256)
    checked(LIBC.statx(AT_FDCWD, path_bytes(path), flags, mask, buffer))
    fields = struct.unpack_from("=IIQIIIHxxQQQQ", buffer.raw)
    names = ("mask", "blksize", "attributes", "nlink", "uid", "gid", "mode", "ino", "size", "blocks", "attributes_mask")
    return dict(zip(names, fields))


def getdents(fd, size):
    """One getdents64: entries as (name, type, offset), [] at the end."""
    buffer = ctypes.create_string_buffer(size)
    count = checked(LIBC.getdents64(fd, buffer, size))
    entries, at = [], 0
    while at < count:
        _, offset, length, kind = struct.unpack_from("=QqHB", buffer.raw, at)
        name = buffer.raw[at + 19 : at + length].split(b"\0")[0]
        entries.append((name, kind, offset))
        at += length
    return entries


def all_names(fd, size=32768):
    """What getdents64 says from where the descriptor is to the end."""
    names = []
    while True:
        part = getdents(fd, size)
        if not part:
            return names
        names += [name for name, _, _ in part]


def openat2(path, flags, resolve, mode=0):
    how = struct.pack("=QQQ", flags, mode, resolve)
    while True:
        try:
            return checked(LIBC.syscall(SYS_OPENAT2, AT_FDCWD, path_bytes(path), how, len(how)))
        except BlockingIOError:  # EAGAIN: a rename or a mount anywhere crossed a ".."
            continue


def fchmodat2(path, mode, flags):
    checked(LIBC.syscall(SYS_FCHMODAT2, AT_FDCWD, path_bytes(path), mode, flags))


def lchown(path, uid, gid):
    os.chown(path, uid, gid, follow_symlinks=False)


def flock_bytes(kind, whence=0, start=0, length=0, pid=0):
    """A struct flock of x86-64."""
    return struct.pack("hhxxxxqqixxxx", kind, whence, start, length, pid)


def flock_fields(packed):
    """(type, whence, start, length, pid)"""
    return struct.unpack("hhxxxxqqixxxx", packed)
