# SPDX-License-Identifier: Apache-2.0
"""What other users may do: search, read, write, sticky directories, groups. The cases of several users need root."""

import os

from calls import renameat2
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
# Who acts on what belongs to 1000:2000: (uid, gid, supplementary groups).
ACTORS = {
    "owner": (1000, 1000, []),
    "group": (1001, 2000, []),
    "supplementary group": (1001, 1001, [5, 2000, 7]),
    "other": (1001, 1001, [3000]),
    "root": (0, 0, []),
}
FILE_MODES = (0o000, 0o007, 0o070, 0o700, 0o640, 0o222)
DIRECTORY_MODES = (0o007, 0o070, 0o700, 0o333, 0o555, 0o666)


def owned(path, mode, uid=1000, gid=2000):
    os.chown(path, uid, gid, follow_symlinks=False)
    os.chmod(path, mode)


def try_opens(box, path):
    for how in (R, W, RW, R | os.O_TRUNC):
        box.open(path, how)


@case(root=True, each=[(f"{mode:o} as {who}", mode, ACTORS[who]) for mode in FILE_MODES for who in ACTORS])
def file_modes(box, mode, actor):
    box.make("f", b"content")
    owned("f", mode)

    def act(box):
        try_opens(box, "f")
        for what in (os.R_OK, os.W_OK, os.X_OK, os.F_OK):
            box(os.access, "f", what)
        box(os.truncate, "f", 3)
        box(os.listxattr, "f")
        box(os.getxattr, "f", "user.none")
        box(os.setxattr, "f", "user.x", b"y")
        box(os.utime, "f")
        box(os.utime, "f", (1, 2))
        box(os.chmod, "f", 0o640)

    box.actor(*actor, act)


@case(root=True, each=[(f"{mode:o} as {who}", mode, ACTORS[who]) for mode in DIRECTORY_MODES for who in ACTORS])
def directory_modes(box, mode, actor):
    os.mkdir("d")
    box.make("d/f", b"content", 0o666)
    os.mkdir("d/sub")
    owned("d", mode)

    def act(box):
        box(os.listdir, "d")
        box(os.stat, "d/f", show=lambda _: "found")
        box(os.stat, "d/none")
        box.open("d/f", R)
        box(os.mkdir, "d/new")
        box.open("d/made", W | CREAT)
        box(os.symlink, "t", "d/l")
        box(os.rename, "d/f", "d/g")
        box(os.link, "d/g", "d/h")
        box(os.unlink, "d/g")
        box(os.rmdir, "d/sub")
        box(os.chdir, "d")

    box.actor(*actor, act)


@case(root=True, each=[(f"{name} as {who}", name, ACTORS[who]) for name in ("stat", "open", "mkdir", "rename", "link")
                       for who in ("owner", "supplementary group", "other")])  # fmt: skip
def closed_directory_above(box, name, actor):
    os.makedirs("a/b")
    box.make("a/b/f", b"x", 0o666)
    os.chmod(".", 0o777)
    os.chmod("a/b", 0o777)
    owned("a", 0o710)
    calls = {
        "stat": lambda: os.stat("a/b/f").st_size,
        "open": lambda: os.open("a/b/f", R) and "opened",
        "mkdir": lambda: os.mkdir("a/b/new"),
        "rename": lambda: os.rename("a/b/f", "f"),
        "link": lambda: os.link("a/b/f", "f"),
    }
    box.actor(*actor, lambda box: box(calls[name], label=name))


STICKY = {"sticky": 0o1777, "plain": 0o777}


@case(root=True, each=[(f"{kind}, {who}", mode, ACTORS[who]) for kind, mode in STICKY.items()
                       for who in ("owner", "group", "other")])  # fmt: skip
def sticky_directory(box, mode, actor):
    """Files of 1000, 1001 and 0 in a directory of 1000."""
    os.mkdir("d")
    os.mkdir("other")
    owned("d", mode)
    os.chmod("other", 0o777)
    for uid in (0, 1000, 1001):
        for kind in "frxe":
            owned(box.make(f"d/{kind}{uid}", b"x", 0o666), 0o666, uid, uid)
        os.mkdir(f"d/d{uid}")
        owned(f"d/d{uid}", 0o777, uid, uid)

    def act(box):
        for uid in (0, 1000, 1001):
            box(os.unlink, f"d/f{uid}")
            box(os.rmdir, f"d/d{uid}")
            box(os.rename, f"d/r{uid}", f"other/r{uid}")
            box.open("other/mine", W | CREAT)
            box(os.rename, "other/mine", f"d/x{uid}")
            box.open("other/swap", W | CREAT)
            box(renameat2, "other/swap", f"d/e{uid}", 2)

    box.actor(*actor, act)


@case(root=True)
def sticky_directory_and_renaming_of_others_directories(box):
    os.mkdir("d")
    os.chmod("d", 0o1777)
    os.mkdir("d/theirs")
    owned("d/theirs", 0o777, 1001, 1001)
    os.chmod(".", 0o777)

    def act(box):
        box(os.rename, "d/theirs", "d/mine")
        box(os.rename, "d/theirs", "moved")

    box.actor(1000, 1000, [], act)
    box.actor(1001, 1001, [], act)


@case(root=True)
def moving_a_directory_needs_write_on_it(box):
    """Its .. changes."""
    os.chmod(".", 0o777)
    os.mkdir("a")
    os.mkdir("b")
    os.chmod("a", 0o777)
    os.chmod("b", 0o777)
    for name, mode, uid in (("a/own", 0o755, 1000), ("a/theirs", 0o755, 1001), ("a/open", 0o777, 1001)):
        os.mkdir(name)
        owned(name, mode, uid, uid)

    def act(box):
        for name in ("own", "theirs", "open"):
            box(os.rename, f"a/{name}", f"a/{name}2")
            box(os.rename, f"a/{name}2", f"b/{name}")

    box.actor(1000, 1000, [], act)


@case(root=True)
def hard_links_to_others_files(box):
    """As fs.protected_hardlinks wants it; whatever it is, it is the same for both directories."""
    os.chmod(".", 0o777)
    for name, mode in (("secret", 0o600), ("readable", 0o644), ("writable", 0o666), ("setuid", 0o4666)):
        owned(box.make(name, b"x"), mode, 1001, 1001)

    def act(box):
        for name in ("secret", "readable", "writable", "setuid"):
            box(os.link, name, name + "2")

    box.actor(1000, 1000, [], act)


@case(root=True)
def symlinks_and_files_of_others_in_sticky_directories(box):
    """fs.protected_symlinks, _regular and _fifos."""
    os.mkdir("d")
    os.chmod("d", 0o1777)
    box.make("target", b"x", 0o666)
    os.symlink("../target", "d/l")
    os.chown("d/l", 1001, 1001, follow_symlinks=False)
    owned(box.make("d/f", b"x"), 0o666, 1001, 1001)
    os.mkfifo("d/p")
    owned("d/p", 0o666, 1001, 1001)

    def act(box):
        box.open("d/l", R)
        box.open("d/l", W | CREAT)
        box.open("d/f", W)
        box.open("d/f", W | CREAT)
        box.open("d/p", RW | CREAT | os.O_NONBLOCK)

    box.actor(1000, 1000, [], act)


@case(root=True)
def made_files_belong_to_their_maker(box):
    os.chmod(".", 0o777)

    def act(box):
        box.open("f", W | CREAT, 0o600)
        box(os.mkdir, "d")
        box(os.symlink, "t", "l")
        box(os.mkfifo, "p")
        for name in "fdlp":
            box.stat(name)

    box.actor(1000, 1000, [], act)
    for name in "fdlp":
        os.rename(name, name + "1")
    box.actor(1001, 2000, [3000], act)


@case(root=True)
def real_and_effective_user(box):
    """access(2) asks for the real one; everything else for the effective one."""
    owned(box.make("f", b"x"), 0o600, 1000, 1000)
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(1001, 1000, 1000)
        os.setresuid(1001, 1000, 1000)
        box(os.access, "f", os.R_OK)
        box(os.access, "f", os.R_OK, effective_ids=True)
        box.open("f", RW)
        os._exit(0)
    os.waitpid(pid, 0)


@case(root=True)
def open_files_keep_their_rights(box):
    """The right to write belongs to the descriptor, not to who holds it now."""
    box.make("f", b"content", 0o600)
    fd = box.open("f", RW)

    def act(box):
        box(os.pread, fd, 20, 0)
        box(os.pwrite, fd, b"CON", 0)
        box(os.ftruncate, fd, 5)
        box(os.fchmod, fd, 0o666)
        box(os.fsync, fd)
        box.open("f", R)
        box(os.open, f"/proc/self/fd/{fd}", R, label="open again", show=lambda _: "fd")

    box.actor(1000, 1000, [], act)


@case(root=True)
def open_directory_keeps_its_rights(box):
    os.mkdir("d")
    box.make("d/f")
    fd = box.open("d", R)
    os.chmod("d", 0o700)

    def act(box):
        box(os.listdir, fd)
        box(os.stat, "f", dir_fd=fd)
        box(os.mkdir, "x", dir_fd=fd)
        box(os.fchdir, fd)

    box.actor(1000, 1000, [], act)


@case(root=True)
def rights_that_change_while_a_process_lives(box):
    os.mkdir("d")
    box.make("d/f", b"x", 0o644)
    reader, writer = os.pipe()

    def act(box):
        box.open("d/f", R)
        os.write(writer, b"x")
        os.read(go_reader, 1)
        box.open("d/f", R)
        box(os.listdir, "d")

    go_reader, go_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        act(box)
        os._exit(0)
    os.read(reader, 1)
    os.chmod("d", 0o700)
    os.write(go_writer, b"x")
    os.waitpid(pid, 0)


@case(root=True)
def many_groups(box):
    owned(box.make("f", b"x"), 0o060, 0, 5000)
    for groups in ([5000], list(range(4900, 5000)), list(range(4990, 5010)), list(range(4000, 5001))):
        box.actor(1000, 1000, groups, lambda box: try_opens(box, "f"))


def runs(uid=None):
    """How ./run ends when a child starts it; 100 and the errno when it does not start."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", W), 2)
        if uid is not None:
            os.setresuid(uid, uid, uid)
        try:
            os.execv("./run", ["run"])
        except OSError as error:
            os._exit(100 + error.errno)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@case(root=True)
def execution(box):
    box.make("run", b"#!/bin/sh\nexit 7\n")
    for mode in (0o755, 0o644, 0o711, 0o700, 0o100):
        os.chmod("run", mode)
        for uid in (0, 1000):
            box.say(f"{mode:o} by {uid}", runs(uid))


@case
def own_files(box):
    """What a user who is not root meets with their own files (and root does not)."""
    box.make("f", b"content")
    for mode in (0o000, 0o200, 0o400, 0o600):
        os.chmod("f", mode)
        try_opens(box, "f")
        box(os.access, "f", os.R_OK | os.W_OK)
    os.mkdir("d")
    box.make("d/f")
    for mode in (0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600, 0o700):
        os.chmod("d", mode)
        box(os.listdir, "d")
        box(os.stat, "d/f", show=lambda _: "found")
        box.open("d/f", R)
        box(os.mkdir, f"d/{mode:o}")
        box(os.stat, "d/none")
        box(os.rename, "d/f", "d/f")
        box(os.unlink, "d/none")
    os.chmod("d", 0o755)


@case
def execution_of_own_files(box):
    box.make("run", b"#!/bin/sh\nexit 7\n")
    for mode in (0o644, 0o500, 0o400, 0o755):
        os.chmod("run", mode)
        box.say(f"{mode:o}", runs())
    box.open("run", W)
    box.say("while written", runs())
