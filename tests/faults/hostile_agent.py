# SPDX-License-Identifier: Apache-2.0
"""An agent that lies, against sandbox-exec and sandbox-mount: they end with their code for it and one message that can be
shown, in time; they do not hang, do not crash, do not grow, and never say that a command succeeded."""

import contextlib
import os
import subprocess
import threading
import time

from faulty import Background, FaultCase
from harness import EXEC, MOUNT, is_mounted, main
from mux_peer import (ACK, CANCEL, CREDIT, DATA, END, FAILED, GOODBYE, HELLO, LIMITS, OPEN, PING, REQUEST, RESET, RESPONSE, Closed,
                      Server)

SESSION = {"session": "5e55" * 8, "lease": 30}
TIME = [1_700_000_000, 0]
DIRECTORY = [1, 1, TIME, 0o40755, 2, 0, 0, 0, 4096, 8, 4096, TIME, TIME, TIME, False]


class HostileAgent(FaultCase):
    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.close)
        self.point = self.folder("mnt")
        self.peers = []
        self.addCleanup(lambda: [peer.close() for peer in self.peers])

    def accept(self, **fields):
        peer, theirs = self.server.accept(**fields)
        self.peers.append(peer)
        return peer, theirs

    def start(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "SANDBOX_TOKEN": "x"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def start_exec(self, *command):  # pylint: disable=arguments-differ
        return self.start(EXEC, self.server.url, "--", *(command or ("true",)))

    def start_mount(self):
        self.addCleanup(self.unmount, self.point)
        return self.start(MOUNT, self.server.url, str(self.point), "-o", "timeout=3")

    def ended(self, process, code, seconds=40):
        begin = time.monotonic()
        out, err = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, code, (out, err))
        self.assertRegex(err.decode(), "(?m)^sandbox-(exec|mount): .+$")
        self.assertNotRegex(err, rb"[\x00-\x09\x0b-\x1f]")
        self.assertNotIn(b"assert", err.lower())
        return time.monotonic() - begin

    @staticmethod
    def serve_spawn(peer):
        """Answers what comes up to the spawn; that request's number."""
        while True:
            frame = peer.receive(REQUEST)
            if frame.head["op"] == "spawn":
                return frame

    def running_exec(self, **fields):
        """An exec whose command "runs": (process, peer, the spawn's head, the number of its wait)."""
        process = self.start_exec()
        peer, _ = self.accept(**fields)
        spawn = self.serve_spawn(peer)
        peer.send(RESPONSE, spawn.channel, {"is": "spawned", "pid": 77})
        waiting = peer.receive(REQUEST)
        self.assertEqual(waiting.head["op"], "wait_process")
        return process, peer, spawn.head, waiting.channel

    @staticmethod
    def say_exit(peer, spawn, number, **how):
        for name in ("stdout", "stderr"):
            peer.send(END, spawn[name])
        peer.send(RESPONSE, number, {"is": "exit", **how})

    def test_an_agent_of_ours_is_understood(self):
        """Else the rest would show nothing."""
        process, peer, spawn, number = self.running_exec()
        peer.send(DATA, spawn["stdout"], body=b"out\n")
        self.say_exit(peer, spawn, number, code=5)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (5, b"out\n"), err)

    def test_hellos(self):
        wrong = ({}, {"limits": {**LIMITS, "max_body": 1}}, {"limits": LIMITS, "session": "x" * 300}, {"limits": LIMITS, "lease": -1},
                 {"limits": LIMITS, "capabilities": "files"}, {"limits": LIMITS, "capabilities": [], "root": "/"})
        for head in wrong:
            for start, code in ((self.start_exec, 125), (self.start_mount, 1)):
                with self.subTest(head=head, code=code):
                    process = start()
                    peer, _ = self.accept(says_hello=False)
                    with contextlib.suppress(Closed):
                        peer.send(HELLO, 0, head)
                        peer.wait_closed(5)
                    peer.close()
                    self.ended(process, code)
                    self.assertFalse(is_mounted(self.point))

    def test_frames_that_break_the_protocol(self):
        """In the middle of a command. A link that breaks is no end: who lies is not trusted again."""
        wrong = {
            "ack of frames never sent": lambda p, s, n: p.send(ACK, 10_000), "huge ack": lambda p, s, n: p.send(ACK, 2**64 - 1),
            "ack that is numbered": lambda p, s, n: p.send(ACK, 1, sequence=1),
            "number left out": lambda p, s, n: p.send(DATA, s["stdout"], body=b"x", sequence=p.sent + 2),
            "number twice": lambda p, s, n: p.send(DATA, s["stdout"], body=b"x", sequence=p.sent),
            "second hello": lambda p, s, n: p.send(HELLO, 0, Server.greeting()), "version": lambda p, s, n: p.send(PING, version=9),
            "response to nothing": lambda p, s, n: p.send(RESPONSE, 4711, {"is": "empty"}),
            "wrong answer": lambda p, s, n: p.send(RESPONSE, n, {"is": "empty"}),
            "unknown answer": lambda p, s, n: p.send(RESPONSE, n, {"is": "nonsense"}),
            "a signal that is none": lambda p, s, n: self.say_exit(p, s, n, signal=10**6),
            "a code that is none": lambda p, s, n: self.say_exit(p, s, n, code=256),
            "data on nothing": lambda p, s, n: p.send(DATA, 999, body=b"x"),
            "data beyond the credit": lambda p, s, n: [p.send(DATA, s["stdout"], body=b"x" * 262_144) for _ in range(20)],
            "odd channel": lambda p, s, n: p.send(OPEN, 1001), "credit beyond": lambda p, s, n: p.send(CREDIT, s["stdin"], {"bytes": 1 << 20}),
            "frame too large": lambda p, s, n: p.web.raw(p.web.header(1 << 40)), "short": lambda p, s, n: p.web.send(b"\x01"),
            "cancel of nothing and goodbye": lambda p, s, n: (p.send(CANCEL, 5), p.send(GOODBYE, 0, {"code": "protocol"})),
            "escapes": lambda p, s, n: p.send(RESPONSE, n, {"code": "internal", "message": "\x1b[31mred\x07\nsandbox-exec: all is well"}, flags=FAILED),
            "reset": lambda p, s, n: p.send(RESET, s["stdout"], {"code": "internal", "message": "\x1b]0;x\x07"}),
        }
        for name, act in wrong.items():
            with self.subTest(what=name):
                process, peer, spawn, number = self.running_exec()
                with contextlib.suppress(Closed):
                    act(peer, spawn, number)
                reader = Background(peer.wait_closed, 20)
                if name == "reset":  # of one stream; the command's end is still the agent's word
                    peer.send(END, spawn["stderr"])
                    peer.send(RESPONSE, number, {"is": "exit", "code": 0})
                    out, err = process.communicate(timeout=30)
                    self.assertNotRegex(err, rb"[\x00-\x09\x0b-\x1f]")
                    self.assertEqual((process.returncode, out), (125, b""), err)
                else:
                    self.ended(process, 125)
                peer.close()
                reader.join()

    def lying_resume(self, answer, code=125, seconds=60):
        """A command's connection is cut; every new one gets answer(peer, hello of the client)."""
        process, peer, _, _ = self.running_exec(**SESSION)
        peer.close()
        stop = threading.Event()
        seen = []

        def serve():
            while not stop.is_set():
                try:
                    again, theirs = self.accept(says_hello=False)
                except (TimeoutError, OSError, Closed):
                    return
                seen.append(theirs)
                with contextlib.suppress(Closed, TimeoutError, AssertionError):
                    answer(again, theirs)
                    again.wait_closed(5)
                again.close()

        self.server.listener.settimeout(3)
        server = Background(serve)
        try:
            took = self.ended(process, code, seconds)
        finally:
            stop.set()
            self.server.close()
            server.join()
        self.assertGreater(len(seen), 0, "it did not come back")
        self.assertEqual(seen[0]["session"], SESSION["session"])
        self.assertGreaterEqual(seen[0]["fence"], 1)
        fences = [theirs["fence"] for theirs in seen if theirs.get("session")]
        self.assertEqual(fences, sorted(set(fences)), "each time a higher one")
        return took, seen

    def hello_with(self, **fields):
        return lambda peer, theirs: peer.send(HELLO, 0, {**Server.greeting(), **SESSION, **fields})

    def test_a_resume_that_knows_nothing(self):
        self.lying_resume(lambda peer, theirs: peer.send(GOODBYE, 0, {"code": "unknown", "message": "no such session"}))

    def test_a_resume_into_another_session(self):
        self.lying_resume(self.hello_with(session="abcd" * 8, received=1))

    def test_a_resume_without_a_session(self):
        self.lying_resume(lambda peer, theirs: peer.send(HELLO, 0, Server.greeting()))

    def test_a_resume_that_received_the_future(self):
        self.lying_resume(self.hello_with(received=100_000))

    def test_a_resume_at_the_last_number(self):
        self.lying_resume(self.hello_with(received=2**64 - 1))

    def test_a_resume_by_another_agent(self):
        """It has the id, and is another one by its own word."""
        self.lying_resume(lambda peer, theirs: (peer.send(GOODBYE, 0, {"code": "unauthorized", "message": "who are you"})))

    def test_a_resume_that_repeats_what_was_received(self):
        """Frames that came before the cut are dropped, not given to anybody twice; then a gap is noticed."""
        def answer(peer, theirs):
            peer.send(HELLO, 0, {**Server.greeting(), **SESSION, "received": 0})
            peer.send(RESPONSE, 1, {"is": "spawned", "pid": 77}, sequence=1)
            peer.send(RESPONSE, 1, {"is": "spawned", "pid": 77}, sequence=50)

        self.lying_resume(answer)

    def test_an_honest_resume(self):
        """What was not received is sent again, the rest is not."""
        process, peer, spawn, number = self.running_exec(**SESSION)
        got, sent = peer.received, peer.sent
        peer.close()
        again, theirs = self.accept(**SESSION, received=got)
        self.assertEqual((theirs["session"], theirs["fence"], theirs["received"]), (SESSION["session"], 1, sent))
        again.received, again.sent = got, sent
        again.send(DATA, spawn["stdout"], body=b"after\n")
        self.say_exit(again, spawn, number, code=6)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (6, b"after\n"), err)

    def test_lies_about_files(self):
        """To a mount that is being made, and to one that is: errors, no hang, no crash of the driver."""
        answers = ({"is": "empty"}, {"is": "attributes"}, {"is": "attributes", "attributes": []},
                   {"is": "attributes", "attributes": [2**64 - 1] * 15}, {"is": "attributes", "attributes": DIRECTORY + [1] * 1000},
                   {"is": "attributes", "attributes": [1, 1, TIME, 0o120777, *DIRECTORY[4:]]})
        for head in answers[:4]:
            with self.subTest(mounting=head):
                process = self.start_mount()
                peer, _ = self.accept()
                with contextlib.suppress(Closed):
                    while True:
                        frame = peer.receive(REQUEST)
                        peer.send(RESPONSE, frame.channel, head)
                self.ended(process, 1)
                self.assertFalse(is_mounted(self.point))
        process = self.start_mount()
        peer, _ = self.accept()
        stop = threading.Event()
        turn = [0]

        def serve():
            with contextlib.suppress(Closed, TimeoutError):
                while not stop.is_set():
                    frame = peer.receive(REQUEST)
                    if frame.head["op"] == "attach" or stop.is_set():
                        peer.send(RESPONSE, frame.channel, {"is": "attributes", "attributes": DIRECTORY})
                        continue
                    turn[0] += 1
                    if frame.head["op"] in ("list", "read"):
                        peer.send(RESPONSE, frame.channel, {"is": "empty"}, os.urandom(500 * (turn[0] % 5)))
                    else:
                        peer.send(RESPONSE, frame.channel, answers[turn[0] % len(answers)])

        server = Background(serve)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        for number in range(60):
            for what in (lambda: os.stat(self.point / f"a{number}"), lambda: os.listdir(self.point), lambda: os.mkdir(self.point / f"d{number}"),
                         lambda: open(self.point / f"f{number}", "wb").close(), lambda: os.readlink(self.point / f"l{number}"),
                         lambda: os.listxattr(self.point / f"x{number}"), lambda: os.statvfs(self.point)):
                with contextlib.suppress(OSError):
                    what()
        self.assertTrue(is_mounted(self.point))
        self.unmount(self.point)
        stop.set()
        peer.close()
        server.join()


if __name__ == "__main__":
    main()
