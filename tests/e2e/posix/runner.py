# SPDX-License-Identifier: Apache-2.0
"""Runs the cases below this folder in one directory and logs one line a case: each call, its result, and what the
case's folder looks like afterwards. Two such logs, of a local directory and of a mount, must be equal.

    runner.py DIRECTORY LOG [--only PATTERN] [--read-only]

A case is a function with one argument, its Box. It runs in a process of its own (so it may change its identity, its
umask, its working directory and its locks), in an empty folder of its own, and must be deterministic: what differs
from run to run by nature (inode numbers, devices, the present time) is logged as a relation, or not at all.
"""

import argparse
import errno
import fnmatch
import hashlib
import importlib
import os
import pathlib
import select
import signal
import stat
import sys
import tempfile
import traceback
import warnings

THEMES = (
    "errors", "opens", "data", "space", "maps", "renames", "lifetimes", "links", "nodes", "access", "owners", "xattrs",
    "acls", "times", "listing", "locks",
)  # fmt: skip
# A case takes milliseconds; one that hangs is killed and fails.
CASE_SECONDS = 30
# Cases run side by side: on a mount they wait most of the time.
WORKERS = 3
CRASH = "CRASH"
# What ends a step in a line.
STEP = " ; "


class Registry:
    def __init__(self):
        self.cases = []

    def case(self, function=None, *, root=False, each=()):
        """Registers a case. `root`: it acts as several users, so only root can run it. `each`: one case for each of
        these (a name and the arguments that follow the box)."""

        def register(function):
            theme = function.__module__
            if not each:
                self.cases.append((f"{theme}.{function.__name__}", root, function, ()))
            for name, *arguments in each:
                self.cases.append((f"{theme}.{function.__name__}[{name}]", root, function, arguments))
            return function

        return register if function is None else register(function)


REGISTRY = Registry()
case = REGISTRY.case


def name_of(value):
    """How a value is logged: short, and without anything that differs between two runs."""
    if isinstance(value, (bytes, bytearray, str)) and len(value) > 48:
        whole = os.fsencode(value) if isinstance(value, str) else bytes(value)
        return f"<{len(whole)} bytes {hashlib.sha1(whole).hexdigest()[:8]}>"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(name_of(part) for part in value) + ")"
    return repr(value)


def errno_name(number):
    return errno.errorcode.get(number, f"errno {number}")


class Box:
    """What a case works with. Its methods log what they do; paths are relative to the case's folder."""

    def __init__(self, say):
        self.say_raw = say
        self.files = {}  # descriptor -> how it is logged

    def say(self, what, value):
        """Logs one fact."""
        self.say_raw(f"{what} = {value if isinstance(value, str) else name_of(value)}")

    def __call__(self, function, *arguments, label=None, show=None, **named):
        """Calls, and logs the call with its result or errno. Returns the result, None after an error. `show` turns
        the result into what is logged."""
        words = [self.files.get(a, name_of(a)) if type(a) is int else name_of(a) for a in arguments]
        words += [f"{key}={name_of(value)}" for key, value in named.items()]
        call = f"{label or function.__name__}({', '.join(words)})"
        try:
            result = function(*arguments, **named)
        except OSError as error:
            self.say_raw(f"{call} = {errno_name(error.errno)}")
            return None
        if show is not None:
            self.say(call, show(result))
        else:
            self.say(call, "ok" if result is None else result)
        return result

    def open(self, path, flags, mode=0o644, **named):
        fd = self(os.open, path, flags, mode, label="open", show=lambda fd: "fd", **named)
        if fd is not None:
            self.files[fd] = f"fd{len(self.files)}"
        return fd

    def close(self, fd):
        self(os.close, fd)
        del self.files[fd]

    def make(self, path, content=b"", mode=0o644):
        """Prepares a file; not logged."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if content:
            os.write(fd, content)
        os.fchmod(fd, mode)
        os.close(fd)
        return path

    def read(self, path):
        """Logs what a file has."""
        return self(content_of, path, label="content")

    def stat(self, path, *fields, follow=False):
        """Logs some fields of a stat; `path` may be a descriptor."""
        names = [f"st_{field}" for field in fields] or ["st_mode", "st_nlink", "st_size", "st_uid", "st_gid"]

        def show(found):
            return " ".join(f"{n[3:]}:{oct(found.st_mode) if n == 'st_mode' else getattr(found, n)}" for n in names)

        if isinstance(path, int):
            return self(os.fstat, path, show=show)
        return self(os.stat, path, label="stat" if follow else "lstat", show=show, follow_symlinks=follow)

    def actor(self, uid, gid, groups, function, *arguments):
        """Runs function(box, ...) in a child as somebody else, and waits for it. Only root can."""

        def act():
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            self.say_raw(f"as {uid}:{gid}{'+' + ','.join(map(str, groups)) if groups else ''}")
            function(self, *arguments)

        self.child(act)
        self.say_raw("as before")

    def child(self, function):
        """Runs a function in a child and waits for its end."""
        pid = self.start(function)
        status = os.waitpid(pid, 0)[1]
        if status != 0:
            self.say("child", f"{CRASH} status {status}")

    def start(self, function):
        """Runs a function in a child; the caller waits for it."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function()
                code = 0
            except BaseException:  # whatever it is, this process ends here
                self.say(CRASH, one_line(traceback.format_exc()))
            finally:
                os._exit(code)
        return pid


def content_of(path):
    fd = path if isinstance(path, int) else os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        content = os.pread(fd, 1 << 16, 0)
        size = len(content) if len(content) < 1 << 16 else os.fstat(fd).st_size
        if size > 1 << 24:
            return f"<{size} bytes>".encode()
        return content if len(content) == size else os.pread(fd, size + 1, 0)
    finally:
        if fd != path:
            os.close(fd)


def one_line(text):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-3:])


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno_name(error.errno)


def describe(path, found, inodes, xattrs):
    """One entry of a folder: type, mode, links, owner, size or content, and which names are the same inode."""
    kind = stat.filemode(found.st_mode)[0]
    words = [f"{kind}{stat.S_IMODE(found.st_mode):04o}", str(found.st_nlink), f"{found.st_uid}:{found.st_gid}"]
    if kind == "-":
        words.append(name_of(attempt(content_of, path) if found.st_size else b""))
        if found.st_nlink > 1:
            words.append(f"inode {inodes.setdefault(found.st_ino, len(inodes))}")
    if kind == "l":
        words.append("-> " + name_of(os.readlink(path)) + f" {found.st_size}")
    if kind in "bc":
        words.append(f"{os.major(found.st_rdev)},{os.minor(found.st_rdev)}")
    if xattrs and kind in "-d":
        names = attempt(os.listxattr, path)
        if names:
            words.append("xattrs " + name_of(sorted(names) if isinstance(names, list) else names))
    return " ".join(words)


def tree(folder, xattrs=False, prefix=b"", inodes=None):
    """What is below a folder, sorted by name. Each look is a round trip on a mount: no more than needed."""
    inodes = {} if inodes is None else inodes
    names = attempt(os.listdir, folder)
    if isinstance(names, str):
        return [f"{name_of(prefix)} {names}"]
    if len(names) > 100:
        return [f"{name_of(prefix)} {len(names)} names {hashlib.sha1(b'/'.join(sorted(names))).hexdigest()[:8]}"]
    lines = []
    for name in sorted(names):
        path = os.path.join(folder, name)
        found = os.lstat(path)
        lines.append(f"{name_of(prefix + name)} {describe(path, found, inodes, xattrs)}")
        if stat.S_ISDIR(found.st_mode) and len(prefix) < 300:
            lines += tree(path, xattrs, prefix + name + b"/", inodes)
    if len(lines) > 60:
        return [f"{len(lines)} entries {hashlib.sha1(STEP.join(lines).encode()).hexdigest()[:8]}"]
    return lines


def run_case(function, arguments, folder, pipe):
    """In the case's own process."""
    os.setpgid(0, 0)
    os.umask(0o022)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    box = Box(lambda text: os.write(pipe, (text.replace("\n", " ") + STEP).encode("utf-8", "backslashreplace")))
    os.chdir(folder)
    function(box, *arguments)


def wait_for_end(pid, pipe):
    """What the case logged, and whether it was still there after its time."""
    said = bytearray()
    waited = select.poll()
    waited.register(pipe, select.POLLIN)
    while waited.poll(CASE_SECONDS * 1000):
        part = os.read(pipe, 65536)
        if not part:
            os.waitpid(pid, 0)
            return said.decode(), False
        said += part
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return said.decode(), True


def log_case(folder, name, function, arguments):
    """Runs one case and returns its line."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            run_case(function, arguments, folder, writer)
        except BaseException:  # whatever it is, this process ends here
            os.write(writer, f"{CRASH} {one_line(traceback.format_exc())}{STEP}".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(0)
    os.close(writer)
    said, hung = wait_for_end(pid, reader)
    os.close(reader)
    if hung:
        return f"{name}: {said}{CRASH} hangs"
    os.chdir(folder)
    left = STEP.join(tree(b".", xattrs=name.startswith(("xattrs.", "acls.", "readonly."))))
    os.chdir("/")
    return f"{name}: {said}left: {left}"


def folder_of(base, name):
    """A fresh folder for a case; what is read-only has one for all."""
    if name.startswith("readonly."):
        return base
    folder = os.path.join(base, name.replace("/", "%"))
    os.mkdir(folder, 0o755)
    return folder


def start_worker(base, cases):
    """A process that runs these cases, and the file that its lines go to."""
    log = tempfile.TemporaryFile("w+", encoding="utf-8")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for name, _, function, more in cases:
                log.write(log_case(folder_of(base, name), name, function, more) + "\n")
                log.flush()  # or each case would inherit what is still to be written
            code = 0
        finally:
            os._exit(code)
    return pid, log


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--read-only", action="store_true", help="only what is refused there, in DIRECTORY itself")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)  # what a case leaves open ends with its process
    for theme in ("readonly",) if arguments.read_only else THEMES:
        importlib.import_module(theme)
    chosen = [case for case in REGISTRY.cases if fnmatch.fnmatch(case[0], arguments.only)]
    chosen = [case for case in chosen if os.geteuid() == 0 or not case[1]]
    parts = [start_worker(str(arguments.directory), chosen[i::WORKERS]) for i in range(WORKERS)]
    lines = {}
    for pid, log in parts:
        if os.waitpid(pid, 0)[1] != 0:
            return 1
        log.seek(0)
        lines |= dict(line.split(": ", 1) for line in log)
    with open(arguments.log, "w", encoding="utf-8") as log:
        log.writelines(f"{case[0]}: {lines[case[0]]}" for case in chosen)
    return 0


if __name__ == "__main__":
    # The cases import this module by its name: they must find this one, not a second copy.
    sys.modules["runner"] = sys.modules["__main__"]
    sys.exit(main())
