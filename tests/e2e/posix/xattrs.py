# SPDX-License-Identifier: Apache-2.0
"""Extended attributes: flags, sizes, names, namespaces and who may."""

import os

from runner import case

R, W, RW = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREATE, REPLACE = os.XATTR_CREATE, os.XATTR_REPLACE
KINDS = {"file": lambda box: box.make("x", b"content"), "directory": lambda box: os.mkdir("x")}


@case(each=list(KINDS.items()))
def basics(box, make):
    make(box)
    box(os.getxattr, "x", "user.a")
    box(os.setxattr, "x", "user.a", b"one")
    box(os.getxattr, "x", "user.a")
    box(os.setxattr, "x", "user.a", b"two, longer")
    box(os.getxattr, "x", "user.a")
    box(os.setxattr, "x", "user.b", b"")
    box(os.getxattr, "x", "user.b")
    box(lambda: sorted(os.listxattr("x")), label="list")
    box(os.removexattr, "x", "user.a")
    box(os.removexattr, "x", "user.a")
    box(lambda: sorted(os.listxattr("x")), label="list")


@case(each=list(KINDS.items()))
def create_and_replace(box, make):
    make(box)
    box(os.setxattr, "x", "user.a", b"1", REPLACE)
    box(os.setxattr, "x", "user.a", b"2", CREATE)
    box(os.setxattr, "x", "user.a", b"3", CREATE)
    box(os.setxattr, "x", "user.a", b"4", REPLACE)
    box(os.setxattr, "x", "user.a", b"5", CREATE | REPLACE)
    box(os.setxattr, "x", "user.a", b"6", 4)
    box(os.getxattr, "x", "user.a")


@case(each=[(str(size), size) for size in (0, 1, 255, 256, 1000, 3000, 4000, 4096, 5000, 65535, 65536, 65537)])
def value_sizes(box, size):
    """Where the file system draws the line is its own business: it is the same one."""
    box.make("f")
    box(os.setxattr, "f", "user.a", b"v" * size)
    box(os.getxattr, "f", "user.a")
    box(os.setxattr, "f", "user.a", b"w" * (size // 2))
    box(os.getxattr, "f", "user.a")


NAMES = {
    "empty": "",
    "no namespace": "name",
    "only namespace": "user.",
    "unknown namespace": "strange.x",
    "long": "user." + "n" * 250,
    "too long": "user." + "n" * 251,
    "much too long": "user." + "n" * 1000,
    "dots": "user.a.b.c",
    "slash": "user.a/b",
    "spaces": "user. a b ",
    "newline": "user.a\nb",
    "bytes": b"user.\xff\xfe",
    "upper case": "USER.a",
    "btrfs": "btrfs.x",
    "os2": "os2.x",
    "osx": "osx.x",
    "system": "system.x",
    "sandbar": "user.sandbar.mine",
}


@case(each=list(NAMES.items()))
def names(box, name):
    box.make("f")
    box(os.setxattr, "f", name, b"x")
    box(os.getxattr, "f", name)
    box(os.removexattr, "f", name)


def get_sized(path, name, size):
    import ctypes

    from calls import LIBC, checked

    buffer = ctypes.create_string_buffer(size + 1)
    return checked(LIBC.getxattr(os.fsencode(path), name, buffer, size)), buffer.raw[:size]


def list_sized(path, size):
    import ctypes

    from calls import LIBC, checked

    buffer = ctypes.create_string_buffer(size + 1)
    return checked(LIBC.listxattr(os.fsencode(path), buffer, size))


@case
def small_buffers(box):
    box.make("f")
    os.setxattr("f", "user.a", b"0123456789")
    for size in (0, 1, 9, 10, 11, 70000):
        box(lambda: get_sized("f", b"user.a", size)[0], label=f"get into {size}")
    os.setxattr("f", "user.b", b"")
    for size in (0, 1, 13, 14, 15, 100, 70000):
        box(list_sized, "f", size)
    for size in (0, 1):
        box(lambda: get_sized("f", b"user.b", size)[0], label=f"get nothing into {size}")


@case
def many_attributes(box):
    box.make("f")
    for i in range(60):
        os.setxattr("f", f"user.attribute{i:03}", b"%d" % i)
    box(lambda: len(os.listxattr("f")), label="count")
    box(os.getxattr, "f", "user.attribute042")
    for i in range(0, 60, 2):
        os.removexattr("f", f"user.attribute{i:03}")
    box(lambda: sorted(os.listxattr("f")), label="list")


@case
def until_it_is_full(box):
    """ENOSPC of one inode: the same attribute is one too many."""
    box.make("f")
    for i in range(40):
        if box(os.setxattr, "f", f"user.a{i}", b"v" * 200, label="set") is None and i > 30:
            break
    box(lambda: len(os.listxattr("f")), label="count")


@case
def by_descriptor_and_link(box):
    box.make("f")
    os.symlink("f", "l")
    fd = box.open("f", R)
    box(os.setxattr, fd, "user.a", b"x")
    box(os.getxattr, fd, "user.a")
    box(os.getxattr, "l", "user.a")
    box(os.getxattr, "l", "user.a", follow_symlinks=False)
    box(os.setxattr, "l", "user.b", b"y", follow_symlinks=False)
    box(os.listxattr, "l", follow_symlinks=False)
    box(os.setxattr, "l", "user.c", b"z")
    box(lambda: sorted(os.listxattr(fd)), label="list")
    box(os.removexattr, "l", "user.c")


@case
def they_belong_to_the_inode(box):
    box.make("f")
    os.setxattr("f", "user.a", b"x")
    os.link("f", "g")
    box(os.rename, "f", "h")
    box(os.getxattr, "g", "user.a")
    box(os.setxattr, "g", "user.a", b"y")
    box(os.getxattr, "h", "user.a")
    box.make("n")
    box(os.rename, "n", "h")
    box(os.listxattr, "h")
    box(os.listxattr, "g")


@case
def they_change_ctime_only(box):
    box.make("f")
    os.utime("f", ns=(10**18, 10**18))
    before = os.stat("f").st_ctime_ns
    i = 0
    while os.stat("f").st_ctime_ns == before:
        os.setxattr("f", "user.a", b"%d" % i)
        i += 1
    box.stat("f", "mtime_ns", "atime_ns")


@case(each=[(f"{mode:o}", mode) for mode in (0o000, 0o200, 0o400, 0o600)])
def own_file_without_permission(box, mode):
    box.make("f")
    os.setxattr("f", "user.a", b"x")
    os.chmod("f", mode)
    box(os.getxattr, "f", "user.a")
    box(os.setxattr, "f", "user.b", b"y")
    box(os.listxattr, "f", show=lambda names: sorted(names))
    box(os.removexattr, "f", "user.a")
    os.chmod("f", 0o644)


@case(root=True, each=[(f"{mode:o}", mode) for mode in (0o600, 0o604, 0o602, 0o606)])
def others_file(box, mode):
    for name in ("f", "d"):
        box.make(name) if name == "f" else os.mkdir(name)
        os.setxattr(name, "user.a", b"x")
        os.chmod(name, mode | (0o111 if name == "d" else 0))

    def act(box):
        for name in ("f", "d"):
            box(os.getxattr, name, "user.a")
            box(os.getxattr, name, "user.none")
            box(os.setxattr, name, "user.b", b"y")
            box(os.listxattr, name, show=lambda names: sorted(names))
            box(os.removexattr, name, "user.a")

    box.actor(1000, 1000, [], act)


@case(root=True)
def sticky_directory_of_another(box):
    os.mkdir("d")
    os.chmod("d", 0o1777)
    box.actor(1000, 1000, [], lambda box: box(os.setxattr, "d", "user.a", b"x"))
    os.chmod("d", 0o777)
    box.actor(1000, 1000, [], lambda box: box(os.setxattr, "d", "user.a", b"x"))


def namespaces(box):
    for name in ("trusted.a", "security.a", "security.selinux", "security.capability", "system.posix_acl_access"):
        box(os.setxattr, "f", name, b"x")
        box(os.getxattr, "f", name)
    box(lambda: sorted(os.listxattr("f")), label="list")
    for name in ("trusted.a", "security.a", "security.selinux"):
        box(os.removexattr, "f", name)


@case
def namespaces_as_one_is(box):
    box.make("f")
    namespaces(box)


@case(root=True)
def namespaces_as_a_user(box):
    box.make("f")
    os.chown("f", 1000, 1000)
    os.setxattr("f", "trusted.roots", b"secret")
    os.setxattr("f", "security.roots", b"visible")

    def act(box):
        namespaces(box)
        box(os.getxattr, "f", "trusted.roots")
        box(os.getxattr, "f", "security.roots")
        box(os.removexattr, "f", "trusted.roots")

    box.actor(1000, 1000, [], act)
    box(os.getxattr, "f", "trusted.roots")


# VFS_CAP_REVISION_2 with CAP_NET_RAW, effective.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")


@case(root=True, each=[("write", lambda: os.write(os.open("f", W), b"X")), ("truncate", lambda: os.truncate("f", 1)),
                       ("chown", lambda: os.chown("f", 1000, 1000)), ("chmod", lambda: os.chmod("f", 0o711)),
                       ("rename", lambda: os.rename("f", "g") or os.rename("g", "f"))])  # fmt: skip
def capabilities_go(box, change):
    box.make("f", b"content", 0o755)
    box(os.setxattr, "f", "security.capability", CAPABILITY)
    box(os.getxattr, "f", "security.capability")
    box(change, label="change")
    box(os.getxattr, "f", "security.capability")


@case
def on_a_removed_file(box):
    box.make("f")
    fd = box.open("f", R)
    os.unlink("f")
    box(os.setxattr, fd, "user.a", b"x")
    box(os.getxattr, fd, "user.a")
    box(os.listxattr, fd)
