# SPDX-License-Identifier: Apache-2.0
"""Every kind of TARGET: TCP, Unix sockets, and commands whose stdin and stdout are an agent (ssh, a container)."""

import getpass
import os
import shlex
import signal
import socket
import subprocess

from harness import EXEC, MOUNT, SANDBOXD, Case, main, run, wait_for


class Targets(Case):
    def use(self, target, root, **options):
        """Mounts `target`, edits through the mount, runs a command in the sandbox from inside the mount."""
        point = self.folder("mnt")
        run(MOUNT, target, point, **options)
        self.addCleanup(self.unmount, point)
        (point / "here").write_text("from here\n")
        self.assertEqual((root / "here").read_text(), "from here\n")
        done = run(EXEC, "--", "sh", "-c", "cat here; pwd", cwd=point, **options)
        self.assertEqual(done.stdout.splitlines()[0], "from here")
        run("umount", point)
        return done.stdout.splitlines()[1]

    def test_tcp_and_unix(self):
        for listen in ("127.0.0.1:0", "[::1]:0", f"unix:{self.work}/a.sock"):
            agent = self.agent(name="a-" + listen[:4].strip("["), listen=listen)
            token = agent.token_file.read_text().strip()
            self.use(agent.url, agent.root, env={**os.environ, "SANDBOX_TOKEN": token})
            agent.stop()

    def test_a_directory_of_the_sandbox(self):
        agent = self.agent()
        (agent.root / "in/side").mkdir(parents=True)
        point = self.mount(agent, path="/in/side")
        (point / "f").write_text("x")
        self.assertTrue((agent.root / "in/side/f").exists())

    def test_stdio(self):
        root = self.folder("root")
        where = self.use(f"exec:{SANDBOXD} agent --stdio --root {root}", root)
        self.assertEqual(where, str(root))

    def sshd(self):
        """An sshd of our own on loopback; returns an ssh command line that reaches it."""
        home = self.folder("ssh")
        for key in ("host", "key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / key)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (home / "authorized_keys").write_text((home / "key.pub").read_text())
        (home / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {home}/host\nAuthorizedKeysFile {home}/authorized_keys\n"
            "PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin prohibit-password\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(home / "config")], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for("sshd", answers)
        return (f"ssh -F none -i {home}/key -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
                f"-o LogLevel=ERROR {getpass.getuser()}@127.0.0.1")

    def test_ssh(self):
        ssh = self.sshd()
        root = self.folder("root")
        self.use(f"exec:{ssh} {SANDBOXD} agent --stdio --root {root}", root)

    def test_ssh_carries_binary_streams(self):
        ssh = self.sshd()
        root = self.folder("root")
        data = os.urandom(5_000_000)
        target = f"exec:{ssh} {SANDBOXD} agent --stdio --root {root}"
        done = run(EXEC, target, "--", "cat", input=data, text=False)
        self.assertEqual(done.stdout, data)

    def test_a_user_namespace_container(self):
        root = self.folder("root")
        os.chmod(root, 0o777)
        inside = f"mount -t tmpfs none /mnt && exec {SANDBOXD} agent --stdio --root {shlex.quote(str(root))}"
        target = f"exec:unshare --user --map-root-user --mount --pid --fork --kill-child sh -c {shlex.quote(inside)}"
        self.use(target, root)

    def test_the_command_ends_with_the_mount(self):
        root = self.folder("root")
        point = self.folder("mnt")
        pidfile = self.work / "pid"
        run(MOUNT, f"exec:echo $$ > {pidfile}; exec {SANDBOXD} agent --stdio --root {root}", point)
        pid = int(pidfile.read_text())
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        run("umount", point)
        wait_for("the command to end", lambda: not os.path.exists(f"/proc/{pid}"))

    def test_a_command_that_dies_ends_the_session(self):
        root = self.folder("root")
        pidfile = self.work / "pid"
        target = f"exec:echo $$ > {pidfile}; exec {SANDBOXD} agent --stdio --root {root}"
        process = subprocess.Popen([EXEC, target, "--", "sh", "-c", "echo up; sleep 1000"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        os.kill(int(pidfile.read_text()), signal.SIGKILL)
        self.assertEqual(process.wait(timeout=30), 125)
        process.stdout.close()
        process.stderr.close()


if __name__ == "__main__":
    main()
