# SPDX-License-Identifier: Apache-2.0
"""The proxy does what it is told, to the byte: the tests under faults rest on it."""

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
import unittest

from chaos import Chaos, run_script
from faulty import pattern
from harness import main, wait_for
from proxy import FaultProxy
from relay import DOWN, UP


class Echo:
    """Sends back what it gets."""

    def __init__(self, greeting=b""):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.greeting = greeting
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self.echo, args=(connection,), daemon=True).start()

    def echo(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.sendall(self.greeting)
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)


def exactly(connection, count):
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


class Proxy(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.socket.close)
        self.proxy = FaultProxy(self.echo.address).start()
        self.addCleanup(self.proxy.stop)

    def connect(self):
        connection = socket.create_connection(self.proxy.listen_address[1], timeout=10)
        self.addCleanup(connection.close)
        return connection

    def ready(self):
        """A connection that works."""
        connection = self.connect()
        connection.sendall(b"?")
        self.assertEqual(connection.recv(1), b"?")
        return connection

    def total(self, way):
        """The count of forwarded bytes, when the proxy has done what it was doing."""
        return self.proxy.do(lambda: self.proxy.total[way])

    def test_every_byte_and_the_end(self):
        connection = self.connect()
        data = pattern(20_000_000, 1)
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        self.assertEqual(exactly(connection, len(data)), data)
        self.assertEqual(connection.recv(1), b"")
        sender.join()

    def test_cut_and_reset(self):
        connection, other = self.ready(), self.ready()
        self.assertEqual(self.proxy.cut_all(), 2)
        self.assertEqual((connection.recv(1), other.recv(1)), (b"", b""))
        connection = self.ready()
        self.proxy.cut_all(reset=True)
        with self.assertRaises(ConnectionResetError):
            connection.recv(1)
        self.ready()

    def test_truncate(self):
        for way in (UP, DOWN):
            connection = self.ready()
            before = self.total(way)
            self.proxy.truncate(5, way)
            with contextlib.suppress(OSError):
                connection.sendall(b"0123456789")
            got = b""
            with contextlib.suppress(ConnectionResetError):
                got = exactly(connection, 1000)
            self.assertEqual(self.total(way) - before, 5)
            self.assertEqual(got, b"01234" if way == DOWN else b"")
        self.assertEqual(self.proxy.counts["truncate"], 2)

    def test_stall_each_way(self):
        connection = self.ready()
        for way in (UP, DOWN):
            self.proxy.stall(directions=(way,))
            connection.sendall(b"x")
            connection.settimeout(0.3)
            with self.assertRaises(TimeoutError):
                connection.recv(1)
            connection.settimeout(10)
            self.proxy.resume()
            self.assertEqual(connection.recv(1), b"x")
        start = time.monotonic()
        self.proxy.stall(0.3)
        connection.sendall(b"y")
        self.assertEqual(connection.recv(1), b"y")
        self.assertGreater(time.monotonic() - start, 0.29)

    def test_delay_keeps_the_order(self):
        connection = self.ready()
        self.proxy.delay(0.1)
        start = time.monotonic()
        for number in range(100):
            connection.sendall(bytes([number]))
        self.assertEqual(exactly(connection, 100), bytes(range(100)))
        self.assertGreater(time.monotonic() - start, 0.199)

    def test_throttle(self):
        connection = self.ready()
        self.proxy.throttle(1_000_000, (UP,))
        start = time.monotonic()
        threading.Thread(target=connection.sendall, args=(bytes(500_000),)).start()
        exactly(connection, 500_000)
        self.assertGreater(time.monotonic() - start, 0.4)

    def test_refuse_and_accept(self):
        self.ready()
        self.proxy.refuse()
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        self.proxy.accept()
        self.ready()

    def test_answers(self):
        self.proxy.redirect_next("http://elsewhere.invalid/")
        connection = self.connect()
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertIn(b"302 Found\r\nLocation: http://elsewhere.invalid/\r\n", exactly(connection, 1000))
        self.proxy.answer_next(None)
        connection = self.connect()
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        connection.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            connection.recv(1)
        self.ready()

    def test_another_upstream(self):
        other = Echo(greeting=b"other")
        self.addCleanup(other.socket.close)
        kept = self.ready()
        self.proxy.set_upstream(other.address)
        self.assertEqual(exactly(self.connect(), 5), b"other")
        kept.sendall(b"x")
        self.assertEqual(kept.recv(1), b"x")

    def test_script(self):
        run_script(self.proxy, "1000B cut; 200ms refuse")
        connection = self.connect()
        with contextlib.suppress(OSError):
            connection.sendall(bytes(2000))
        with contextlib.suppress(ConnectionResetError):
            exactly(connection, 5000)
        self.assertEqual(self.proxy.counts["cut"], 1)
        wait_for("the second step", lambda: self.proxy.counts["refuse"])
        self.assertEqual(self.proxy.counts["refuse"], 1)
        for wrong in ("cut", "1s nonsense", "1 cut"):
            with self.assertRaises(ValueError):
                run_script(self.proxy, wrong)

    def test_the_seed_gives_the_faults(self):
        kinds = ("cut", "stall", "delay", "truncate", "refuse", "reset")

        def plan(seed):
            chaos = Chaos(self.proxy, seed, every=(0, 0.002), kinds=kinds, longest_stall=0.001)
            with chaos:
                wait_for("enough faults", lambda: len(self.proxy.log) >= 60)
            words = [line.split(": ", 1)[1] for line in self.proxy.log]
            self.proxy.log.clear()
            return [word for word in words if word.startswith(("will", "stall", "refuse"))][:15]

        first = plan(3)
        self.assertGreater(len(first), 5)
        self.assertEqual(plan(3)[:len(first)], first)
        self.assertNotEqual(plan(4)[:len(first)], first)

    def test_by_hand(self):
        script = sys.modules[FaultProxy.__module__].__file__
        process = subprocess.Popen([sys.executable, script, self.echo.address, "--seed", "1", "--every", "1-2", "--script", "1s cut"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        url = process.stdout.readline()
        self.assertRegex(url, r"^ws://127\.0\.0\.1:\d+\n$")
        port = int(re.search(r":(\d+)$", url)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(1), b"")
        process.terminate()
        self.assertRegex(process.stdout.read(), "what the proxy did.*(cut|reset|truncate)")
        self.assertEqual(process.wait(timeout=10), 0)


if __name__ == "__main__":
    main()
