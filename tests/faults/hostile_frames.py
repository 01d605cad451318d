# SPDX-License-Identifier: Apache-2.0
"""Clients that break the protocol on purpose, against a real agent: frames, numbers, heads, credits, counts. After each the agent
serves an honest client as before, and its memory is bounded."""

import threading
import time

from faulty import main, wait_for
from hostile_case import MEMORY, HostileCase
from mux_peer import (ACK, CREDIT, DATA, END, HELLO, LIMITS, MORE, OPEN, PING, PONG, REQUEST, RESPONSE, Closed, Peer, connect,
                      frame_bytes)


class Frames(HostileCase):
    def test_the_peer_itself_is_understood(self):
        """Else the rest would show nothing."""
        peer, _ = self.greeted(journal="a journal")
        peer.request("attach", object=1, path="/")
        peer.request("lookup", parent=1, name="f", object=2)
        peer.request("open", object=2, handle=1)
        frame = peer.ask("read", handle=1, size=20)
        self.assertEqual(frame.body, b"01234567890123456789")
        self.assertEqual(peer.ask("make_directory", parent=1, name="d", mode=0o755, object=3, mutation=1).flags, 0)
        self.assertTrue((self.box.root / "d").is_dir())
        peer.send(PING, 77)
        self.assertEqual(peer.receive(PONG).channel, 77)

    def test_broken_frames(self):
        """Each ends the connection with the code protocol."""
        big = b"x" * 262_145
        wrong = {
            "version": lambda p: p.send(PING, version=2), "type 0": lambda p: p.send(0, 1, sequence=1),
            "type 14": lambda p: p.send(14, 1, sequence=1), "type 255": lambda p: p.send(255, 1, sequence=1),
            "lane": lambda p: p.send(OPEN, 1, lane=1), "flags": lambda p: p.send(OPEN, 1, flags=128),
            "failed request": lambda p: p.send(REQUEST, 1, {"op": "attach"}, flags=2),
            "head beyond the message": lambda p: p.send(REQUEST, 1, b"{}", head_length=1000),
            "head of 4 GiB": lambda p: p.send(REQUEST, 1, b"{}", head_length=0xFFFFFFFF),
            "head too long": lambda p: p.send(REQUEST, 1, b'"' + big + b'"'), "body too long": lambda p: p.send(DATA, 1, body=big),
            "short": lambda p: p.web.send(b"\x01\x02\x00"), "empty": lambda p: p.web.send(b""),
            "ping with a head": lambda p: p.send(PING, 1, {"a": 1}), "ack with a body": lambda p: p.send(ACK, 1, body=b"x"),
            "numbered ping": lambda p: p.send(PING, 1, sequence=1), "numbered ack": lambda p: p.send(ACK, 1, sequence=1),
            "request without number": lambda p: p.send(REQUEST, 1, {"op": "attach", "object": 1, "path": "/"}, sequence=0),
            "number twice": lambda p: (p.send(OPEN, 1), p.send(OPEN, 3, sequence=1)),
            "number left out": lambda p: p.send(OPEN, 1, sequence=2),
            "huge number": lambda p: p.send(OPEN, 1, sequence=2**64 - 1),
            "second hello": lambda p: p.send(HELLO, 0, {"limits": LIMITS}),
            "ack of frames never sent": lambda p: p.send(ACK, 1000),
            "huge ack": lambda p: p.send(ACK, 2**64 - 1),
            "response to nothing": lambda p: p.send(RESPONSE, 5, {"is": "empty"}),
            "request 0": lambda p: p.send(REQUEST, 0, {"op": "attach"}),
            "data on nothing": lambda p: p.send(DATA, 99, body=b"x"), "end of nothing": lambda p: p.send(END, 99),
            "credit for nothing": lambda p: p.send(CREDIT, 99, {"bytes": 1}), "even channel": lambda p: p.send(OPEN, 2),
            "channel twice": lambda p: (p.send(OPEN, 1), p.send(OPEN, 1)), "channel 0": lambda p: p.send(OPEN, 0),
            "credit of 0": lambda p: (p.send(OPEN, 1), p.send(CREDIT, 1, {"bytes": 0})),
            "huge credit": lambda p: (p.send(OPEN, 1), p.send(CREDIT, 1, {"bytes": 2**63})),
            "credit never used": lambda p: (p.send(OPEN, 1), [p.send(CREDIT, 1, {"bytes": 1 << 20}) for _ in range(3)]),
            "text message": lambda p: p.web.send(b"hello", opcode=1),
        }
        results = {}
        for name, act in wrong.items():
            peer, _ = self.greeted()
            try:
                act(peer)
            except Closed:
                pass
            results[name] = peer.wait_closed(5)
        # Where the WebSocket itself is broken there is nobody to say goodbye to.
        bad = {name: code for name, code in results.items() if code != "protocol" and name != "text message"}
        self.assertEqual(bad, {})

    def test_a_credit_overrun(self):
        """More data than the window, to a command that reads none of it."""
        peer, _ = self.greeted()
        peer.send(OPEN, 1)
        peer.ask("spawn", id="sleeper", argv=["sleep", "1000"], stdin=1)
        try:
            for _ in range(40):
                peer.send(DATA, 1, body=b"x" * 65536)
        except Closed:
            pass
        self.ends(peer)

    def test_requests_without_end(self):
        """More than the bound of unanswered ones, and of their bytes."""
        peer, _ = self.greeted()
        try:
            for number in range(1, 6000):
                peer.send(REQUEST, number, {"op": "read", "handle": 1, "size": 10}, body=b"x", flags=MORE)
        except Closed:
            pass
        self.ends(peer)
        peer, _ = self.greeted()
        try:
            for number in range(1, 40):
                for piece in range(4):
                    peer.send(REQUEST, number, {"op": "write", "handle": 1} if piece == 0 else None, body=b"x" * 262_144, flags=MORE)
        except Closed:
            pass
        self.ends(peer)
        peer, _ = self.greeted()
        try:
            for piece in range(8):  # one body beyond max_body
                peer.send(REQUEST, 1, {"op": "write", "handle": 1} if piece == 0 else None, body=b"x" * 262_144, flags=MORE)
        except Closed:
            pass
        self.ends(peer)

    def test_channels_without_end(self):
        peer, _ = self.greeted()
        try:
            for number in range(1, 10_001, 2):
                peer.send(OPEN, number)
        except Closed:
            pass
        self.ends(peer)

    def test_heads_that_cannot_be(self):
        """They fail alone, and cost nothing."""
        heads = [b"", b"{", b"[]", b"null", b'{"op":"read","op":"read"}', b'{"op":1}', b'{"op":"nonsense"}', b'{"op":"read","handle":-1,"size":1}',
                 b'{"op":"read","handle":1e99,"size":1}', b'{"op":"read","handle":1,"size":99999999999}', b'{"a":' * 200 + b"1" + b"}" * 200,
                 b'{"op":"release","objects":[' + b"1," * 60_000 + b"1]}", b'{"op":"lookup","parent":1,"object":2,"name":"' + b"n" * 300 + b'"}',
                 b'{"op":"lookup","parent":1,"object":2,"name":"..\\u0000"}', b'{"op":"lookup","parent":1,"object":2,"name":{"b64":"!!"}}',
                 b'{"op":"lookup","parent":1,"object":2,"name":"\xff\xfe"}', b"\xef\xbb\xbf{}", b"[" * 100_000]
        for head in heads:
            peer, _ = self.greeted()
            peer.send(REQUEST, 1, head)
            try:
                frame = peer.answer(1)
                self.assertTrue(frame.flags & 2, (head[:50], frame))
                self.assertIn(frame.head["code"], ("protocol", "invalid", "os", "limit"), head[:50])
                peer.requests = 1
                self.assertEqual(peer.ask("attach", object=1, path="/").flags, 0, "only that one failed")
            except Closed as closed:
                self.assertEqual(closed.code, "protocol", head[:50])

    def test_a_client_that_takes_no_answers(self):
        """It asks for gigabytes, and neither reads nor acknowledges: the agent keeps little for it."""
        peer, _ = self.greeted()
        (self.box.root / "big").write_bytes(b"x" * (1 << 20))
        for op in (("attach", {"object": 1, "path": "/"}), ("lookup", {"parent": 1, "name": "big", "object": 2}), ("open", {"object": 2, "handle": 1})):
            peer.request(op[0], **op[1])
        peer.web.socket.settimeout(2)
        try:
            for _ in range(4000):
                peer.request("read", handle=1, size=1 << 20)
        except (Closed, TimeoutError):
            pass
        self.honest()  # others are served meanwhile; whatever it piles up is there
        self.assertLess(self.memory() - self.before, MEMORY)
        peer.close()

    def test_one_that_reads_but_never_acknowledges(self):
        """The agent may keep sending up to its bound, no further."""
        peer, _ = self.greeted()
        (self.box.root / "big").write_bytes(b"x" * (1 << 20))
        peer.request("attach", object=1, path="/")
        peer.request("lookup", parent=1, name="big", object=2)
        peer.request("open", object=2, handle=1)
        for _ in range(200):
            peer.request("read", handle=1, size=1 << 20)
        peer.web.socket.settimeout(3)
        total = 0
        try:
            while True:
                total += len(peer.receive(RESPONSE).body)
        except (TimeoutError, Closed):
            pass
        self.assertGreater(total, 1 << 20)
        self.assertLess(total, 80 << 20, "it sent on without acknowledgement")
        self.assertLess(self.memory() - self.before, MEMORY)

    def test_hellos_that_cannot_be(self):
        wrong = {
            "limits missing": {}, "limit 0": {"limits": {**LIMITS, "max_requests": 0}}, "small body": {"limits": {**LIMITS, "max_body": 10}},
            "text limit": {"limits": {**LIMITS, "max_body": "x"}}, "long software": {"limits": LIMITS, "software": "x" * 300},
            "long journal": {"limits": LIMITS, "journal": "x" * 300}, "negative fence": {"limits": LIMITS, "fence": -1},
        }
        for name, head in wrong.items():
            with self.subTest(what=name):
                peer = self.peer()
                peer.send(HELLO, 0, head)
                self.ends(peer)
        with self.subTest(what="a request first"):
            peer = self.peer()
            peer.send(REQUEST, 1, {"op": "attach", "object": 1, "path": "/"})
            self.ends(peer)

    def test_a_hello_that_does_not_come(self):
        """10 seconds, and an end; with little drips, too."""
        quiet, dripping = self.peer(), self.peer()
        data = frame_bytes(HELLO, 0, {"limits": LIMITS})
        begin = time.monotonic()
        dripping.web.raw(dripping.web.header(len(data)) + b"\0\0\0\0")

        def drip():
            try:
                for byte in data[:20]:
                    dripping.web.raw(bytes([byte]))
                    time.sleep(1)  # one that drips: slow is what it is
            except Closed:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        quiet.wait_closed()
        dripping.wait_closed()
        self.assertLess(time.monotonic() - begin, 15)
        thread.join()

    def test_many_that_say_nothing(self):
        """Connections without a hello are bounded, and do not lock honest clients out for long."""
        peers = []
        try:
            for _ in range(400):
                peers.append(Peer(connect(self.box.url[len("unix:"):], self.token, timeout=2)))
        except (Closed, TimeoutError, OSError):
            pass
        wait_for("an honest client to be served", lambda: self.exec(self.box, "true", timeout=60).returncode == 0, 40)
        for peer in peers:
            peer.close()

    def test_messages_that_are_too_large(self):
        for length in (524_313, 1 << 31, 2**63 - 1):
            peer, _ = self.greeted()
            try:
                peer.web.raw(peer.web.header(length) + b"\0\0\0\0" + b"x" * 100_000)
            except Closed:
                pass
            peer.wait_closed()
        peer, _ = self.greeted()
        try:
            peer.web.send(b"x" * 1000, final=False)
            for _ in range(100_000):  # fragments without end, of one message
                peer.web.send(b"x" * 1000, opcode=0, final=False)
        except Closed:
            pass
        peer.wait_closed()


if __name__ == "__main__":
    main()
