# SPDX-License-Identifier: Apache-2.0
"""sandbox-exec: output, exit codes, signals and streams as if the command ran here."""

import hashlib
import os
import signal
import subprocess
import threading

from harness import EXEC, Case, main, run, soak, wait_for


class Exec(Case):
    def setUp(self):
        super().setUp()
        self.box = self.agent()

    def start(self, *command, options=(), box=None, **popen):
        box = box or self.box
        popen.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(
            [EXEC, box.url, "--token-file", str(box.token_file), *options, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_exit_codes(self):
        for code in range(0, 256, soak(5, 1)):
            self.assertEqual(self.exec(self.box, "sh", "-c", f"exit {code}").returncode, code)

    def test_signals(self):
        for number in range(1, 32):
            if number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCHLD,
                          signal.SIGCONT, signal.SIGURG, signal.SIGWINCH):
                continue
            done = self.exec(self.box, "sh", "-c", f"ulimit -c 0; kill -{number} $$")
            self.assertEqual(done.returncode, 128 + number, done.stderr)

    def test_not_found_and_not_executable(self):
        done = self.exec(self.box, "no-such-command-here")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-command-here", done.stderr)
        (self.box.root / "plain").write_text("text")
        self.assertEqual(self.exec(self.box, "./plain").returncode, 126)
        done = self.exec(self.box, "true", options=["--cwd", "/nowhere"])
        self.assertEqual(done.returncode, 125)
        self.assertIn("/nowhere", done.stderr)

    def test_directory_and_environment(self):
        self.box.root.joinpath("sub").mkdir()
        done = self.exec(self.box, "sh", "-c", "pwd; echo $A-$B", options=["--cwd", "sub", "--env", "A=1", "--env", "B=x y"])
        self.assertEqual(done.stdout, f"{self.box.root}/sub\n1-x y\n")
        done = self.exec(self.box, "sh", "-c", "pwd", options=["--cwd", "../../.."])
        self.assertEqual(done.stdout, f"{self.box.root}\n", "no way out of the root")

    def test_the_token_stays_out_of_the_command(self):
        token = self.box.token_file.read_text().strip()
        done = self.exec(self.box, "env", env={**os.environ, "SANDBOX_TOKEN": token})
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(token, done.stdout)

    def test_stdin_ends(self):
        done = self.exec(self.box, "cat", input="x\n")
        self.assertEqual((done.returncode, done.stdout), (0, "x\n"))
        done = self.exec(self.box, "sh", "-c", "cat; echo behind", input="")
        self.assertEqual(done.stdout, "behind\n")
        self.assertEqual(self.exec(self.box, "cat").stdout, "")

    def test_an_open_stdin_does_not_keep_a_finished_command(self):
        process = self.start("echo", "done", stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertEqual(process.stdout.read(), b"done\n")

    def test_streams_arrive_whole(self):
        megabytes = soak(64, 1024)
        block = os.urandom(1 << 20)
        process = self.start("cat", stdin=subprocess.PIPE)
        sent, got = hashlib.sha256(), hashlib.sha256()

        def feed():
            for _ in range(megabytes):
                process.stdin.write(block)
                sent.update(block)
            process.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        count = 0
        while piece := process.stdout.read(1 << 20):
            got.update(piece)
            count += len(piece)
        feeder.join()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(count, megabytes << 20)
        self.assertEqual(got.hexdigest(), sent.hexdigest())

    def test_every_byte_value(self):
        every = bytes(range(256)) * 3
        done = self.exec(self.box, "cat", input=every, text=False)
        self.assertEqual(done.stdout, every)

    def test_stderr_before_stdout(self):
        """10 MB on stderr, then stdout, to a reader that takes stdout first: it must not need to read stderr first, nor
        lose any of it."""
        done = self.exec(self.box, "sh", "-c", "head -c 10000000 /dev/zero >&2; echo out")
        self.assertEqual(done.stdout, "out\n")
        self.assertEqual(len(done.stderr), 10_000_000)

    def test_a_slow_reader_loses_nothing(self):
        process = self.start("seq", str(soak(300_000, 2_000_000)))
        digest = hashlib.sha256()
        while piece := process.stdout.read(4096):
            digest.update(piece)
        self.assertEqual(process.wait(timeout=60), 0)
        expected = run("seq", soak(300_000, 2_000_000), text=False).stdout
        self.assertEqual(digest.hexdigest(), hashlib.sha256(expected).hexdigest())

    def test_the_first_byte_comes_before_the_end(self):
        process = self.start("sh", "-c", "echo first; read line; echo $line", stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"first\n")
        process.stdin.write(b"second\n")
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"second\n")
        self.assertEqual(process.wait(timeout=30), 0)

    def test_short_commands_lose_nothing(self):
        for i in range(soak(100, 10_000)):
            done = self.exec(self.box, "echo", str(i))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{i}\n", ""))

    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("sh", "-c", "trap 'echo got; exit 7' INT TERM HUP; echo ready; while :; do sleep 0.05; done")
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), b"got\n")
            self.assertEqual(process.wait(timeout=30), 7)

    def test_a_killed_client_leaves_no_process(self):
        box = self.agent(name="short", extra=["--session-lease", "1s"])
        process = self.start("sh", "-c", "echo $$; exec sleep 1000", box=box)
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
        wait_for("the command to be gone", lambda: not os.path.exists(f"/proc/{pid}"))

    def test_a_dying_agent_is_never_a_zero(self):
        box = self.agent(name="short", extra=["--session-lease", "2s"])
        process = self.start("sleep", "1000", box=box)
        wait_for("the command to run", lambda: b"sleep" in run("ps", "--ppid", box.process.pid, "-o", "comm", text=False, check=False).stdout)
        box.process.kill()
        self.assertEqual(process.wait(timeout=30), 125)
        self.assertIn(b"could not be reached", process.stderr.read())

    def test_a_closed_reader_ends_the_command(self):
        done = run("sh", "-c", f"'{EXEC}' {self.box.url} --token-file {self.box.token_file} -- yes | head -n 3")
        self.assertEqual(done.stdout, "y\ny\ny\n")

    def test_the_target_comes_from_the_mount(self):
        mount = self.mount(self.box)
        (mount / "src/deep").mkdir(parents=True)
        done = run(EXEC, "--", "pwd", cwd=mount / "src/deep")
        self.assertEqual(done.stdout, f"{self.box.root}/src/deep\n")
        part = self.mount(self.box, name="part", path="/src")
        self.assertEqual(run(EXEC, "--", "pwd", cwd=part / "deep").stdout, f"{self.box.root}/src/deep\n")

    def test_usage_errors_are_125(self):
        for words in ([], ["--nonsense"], [self.box.url], ["nonsense:target", "--", "true"], [self.box.url, "--env"]):
            done = run(EXEC, *words, check=False, cwd="/")
            self.assertEqual(done.returncode, 125, words)
            self.assertRegex(done.stderr, r"(?s)^sandbox-exec: .+")

    def test_nobody_there_and_wrong_token(self):
        done = run(EXEC, "unix:/nowhere.sock", "--", "true", check=False)
        self.assertEqual(done.returncode, 125)
        self.assertIn("/nowhere.sock", done.stderr)
        done = run(EXEC, self.box.url, "--", "true", check=False, env={**os.environ, "SANDBOX_TOKEN": "wrong"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("token", done.stderr)
        self.assertNotIn("wrong", done.stderr)


if __name__ == "__main__":
    main()
