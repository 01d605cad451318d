# SPDX-License-Identifier: Apache-2.0
"""Grants: signed tokens of one kind and a short life, where they come from, and that nobody else sees them."""

import json
import os
import shlex
import signal
import subprocess
import time

from harness import EXEC, MOUNT, SANDBOXD, Case, main, run, wait_for


def text_of(path):
    """Of a file below /proc, whose process may be gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Grants(Case):
    def setUp(self):
        super().setUp()
        self.folder("keys")
        self.key = self.keygen("first")
        self.pubkeys = self.work / "trusted.pub"
        self.trust("first")
        self.box = self.agent(extra=["--grant-pubkey", str(self.pubkeys)])
        run("mkdir", "-m", "700", self.work / "run")
        self.environment = {k: v for k, v in os.environ.items() if k != "SANDBOX_TOKEN"}
        self.environment["XDG_RUNTIME_DIR"] = str(self.work / "run")

    def keygen(self, name):
        key = self.work / "keys" / name
        run(SANDBOXD, "keygen", "--key", key)
        return key

    def trust(self, *names):
        self.pubkeys.write_text("".join((self.work / "keys" / f"{name}.pub").read_text() for name in names))

    def grant(self, kind, *options, key=None):
        return run(SANDBOXD, "grant", "--key", key or self.key, "--kind", kind, *options).stdout.strip()

    def command(self, before="true", ttl="10m", kind="$SANDBAR_GRANT_KIND", key=None):
        """A grant command that counts its runs."""
        words = [SANDBOXD, "grant", "--key", str(key or self.key), "--ttl", ttl, "-o", "json"]
        return f"echo $SANDBAR_GRANT_KIND >> {self.work}/runs; {before}; {shlex.join(words)} --kind {kind}"

    def runs(self):
        path = self.work / "runs"
        return path.read_text().split() if path.exists() else []

    def with_token(self, token, *command, **rest):
        return run(EXEC, self.box.url, "--", *command, check=False, env={**self.environment, "SANDBOX_TOKEN": token}, **rest)

    def by_command(self, text, *command, **rest):
        return run(EXEC, self.box.url, "--grant-command", text, "--", *command, check=False, env=self.environment, **rest)

    def mount_by(self, *options, name="mnt", **environment):
        point = self.folder(name)
        run(MOUNT, self.box.url, point, *options, env={**self.environment, **environment})
        self.addCleanup(self.unmount, point)
        return point

    def test_a_grant_allows_its_kind_only(self):
        point = self.mount_by(SANDBOX_TOKEN=self.grant("files"))
        (point / "file").write_text("through the mount")
        self.assertEqual((self.box.root / "file").read_text(), "through the mount")
        done = self.with_token(self.grant("files"), "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("files only; a shell grant is needed", done.stderr)
        done = self.with_token(self.grant("shell"), "cat", "file")
        self.assertEqual((done.returncode, done.stdout), (0, "through the mount"))
        refused = self.folder("refused")
        done = run(MOUNT, self.box.url, refused, check=False, env={**self.environment, "SANDBOX_TOKEN": self.grant("shell")})
        self.assertEqual(done.returncode, 1)
        self.assertIn("shell only; a files grant is needed", done.stderr)
        # The shared token still allows everything.
        self.assertEqual(self.exec(self.box, "true").returncode, 0)

    def test_who_has_none_or_a_wrong_one_is_not_in(self):
        other = self.keygen("other")
        good = self.grant("shell")
        for token in ("", "sbg1.x", good[:-1], good[:-2] + ("AA" if good[-2:] != "AA" else "BA"), self.grant("shell", key=other)):
            done = self.with_token(token, "true")
            self.assertEqual(done.returncode, 125, token)
            self.assertIn("token", done.stderr)
            if token:
                self.assertNotIn(token, done.stderr)

    def test_an_agent_takes_grants_for_its_sandbox(self):
        box = self.agent(root=self.folder("root2"), name="agent2",
                         extra=["--grant-pubkey", str(self.pubkeys), "--sandbox", "box-1"])
        for options, code in (([], 125), (["--sandbox", "box-2"], 125), (["--sandbox", "box-1"], 0)):
            done = run(EXEC, box.url, "--", "true", check=False,
                       env={**self.environment, "SANDBOX_TOKEN": self.grant("shell", *options)})
            self.assertEqual(done.returncode, code, options)

    def test_a_grant_is_cached_and_replaced(self):
        command = self.command()
        for _ in range(3):
            self.assertEqual(self.by_command(command, "true").returncode, 0)
        self.assertEqual(self.runs(), ["shell"])
        folder = self.work / "run/sandbar/grants"
        for path in folder.iterdir():
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)
        # The agent does not take the cached one any more (its key is gone): one more run, and it works.
        second = self.keygen("second")
        self.key.write_text(second.read_text())
        self.trust("second")
        self.box.process.send_signal(signal.SIGHUP)
        wait_for("the first key to be gone", lambda: self.by_command(command, "true").returncode == 0 and len(self.runs()) == 2)
        self.assertEqual(self.by_command(command, "true").returncode, 0)
        self.assertEqual(self.runs(), ["shell"] * 2)

    def test_a_grant_that_expired_is_refreshed_once_for_all_who_wait(self):
        # A run under way goes on over the end of its grant, and new ones wait for one refresh.
        ttl, go = self.work / "ttl", self.work / "go"
        ttl.write_text("2s")
        os.mkfifo(go)
        command = self.command(before=f"test -e {self.work}/block && cat {go}").replace("--ttl 10m", f"--ttl $(cat {ttl})")
        long_one = subprocess.Popen(
            [EXEC, self.box.url, "--grant-command", command, "--", "sh", "-c", "echo began; read line; echo $line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(long_one.stdout.close)
        self.addCleanup(long_one.kill)
        self.assertEqual(long_one.stdout.readline(), b"began\n")
        (self.work / "block").touch()  # first: the long one renews its grant by itself
        ttl.write_text("10m")
        cached = next(p for p in (self.work / "run/sandbar/grants").iterdir() if "." not in p.name)
        wait_for("the grant to expire", lambda: time.time() > json.loads(cached.read_text())["expires_at"])
        before = len(self.runs())
        crowd = [subprocess.Popen([EXEC, self.box.url, "--grant-command", command, "--", "true"], env=self.environment,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(20)]
        lock = next((self.work / "run/sandbar/grants").glob("*.lock"))

        def waiting():
            pids = [p.pid for p in crowd]
            held = 0
            for pid in pids:
                try:
                    held += any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(lock) for fd in os.listdir(f"/proc/{pid}/fd"))
                except OSError:
                    pass
            return held == len(pids)

        wait_for("all to wait for the lock", waiting)
        (self.work / "block").unlink()
        with open(go, "w", encoding="utf-8"):
            pass
        for process in crowd:
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 0, said)
        # The long one may have renewed its own in between, for itself and them.
        self.assertLessEqual(len(self.runs()) - before, 1)
        long_one.stdin.write(b"the end\n")
        long_one.stdin.close()
        self.assertEqual(long_one.stdout.read(), b"the end\n")
        self.assertEqual(long_one.wait(timeout=30), 0)

    def test_a_mount_outlives_its_grant(self):
        point = self.mount_by("-o", "grant_command=" + self.command(ttl="3s").replace(",", "\\,"))
        (point / "a").write_text("a")
        # Beyond the first grant's end and the agent's leeway for clocks.
        first = len(self.runs())
        end = time.time() + 3 + 5 + 1
        wait_for("the grant to be over", lambda: time.time() > end)
        (point / "b").write_text("b")
        self.assertEqual((self.box.root / "b").read_text(), "b")
        self.assertGreater(len(self.runs()), first)
        # In the mount sandbox-exec asks the same command, for its own kind.
        done = run(EXEC, "--", "cat", "b", cwd=point, env=self.environment)
        self.assertEqual(done.stdout, "b")
        self.assertIn("shell", self.runs())

    def test_a_command_that_fails_says_why(self):
        done = self.by_command("echo log in first >&2; exit 7", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("log in first", done.stderr)
        done = self.by_command("echo '{\"token\":\"s3cret\"}'", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("expires_at", done.stderr)
        self.assertNotIn("s3cret", done.stderr)
        # A grant of the wrong kind: the agent lets in, and says what is missing.
        done = self.by_command(self.command(kind="files"), "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("a shell grant is needed", done.stderr)

    def test_a_token_is_in_no_argument_and_no_environment(self):
        """Of the driver, of sandbox-exec, of the command of an exec: target, of the grant command, and of the command in
        the sandbox."""
        token = self.box.token_file.read_text().strip()
        target = f"exec:exec {SANDBOXD} agent --root {self.box.root} --stdio --no-auth"
        environment = {**self.environment, "SANDBOX_TOKEN": token}
        point = self.folder("mnt")
        run(MOUNT, target, point, env=environment)
        self.addCleanup(self.unmount, point)
        running = []
        for words in ([EXEC, self.box.url], [EXEC, target]):
            process = subprocess.Popen([*words, "--", "sh", "-c", "echo began; env; echo end; read line"], env=environment,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            running.append(process)
            lines = []
            while not lines or lines[-1] != b"end\n":
                lines.append(process.stdout.readline())
                self.assertTrue(lines[-1])
            self.assertEqual(lines[0], b"began\n")
            self.assertNotIn(token.encode(), b"".join(lines))
        me = os.getpid()
        seen = set()
        for pid in processes():
            if pid == me:
                continue
            arguments = text_of(f"/proc/{pid}/cmdline")
            shown = arguments + text_of(f"/proc/{pid}/environ")
            self.assertNotIn(token.encode(), shown, arguments)
            for program in (b"sandbox-mount", b"sandbox-exec", b"sandboxd"):
                if program in arguments.split(b"\0")[0]:
                    seen.add(program)
        self.assertEqual(seen, {b"sandbox-mount", b"sandbox-exec", b"sandboxd"}, "they run, and were looked at")
        for process in running:
            process.stdin.close()
            process.wait(timeout=30)
        done = run(EXEC, self.box.url, "--grant-command", f"env > {self.work}/env; {self.command()}", "--", "true", env=environment)
        self.assertEqual(done.stderr, "")
        shown = (self.work / "env").read_text()
        self.assertIn("SANDBAR_GRANT_KIND=shell\n", shown)
        self.assertNotIn(token, shown)
        self.box.log.seek(0)
        self.assertNotIn(token, self.box.log.read())

    def test_keys_are_exchanged_without_a_restart(self):
        old = self.grant("shell")
        second = self.keygen("second")
        new = self.grant("shell", key=second)
        self.assertEqual(self.with_token(new, "true").returncode, 125)
        self.trust("first", "second")
        self.box.process.send_signal(signal.SIGHUP)
        wait_for("the second key", lambda: self.with_token(new, "true").returncode == 0)
        self.assertEqual(self.with_token(old, "true").returncode, 0)
        # A file that cannot be read changes nothing, and is told.
        self.pubkeys.write_text("no key")
        self.box.process.send_signal(signal.SIGHUP)

        def told():
            self.box.log.seek(0)
            return "keys stay as they were" in self.box.log.read()

        wait_for("the complaint", told)
        self.assertEqual(self.with_token(new, "true").returncode, 0)
        self.trust("second")
        self.box.process.send_signal(signal.SIGHUP)
        wait_for("the first key to be gone", lambda: self.with_token(old, "true").returncode == 125)
        self.assertEqual(self.with_token(new, "true").returncode, 0)

    def test_a_grant_for_another_user_acts_as_nobody_else(self):
        uid = str(os.getuid() + 1)
        done = self.with_token(self.grant("shell", "--uid", uid), "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"does not allow acting as uid {os.getuid()}", done.stderr)
        self.assertEqual(self.with_token(self.grant("shell", "--uid", os.getuid()), "true").returncode, 0)


if __name__ == "__main__":
    main()
