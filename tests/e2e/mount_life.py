# SPDX-License-Identifier: Apache-2.0
"""A mount's life: it starts usable, ends quickly, survives what kills it, and never hangs."""

import errno
import os
import pathlib
import signal
import subprocess
import time

from harness import MOUNT, SANDBOXD, Case, is_mounted, main, run, wait_for


def drivers(point):
    """The pids of the sandbox-mount processes of this mount point."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == MOUNT.encode() and os.fsencode(point) in words:
            found.append(int(pid))
    return found


class Life(Case):
    def test_umount_ends_the_driver(self):
        agent = self.agent()
        point = self.mount(agent)
        self.assertEqual(len(drivers(point)), 1)
        run("umount", point)
        wait_for("the driver to end", lambda: not drivers(point))
        self.assertEqual(os.listdir(point), [])

    def test_fusermount_and_term(self):
        agent = self.agent()
        point = self.mount(agent)
        run("fusermount3", "-u", point)
        wait_for("the driver to end", lambda: not drivers(point))
        self.mount(agent)
        os.kill(drivers(point)[0], signal.SIGTERM)
        wait_for("the mount to go", lambda: not is_mounted(point))
        wait_for("the driver to end", lambda: not drivers(point))

    def test_an_aborted_connection_is_replaced(self):
        """What `umount -f` or the kernel's abort leaves is not in the way of the same command."""
        agent = self.agent()
        point = self.mount(agent)
        number = os.stat(point).st_dev & 0xFF | (os.stat(point).st_dev >> 12) & 0xFFF00
        run("sh", "-c", f"mount -t fusectl none /sys/fs/fuse/connections 2>/dev/null; echo 1 > /sys/fs/fuse/connections/{number}/abort")
        wait_for("the driver to end", lambda: not drivers(point))
        self.mount(agent)
        self.assertEqual(os.listdir(point), [])

    def test_mounts_as_mount_8_calls_it(self):
        agent = self.agent()
        point = self.folder("mnt")
        helper = self.work / "mount.sandbox"
        helper.symlink_to(MOUNT)
        run(helper, agent.url, point, "-o", f"rw,noatime,token_file={agent.token_file}")
        self.addCleanup(self.unmount, point)
        self.assertIn("noatime", run("findmnt", "-no", "OPTIONS", point).stdout)

    def test_the_caller_is_not_kept_waiting_by_what_it_gave(self):
        """`sandbox-mount 'exec:...' 2>&1 | cat` returns: the daemon and its command hold neither end of the pipe."""
        root, point = self.folder("root"), self.folder("mnt")
        run("sh", "-c", f"'{MOUNT}' 'exec:{SANDBOXD} agent --stdio --root {root}' {point} 2>&1 | cat", timeout=30)
        self.addCleanup(self.unmount, point)
        self.assertTrue(is_mounted(point))

    def test_foreground(self):
        agent = self.agent()
        point = self.folder("mnt")
        process = subprocess.Popen([MOUNT, "-f", agent.url, point, "-o", f"token_file={agent.token_file}"])
        self.addCleanup(process.kill)
        wait_for("the mount", lambda: is_mounted(point))
        (point / "x").write_text("x")
        process.terminate()
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertFalse(is_mounted(point))

    def test_a_killed_driver_is_replaced_by_the_same_command(self):
        agent = self.agent()
        point = self.mount(agent)
        (point / "kept").write_text("x")
        os.kill(drivers(point)[0], signal.SIGKILL)
        wait_for("the driver to end", lambda: not drivers(point))
        with self.assertRaises(OSError) as caught:
            os.listdir(point)
        # The first call may still meet the connection on its way down.
        self.assertIn(caught.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        self.mount(agent)
        self.assertEqual((point / "kept").read_text(), "x")

    def test_a_lost_agent_ends_operations_and_the_mount_goes_away(self):
        agent = self.agent()
        point = self.mount(agent, options="timeout=2")
        (point / "f").write_text("x")
        held = open(point / "f", "rb")
        self.addCleanup(held.close)
        agent.process.kill()
        agent.process.wait()
        with self.assertRaises(OSError) as caught:
            os.stat(point / "f")
        self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
        with self.assertRaises(OSError) as caught:
            os.pread(held.fileno(), 1, 0)
        self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
        held.close()
        start = time.monotonic()
        run("umount", point, timeout=20)
        self.assertLess(time.monotonic() - start, 5, "umount waited for a dead agent")
        wait_for("the driver to end", lambda: not drivers(point))

    def test_a_silent_agent_times_operations_out(self):
        agent = self.agent()
        point = self.mount(agent, options="timeout=2")
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)
        with self.assertRaises(OSError) as caught:
            os.stat(point / "f")
        self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
        os.kill(agent.process.pid, signal.SIGCONT)
        (point / "f").write_text("works again")
        self.assertEqual((agent.root / "f").read_text(), "works again")

    def test_a_waiting_caller_can_be_killed(self):
        agent = self.agent()
        point = self.mount(agent)
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)
        waiter = subprocess.Popen(["stat", point / "f"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(waiter.kill)
        status = f"/proc/{waiter.pid}/stat"

        def blocked():
            with open(status, encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] in "SD" and self.in_fuse(waiter.pid)

        wait_for("the caller to wait in the mount", blocked)
        waiter.send_signal(signal.SIGKILL)
        self.assertEqual(waiter.wait(timeout=5), -signal.SIGKILL)

    @staticmethod
    def in_fuse(pid):
        try:
            with open(f"/proc/{pid}/stack", encoding="utf-8") as file:
                return "fuse" in file.read()
        except OSError:
            return True

    def test_an_interrupt_does_not_break_a_stat(self):
        """A signal whose handler returns may not make an ordinary call fail with EINTR."""
        agent = self.agent()
        point = self.mount(agent)
        (point / "f").write_text("x")
        script = (
            "import os, signal, sys\n"
            "signal.signal(signal.SIGALRM, lambda *_: None)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n"
            "libc = __import__('ctypes').CDLL(None, use_errno=True)\n"
            "buffer = __import__('ctypes').create_string_buffer(256)\n"
            "bad = sum(libc.stat(sys.argv[1].encode(), buffer) != 0 for _ in range(3000))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)\n"
            "sys.exit(bad != 0)\n"
        )
        self.assertEqual(run("python3", "-c", script, point / "f", check=False).returncode, 0)

    def test_two_mounts_of_one_agent(self):
        agent = self.agent()
        first, second = self.mount(agent), self.mount(agent, name="second")
        (first / "f").write_text("x")
        self.assertEqual((second / "f").read_text(), "x")
        os.rename(second / "f", second / "g")
        self.assertEqual(os.listdir(first), ["g"])

    def test_an_ordinary_user_mounts(self):
        """uid 1000 through fusermount3, on an agent of its own."""
        os.chmod("/dev/fuse", 0o666)
        user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--inh-caps=-all"]
        for name in ("root", "mnt"):
            os.chown(self.folder(name), 1000, 1000)
        agent = self.agent(command=user, owner=1000)
        point = self.folder("mnt")
        run(*user, MOUNT, agent.url, point, "-o", f"token_file={agent.token_file}")
        self.addCleanup(self.unmount, point)
        run(*user, "sh", "-c", f"cd {point} && echo x > f && mkdir d && chmod 700 d && cat f")
        info = (agent.root / "f").stat()
        self.assertEqual((info.st_uid, info.st_gid), (1000, 1000))
        with self.assertRaises(PermissionError):
            os.listdir(point)  # root is not let in without allow_other
        run(*user, "fusermount3", "-u", point)
        wait_for("the driver to end", lambda: not drivers(point))

    def test_descriptors_and_threads_are_few(self):
        agent = self.agent()
        point = self.mount(agent)
        pid = drivers(point)[0]
        before = len(os.listdir(f"/proc/{pid}/fd"))
        for i in range(300):
            (point / f"f{i}").write_text("x")
        run("find", point)
        run("rm", "-rf", *[point / f"f{i}" for i in range(300)])
        self.assertLessEqual(len(os.listdir(f"/proc/{pid}/fd")), before)
        self.assertLess(len(os.listdir(f"/proc/{pid}/task")), 10)

    def test_the_token_is_nowhere_to_be_seen(self):
        agent = self.agent()
        token = agent.token_file.read_text().strip()
        point = self.folder("mnt")
        run(MOUNT, agent.url, point, env={**os.environ, "SANDBOX_TOKEN": token})
        self.addCleanup(self.unmount, point)
        for pid in (*drivers(point), agent.process.pid):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                self.assertNotIn(token.encode(), file.read())
            # Nor in a core: a limit of 1 stops also those that go to a program (core(5)).
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            self.assertRegex(limits, r"Max core file size +[01] ")

    def test_commands_have_the_limits_that_the_agent_was_started_with(self):
        agent = self.agent(command=["prlimit", "--core=4096:8192", "--nofile=300:2000"])
        limits = self.exec(agent, "cat", "/proc/self/limits").stdout
        # A sanitizer's run time has made it 0 before we were asked.
        self.assertRegex(limits, r"Max core file size +(4096|0) +8192 ")
        self.assertRegex(limits, r"Max open files +300 +2000 ")


if __name__ == "__main__":
    main()
