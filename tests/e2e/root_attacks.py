# SPDX-License-Identifier: Apache-2.0
"""Attacks on the agent's root by races: names below it change between a directory or file and a link that leads outside,
as fast as one process can, while clients work below them. Nothing outside is ever read or changed.

The outside is there for the sandbox only (a mount namespace of its own): where a link leads on the client's machine is
not what is tried here.
"""

import collections
import errno
import os
import pathlib
import stat
import subprocess
import sys
import threading
import time

from harness import EXEC, MOUNT, Case, main, run, soak, wait_for

SECONDS = soak(2, 120)
INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
USER = 1000
OUT = "/mnt/sandbar-outside"  # exists in the agent's namespace only
# What a client may be told while a name is now a directory, now a link to nothing that it can see.
ALLOWED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ESTALE}

# Exchanges two names until it is told to stop, and says how often it did.
RACER = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
running = True
def stop(*_):
    global running
    running = False
signal.signal(signal.SIGTERM, stop)
one, other = map(os.fsencode, sys.argv[1:])
print("up", flush=True)
count = 0
while running:
    if libc.renameat2(-100, one, -100, other, 2) != 0:
        sys.exit("renameat2: " + os.strerror(ctypes.get_errno()))
    count += 1
if count % 2:
    libc.renameat2(-100, one, -100, other, 2)
print(count)
"""


class Racer:
    def __init__(self, one, other):
        self.process = subprocess.Popen([sys.executable, "-c", RACER, str(one), str(other)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "up\n":
            raise AssertionError(self.process.stderr.read())

    def stop(self):
        """How often the names were exchanged."""
        self.process.terminate()
        out, said = self.process.communicate(timeout=30)
        if self.process.returncode != 0:
            raise AssertionError(f"the racer failed: {said}")
        return int(out)


class Races(Case):
    def setUp(self):
        super().setUp()
        self.root = self.folder("root")
        self.outside = self.folder("outside")
        (self.outside / "secret").write_text(OUTSIDE)
        (self.outside / "below").mkdir()
        (self.outside / "below/secret").write_text(OUTSIDE)
        self.before = self.look_outside()
        self.done = collections.Counter()
        self.wrong = []

    def look_outside(self):
        seen = {}
        for where, folders, files in os.walk(self.outside):
            for name in [".", *folders, *files]:
                path = os.path.join(where, name)
                info = os.lstat(path)
                content = pathlib.Path(path).read_text() if stat.S_ISREG(info.st_mode) else None
                seen[path] = (info.st_mode, info.st_uid, info.st_nlink, info.st_mtime_ns, info.st_ctime_ns, content)
        return seen

    def outside_agent(self, command=(), **options):
        """An agent that has the outside at a place of its own, too."""
        script = f"mount -t tmpfs none /mnt && mkdir {OUT} && mount --bind {self.outside} {OUT} && exec \"$@\""
        agent = self.agent(self.root, command=("unshare", "--mount", "sh", "-c", script, "sh", *command), **options)
        # A command is not confined: the links do lead somewhere.
        self.assertEqual(self.exec(agent, "cat", f"{OUT}/secret").stdout, OUTSIDE)
        return agent

    def make_directory(self, path):
        path.mkdir()
        (path / "secret").write_text(INSIDE)
        (path / "below").mkdir()
        (path / "below/secret").write_text(INSIDE)

    def attempt(self, what, call, *arguments, **named):
        """A call that may meet either; what it did is counted."""
        try:
            result = call(*arguments, **named)
        except OSError as error:
            self.done[f"{what} {errno.errorcode[error.errno]}"] += 1
            if error.errno not in ALLOWED:
                self.wrong.append(f"{what}: {error}")
            return None
        self.done[what] += 1
        return result

    def read(self, path, dir_fd=None):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
        try:
            content = os.read(fd, 100).decode()
        finally:
            os.close(fd)
        if content != INSIDE:
            self.wrong.append(f"read {content!r} of {path}")
        return True

    def rewrite(self, path, dir_fd=None):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=dir_fd)
        try:
            os.pwrite(fd, INSIDE.encode(), 0)
            os.fchmod(fd, 0o640)
        finally:
            os.close(fd)

    def work_below(self, prefix, number, dir_fd=None):
        """What a client does in a directory; names are relative to it."""
        def name(what):
            return os.path.join(prefix, what)
        mine = name(f"made-{number}")
        self.attempt("read", self.read, name("secret"), dir_fd)
        self.attempt("read below", self.read, name("below/secret"), dir_fd)
        self.attempt("create", self.rewrite, mine, dir_fd)
        self.attempt("chmod", os.chmod, mine, 0o604, dir_fd=dir_fd)
        self.attempt("utime", os.utime, name("secret"), (1, 1), dir_fd=dir_fd)
        self.attempt("link", os.link, mine, mine + "-link", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        self.attempt("rename", os.rename, mine, mine + "-moved", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        self.attempt("mkdir", os.mkdir, mine + "-dir", dir_fd=dir_fd)
        self.attempt("rmdir", os.rmdir, mine + "-dir", dir_fd=dir_fd)
        self.attempt("unlink", os.unlink, mine + "-moved", dir_fd=dir_fd)
        self.attempt("unlink", os.unlink, mine + "-link", dir_fd=dir_fd)

    def race(self, one, other, clients):
        """Runs the clients, each in a thread of its own and again and again, while the names are exchanged."""
        racer = Racer(one, other)
        end = time.monotonic() + SECONDS

        def loop(client, number):
            try:
                while time.monotonic() < end and not self.wrong:
                    client(number)
            except BaseException as error:  # pylint: disable=broad-except
                self.wrong.append(repr(error))

        threads = [threading.Thread(target=loop, args=pair) for pair in zip(clients, range(len(clients)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count = racer.stop()
        self.assertEqual(self.wrong, [], dict(self.done))
        self.assertGreater(count, 100)
        self.assertEqual(self.look_outside(), self.before, "the outside has changed")

    def test_a_directory_that_becomes_a_link(self):
        """By path: the client's kernel takes one step after the other."""
        agent = self.outside_agent()
        mount = self.mount(agent)
        self.make_directory(self.root / "d")
        os.symlink(OUT, self.root / "absolute")
        self.race(self.root / "d", self.root / "absolute", 3 * [lambda i: self.work_below(str(mount / "d"), i)])
        for what in ("read", "read below", "create", "chmod", "rename", "unlink", "read ENOENT"):
            self.assertGreater(self.done[what], 0, f"{what}: {dict(self.done)}")

    def test_a_climbing_link(self):
        """The same with a relative link, which leads out of the root wherever the root lies."""
        agent = self.outside_agent()
        mount = self.mount(agent)
        self.make_directory(self.root / "d")
        os.symlink("../" * 20 + OUT[1:], self.root / "climbing")
        self.race(self.root / "d", self.root / "climbing", 3 * [lambda i: self.work_below(str(mount / "d"), i)])
        self.assertGreater(self.done["read"], 0, dict(self.done))

    def test_an_outside_that_this_machine_has_too(self):
        """A link is followed by this machine's kernel: it is shown to it as leading nowhere outside of the mount."""
        mount = self.mount(self.agent(self.root))
        self.make_directory(self.root / "d")
        for name, target in (("absolute", self.outside), ("climbing", "../outside")):
            os.symlink(target, self.root / name)
            with self.subTest(name):
                self.race(self.root / "d", self.root / name, 3 * [lambda i: self.work_below(str(mount / "d"), i)])
        for what in ("read", "read ENOENT"):
            self.assertGreater(self.done[what], 0, f"{what}: {dict(self.done)}")

    def test_a_link_whose_way_moves(self):
        """`l` -> `d/../x` with `d` now a directory of the same depth, now a link to its own parent or far up."""
        mount = self.mount(self.agent(self.root))
        (self.root / "a/b/d").mkdir(parents=True)
        (self.root / "a/b/secret").write_text(INSIDE)
        os.symlink("../" * 8 + "." + str(self.outside), self.root / "a/b/up")
        os.symlink("d/../secret", self.root / "a/b/l")
        os.symlink("d/../../../../outside/secret", self.root / "a/b/far")
        os.symlink("d/below/../secret", self.root / "a/b/deep")

        def client(_number):
            for name in ("l", "far", "deep"):
                path = mount / "a/b" / name
                self.attempt("readlink", os.readlink, path)
                self.attempt("stat", os.stat, path)
                try:
                    content = path.read_text()
                except OSError as error:
                    self.done[f"{name} {errno.errorcode[error.errno]}"] += 1
                else:
                    self.done[name] += 1
                    if content != INSIDE:
                        self.wrong.append(f"{name}: {content!r}")

        self.race(self.root / "a/b/d", self.root / "a/b/up", 3 * [client])
        self.assertGreater(self.done["l"], 0, dict(self.done))
        self.assertEqual(self.done["far"], 0, dict(self.done))

    def test_open_directories(self):
        """By a descriptor of the directory: only the agent's own steps are left to race with."""
        agent = self.outside_agent()
        mount = self.mount(agent)
        self.make_directory(self.root / "d")
        os.symlink(OUT, self.root / "absolute")

        def client(number):
            fd = self.attempt("opendir", os.open, mount / "d", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if fd is None:
                return
            try:
                names = self.attempt("list", os.listdir, fd)
                if names is not None and "secret" not in names:
                    self.wrong.append(f"listed {names}")
                self.work_below("", number, fd)
            finally:
                os.close(fd)

        self.race(self.root / "d", self.root / "absolute", 3 * [client])
        self.assertGreater(self.done["create"], 0, dict(self.done))

    def test_directories_that_are_found_again(self):
        """An agent that is no root and has few descriptors finds what it has closed by names, from the top."""
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "prlimit", "--nofile=64")
        for i in range(40):
            self.make_directory(self.root / f"d{i}")
        run("chown", "-R", f"{USER}:{USER}", self.root, self.outside)
        self.before = self.look_outside()
        mount = self.mount(self.outside_agent(user, owner=USER))
        os.symlink(OUT, self.root / "absolute")
        # O_PATH: the kernel holds the directories, and nothing is open in the sandbox.
        fds = [os.open(mount / f"d{i}/below", os.O_PATH | os.O_DIRECTORY) for i in range(40)]
        for fd in fds:
            self.addCleanup(os.close, fd)

        def client(number):
            for i, fd in enumerate(fds):
                kind = "other " if i else ""
                self.attempt(kind + "read", self.read, "secret", fd)
                self.attempt(kind + "create", self.rewrite, f"made-{number}", fd)
                self.attempt(kind + "unlink", os.unlink, f"made-{number}", dir_fd=fd)

        self.race(self.root / "d0", self.root / "absolute", 2 * [client])
        for what in ("read", "create", "other read", "other create", "other unlink"):
            self.assertGreater(self.done[what], 0, f"{what}: {dict(self.done)}")

    def test_a_file_that_becomes_a_link(self):
        agent = self.outside_agent()
        mount = self.mount(agent)
        (self.root / "f").write_text(INSIDE)
        os.symlink(f"{OUT}/secret", self.root / "absolute")

        def client(_number):
            self.attempt("read", self.read, mount / "f")
            self.attempt("write", self.rewrite, mount / "f")
            self.attempt("truncate", os.truncate, mount / "f", len(INSIDE))
            self.attempt("chmod", os.chmod, mount / "f", 0o604)
            self.attempt("chown", os.chown, mount / "f", 7, 7)
            self.attempt("utime", os.utime, mount / "f", (1, 1))
            self.attempt("stat", os.stat, mount / "f")

        self.race(self.root / "f", self.root / "absolute", 3 * [client])
        for what in ("read", "write", "truncate", "chmod", "chown", "utime"):
            self.assertGreater(self.done[what], 0, f"{what}: {dict(self.done)}")

    def test_a_file_that_becomes_a_fifo_or_a_device(self):
        """Whoever opens it, the agent does not wait for it: afterwards all its workers still answer."""
        agent = self.agent(self.root)
        mount = self.mount(agent)
        (self.root / "f").write_text(INSIDE)
        os.mkfifo(self.root / "other")

        def client(_number):
            # Of a FIFO the client's own kernel is the one that opens it.
            for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
                try:
                    os.close(os.open(mount / "f", flags | os.O_NONBLOCK, 0o600))
                    self.done["open"] += 1
                except OSError as error:
                    self.done[errno.errorcode[error.errno]] += 1
                    if error.errno not in ALLOWED | {errno.ENXIO}:
                        self.wrong.append(repr(error))

        self.race(self.root / "f", self.root / "other", 3 * [client])
        self.assertGreater(self.done["open"], 0)
        self.all_workers_answer(agent, mount)

    def all_workers_answer(self, agent, mount):
        (self.root / "last").write_text(INSIDE)
        threads = [threading.Thread(target=lambda: self.attempt("last", self.read, mount / "last")) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        self.assertEqual(self.done["last"], 64)
        self.assertEqual(self.exec(agent, "cat", "last", timeout=30).stdout, INSIDE)

    def test_working_directories_and_targets(self):
        """sandbox-exec's directory and the one that is mounted are resolved by the agent, at once."""
        agent = self.outside_agent()
        self.make_directory(self.root / "d")
        os.symlink(OUT, self.root / "absolute")
        point = self.folder("point")
        self.addCleanup(self.unmount, point)
        token = ["--token-file", agent.token_file]

        def command(_number):
            done = run(EXEC, agent.url + ":/d/below", *token, "--", "cat", "secret", check=False)
            self.done["cat" if done.returncode == 0 else "no cat"] += 1
            if done.stdout != (INSIDE if done.returncode == 0 else ""):
                self.wrong.append(done.stdout)

        def mounting(_number):
            done = run(MOUNT, agent.url + ":/d", point, "-o", f"token_file={agent.token_file}", check=False)
            self.done["mount" if done.returncode == 0 else "no mount"] += 1
            if done.returncode == 0:
                self.attempt("read", self.read, point / "secret")
                self.attempt("create", self.rewrite, point / "made")
                # A command that is being started may have our open file for a moment, between its fork and its exec.
                wait_for("umount", lambda: run("umount", point, check=False).returncode == 0)

        self.race(self.root / "d", self.root / "absolute", [command, command, mounting])
        for what in ("cat", "no cat", "mount", "no mount", "read"):
            self.assertGreater(self.done[what], 0, f"{what}: {dict(self.done)}")


if __name__ == "__main__":
    main()
