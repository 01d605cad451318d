# SPDX-License-Identifier: Apache-2.0
"""POSIX ACLs, by setfacl and getfacl, and what they let users do."""

import os
import subprocess

from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def setfacl(*words):
    code, said = run("setfacl", *words)
    return code, said.strip()


def getfacl(path):
    return ",".join(run("getfacl", "-pcEn", path)[1].split())


def show(box, path):
    box(getfacl, path)
    box.stat(path, "mode")


@case
def setting_and_reading(box):
    box.make("f", b"x", 0o640)
    show(box, "f")
    box(setfacl, "-m", "u:1001:rw,g:2000:r", "f")
    show(box, "f")
    box(setfacl, "-m", "m::r", "f")
    show(box, "f")
    box(setfacl, "-x", "u:1001", "f")
    show(box, "f")
    box(setfacl, "-b", "f")
    show(box, "f")
    box(setfacl, "-m", "u::rwx,g::-,o::x", "f")
    show(box, "f")


@case
def chmod_and_the_mask(box):
    box.make("f", b"x", 0o640)
    setfacl("-m", "u:1001:rw", "f")
    box(os.chmod, "f", 0o604)
    show(box, "f")
    box(os.chmod, "f", 0o777)
    show(box, "f")


@case
def defaults_are_handed_down(box):
    os.mkdir("d", 0o750)
    box(setfacl, "-d", "-m", "u::rwx,u:1001:rwx,g::rx,o::-", "d")
    show(box, "d")
    for mask in (0, 0o077):
        os.umask(mask)
        box.open(f"d/f{mask:o}", W | CREAT, 0o666)
        box.open(f"d/s{mask:o}", W | CREAT, 0o600)
        box(os.mkdir, f"d/sub{mask:o}", 0o777)
        box(os.mkfifo, f"d/p{mask:o}", 0o666)
        box(os.symlink, "t", f"d/l{mask:o}")
        for kind in ("f", "s", "sub", "p"):
            show(box, f"d/{kind}{mask:o}")
    os.umask(0o022)
    box(os.mkdir, "d/sub0/below")
    show(box, "d/sub0/below")
    box(setfacl, "-k", "d")
    box(os.mkdir, "d/after")
    show(box, "d/after")


@case
def defaults_of_few_entries(box):
    os.mkdir("d")
    setfacl("-d", "-m", "u::rw,g::r,o::r", "d")
    os.umask(0o077)
    box.open("d/f", W | CREAT, 0o666)
    box(os.mkdir, "d/e", 0o777)
    show(box, "d/f")
    show(box, "d/e")


@case
def refusals(box):
    box.make("f")
    os.symlink("f", "l")
    os.mkfifo("p")
    box(setfacl, "-d", "-m", "u:1001:r", "f")
    box(setfacl, "-m", "u:1001:r", "l")
    box(setfacl, "-m", "u:1001:r", "p")
    box(setfacl, "-m", "u:1001:r", "none")
    show(box, "p")
    for value in (b"", b"\2\0\0\0", b"\1\0\0\0", b"junk and more junk", b"\2\0\0\0" + b"\1\0\7\0\xff\xff\xff\xff"):
        box(os.setxattr, "f", "system.posix_acl_access", value)
        box(os.setxattr, ".", "system.posix_acl_default", value)
    box(os.setxattr, "f", "system.posix_acl_default", b"\2\0\0\0")
    box(os.getxattr, "f", "system.posix_acl_access")
    box(os.getxattr, "f", "system.posix_acl_default")
    box(os.getxattr, ".", "system.posix_acl_default")
    box(os.removexattr, "f", "system.posix_acl_access")
    box(os.listxattr, "f")


@case
def listed_and_copied(box):
    box.make("f", b"x", 0o640)
    setfacl("-m", "u:1001:rw", "f")
    box(os.listxattr, "f")
    box(os.getxattr, "f", "system.posix_acl_access")
    box.make("g")
    box(lambda: os.setxattr("g", "system.posix_acl_access", os.getxattr("f", "system.posix_acl_access")), label="copy")
    show(box, "g")
    box(os.rename, "g", "h")
    show(box, "h")
    box(os.removexattr, "h", "system.posix_acl_access")
    show(box, "h")


ACTORS = {"named": (1001, 1001, []), "in a named group": (1002, 1002, [3000]), "in the group": (1002, 2000, []),
          "other": (1003, 1003, []), "owner": (1000, 1000, [])}  # fmt: skip
LISTS = {
    "named user reads": (0o600, "u:1001:r"),
    "named user writes": (0o600, "u:1001:rw"),
    "named user is kept out": (0o666, "u:1001:-"),
    "named group": (0o600, "g:3000:rw"),
    "group is kept out": (0o666, "g:3000:-,g::-"),
    "mask": (0o600, "u:1001:rw,g:3000:rw,m::r"),
    "no mask's bits": (0o600, "u:1001:rw,m::-"),
}


@case(root=True, each=[(f"{what}, {who}", *LISTS[what], ACTORS[who]) for what in LISTS for who in ACTORS])
def rights(box, mode, entries, actor):
    box.make("f", b"content")
    os.chown("f", 1000, 2000)
    os.chmod("f", mode)
    setfacl("-m", entries, "f")
    box.stat("f")

    def act(box):
        for how in (R, W, RW):
            box.open("f", how)
        box(os.access, "f", os.R_OK)
        box(os.access, "f", os.W_OK)
        box(os.truncate, "f", 3)

    box.actor(*actor, act)


@case(root=True, each=list(ACTORS.items()))
def rights_in_directories(box, actor):
    os.mkdir("d", 0o700)
    box.make("d/f", b"x")
    os.chown("d", 1000, 2000)
    setfacl("-m", "u:1001:rwx,g:3000:x", "d")

    def act(box):
        box(os.listdir, "d")
        box.open("d/f", R)
        box(os.mkdir, "d/new")
        box(os.rename, "d/f", "d/g")
        box(os.chdir, "d")

    box.actor(*actor, act)


@case(root=True)
def only_owners_set_them(box):
    os.chmod(".", 0o777)
    box.make("f")
    os.chown("f", 1000, 1000)

    def act(box):
        box(setfacl, "-m", "u:1003:rw", "f")
        show(box, "f")

    box.actor(1001, 1001, [], act)
    box.actor(1000, 1000, [], act)


@case(root=True)
def setgid_and_access_lists(box):
    """Setting one as somebody outside the group clears setgid, as chmod does."""
    box.make("f", b"x")
    os.chown("f", 1000, 2000)
    os.chmod("f", 0o2755)
    box.actor(1000, 1000, [], lambda box: box(setfacl, "-m", "u:1003:rw", "f"))
    show(box, "f")


@case(root=True)
def inherited_rights_count(box):
    os.mkdir("d")
    os.chmod("d", 0o777)
    setfacl("-d", "-m", "u:1001:rw,o::-,g::-", "d")
    box.open("d/f", W | CREAT, 0o666)

    def act(box):
        box.open("d/f", RW)

    box.actor(1001, 1001, [], act)
    box.actor(1003, 1003, [], act)
    setfacl("-x", "u:1001", "d/f")
    box.actor(1001, 1001, [], act)
