# SPDX-License-Identifier: Apache-2.0
"""What lies in the way of a path below the agent's root: "..", links of /proc, mount points, hard links, great length,
FIFOs and devices. Nothing leads outside, and nothing makes the driver or the agent wait."""

import errno
import os
import signal
import socket
import stat
import subprocess
import threading

from harness import EXEC, MOUNT, Case, main, run, soak

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"


class Paths(Case):
    def setUp(self):
        super().setUp()
        self.root = self.folder("root")
        self.outside = self.folder("outside")
        (self.outside / "secret").write_text(OUTSIDE)
        (self.root / "d/e").mkdir(parents=True)
        (self.root / "d/secret").write_text(INSIDE)

    def agent_in_namespace(self, script, **options):
        """An agent whose mounts are its own: made by the script, and gone with it."""
        return self.agent(self.root, command=("unshare", "--mount", "sh", "-ec", script + '; exec "$@"', "sh"), **options)

    def in_namespace(self, agent, *command):
        return run("nsenter", f"--target={agent.process.pid}", "--mount", *command)

    def refused(self, agent, path):
        """A TARGET:/path that must not work, as a directory to mount and as one to work in."""
        done = run(EXEC, f"{agent.url}:{path}", "--token-file", agent.token_file, "--", "pwd", check=False)
        self.assertEqual((done.returncode, done.stdout), (125, ""), path[:100])
        self.assertNotEqual(done.stderr, "")
        point = self.folder("refused")
        done = run(MOUNT, f"{agent.url}:{path}", point, "-o", f"token_file={agent.token_file}", check=False)
        self.assertIn(done.returncode, (1, 2), path[:100])  # 2: too long for a TARGET
        self.assertNotEqual(done.stderr, "")

    def where(self, agent, path="", cwd=None):
        options = ["--cwd", cwd] if cwd is not None else []
        target = agent.url + (f":{path}" if path else "")
        return run(EXEC, target, "--token-file", agent.token_file, *options, "--", "pwd").stdout.strip()

    def test_dot_dot_and_absolute_paths(self):
        """As in a chroot: ".." of the root is the root, and absolute means from the root."""
        agent = self.agent(self.root)
        os.symlink(self.outside, self.root / "absolute")
        os.symlink("../outside", self.root / "climbing")
        os.symlink(".", self.root / "dot")
        os.symlink("dot/../../outside", self.root / "hidden")
        top = str(self.root)
        for path, wanted in (("/", ""), ("/..", ""), ("/../../..", ""), ("/d/../..", ""), ("/d/../../d", "/d"),
                             ("/../d/./e", "/d/e"), ("//d//e//", "/d/e"), ("/dot/dot/../d", "/d")):
            self.assertEqual(self.where(agent, path), top + wanted, path)
        for cwd, wanted in (("..", ""), ("../..", ""), ("/", ""), ("/d", "/d"), ("../../d", "/d"), ("e", "/d/e")):
            self.assertEqual(self.where(agent, "/d", cwd), top + wanted, cwd)
        for path in (str(self.outside), "/../outside", "/d/../../outside", "/absolute", "/climbing", "/hidden",
                     "/d/secret/..", "/d/secret", "/none"):
            self.refused(agent, path)
        point = self.mount(agent, path="/../d/../..")
        self.assertIn("d", os.listdir(point))
        self.assertNotIn("outside", os.listdir(point))

    def test_links_of_proc(self):
        """What /proc has are no symlinks but doors; none of them opens, whoever's process it is."""
        agent = self.agent_in_namespace(f"mkdir {self.root}/proc; mount -t proc proc {self.root}/proc")
        pid = agent.process.pid
        for process in ("self", "thread-self", str(pid), str(os.getpid())):
            for link in ("root", "cwd", f"root{self.outside}", "fd/0/..", "exe"):
                self.refused(agent, f"/proc/{process}/{link}")
        for fd in os.listdir(f"/proc/{pid}/fd"):
            self.refused(agent, f"/proc/{pid}/fd/{fd}")
            self.refused(agent, f"/proc/self/fd/{fd}")
        # By names they are links, which the client's own kernel follows on the client's side.
        mount = self.mount(agent)
        here = mount / f"proc/{pid}"
        self.assertTrue(stat.S_ISLNK(os.lstat(here / "root").st_mode))
        with self.assertRaises(OSError) as caught:
            os.open(here / "root", os.O_RDONLY | os.O_NOFOLLOW)
        self.assertEqual(caught.exception.errno, errno.ELOOP)
        self.assertIn("sandboxd", (here / "comm").read_text())
        self.assertIn(b"sandboxd", (here / "cmdline").read_bytes())
        self.assertIn("MemTotal", (mount / "proc/meminfo").read_text())

    def test_the_root_of_all(self):
        """An agent on / of its machine, with /proc and all."""
        agent = self.agent_in_namespace("true")
        agent.stop()
        agent = self.agent(root="/", name="all", command=("unshare", "--mount"))
        for link in ("/proc/self/root", "/proc/self/cwd", "/proc/1/root/tmp"):
            self.refused(agent, link)
        self.assertEqual(self.where(agent, f"{self.root}/d/../../outside"), str(self.outside))
        mount = self.mount(agent, path=str(self.root))
        self.assertEqual((mount / "d/secret").read_text(), INSIDE)

    def test_mount_points_below_the_root(self):
        """They are part of the tree, with their own inode numbers and their own end."""
        agent = self.agent_in_namespace(f"""cd {self.root}; mkdir tmp again; touch file
            mount -t tmpfs tmpfs tmp; mkdir tmp/sub; echo -n TMPFS >tmp/f
            mount --bind d again; mount --bind d/secret file""")
        mount = self.mount(agent)
        self.assertEqual((mount / "tmp/f").read_text(), "TMPFS")
        self.assertEqual((mount / "file").read_text(), INSIDE)
        self.assertEqual(os.stat(mount / "file").st_ino, os.stat(mount / "d/secret").st_ino)
        # Two mounts of one directory; what comes in by one is there by the other.
        (mount / "again/new").write_text("x")
        self.assertEqual((mount / "d/new").read_text(), "x")
        for number, call, *arguments in (
                (errno.EXDEV, os.rename, mount / "tmp/f", mount / "d/f"), (errno.EXDEV, os.link, mount / "d/new", mount / "tmp/l"),
                (errno.EBUSY, os.rmdir, mount / "tmp"), (errno.EBUSY, os.unlink, mount / "file"),
                (errno.EBUSY, os.rename, mount / "tmp", mount / "other")):
            with self.assertRaises(OSError, msg=(call, arguments)) as caught:
                call(*arguments)
            self.assertEqual(caught.exception.errno, number, (call, arguments))
        for path, wanted in (("/tmp/..", ""), ("/tmp/sub/../..", ""), ("/again/..", ""), ("/again/../../..", "")):
            self.assertEqual(self.where(agent, path), f"{self.root}{wanted}")
        with open(mount / "tmp/f", encoding="utf-8") as held:
            self.in_namespace(agent, "umount", "--lazy", self.root / "tmp")
            self.assertEqual(os.listdir(mount / "tmp"), [])
            self.assertEqual(held.read(), "TMPFS")
        # --lazy: the agent keeps what it has seen.
        self.in_namespace(agent, "umount", "--lazy", self.root / "again")
        self.assertEqual(os.listdir(mount / "again"), [])
        self.in_namespace(agent, "mount", "--bind", self.root / "d", self.root / "tmp")
        self.assertEqual((mount / "tmp/secret").read_text(), INSIDE)

    def test_hard_links_to_outside(self):
        """A second name of a file is as good as the first, here as on a local disk: whoever may make such a link may
        give the file away. Through the mount, none can be made."""
        agent = self.agent(self.root)
        os.link(self.outside / "secret", self.root / "linked")
        mount = self.mount(agent)
        self.assertEqual((mount / "linked").read_text(), OUTSIDE)
        self.assertEqual(os.stat(mount / "linked").st_nlink, 2)
        for source in (self.outside / "secret", "../outside/secret"):
            with self.assertRaises(OSError) as caught:
                os.chdir(mount)
                try:
                    os.link(source, "another")
                finally:
                    os.chdir("/")
            self.assertIn(caught.exception.errno, (errno.EXDEV, errno.ENOENT))
        os.unlink(mount / "linked")
        self.assertEqual((self.outside / "secret").read_text(), OUTSIDE)

    def test_long_and_deep_paths(self):
        agent = self.agent(self.root)
        mount = self.mount(agent)
        deep = "/".join(["n"] * 500)
        os.chdir(mount)  # step by step: by path, each step would be a request for each directory above
        try:
            for _ in range(500):
                os.mkdir("n")
                os.chdir("n")
            with open("f", "w", encoding="utf-8") as file:
                file.write("deep")
        finally:
            os.chdir("/")
        self.assertEqual((mount / deep / "f").read_text(), "deep")
        self.assertEqual((self.root / deep / "f").read_text(), "deep")
        self.assertEqual(self.where(agent, f"/{deep}"), f"{self.root}/{deep}")
        # The longest that open(2) takes, and as the sandbox sees it longer than that.
        long = "/".join(["l" * 250] * 16)
        long = long[:4094 - len(str(mount)) - 3].rstrip("/")
        os.makedirs(mount / long)
        (mount / long / "f").write_text("long")
        self.assertEqual((mount / long / "f").read_text(), "long")
        self.assertEqual(run("find", mount, "-name", "f").stdout.count("\n"), 2)
        self.assertEqual(run(EXEC, f"{agent.url}:/{long}", "--token-file", agent.token_file, "--", "cat", "f").stdout, "long")
        for path in ("/" + "x" * 5000, "/" + "x/" * 3000, "/" + "../" * 2000, "/" + "y" * 256, "/" + "z" * 200_000):
            self.refused(agent, path[:100_000])
        run("rm", "-rf", mount / "n", mount / long.split("/", maxsplit=1)[0])
        self.assertEqual(sorted(os.listdir(self.root)), ["d"])

    def test_fifos_sockets_and_devices(self):
        """64 programs that wait for FIFOs wait in their own kernel: all others go on, and each can be killed."""
        agent = self.agent(self.root)
        mount = self.mount(agent)
        for i in range(64):
            os.mkfifo(self.root / f"fifo{i}")
        for name, mode, major, minor in (("null", stat.S_IFCHR, 1, 3), ("tty", stat.S_IFCHR, 5, 0),
                                         ("none", stat.S_IFBLK, 250, 250)):
            os.mknod(self.root / name, mode | 0o666, os.makedev(major, minor))
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.root / "sock"))
        waiting = [subprocess.Popen(["cat", mount / f"fifo{i}"], stdout=subprocess.PIPE) for i in range(64)]
        try:
            self.devices_are_not_opened(mount)
            done = []

            def work(number):
                (mount / f"file{number}").write_text("x" * 1000)
                done.append((mount / f"file{number}").read_text() == "x" * 1000)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(soak(32, 256))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=60)
            self.assertEqual(done, [True] * len(threads))
            self.assertEqual(self.exec(agent, "cat", "d/secret").stdout, INSIDE)
            # One is served by a writer, the others are killed.
            (mount / "fifo0").write_text("through")
            self.assertEqual(waiting[0].communicate(timeout=30)[0], b"through")
        finally:
            for process in waiting[1:]:
                process.send_signal(signal.SIGTERM)
            for process in waiting[1:]:
                process.communicate(timeout=30)

    def devices_are_not_opened(self, mount):
        for name in ("null", "tty", "none"):
            for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
                with self.assertRaises(OSError) as caught:
                    os.open(mount / name, flags)
                self.assertEqual(caught.exception.errno, errno.EACCES, "a mount is nodev")
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
            with self.assertRaises(OSError) as caught:
                os.open(mount / "sock", flags)
            self.assertEqual(caught.exception.errno, errno.ENXIO)
        with socket.socket(socket.AF_UNIX) as client, self.assertRaises(ConnectionRefusedError):
            client.connect(str(mount / "sock"))
        self.assertEqual(os.stat(mount / "null").st_rdev, os.makedev(1, 3))


if __name__ == "__main__":
    main()
