# SPDX-License-Identifier: Apache-2.0
"""An agent, or a network, that is silent for a while: operations wait and then finish, or end within their limit; nothing
has to be mounted again. What ends a waiting program still does."""

import errno
import fcntl
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from faulty import DEAD_AFTER, Background, FaultCase
from harness import SOAK, is_mounted, main, run, soak, wait_for


def drivers(point):
    return run("pgrep", "-f", f"sandbox-mount .*{point}", check=False).stdout.split()


# A process of its own, because Python lets no other thread run during a page fault: not that of the proxy either.
MAPPER = """
import mmap, os, sys
map = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4000)
assert map[0] == ord("m")  # now the page is there: to miss one without an agent is SIGBUS
print("mapped", flush=True)
sys.stdin.readline()
map[5] = 0x21
try:
    map.flush()
    print(0, flush=True)
except OSError as error:
    print(error.errno, flush=True)
sys.stdin.readline()
"""


class Scene:
    """Files prepared so that each operation kind can be done at once, on things that no cache knows."""

    def __init__(self, root, point):
        self.root, self.point = root, point
        # What changes a directory has one of its own: the kernel lets one at a time into each.
        for name in ("append", "unlink", "rename", "link", "chmod", "utimens", "truncate", "xattr", "listxattr", "create", "mkdir",
                     "rmdir", "sym", "mkfifo", "stat", "open"):
            (root / (name + ".d")).mkdir()
            (root / (name + ".d") / name).write_bytes(name.encode() * 1000)
        for name in ("read", "write", "fsync", "ftruncate", "fallocate", "seek", "copy", "lock", "flock", "fstat", "mmap", "direct",
                     "close"):
            (root / name).write_bytes(name.encode() * 1000)
        os.symlink("read", root / "symlink")
        (root / "full").mkdir()
        for number in range(10):
            (root / "full" / str(number)).touch()
        (root / "rmdir.d/empty").mkdir()
        self.files = {name: os.open(point / name, os.O_RDWR) for name in
                      ("read", "write", "fsync", "ftruncate", "fallocate", "seek", "copy", "lock", "flock", "fstat", "close")}
        self.direct = os.open(point / "direct", os.O_RDWR | os.O_DIRECT)
        self.top = os.open(point, os.O_RDONLY | os.O_DIRECTORY)
        self.full = os.open(point / "full", os.O_RDONLY | os.O_DIRECTORY)
        self.mapper = subprocess.Popen([sys.executable, "-c", MAPPER, str(point / "mmap")], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.mapper.stdout.readline() == "mapped\n"

    def msync(self):
        self.mapper.stdin.write("go\n")
        self.mapper.stdin.flush()
        number = int(self.mapper.stdout.readline())
        if number:
            raise OSError(number, os.strerror(number))

    def append(self):
        with open(self.point / "append.d/append", "ab", buffering=0) as file:
            file.write(b"x")

    def read_direct(self):
        os.preadv(self.direct, [mmap.mmap(-1, 4096)], 0)

    def operations(self):
        """name -> a function that needs the agent."""
        files, point = self.files, self.point
        return {
            "read": lambda: os.pread(files["read"], 4096, 0), "direct": self.read_direct,
            "write": lambda: os.pwrite(files["write"], b"y" * 5000, 100), "append": self.append, "msync": self.msync,
            "fstat": lambda: os.fstat(files["fstat"]), "fsync": lambda: os.fsync(files["fsync"]),
            "ftruncate": lambda: os.ftruncate(files["ftruncate"], 10),
            "fallocate": lambda: os.posix_fallocate(files["fallocate"], 0, 10000),
            "seek": lambda: os.lseek(files["seek"], 0, os.SEEK_HOLE),
            "copy_range": lambda: os.copy_file_range(files["read"], files["copy"], 4096, 4096, 8192),
            "lock": lambda: fcntl.lockf(files["lock"], fcntl.LOCK_EX | fcntl.LOCK_NB),
            "flock": lambda: fcntl.flock(files["flock"], fcntl.LOCK_EX | fcntl.LOCK_NB),
            "lookup": lambda: os.stat(point / "nobody"), "stat": lambda: os.stat(point / "stat.d/stat"),
            "open": lambda: os.close(os.open(point / "open.d/open", os.O_RDONLY)),
            "list": lambda: os.listdir(self.full), "readlink": lambda: os.readlink(point / "symlink"),
            "create": lambda: os.close(os.open(point / "create.d/created", os.O_CREAT | os.O_WRONLY)),
            "mkdir": lambda: os.mkdir(point / "mkdir.d/made"), "rmdir": lambda: os.rmdir(point / "rmdir.d/empty"),
            "unlink": lambda: os.unlink(point / "unlink.d/unlink"),
            "rename": lambda: os.rename(point / "rename.d/rename", point / "rename.d/renamed"),
            "link": lambda: os.link(point / "link.d/link", point / "link.d/linked"),
            "make symlink": lambda: os.symlink("x", point / "sym.d/made"), "mkfifo": lambda: os.mkfifo(point / "mkfifo.d/fifo"),
            "chmod": lambda: os.chmod(point / "chmod.d/chmod", 0o600),
            "utimens": lambda: os.utime(point / "utimens.d/utimens", (1, 1)),
            "truncate": lambda: os.truncate(point / "truncate.d/truncate", 3),
            "setxattr": lambda: os.setxattr(point / "xattr.d/xattr", "user.a", b"b"),
            "listxattr": lambda: os.listxattr(point / "listxattr.d/listxattr"), "statfs": lambda: os.statvfs(point),
        }

    def close(self):
        self.mapper.stdin.close()
        self.mapper.wait()
        self.mapper.stdout.close()
        for file in (*self.files.values(), self.direct, self.top, self.full):
            try:
                os.close(file)
            except OSError:
                pass


def timed(function):
    """(errno or 0, seconds, result)"""
    begin = time.monotonic()
    try:
        result = function()
        return 0, time.monotonic() - begin, result
    except OSError as error:
        return error.errno, time.monotonic() - begin, None


class Silence(FaultCase):
    def scene(self, via, options=""):
        point = self.mount(via, options=options)
        scene = Scene(via.root, point)
        self.addCleanup(scene.close)
        return scene

    def start_all(self, scene):
        return {name: Background(timed, function) for name, function in scene.operations().items()}

    def check_effects(self, root):
        """What the operations have done is there."""
        self.assertEqual((root / "write").read_bytes()[100:5100], b"y" * 5000)
        self.assertEqual((root / "append.d/append").read_bytes(), b"append" * 1000 + b"x")
        self.assertEqual((root / "mmap").read_bytes()[5:6], b"!")
        self.assertEqual((root / "ftruncate").stat().st_size, 10)
        self.assertEqual((root / "truncate.d/truncate").read_bytes(), b"tru")
        self.assertEqual((root / "chmod.d/chmod").stat().st_mode & 0o777, 0o600)
        self.assertEqual(int((root / "utimens.d/utimens").stat().st_mtime), 1)
        self.assertEqual(os.getxattr(root / "xattr.d/xattr", "user.a"), b"b")
        for name in ("create.d/created", "mkdir.d/made", "rename.d/renamed", "link.d/linked", "mkfifo.d/fifo"):
            self.assertTrue((root / name).exists(), name)
        for name in ("rmdir.d/empty", "unlink.d/unlink", "rename.d/rename"):
            self.assertFalse((root / name).exists(), name)

    def finish_all(self, waiting, scene):
        results = {name: work.join() for name, work in waiting.items()}
        wrong = {name: (os.strerror(number), round(took, 1)) for name, (number, took, _) in results.items()
                 if number != (errno.ENOENT if name == "lookup" else 0)}
        self.assertEqual(wrong, {})
        self.check_effects(scene.root)
        return results

    def silent_for(self, seconds):
        via = self.through_proxy()
        scene = self.scene(via)
        command = self.start_exec(via, "sh", "-c", "echo begun; sleep 1; seq 100000; exit 4")
        self.assertEqual(command.stdout.readline(), b"begun\n")
        self.stop_agent(via.agent)
        waiting = self.start_all(scene)
        time.sleep(seconds)  # the subject of the test, not its means
        held = [name for name, work in waiting.items() if work.is_running]
        self.assertGreater(len(held), len(waiting) // 2, "most did not need the agent")
        os.kill(via.agent.process.pid, signal.SIGCONT)
        self.finish_all(waiting, scene)
        out, err = command.communicate(timeout=60)
        self.assertEqual((command.returncode, out), (4, run("seq", 100000, text=False).stdout), err)

    def test_six_seconds(self):
        """Nothing is noticed: the connection stays."""
        self.silent_for(6)
        self.assertEqual(self.proxies[0].connections, 2)

    def test_longer_than_a_dead_connection(self):
        self.silent_for(DEAD_AFTER + 3)

    @unittest.skipUnless(SOAK, "takes its time")
    def test_thirty_seconds(self):
        self.silent_for(30)

    def test_the_network_is_silent(self):
        via = self.through_proxy()
        scene = self.scene(via)
        via.proxy.stall()
        waiting = self.start_all(scene)
        time.sleep(soak(4, 20))  # the subject of the test
        via.proxy.resume()
        self.finish_all(waiting, scene)

    def test_an_address_that_changes(self):
        """The connection breaks, nobody is there for three seconds, then the agent is behind another door."""
        agent = self.lasting_agent(state=False)
        via, other = self.behind(agent), self.behind(agent)
        scene = self.scene(via)
        for _ in range(soak(1, 5)):
            via.proxy.refuse()
            via.proxy.cut_all()
            via.proxy.set_upstream(other.url[len("ws://"):])
            waiting = self.start_all(scene) if not (via.root / "create.d/created").exists() else {}
            work = Background(os.listdir, scene.point)
            time.sleep(3)  # nobody is there: the subject of the test
            via.proxy.accept()
            if waiting:
                self.finish_all(waiting, scene)
            self.assertIn("read", work.join())
        self.assertGreater(other.proxy.connections, 0)


class Limits(Silence):
    test_six_seconds = test_longer_than_a_dead_connection = test_thirty_seconds = None
    test_the_network_is_silent = test_an_address_that_changes = None

    def check_limit(self, scene, limit):
        results = {name: work.join(limit + 30) for name, work in self.start_all(scene).items()}
        late = {name: round(took, 1) for name, (_, took, _) in results.items() if took > limit + 1}
        self.assertEqual(late, {}, "took longer than the limit and a second")
        results["msync"] = [errno.ETIMEDOUT if results["msync"][0] == errno.EIO else results["msync"][0], 0, None]  # the kernel's word
        wrong = {name: os.strerror(number) for name, (number, _, _) in results.items() if number not in (0, errno.ETIMEDOUT)}
        self.assertEqual(wrong, {})
        timed_out = [name for name, (number, _, _) in results.items() if number == errno.ETIMEDOUT]
        self.assertGreater(len(timed_out), len(results) * 2 // 3, "the others needed no agent")

    def works_again(self, scene):
        def works():
            return timed(lambda: os.statvfs(scene.point))[0] == 0

        wait_for("the mount to work", works)
        scene.root.joinpath("fresh").write_text("fresh")
        self.assertEqual((scene.point / "fresh").read_text(), "fresh")
        (scene.point / "again").write_text("again")
        self.assertEqual((scene.root / "again").read_text(), "again")
        self.assertEqual(os.pread(scene.files["close"], 5, 0), b"close", "an open file")

    def test_every_operation_ends_in_time(self):
        """While nothing moves; and after, without a new mount, all works."""
        via = self.through_proxy()
        scene = self.scene(via, options="timeout=3")
        via.proxy.stall()
        self.check_limit(scene, 3)
        via.proxy.resume()
        self.works_again(scene)

    def test_also_while_it_cannot_connect(self):
        via = self.through_proxy()
        scene = self.scene(via, options="timeout=3")
        via.proxy.refuse()
        via.proxy.cut_all()
        self.check_limit(scene, 3)
        via.proxy.accept()
        self.works_again(scene)

    def test_also_while_a_new_connection_is_silent(self):
        via = self.through_proxy()
        scene = self.scene(via, options="timeout=3")
        via.proxy.answer_next(None, times=1000)
        via.proxy.cut_all()
        self.check_limit(scene, 3)
        via.proxy.answer_normally()
        via.proxy.cut_all()
        self.works_again(scene)

    def test_umount_is_quick(self):
        """Under 2 s on a silent link, with and without data that was written before."""
        for how in ("stall", "refuse", "stop"):
            with self.subTest(how=how):
                via = self.behind(self.lasting_agent(name=how, state=False))
                point = self.mount(via, name="mnt-" + how)
                (point / f"f-{how}").write_bytes(b"x" * 100_000)
                if how == "stall":
                    via.proxy.stall()
                elif how == "refuse":
                    via.proxy.refuse()
                    via.proxy.cut_all()
                else:
                    self.stop_agent(via.agent)
                begin = time.monotonic()
                run("umount", point, timeout=30)
                self.assertLess(time.monotonic() - begin, 2)
                self.assertFalse(is_mounted(point))
                wait_for("the driver to end", lambda: not drivers(point), 20)
                via.proxy.resume()

    def test_a_waiting_program_can_be_killed(self):
        """SIGKILL ends it at once, in whatever operation it waits; a lock wait ends by other signals too."""
        via = self.through_proxy()
        scene = self.scene(via)
        ways = {
            "stat": ["stat", scene.point / "stat.d/stat"], "cat": ["cat", scene.point / "read"], "ls": ["ls", scene.point / "full"],
            "mkdir": ["mkdir", scene.point / "mkdir.d/made"], "rm": ["rm", scene.point / "unlink.d/unlink"],
            "mv": ["mv", scene.point / "rename.d/rename", scene.point / "rename.d/renamed"],
            "write": ["sh", "-c", f"echo x >> {scene.point}/append.d/append"],
            "flock": [sys.executable, "-c", f"import fcntl; fcntl.flock(open('{scene.point}/flock'), fcntl.LOCK_EX)"],
        }
        via.proxy.stall()
        processes = {name: subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                     for name, command in ways.items()}
        for process in processes.values():
            self.addCleanup(process.kill)
        for name, process in processes.items():
            wait_for(f"{name} to wait in the mount", lambda pid=process.pid: self.waits_in_fuse(pid))
        for name, process in processes.items():
            with self.subTest(what=name):
                begin = time.monotonic()
                process.kill()
                self.assertEqual(process.wait(timeout=10), -signal.SIGKILL)
                self.assertLess(time.monotonic() - begin, 1)
        via.proxy.resume()
        self.works_again(scene)

    @staticmethod
    def waits_in_fuse(pid):
        """By the kernel's stack, or where that may not be read, by its wait channel."""
        for name in ("stack", "wchan"):
            try:
                text = pathlib.Path(f"/proc/{pid}/{name}").read_text(encoding="ascii")
            except OSError:
                continue
            if "fuse" in text or "request_wait_answer" in text:
                return True
        return False


if __name__ == "__main__":
    main()
