# SPDX-License-Identifier: Apache-2.0
"""Every call that takes a path, with every kind of path; and names of strange bytes."""

import os

from calls import renameat2, utimensat
from runner import case

R, W = os.O_RDONLY, os.O_WRONLY


def full_dir(box):
    os.mkdir("dir")
    box.make("dir/in", b"in")


MAKERS = {
    "file": lambda box: box.make("file", b"content"),
    "dir": full_dir,
    "empty": lambda box: os.mkdir("empty"),
    "tofile": lambda box: os.symlink("file", "tofile"),
    "todir": lambda box: os.symlink("dir", "todir"),
    "dangling": lambda box: os.symlink("nowhere", "dangling"),
    "loop": lambda box: os.symlink("loop", "loop"),
    "a": lambda box: (os.symlink("b", "a"), os.symlink("a", "b")),
    "fifo": lambda box: os.mkfifo("fifo"),
}


def setup(box, path, call, have):
    """What the path leads through, and what the call itself is about; not more, since each is a round trip."""
    words = path.split("/")
    needed = {words[0], words[-1] if len(words) > 2 else words[0], *CALL_NEEDS.get(call, ())}
    needed |= {"tofile": {"file"}, "todir": {"dir"}}.get(words[0], set())
    for name, maker in MAKERS.items():
        if name in needed - have:
            maker(box)
    have |= needed


PATHS = {
    "nothing": "",
    "missing": "none",
    "below missing": "none/x",
    "missing slash": "none/",
    "file": "file",
    "file slash": "file/",
    "below file": "file/x",
    "file dot": "file/.",
    "full dir": "dir",
    "full dir slash": "dir/",
    "empty dir": "empty",
    "empty dir slash": "empty/",
    "dot": ".",
    "dot dot": "..",
    "dir dot": "empty/.",
    "dir dot dot": "empty/..",
    "up and down": "empty/../file",
    "link to file": "tofile",
    "link to file slash": "tofile/",
    "link to dir": "todir",
    "link to dir slash": "todir/",
    "below link": "todir/in",
    "new below link": "todir/new",
    "dangling": "dangling",
    "dangling slash": "dangling/",
    "loop": "loop",
    "below loop": "loop/x",
    "loop of two": "a",
    "fifo slash": "fifo/",
    "name of 255": "n" * 255,
    "name of 256": "n" * 256,
    "below name of 256": "n" * 256 + "/x",
    "path of 4095": "./" * 2045 + "empty",
    "path of 4096": "./" * 2045 + "./file",
}


def open_close(path, flags):
    os.close(os.open(path, flags, 0o640))


def mode_of(path):
    return oct(os.stat(path).st_mode)


CALLS = {
    "stat": mode_of,
    "lstat": lambda path: oct(os.lstat(path).st_mode),
    "access": os.access,
    "open": lambda path: open_close(path, R | os.O_NONBLOCK),
    "open write": lambda path: open_close(path, W | os.O_NONBLOCK),
    "open create": lambda path: open_close(path, W | os.O_CREAT | os.O_NONBLOCK),
    "open exclusive": lambda path: open_close(path, W | os.O_CREAT | os.O_EXCL),
    "open truncate": lambda path: open_close(path, W | os.O_TRUNC | os.O_NONBLOCK),
    "open directory": lambda path: open_close(path, R | os.O_DIRECTORY),
    "open nofollow": lambda path: open_close(path, R | os.O_NOFOLLOW | os.O_NONBLOCK),
    "open path": lambda path: open_close(path, os.O_PATH),
    "open path nofollow": lambda path: open_close(path, os.O_PATH | os.O_NOFOLLOW),
    "mkdir": lambda path: os.mkdir(path, 0o750),
    "mkfifo": lambda path: os.mkfifo(path, 0o640),
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "rename from": lambda path: os.rename(path, "renamed"),
    "rename to from file": lambda path: os.rename("file", path),
    "rename to from dir": lambda path: os.rename("dir", path),
    "rename exchange": lambda path: renameat2("dir/in", path, 2),
    "link from": lambda path: os.link(path, "linked", follow_symlinks=False),
    "link to": lambda path: os.link("file", path),
    "symlink": lambda path: os.symlink("target", path),
    "symlink to": lambda path: os.symlink(path, "made"),
    "readlink": os.readlink,
    "chmod": lambda path: os.chmod(path, 0o700),
    "chown": lambda path: os.chown(path, -1, os.getgid()),
    "truncate": lambda path: os.truncate(path, 3),
    "utimes": lambda path: utimensat(path, ((1, 1), (2, 2))),
    "listdir": lambda path: len(os.listdir(path)) if path not in ("..", "empty/..") else "listed",
    "chdir": os.chdir,
    "listxattr": os.listxattr,
    "getxattr": lambda path: os.getxattr(path, "user.none"),
    "setxattr": lambda path: os.setxattr(path, "user.made", b"x"),
}

CALL_NEEDS = {
    "rename to from file": {"file"},
    "rename to from dir": {"dir"},
    "rename exchange": {"dir"},
    "link to": {"file"},
}
# After these the next path still means the same, even when they succeed.
QUIET = {
    "chmod", "chown", "truncate", "utimes", "setxattr", "stat", "lstat", "access", "open", "open write",
    "open directory", "open nofollow", "open path", "open path nofollow", "readlink", "listdir", "chdir", "listxattr",
    "getxattr",
}  # fmt: skip
# These would change the folder of the other cases.
LEFT_OUT = {(call, "..") for call in ("chmod", "chown", "utimes", "setxattr")}
# Forty links, each two round trips: these paths with some calls only.
LOOPS = {"loop/x", "a"}
LOOPING = {"stat", "open create", "mkdir", "unlink", "rename from", "chdir"}
LEFT_OUT |= {(call, path) for call in CALLS if call not in LOOPING for path in LOOPS}


@case(each=[(name, name) for name in CALLS])
def every_path(box, name):
    """A step a path. What a call has changed stays as it is, and the next path gets a fresh folder."""
    here = os.getcwd()
    folders = 0
    have = None
    for what, path in PATHS.items():
        if (name, path) in LEFT_OUT:
            continue
        if have is None:
            have = set()
            folders += 1
            os.mkdir(f"{here}/{folders}")
        os.chdir(f"{here}/{folders}")
        setup(box, path, name, have)
        more = (os.R_OK | os.W_OK,) if name == "access" else ()
        failed = []
        box(lambda *_: noting(failed, CALLS[name], path, *more), path, label=what)
        if not failed and name not in QUIET:
            have = None
    os.chdir(here)


def noting(failed, call, *arguments):
    try:
        return call(*arguments)
    except OSError:
        failed.append(True)
        raise


STRANGE = {
    "invalid utf-8": b"\xff\xfe\x80",
    "half a character": b"caf\xc3",
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "newline": b"a\nb",
    "only newline": b"\n",
    "return": b"a\r",
    "tab and escape": b"\t\x1b[31m",
    "bytes 1 to 31": bytes(range(1, 32)),
    "high bytes": bytes(range(128, 256)),
    "leading dash": b"-rf",
    "two dashes": b"--",
    "space": b" ",
    "trailing space": b"a ",
    "trailing dot": b"a.",
    "three dots": b"...",
    "star and question": b"*?[a]",
    "quotes": b"\"'`$(x)\\",
    "colon": b"a:b",
    "percent": b"%s%n%00",
    "name of 255 bytes": b"\xe2\x82\xac" * 85,
    "name of 255 high bytes": b"\xff" * 255,
    "emoji": "\U0001f600".encode(),
    "composed": "\u00e9".encode(),
    "decomposed": "e\u0301".encode(),
    "hidden of fuse": b".fuse_hidden0000000100000001",
    "like an id": b"#1234",
}


@case(each=[(name, name) for name in STRANGE])
def strange_name(box, what):
    name = STRANGE[what]
    fd = box.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    box(os.write, fd, b"x")
    box.stat(name)
    box(os.listdir, b".")
    box(os.rename, name, b"plain")
    box(os.mkdir, name)
    box(os.rename, b"plain", name + b"/in")
    box(os.rmdir, name)
    box(os.symlink, name, b"l")
    box(os.readlink, b"l")
    box(os.listdir, b"l")
    box(os.link, name + b"/in", b"hard")
    box(os.unlink, name + b"/in")
    box(os.rmdir, name)


@case
def composed_and_decomposed_are_two(box):
    for name in ("\u00e9", "e\u0301", "A", "a"):
        box(os.mkdir, name)
    box(lambda: len(os.listdir(".")), label="entries")


def deep(length):
    """A relative path of that many bytes of folders that are made one below the other."""
    names = []
    while length > 251:
        names.append("d" * 250)
        length -= 251
    return names, "e" * length


@case(each=[(str(length), length) for length in (1000, 4000, 4094, 4095, 4096, 4097)])
def long_path(box, length):
    names, last = deep(length)
    top = os.getcwd()
    for name in names:
        os.mkdir(name)
        os.chdir(name)
    os.mkdir(last)
    os.chdir(top)
    path = "/".join([*names, last])
    box.say("length", len(path))
    box(mode_of, path)
    box(os.rmdir, path)
    box(os.mkdir, path)
    fd = box.open(path, R)
    if fd is not None:
        box(os.mkdir, "below", dir_fd=fd)
        box(os.listdir, fd)
    box(os.rename, path, "/".join([*names, "f"]))
    box(os.symlink, path, "link")
    box(lambda: len(os.readlink("link")), label="target's length")


@case
def deeper_than_any_path(box):
    """Folders beyond PATH_MAX are reached step by step."""
    top = os.open(".", R)
    for i in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    fd = box.open("file", os.O_RDWR | os.O_CREAT)
    box(os.write, fd, b"deep")
    box.read("file")
    box(os.rename, "file", "other")
    box(os.listdir, ".")
    box(os.unlink, "other")
    box(os.fchdir, top, label="back")
    box(os.listdir, ".")


@case
def null_and_bad_descriptors(box):
    box(os.fstat, 999)
    box(os.close, 999)
    box(os.read, 999, 1)
    box(os.write, 999, b"x")
    box(os.ftruncate, 999, 0)
    box(os.fsync, 999)
    box(os.listdir, 999)
    box(os.mkdir, "d", dir_fd=999)
    fd = box.open("f", R | os.O_CREAT)
    box(os.mkdir, "d", dir_fd=fd)
    box(os.stat, "x", dir_fd=fd)
    box(os.fchdir, fd)
    box(os.rename, "f", "g", dst_dir_fd=fd)


@case
def across_file_systems(box):
    box.make("f")
    os.mkdir("d")
    for there in ("/dev/shm/sandbar-posix-none", "/proc/none"):
        box(os.link, "f", there)
    box(os.rename, "f", "/dev/shm/sandbar-posix-none")
    box(os.rename, "d", "/dev/shm/sandbar-posix-none")
    box(renameat2, "f", "/dev/shm", 2)


@case
def removed_working_directory(box):
    os.mkdir("d")
    os.chdir("d")
    box(os.rmdir, "../d")
    box(os.listdir, ".")
    box(os.mkdir, "x")
    box.open("x", R | os.O_CREAT)
    box(os.symlink, "x", "y")
    box(os.stat, "..", show=lambda _: "found")
    box.stat(".")
    box(os.rmdir, ".")
    box(os.getcwd)
    os.chdir("/")


@case
def a_directory_that_was_replaced(box):
    os.mkdir("d")
    box.make("d/old")
    fd = box.open("d", R | os.O_DIRECTORY)
    box(os.rename, "d", "moved")
    os.mkdir("d")
    box.make("d/new")
    box(os.listdir, fd)
    box(os.mkdir, "made", dir_fd=fd)
    box(os.unlink, "old", dir_fd=fd)
    box(os.listdir, "d")
