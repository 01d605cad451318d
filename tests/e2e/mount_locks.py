# SPDX-License-Identifier: Apache-2.0
"""Locks: between processes of one mount, between two mounts, and against the sandbox's own processes; as fcntl(2) and
flock(2) have them on a local disk."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys

from harness import DEADLINE, Case, main, run, soak, wait_for

# bits/fcntl-linux.h; Python does not name the first three everywhere.
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
READ, WRITE, UNLOCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK

# A process that opens, locks and closes as it is told, one line of JSON a command, and answers each with one.
PROGRAM = r"""
import ctypes, fcntl, json, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
files = {}
signal.signal(signal.SIGUSR1, lambda *_: None)  # without SA_RESTART
def checked(result):
    # Python's own calls would begin again after a signal, and could not tell a late one from EINTR.
    if result != 0:
        raise OSError(ctypes.get_errno(), "")
def lock(name, command, kind, start=0, length=0):
    data = ctypes.create_string_buffer(struct.pack("hhqqi4x", kind, 0, start, length, 0))
    checked(libc.fcntl(files[name], command, data))
    return struct.unpack("hhqqi4x", data.raw[:32])
def do(what, *rest):
    if what == "open":
        files[rest[0]] = os.open(rest[1], rest[2])
    elif what == "dup":
        files[rest[1]] = os.dup(files[rest[0]])
    elif what == "close":
        os.close(files.pop(rest[0]))
    elif what == "lock":
        return lock(*rest)
    elif what == "flock":
        checked(libc.flock(files[rest[0]], rest[1]))
for line in sys.stdin:
    try:
        answer = [0, do(*json.loads(line))]
    except OSError as error:
        answer = [error.errno, None]
    print(json.dumps(answer), flush=True)
"""


class Program:
    """A process under test. Its commands answer with 0 or an errno."""

    def __init__(self, path, flags=os.O_RDWR, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        self.pid = self.process.pid
        self.open("f", path, flags)

    def tell(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, *command):
        self.tell(*command)
        return self.answer()

    def open(self, name, path, flags=os.O_RDWR):
        number, _ = self.ask("open", name, str(path), flags)
        assert number == 0, (number, path)

    def lock(self, kind, start=0, length=0, command=fcntl.F_SETLK, name="f"):
        return self.ask("lock", name, command, kind, start, length)[0]

    def wait_lock(self, kind, start=0, length=0, command=fcntl.F_SETLKW, name="f"):
        """Begins; the answer is to be waited for."""
        self.tell("lock", name, command, kind, start, length)

    def test(self, kind=WRITE, start=0, length=0, command=fcntl.F_GETLK, name="f"):
        """None, or what is in the way: type, start, length, pid."""
        number, found = self.ask("lock", name, command, kind, start, length)
        assert number == 0, number
        return None if found[0] == UNLOCK else (found[0], *found[2:])

    def flock(self, operation, name="f"):
        return self.ask("flock", name, operation)[0]

    def is_blocked(self):
        """Whether it sleeps in the kernel's fcntl or flock (numbers 72 and 73)."""
        with open(f"/proc/{self.pid}/syscall", encoding="ascii") as file:
            return file.read().split()[0] in ("72", "73")

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=DEADLINE)
        self.process.stdout.close()
        return code

    def kill(self, how=signal.SIGKILL):
        self.process.kill() if how == signal.SIGKILL else self.process.send_signal(how)
        self.process.wait(timeout=DEADLINE)


class Locks(Case):
    def setUp(self):
        super().setUp()
        self.served = self.agent(extra=["--session-lease", "2s"])
        self.root = self.served.root
        (self.root / "f").write_text("0123456789")
        self.point = self.mount(self.served)

    def program(self, where=None, flags=os.O_RDWR, **options):
        program = Program((where or self.point) / "f", flags, **options)

        def down():
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
            for pipe in (program.process.stdin, program.process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()

        self.addCleanup(down)
        return program

    def pairs(self):
        """Two programs that exclude each other: of one mount, of two mounts, here and in the sandbox."""
        other = self.mount(self.served, name="other")
        for first, second in ((self.point, self.point), (self.point, other), (self.point, self.root), (self.root, self.point)):
            with self.subTest(first=first.name, second=second.name):
                yield self.program(first), self.program(second)

    def blocks(self, program):
        wait_for("the lock to be waited for", program.is_blocked)

    def test_byte_ranges(self):
        for one, two in self.pairs():
            self.assertEqual(one.lock(WRITE, 0, 10), 0)
            self.assertEqual(two.lock(READ, 9, 1), errno.EAGAIN)
            self.assertEqual(two.lock(WRITE, 10, 5), 0)
            self.assertEqual(one.lock(UNLOCK, 3, 4), 0, "a hole")
            self.assertEqual(two.lock(WRITE, 3, 4), 0)
            self.assertEqual(two.lock(WRITE, 2, 1), errno.EAGAIN)
            self.assertEqual(two.lock(WRITE, 7, 1), errno.EAGAIN)
            self.assertEqual(one.lock(READ, 0, 3), 0, "a downgrade")
            self.assertEqual(two.lock(READ, 0, 3), 0)
            self.assertEqual(one.lock(WRITE, 0, 3), errno.EAGAIN, "no upgrade beside another reader")
            self.assertEqual(two.lock(UNLOCK, 0, 3), 0)
            self.assertEqual(one.lock(WRITE, 0, 3), 0)
            self.assertEqual(two.lock(UNLOCK), 0)
            self.assertEqual(one.lock(WRITE, 2**62, 0), 0, "far, and to the end")
            self.assertEqual(two.lock(READ, 2**63 - 1, 1), errno.EAGAIN)
            self.assertEqual(two.lock(READ, 2**62 - 1, 1), 0)
            one.end(), two.end()

    def test_getlk(self):
        for one, two in self.pairs():
            self.assertIsNone(two.test())
            self.assertEqual(one.lock(WRITE, 10, 5), 0)
            self.assertEqual(one.lock(WRITE, 15, 5), 0, "melts with it")
            self.assertEqual(one.lock(READ, 30, 0), 0)
            self.assertEqual(two.test(READ, 0, 0)[:3], (WRITE, 10, 10))
            self.assertEqual(two.test(WRITE, 20, 0)[:3], (READ, 30, 0))
            self.assertIsNone(two.test(READ, 20, 0))
            self.assertIsNone(two.test(WRITE, 0, 10))
            self.assertIsNone(one.test(WRITE, 0, 0), "its own")
            one.end(), two.end()

    def test_getlk_names_the_process(self):
        one, two = self.program(), self.program()
        self.assertEqual(one.lock(WRITE, 10, 5), 0)
        self.assertEqual(two.test(), (WRITE, 10, 5, one.pid))
        self.assertEqual(one.lock(UNLOCK), 0)
        # A number of the sandbox, or of nobody, must not be taken for one of this machine.
        there = self.program(self.root)
        self.assertEqual(there.lock(WRITE, 10, 5), 0)
        self.assertEqual(two.test(), (WRITE, 10, 5, 0))
        self.assertEqual(there.lock(UNLOCK), 0)
        other = self.program(self.mount(self.served, name="other"))
        self.assertEqual(other.lock(READ, 10, 5), 0)
        self.assertEqual(two.test(), (READ, 10, 5, 0))

    def test_waiting(self):
        for one, two in self.pairs():
            self.assertEqual(one.lock(WRITE, 5, 5), 0)
            two.wait_lock(WRITE, 0, 0)
            self.blocks(two)
            self.assertEqual(one.lock(UNLOCK, 0, 0), 0)
            self.assertEqual(two.answer()[0], 0)
            self.assertEqual(one.lock(READ, 5, 1), errno.EAGAIN)
            one.wait_lock(READ, 5, 1)
            self.blocks(one)
            self.assertEqual(two.lock(READ, 0, 0), 0, "a downgrade lets readers in")
            self.assertEqual(one.answer()[0], 0)
            one.end(), two.end()

    def test_a_signal_with_a_handler_ends_the_wait(self):
        for one, two in self.pairs():
            for wait, lock, undo in (
                (lambda: two.wait_lock(WRITE), lambda: one.lock(WRITE), lambda: one.lock(UNLOCK)),
                (lambda: two.tell("flock", "f", fcntl.LOCK_EX), lambda: one.flock(fcntl.LOCK_EX), lambda: one.flock(fcntl.LOCK_UN)),
            ):
                self.assertEqual(lock(), 0)
                wait()
                self.blocks(two)
                two.process.send_signal(signal.SIGUSR1)
                self.assertEqual(two.answer()[0], errno.EINTR)
                self.assertEqual(undo(), 0)
                self.assertIsNone(one.test(), "nothing is left of the wait")
                self.assertEqual(one.flock(fcntl.LOCK_EX | fcntl.LOCK_NB), 0)
                self.assertEqual(one.flock(fcntl.LOCK_UN), 0)
            one.end(), two.end()

    def test_an_interrupted_wait_leaves_what_was_held(self):
        one, two, three = self.program(), self.program(), self.program()
        self.assertEqual(two.lock(READ, 0, 10), 0)
        self.assertEqual(two.lock(WRITE, 20, 10), 0)
        self.assertEqual(one.lock(READ, 0, 10), 0)
        for _ in range(soak(20, 300)):
            two.wait_lock(WRITE, 0, 40)
            # The way is free at about the time of the signal.
            self.assertEqual(one.lock(UNLOCK), 0)
            two.process.send_signal(signal.SIGUSR1)
            number = two.answer()[0]
            if number == errno.EINTR:
                # The agent hears of it behind that.
                wait_for("the undoing", lambda: three.test(READ, 0, 0)[1:3] == (20, 10))
            if number == 0:
                self.assertEqual(two.lock(READ, 0, 10), 0)
                self.assertEqual(two.lock(UNLOCK, 10, 10), 0)
                self.assertEqual(two.lock(UNLOCK, 30, 10), 0)
            else:
                self.assertEqual(number, errno.EINTR)
            self.assertEqual(three.test(WRITE, 0, 20), (READ, 0, 10, two.pid))
            self.assertEqual(three.test(READ, 0, 0), (WRITE, 20, 10, two.pid))
            self.assertIsNone(three.test(WRITE, 30, 0))
            self.assertEqual(one.lock(READ, 0, 10), 0)

    def test_a_killed_waiter_is_gone(self):
        for one, two in self.pairs():
            self.assertEqual(one.lock(WRITE), 0)
            two.wait_lock(WRITE)
            self.blocks(two)
            two.kill()
            self.assertEqual(one.lock(UNLOCK), 0)
            wait_for("nothing to be left of it", lambda: one.test() is None)
            one.end()

    def test_an_interrupt_needs_no_agent(self):
        one, two, three = self.program(), self.program(), self.program()
        self.assertEqual(one.lock(WRITE), 0)
        for program in (two, three):
            program.wait_lock(WRITE)
            self.blocks(program)
        self.served.process.send_signal(signal.SIGSTOP)
        try:
            two.process.send_signal(signal.SIGUSR1)
            self.assertEqual(two.answer()[0], errno.EINTR)
            three.kill()  # waits for its end
        finally:
            self.served.process.send_signal(signal.SIGCONT)
        self.assertEqual(one.lock(UNLOCK), 0)
        wait_for("nothing to be left of them", lambda: one.test() is None)

    def test_posix_locks_end_with_any_close(self):
        for one, two in self.pairs():
            one.open("g", self.path_of(one))
            self.assertEqual(one.lock(WRITE), 0)
            self.assertEqual(one.ask("dup", "f", "h")[0], 0)
            self.assertEqual(two.lock(READ), errno.EAGAIN)
            one.ask("close", "g")
            self.assertEqual(two.lock(WRITE), 0, "closing another descriptor of the file gives back")
            self.assertEqual(two.lock(UNLOCK), 0)
            self.assertEqual(one.lock(WRITE), 0)
            one.ask("close", "h")
            self.assertEqual(two.lock(WRITE), 0)
            one.end(), two.end()

    def path_of(self, program):
        return os.readlink(f"/proc/{program.pid}/fd/" + self.fd_of(program))

    def fd_of(self, program):
        for name in os.listdir(f"/proc/{program.pid}/fd"):
            if os.readlink(f"/proc/{program.pid}/fd/{name}").endswith("/f"):
                return name
        raise AssertionError("the program has not opened the file")

    def test_locks_end_with_the_process(self):
        for one, two in self.pairs():
            for end in (lambda: one.end(), lambda: one.kill()):
                self.assertEqual(one.lock(WRITE, 0, 5), 0)
                self.assertEqual(one.flock(fcntl.LOCK_EX), 0)
                self.assertEqual(two.lock(WRITE), errno.EAGAIN)
                self.assertEqual(two.flock(fcntl.LOCK_SH | fcntl.LOCK_NB), errno.EAGAIN)
                where = pathlib.Path(self.path_of(one)).parent
                end()
                # An flock goes with the last reference, which the kernel drops behind the exit.
                wait_for("the flock's end", lambda: two.flock(fcntl.LOCK_SH | fcntl.LOCK_NB) == 0)
                self.assertEqual(two.lock(WRITE), 0)
                self.assertEqual(two.lock(UNLOCK), 0)
                self.assertEqual(two.flock(fcntl.LOCK_UN), 0)
                one = self.program(where)
            one.end(), two.end()

    def test_flock(self):
        for one, two in self.pairs():
            one.open("g", self.path_of(one))
            self.assertEqual(one.flock(fcntl.LOCK_SH), 0)
            self.assertEqual(two.flock(fcntl.LOCK_SH), 0)
            self.assertEqual(two.flock(fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN)
            self.assertEqual(one.flock(fcntl.LOCK_EX | fcntl.LOCK_NB), 0, "the other lost its own by the try: flock(2)")
            self.assertEqual(one.flock(fcntl.LOCK_SH | fcntl.LOCK_NB, name="g"), errno.EAGAIN, "an open file is an owner")
            self.assertEqual(one.lock(WRITE), 0)
            self.assertEqual(one.lock(UNLOCK), 0)
            two.tell("flock", "f", fcntl.LOCK_EX)
            self.blocks(two)
            self.assertEqual(one.ask("dup", "f", "h")[0], 0)
            one.ask("close", "f")
            self.assertTrue(two.is_blocked(), "a copy of the descriptor keeps it")
            one.ask("close", "h")
            self.assertEqual(two.answer()[0], 0)
            one.end(), two.end()

    def test_open_file_description_locks(self):
        for one, two in self.pairs():
            one.open("g", self.path_of(one))
            set_lock = {"command": F_OFD_SETLK}
            self.assertEqual(one.lock(WRITE, 0, 10, **set_lock), 0)
            self.assertEqual(one.lock(WRITE, 5, 1, **set_lock, name="g"), errno.EAGAIN, "an open file is an owner")
            self.assertEqual(two.lock(WRITE, 5, 1, **set_lock), errno.EAGAIN)
            self.assertEqual(two.lock(WRITE, 5, 1), errno.EAGAIN, "against those of processes too")
            self.assertEqual(two.test(WRITE, 0, 0, command=F_OFD_GETLK), (WRITE, 0, 10, -1))
            self.assertEqual(one.test(WRITE, 0, 0, command=F_OFD_GETLK, name="g"), (WRITE, 0, 10, -1))
            one.ask("close", "g")
            self.assertEqual(two.lock(WRITE, 5, 1, **set_lock), errno.EAGAIN, "other descriptors do not matter")
            two.wait_lock(WRITE, 5, 1, command=F_OFD_SETLKW)
            self.blocks(two)
            one.ask("close", "f")
            self.assertEqual(two.answer()[0], 0)
            one.end(), two.end()

    def test_deadlock(self):
        # In one kernel, whose locks it is to find the circle among: of one mount, or on the disk itself.
        for where in (self.point, self.root):
            with self.subTest(where=where.name):
                (self.root / "g").write_text("x")
                one, two, three = (self.program(where) for _ in range(3))
                three.open("g", where / "g"), one.open("g", where / "g")
                self.assertEqual(one.lock(WRITE, 0, 1), 0)
                self.assertEqual(two.lock(WRITE, 1, 1), 0)
                self.assertEqual(three.lock(WRITE, 0, 1, name="g"), 0)
                one.wait_lock(WRITE, 0, 1, name="g")
                two.wait_lock(WRITE, 0, 1)
                self.blocks(one), self.blocks(two)
                three.wait_lock(READ, 1, 1)
                self.assertEqual(three.answer()[0], errno.EDEADLK)
                self.assertEqual(three.lock(UNLOCK, name="g"), 0)
                self.assertEqual(one.answer()[0], 0)
                self.assertEqual(one.lock(UNLOCK), 0)
                self.assertEqual(two.answer()[0], 0)
                one.end(), two.end(), three.end()

    def test_two_readers_that_both_want_to_write(self):
        for where in (self.point, self.root):
            with self.subTest(where=where.name):
                one, two = self.program(where), self.program(where)
                self.assertEqual((one.lock(READ), two.lock(READ)), (0, 0))
                one.wait_lock(WRITE)
                self.blocks(one)
                two.wait_lock(WRITE)
                self.assertEqual(two.answer()[0], errno.EDEADLK)
                self.assertEqual(two.lock(UNLOCK), 0)
                self.assertEqual(one.answer()[0], 0)
                one.end(), two.end()

    def test_access(self):
        for where in (self.point, self.root):
            reader = self.program(where, os.O_RDONLY)
            writer = self.program(where, os.O_WRONLY)
            self.assertEqual(reader.lock(WRITE), errno.EBADF)
            self.assertEqual(writer.lock(READ), errno.EBADF)
            self.assertEqual(reader.lock(READ), 0)
            self.assertEqual(writer.lock(WRITE), errno.EAGAIN)
            self.assertEqual(reader.flock(fcntl.LOCK_EX), 0)
            self.assertEqual(writer.lock(WRITE, 0, -5), errno.EINVAL)
            reader.end(), writer.end()

    def test_the_drivers_death(self):
        other = self.mount(self.served, name="other")
        gone, there = self.program(other), self.program(self.root)
        self.assertEqual(gone.lock(WRITE, 0, 5), 0)
        self.assertEqual(gone.flock(fcntl.LOCK_EX), 0)
        self.assertEqual(there.lock(WRITE), errno.EAGAIN)
        there.wait_lock(WRITE)
        self.blocks(there)
        os.kill(self.driver_of(other), signal.SIGKILL)
        self.assertEqual(there.answer()[0], 0)
        wait_for("the flock's end", lambda: there.flock(fcntl.LOCK_EX | fcntl.LOCK_NB) == 0)
        self.assertEqual(gone.lock(WRITE), errno.ENOTCONN)
        gone.end()

    def driver_of(self, point):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                if os.path.basename(words[0]) == b"sandbox-mount" and os.fsencode(str(point)) in words:
                    return int(pid)
        raise AssertionError("no driver found")

    def test_waiting_for_a_mount_that_dies(self):
        other = self.mount(self.served, name="other")
        gone, here = self.program(other), self.program()
        self.assertEqual(gone.lock(WRITE), 0)
        here.wait_lock(WRITE)
        self.blocks(here)
        os.kill(self.driver_of(other), signal.SIGKILL)
        self.assertEqual(here.answer()[0], 0)

    def test_an_unmount_gives_back(self):
        point = self.mount(self.served, name="other")
        there, here = self.program(self.root), self.program(point)
        self.assertEqual(here.lock(WRITE), 0)
        self.assertEqual(there.lock(WRITE), errno.EAGAIN)
        run("umount", "-l", point)
        here.end()
        wait_for("the lock's end", lambda: there.lock(WRITE) == 0)

    def test_a_counter_is_exact(self):
        """Read, add one, write, under a lock: from two mounts and the sandbox at once."""
        (self.root / "n").write_text("0")
        other = self.mount(self.served, name="other")
        script = (
            "import fcntl,os,sys\n"
            "how,path,rounds=sys.argv[1],sys.argv[2],int(sys.argv[3])\n"
            "for _ in range(rounds):\n"
            "    fd=os.open(path,os.O_RDWR)\n"
            "    fcntl.lockf(fd,fcntl.LOCK_EX) if how=='posix' else fcntl.flock(fd,fcntl.LOCK_EX)\n"
            "    n=int(os.pread(fd,99,0)); os.pwrite(fd,b'%d'%(n+1),0); os.close(fd)\n"
        )
        rounds = soak(40, 1000)
        for how in ("posix", "flock"):
            (self.root / "n").write_text("0")
            programs = [
                subprocess.Popen([sys.executable, "-c", script, how, where / "n", str(rounds)])
                for where in (self.point, self.point, other, self.root)
            ]
            self.assertEqual([program.wait(timeout=DEADLINE) for program in programs], [0] * 4)
            self.assertEqual((self.root / "n").read_text(), str(4 * rounds), how)


if __name__ == "__main__":
    main()
