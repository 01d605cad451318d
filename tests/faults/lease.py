# SPDX-License-Identifier: Apache-2.0
"""Sessions that end: a client that is away for longer than the agent keeps its session goes on with what can be known, and
a client that died leaves nothing behind."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

from agent_stops import drivers
from faulty import Background, FaultCase, pattern
from harness import EXEC, main, run, soak, wait_for

LEASE = 2  # seconds
AWAY = LEASE + 3


class Lease(FaultCase):
    def setUp(self):
        super().setUp()
        self.box = self.lasting_agent("--session-lease", str(LEASE))
        self.via = self.behind(self.box)
        self.root = self.box.root

    def away(self, seconds=AWAY):
        """The connection breaks, and nobody is reached for so long."""
        self.via.proxy.refuse(seconds)
        self.via.proxy.cut_all()

    @staticmethod
    def is_free(path):
        with open(path, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

    def test_a_mount_goes_on(self):
        """Files that were open, listings, operations that waited; a file that was removed is still the open one."""
        (self.root / "f").write_bytes(pattern(300_000, 1))
        (self.root / "dir").mkdir()
        for number in range(500):
            (self.root / f"dir/{number}").touch()
        point = self.mount(self.via)
        file = os.open(point / "f", os.O_RDWR)
        self.addCleanup(os.close, file)
        for round_ in range(soak(1, 10)):
            listing = os.scandir(point / "dir")
            first = next(listing).name
            self.away()
            waiting = [Background(os.listdir, point / "dir"), Background(os.pwrite, file, b"new", round_ * 10),
                       Background(os.mkdir, point / f"made{round_}"), Background(os.stat, point / "f"),
                       Background((point / f"w{round_}").write_bytes, pattern(2_000_000, round_))]
            results = [work.join() for work in waiting]
            self.assertEqual(len(results[0]), 500)
            self.assertEqual(os.pread(file, 3, round_ * 10), b"new")
            self.assertTrue((self.root / f"made{round_}").is_dir())
            self.assertEqual((self.root / f"w{round_}").read_bytes(), pattern(2_000_000, round_))
            self.assertEqual(sorted([first, *(entry.name for entry in listing)]), sorted(map(str, range(500))))

    def test_appends_are_done_once(self):
        """Selective resend: by their numbers, though the session is gone."""
        point = self.mount(self.via)
        (point / "log").write_text("")
        file = os.open(point / "log", os.O_WRONLY | os.O_APPEND)
        self.addCleanup(os.close, file)
        count, stop = 0, threading.Event()

        def append():
            nonlocal count
            while not stop.is_set():
                os.write(file, f"{count}\n".encode())
                count += 1

        def wait_for_more():
            goal = count + 20
            wait_for("appends to go on", lambda: count >= goal or not work.is_running, 60)

        work = Background(append)
        for _ in range(soak(2, 20)):
            wait_for_more()
            # What the agent did, and the client never heard of: its answers do not come through.
            self.via.proxy.stall(directions=("down",))
            wait_for("one that is done and not answered", lambda: self.is_ahead(count))
            self.away()
            self.via.proxy.resume()
            wait_for_more()
        stop.set()
        work.join()
        self.assertEqual((self.root / "log").read_text(), "".join(f"{number}\n" for number in range(count)))

    def is_ahead(self, count):
        """Whether the sandbox has more lines than the client knows of."""
        return len((self.root / "log").read_text().splitlines()) > count

    def test_locks_are_lost_and_said_to_be(self):
        point = self.mount(self.via)
        (self.root / "f").write_text("content")
        held = os.open(point / "f", os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.assertFalse(self.is_free(self.root / "f"))
        self.away()
        wait_for("the lease to end", lambda: self.is_free(self.root / "f"), AWAY + 5)
        for what in (lambda: os.pwrite(held, b"x", 0), lambda: os.fsync(held)):
            with self.assertRaises(OSError) as caught:
                what()
            self.assertEqual(caught.exception.errno, errno.EIO)
        os.close(held)
        again = os.open(point / "f", os.O_RDWR)
        self.addCleanup(os.close, again)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.assertEqual(os.pread(again, 7, 0), b"content")
        self.assertFalse(self.is_free(self.root / "f"))

    def test_locks_are_kept_within_the_lease(self):
        point = self.mount(self.via)
        (self.root / "f").write_text("content")
        held = os.open(point / "f", os.O_RDWR)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(soak(10, 100)):
            self.via.proxy.cut_all()
            self.assertFalse(self.is_free(self.root / "f"))
            self.assertEqual(os.pwrite(held, b"C", 0), 1)
            self.assertFalse(self.is_free(self.root / "f"))

    def test_exec_says_that_it_does_not_know(self):
        command = self.start_exec(self.via, "sh", "-c", "echo $$; sleep 1000")
        pid = int(command.stdout.readline())
        self.away()
        wait_for("the command to be ended", lambda: not os.path.exists(f"/proc/{pid}"), 30)
        _, err = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 125, err)
        self.assertRegex(err, rb"(?m)^sandbox-exec: .+")
        wait_for("the way to be free", lambda: self.via.proxy.listener is not None)
        self.assertEqual(self.exec(self.via, "echo", "again").stdout, "again\n")

    def test_exec_goes_on_within_the_lease(self):
        command = self.start_exec(self.via, "sh", "-c", "echo begun; sleep 1; seq 1000; exit 3")
        self.assertEqual(command.stdout.readline(), b"begun\n")
        self.away(1)
        out, err = command.communicate(timeout=60)
        self.assertEqual((command.returncode, out), (3, "".join(f"{i}\n" for i in range(1, 1001)).encode()), err)

    def test_a_killed_exec_leaves_no_process(self):
        """SIGHUP, but not before the lease is over; and what does not obey, SIGKILL."""
        # Its streams are gone by then: what sh says about its killed child would be its end.
        trap = self.root / "hup"
        command = self.start_exec(self.via, "sh", "-c", f"exec 2>/dev/null; trap 'echo hup > {trap}; exit' HUP; echo $$; while :; do sleep 0.05; done")
        pid = int(command.stdout.readline())
        killed = time.monotonic()
        command.kill()
        wait_for("the command to end", lambda: not os.path.exists(f"/proc/{pid}"), LEASE + 15)
        self.assertGreater(time.monotonic() - killed, LEASE * 0.8)
        self.assertEqual(trap.read_text(), "hup\n")

    def test_a_killed_mount_leaves_no_lock(self):
        point = self.mount(self.via)
        (self.root / "f").write_text("content")
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX);"
                                   "print('locked', flush=True); sys.stdin.read()", point / "f"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdin.close)
        self.addCleanup(holder.stdout.close)
        self.assertEqual(holder.stdout.readline(), "locked\n")
        self.assertFalse(self.is_free(self.root / "f"))
        for pid in drivers(point):
            os.kill(int(pid), signal.SIGKILL)
        killed = time.monotonic()
        wait_for("the lock to be free", lambda: self.is_free(self.root / "f"), LEASE + 10)
        self.assertLess(time.monotonic() - killed, LEASE + 5)

    def test_a_goodbye_needs_no_lease(self):
        """An exec and an umount that end as they should free all at once."""
        point = self.mount(self.via)
        (self.root / "f").write_text("content")
        held = os.open(point / "f", os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        os.close(held)
        self.unmount(point)
        wait_for("the lock to be free", lambda: self.is_free(self.root / "f"), 1)
        command = self.start_exec(self.via, "sh", "-c", "echo $$; sleep 1000")
        pid = int(command.stdout.readline())
        command.send_signal(signal.SIGTERM)
        command.wait(timeout=10)
        wait_for("the command to end", lambda: not os.path.exists(f"/proc/{pid}"), 5)

    def test_many_that_died(self):
        """Detached sessions take bounded memory, and end: nothing of them is left after the lease."""
        before = self.memory()
        for _ in range(soak(40, 300)):
            process = subprocess.Popen([EXEC, self.box.url, "--token-file", str(self.box.token_file), "--", "sh", "-c", "echo; exec cat /dev/zero"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            process.stdout.read(1000)
            process.kill()
            process.wait()
            process.stdout.close()
        wait_for("the commands to end", lambda: not self.children(), LEASE + 25)
        self.assertLess(self.memory() - before, 64 << 20)
        self.assertEqual(self.exec(self.box, "echo", "well").stdout, "well\n")
        descriptors = len(os.listdir(f"/proc/{self.box.process.pid}/fd"))
        self.assertLess(descriptors, 60)

    def memory(self):
        with open(f"/proc/{self.box.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

    def children(self):
        return run("ps", "-o", "pid=", "--ppid", self.box.process.pid, check=False).stdout.split()


if __name__ == "__main__":
    main()
