# SPDX-License-Identifier: Apache-2.0
"""A connect that fails, or is given up, at each of its stages: refused, silent, answered wrongly, broken off in the upgrade
and in the hello. One message, the right code, within its time; nothing is mounted, no process is left."""

import os
import signal
import socket
import subprocess
import threading
import time

from faulty import FaultCase
from harness import EXEC, MOUNT, SOAK, is_mounted, main, run, soak, wait_for

TIMEOUT = 15  # seconds for connect, upgrade and hello together
HTML = (b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 52\r\n\r\n"
        b"<html><body>\x1b[31m<h1>Bad Request</h1></body></html>\n")
ACCEPTED = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\nSec-WebSocket-Protocol: sandbox-mux.v1\r\n\r\n")


def answer(status, body=b"no\n", headers=b""):
    return (b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (status.encode(), len(body), headers)) + body


class Connects(FaultCase):
    def setUp(self):
        super().setUp()
        self.via = self.through_proxy()
        self.proxy = self.via.proxy
        self.point = self.folder("mnt")

    def programs(self):
        token = ["--token-file", str(self.via.token_file)]
        yield "sandbox-exec", [EXEC, self.via.url, *token, "--", "true"], 125
        yield "sandbox-mount", [MOUNT, self.via.url, str(self.point), *token], 1

    def start(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def fails(self, says, prepare, within=5):
        """Both programs; what they say must match."""
        for name, command, code in self.programs():
            with self.subTest(program=name):
                prepare()
                begin = time.monotonic()
                process = self.start(command)
                out, err = process.communicate(timeout=TIMEOUT + 20)
                took = time.monotonic() - begin
                self.assertEqual((process.returncode, out), (code, b""), err)
                self.assertRegex(err.decode(), f"^{name}: [^\n]*(?i:{says})[^\n]*\n$")
                self.assertNotIn(b"\x1b", err)
                self.assertLess(took, within)
                self.nothing_left(process)

    def nothing_left(self, process):
        self.assertFalse(is_mounted(self.point))
        self.assertEqual(os.listdir(self.point), [])
        wait_for("its processes to end", lambda: run("pgrep", "-s", process.pid, check=False).stdout == "", 5)

    def works(self):
        """The same agent, right after."""
        self.proxy.answer_normally()
        self.proxy.accept()
        self.assertEqual(self.exec(self.via, "echo", "well").stdout, "well\n")

    def test_refused(self):
        self.proxy.refuse()
        self.fails("refused", lambda: None)
        self.works()

    def test_answers_that_are_not_an_agent(self):
        wrong = {
            "bad request|400": HTML, "401|token": answer("401 Unauthorized"), "403|refuse": answer("403 Forbidden"),
            "404": answer("404 Not Found"), "302|redirect": answer("302 Found", headers=b"Location: http://127.0.0.1:1/\r\n"),
            "503": answer("503 Service Unavailable"), "200": answer("200 OK"), "426": answer("426 Upgrade Required"),
            "not an agent": b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "websocket|accept|upgrade": ACCEPTED,
            "http|header|upgrade|long|size": b"HTTP/1.1 101 " + b"x" * 70_000 + b"\r\n\r\n",
        }
        for says, text in wrong.items():
            with self.subTest(says=says):
                self.fails(says, lambda text=text: self.proxy.answer_next(text))
        self.works()

    def test_a_wrong_token(self):
        self.via.token_file.write_text("wrong\n")
        self.fails("token", lambda: None)

    def test_a_redirect_does_not_carry_the_token_away(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.settimeout(1)
            self.fails("redirect|302", lambda: self.proxy.redirect_next(f"http://127.0.0.1:{other.getsockname()[1]}/"))
            with self.assertRaises(TimeoutError):
                other.accept()

    def stages(self):
        """Bytes of the agent's answer that are let through before something happens: the upgrade takes about 160."""
        return (0, 1, 40, 120, 170, 200, 300) if not SOAK else tuple(range(0, 420, 5))

    def test_cut_at_each_stage(self):
        """A program may try again, but ends with its message when no try succeeds."""
        for count in self.stages():
            with self.subTest(bytes=count), Cutter(self.proxy, count):
                self.fails("lost|closed|ended|reset|broke|upgrade|connect", lambda: None, within=TIMEOUT + 3)
        self.works()

    def test_silence_at_each_stage(self):
        """In parallel, since each takes its whole time."""
        threads, failures = [], []

        def one(count):
            case = Silent(self, count)
            try:
                case.check()
            except AssertionError as error:
                failures.append((count, str(error)))

        for count in self.stages()[:7]:
            threads.append(threading.Thread(target=one, args=(count,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_given_up_at_each_stage(self):
        """INT, TERM and HUP end it at once, by that signal, whatever it waits for."""
        for count in (None, *self.stages()[:6]):
            for name, command, _ in self.programs():
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[:soak(2, 3)]:
                    with self.subTest(bytes=count, program=name, signal=number):
                        if count is None:
                            self.proxy.answer_next(None)
                        with Staller(self.proxy, count):
                            seen = self.proxy.connections
                            process = self.start(command)
                            wait_for("the connection", lambda: self.proxy.connections > seen)
                            os.kill(process.pid, number)
                            begin = time.monotonic()
                            _, err = process.communicate(timeout=20)
                            self.assertLess(time.monotonic() - begin, 3)
                            self.assertEqual(process.returncode, -number, err)
                            self.nothing_left(process)
        self.works()

    def test_a_hundred_times(self):
        """And the agent is as it was before: no descriptor, no thread, no process more."""
        def measure():
            base = f"/proc/{self.via.agent.process.pid}"
            return len(os.listdir(base + "/fd")), len(os.listdir(base + "/task"))

        self.works()
        before = measure()
        for number in range(soak(100, 1000)):
            name, command, code = list(self.programs())[number % 2]
            how = number % 5
            if how == 0:
                self.proxy.answer_next(HTML)
            elif how == 1:
                self.proxy.redirect_next("http://127.0.0.1:9/")
            with Cutter(self.proxy, number % 300 if how == 2 else None), Staller(self.proxy, number % 300 if how > 2 else None, no_wait=how <= 2):
                process = self.start(command)
                if how > 2:
                    seen = self.proxy.connections
                    wait_for("the connection", lambda: self.proxy.connections > seen or process.poll() is not None or self.proxy.links)
                    process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=60)
                self.assertNotEqual(process.returncode, 0, (name, number, err))
                if how < 3:
                    self.assertEqual(process.returncode, code, err)
                    self.assertNotEqual(err, b"")
            self.assertFalse(is_mounted(self.point))
        self.works()
        wait_for("the agent to be as before", lambda: measure() <= before, 15)


class Cutter:
    """While it lasts every connection is cut behind so many bytes of the agent's answer (None: none is)."""

    def __init__(self, proxy, count):
        self.proxy, self.count = proxy, count

    def __enter__(self):
        self.proxy.do(setattr, self.proxy, "first_bytes", self.count)

    def __exit__(self, *_):
        self.proxy.do(setattr, self.proxy, "first_bytes", None)


class Staller:
    """The same, with silence instead of a cut."""

    def __init__(self, proxy, count, no_wait=False):
        self.proxy, self.count, self.off = proxy, count, no_wait

    def __enter__(self):
        if not self.off:
            self.proxy.do(setattr, self.proxy, "silent_after", self.count)

    def __exit__(self, *_):
        self.proxy.do(setattr, self.proxy, "silent_after", None)
        self.proxy.cut_all()


class Silent:
    """One stage of test_silence_at_each_stage, with a proxy of its own."""

    def __init__(self, case, count):
        self.case, self.count = case, count
        self.via = case.behind(case.via.agent)
        self.via.proxy.do(setattr, self.via.proxy, "silent_after", count)

    def check(self):
        point = self.case.folder(f"silent{self.count}")
        token = ["--token-file", str(self.via.token_file)]
        started = [(time.monotonic(), self.case.start(command), code) for command, code in (
            ([EXEC, self.via.url, *token, "--", "true"], 125), ([MOUNT, self.via.url, str(point), *token], 1))]
        for begin, process, code in started:
            _, err = process.communicate(timeout=TIMEOUT + 20)
            took = time.monotonic() - begin
            assert process.returncode == code, (process.returncode, err)
            assert b"\n" in err and took < TIMEOUT + 2, (took, err)
            assert not is_mounted(point)


if __name__ == "__main__":
    main()
