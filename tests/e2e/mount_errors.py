# SPDX-License-Identifier: Apache-2.0
"""Bad input to sandbox-mount and sandboxd: one message that says what, where and why; the right code; nothing left."""

import os
import socket
import subprocess

from harness import MOUNT, SANDBOXD, Case, Agent, is_mounted, main, run, wait_for


def processes_marked(mark):
    """The pids of the processes that were started with SANDBAR_TEST=mark, however far down; others' tests run meanwhile."""
    wanted = f"SANDBAR_TEST={mark}".encode()
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            pass
    return found


class Errors(Case):
    def refused(self, *command, code, says, **options):
        """The command ends with `code` and one line that names its program and each of `says`."""
        environment = {**(options.pop("env", None) or os.environ), "SANDBAR_TEST": self.work.name}
        done = run(*command, check=False, env=environment, **options)
        self.assertEqual(done.returncode, code, (command, done.stderr))
        self.assertEqual(done.stdout, "")
        lines = done.stderr.strip().splitlines()
        self.assertTrue(lines and lines[0].startswith(os.path.basename(command[0]) + ": "), done.stderr)
        if code != 2:
            self.assertEqual(len(lines), 1, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        wait_for("all that it started to be gone", lambda: not processes_marked(self.work.name))
        return done.stderr

    def test_mount_usage(self):
        point = self.folder("mnt")
        self.refused(MOUNT, code=2, says=["TARGET"])
        self.refused(MOUNT, "unix:/x", code=2, says=["DIR"])
        self.refused(MOUNT, "unix:/x", point, "--foregroud", code=2, says=["--foregroud", "did you mean"])
        self.refused(MOUNT, "unix:/x", point, "-o", "timeot=3", code=2, says=["timeot", "timeout"])
        self.refused(MOUNT, "unix:/x", point, "-o", "timeout=0", code=2, says=["timeout"])
        self.refused(MOUNT, "unix:/x", point, "-o", "idmap=maybe", code=2, says=["idmap", "maybe"])
        self.refused(MOUNT, "nonsense:x", point, code=2, says=["nonsense:x"])
        self.refused(MOUNT, "ws://h:99999", point, code=2, says=["99999"])
        self.refused(MOUNT, "wss://h:99999", point, code=2, says=["99999"])
        self.refused(MOUNT, "a-sandbox-name", point, code=2, says=["a-sandbox-name"])

    def test_mount_points(self):
        agent = self.agent()
        token = ["-o", f"token_file={agent.token_file}"]
        self.refused(MOUNT, agent.url, self.work / "missing", *token, code=1, says=["missing", "no such directory"])
        file = self.work / "file"
        file.write_text("x")
        self.refused(MOUNT, agent.url, file, *token, code=1, says=[str(file), "directory"])
        full = self.folder("full")
        (full / "thing").write_text("x")
        self.refused(MOUNT, agent.url, full, *token, code=1, says=[str(full), "empty", "nonempty"])
        point = self.mount(agent)
        self.refused(MOUNT, agent.url, point, *token, code=1, says=[str(point), "mounted"])
        self.assertEqual((full / "thing").read_text(), "x")

    def test_targets_that_fail(self):
        point = self.folder("mnt")
        agent = self.agent()
        self.refused(MOUNT, f"unix:{self.work}/none.sock", point, code=1, says=["none.sock", "No such file"])
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            self.refused(MOUNT, f"ws://127.0.0.1:{port}", point, code=1, says=[str(port), "refused"])
        self.refused(MOUNT, "ws://no-such-host.invalid", point, code=1, says=["no-such-host.invalid"])
        self.refused(MOUNT, "exec:exit 3", point, code=1, says=["exit 3", "3"])
        self.refused(MOUNT, "exec:no-such-command 2>&-", point, code=1, says=["no-such-command", "127"])
        said = self.refused(MOUNT, agent.url, point, code=1, says=["token"], env={**os.environ, "SANDBOX_TOKEN": "wr0ng"})
        self.assertNotIn("wr0ng", said)
        self.refused(MOUNT, agent.url + ":/none", point, "-o", f"token_file={agent.token_file}", code=1, says=["/none"])
        agent.root.joinpath("file").write_text("x")
        self.refused(MOUNT, agent.url + ":/file", point, "-o", f"token_file={agent.token_file}", code=1, says=["/file"])
        self.refused(MOUNT, agent.url, point, "-o", f"token_file={self.work}/none", code=1, says=[f"{self.work}/none"])
        agent.token_file.chmod(0o644)
        self.refused(MOUNT, agent.url, point, "-o", f"token_file={agent.token_file}", code=1, says=["token"])
        self.assertFalse(is_mounted(point))

    def test_no_fuse_device(self):
        agent = self.agent()
        point = self.folder("mnt")
        hide = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec \"$@\""
        done = run("unshare", "-m", "sh", "-c", hide, "sh", MOUNT, agent.url, point, "-o",
                   f"token_file={agent.token_file}", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("/dev/fuse", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_ctrl_c_during_connect(self):
        point = self.folder("mnt")
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            process = subprocess.Popen([MOUNT, f"ws://127.0.0.1:{silent.getsockname()[1]}", point],
                                       stderr=subprocess.PIPE, start_new_session=True)
            peer, _ = silent.accept()
            os.killpg(process.pid, 2)
            self.assertNotEqual(process.wait(timeout=30), 0)
            peer.settimeout(30)
            while peer.recv(4096):  # the end of the connection: the daemon-to-be is gone too
                pass
            peer.close()
            process.stderr.close()
        self.assertFalse(is_mounted(point))

    def test_agent_refusals(self):
        root = self.folder("root")
        file = self.work / "file"
        file.write_text("x")
        good = self.work / "token"
        good.write_text("t\n")
        good.chmod(0o600)
        clean = {k: v for k, v in os.environ.items() if k != "SANDBOX_TOKEN"}
        agent = [SANDBOXD, "agent"]
        local = ["--listen", f"unix:{self.work}/s", "--token-file", good]
        self.refused(SANDBOXD, code=2, says=["agent"], env=clean)
        self.refused(SANDBOXD, "agnet", code=2, says=["agnet", "agent"], env=clean)
        self.refused(*agent, *local, code=2, says=["--root"], env=clean)
        self.refused(*agent, "--root", root, code=2, says=["--listen"], env=clean)
        self.refused(*agent, "--root", file, *local, code=1, says=[str(file)], env=clean)
        self.refused(*agent, "--root", self.work / "none", *local, code=1, says=["none"], env=clean)
        self.refused(*agent, "--root", root, "--listen", f"unix:{self.work}/s", code=1, says=["token", "--no-auth"], env=clean)
        self.refused(*agent, "--root", root, "--listen", "0.0.0.0:0", "--no-auth", code=1, says=["--no-auth"], env=clean)
        self.refused(*agent, "--root", root, "--listen", "127.0.0.1", "--token-file", good, code=1, says=["127.0.0.1"], env=clean)
        self.refused(*agent, "--root", root, "--listen", f"unix:{self.work}/s", "--token-file", self.work / "none", code=1, says=["none"], env=clean)
        first = Agent(root, self.folder("a"), listen="127.0.0.1:0")
        self.addCleanup(first.stop)
        port = first.url.rsplit(":", 1)[1]
        self.refused(*agent, "--root", root, "--listen", f"127.0.0.1:{port}", "--token-file", good, code=1, says=[port], env=clean)
        self.refused(*agent, "--root", root, "--listen", f"unix:{file}", "--token-file", good, code=1, says=[str(file)], env=clean)
        self.assertEqual(file.read_text(), "x")


if __name__ == "__main__":
    main()
