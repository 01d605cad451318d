# SPDX-License-Identifier: Apache-2.0
"""A relay between clients and an agent that breaks connections on purpose.

As a module: FaultProxy, with its methods, or chaos.py's random faults. By hand: proxy.py --help. What it will do depends
on the seed alone (when it meets which byte depends on the machine). It keeps a log of what it did.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import signal
import socket
import threading
import time

from chaos import Chaos, run_script
from relay import BOTH, CHUNK, DOWN, UP, Link, parse_address


class FaultProxy:
    """Listens, and relays to `upstream` what it is not told to break. One thread of its own; every method may be called
    from any other. Addresses: "HOST:PORT" (port 0: a free one) or "unix:PATH"; `url` is the TARGET for clients."""

    def __init__(self, upstream, listen="127.0.0.1:0"):
        self.upstream = parse_address(upstream)
        self.listen_address = parse_address(listen)
        self.links, self.log, self.began = set(), [], time.monotonic()
        self.stalled = {UP: False, DOWN: False}
        self.delays = {UP: 0.0, DOWN: 0.0}
        self.rate = {UP: None, DOWN: None}  # bytes a second
        self.tokens, self.token_time = {UP: 0.0, DOWN: 0.0}, {UP: 0.0, DOWN: 0.0}
        self.total = {UP: 0, DOWN: 0}
        self.at_bytes = []  # (total of both directions, what to do)
        self.answers = collections.deque()  # for the next connections: bytes to say instead of relaying, or None: say nothing
        self.holes = set()
        self.first_bytes = None  # of the agent's, after which each new connection is cut
        self.silent_after = None  # or says nothing more
        self.counts = collections.Counter()
        self.connections = 0
        self.refusing = 0
        self.listener = None
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="proxy")

    # Life.

    def start(self):
        self.thread.start()
        self.do(self.open_listener)
        return self

    def stop(self):
        if not self.thread.is_alive():
            return
        self.do(self.close_all)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        family, address = self.listen_address
        if family == socket.AF_UNIX:
            return f"unix:{address}"
        return f"ws://[{address[0]}]:{address[1]}" if family == socket.AF_INET6 else f"ws://{address[0]}:{address[1]}"

    def do(self, function, *arguments):
        """Runs it on the thread of the proxy, and waits for it."""
        done = threading.Event()
        result = []

        def call():
            try:
                result.append((True, function(*arguments)))
            except BaseException as error:  # pylint: disable=broad-except
                result.append((False, error))
            done.set()

        self.loop.call_soon_threadsafe(call)
        if not done.wait(30):
            raise AssertionError("the proxy hangs")
        good, value = result[0]
        if not good:
            raise value
        return value

    def note(self, what):
        self.log.append(f"{time.monotonic() - self.began:9.3f} s, up {self.total[UP]:,} down {self.total[DOWN]:,}: {what}")

    def describe(self, last=60):
        """The end of the log, for a failed test."""
        return f"what the proxy did ({dict(self.counts)}):\n  " + "\n  ".join(self.log[-last:])

    # Faults.

    def cut_all(self, reset=False):
        """Ends all connections, with FIN or RST; returns how many there were."""
        return self.do(self._cut_all, reset)

    def truncate(self, bytes_left, direction=DOWN):
        """Forwards so many bytes more of each connection, then cuts it: as a rule in the middle of a frame."""
        self.do(self._truncate, bytes_left, direction)

    def stall(self, seconds=None, directions=BOTH):
        """Forwards nothing, and reads nothing, until resume() or for some time."""
        self.do(self._stall, seconds, directions)

    def resume(self, directions=BOTH):
        self.do(self._resume, directions)

    def delay(self, seconds, directions=BOTH):
        """How long each byte is on the way."""
        self.do(self._set, self.delays, seconds, directions)

    def throttle(self, bytes_per_second, directions=BOTH):
        """None: no limit."""
        self.do(self._set, self.rate, bytes_per_second, directions)

    def refuse(self, seconds=None):
        """Refuses new connections (nobody listens), until accept() or for some time."""
        self.do(self._refuse, seconds)

    def accept(self):
        self.do(self._accept)

    def answer_next(self, answer, times=1):
        """What the next connections get instead of the agent: bytes once they have sent a request, or None: nothing."""
        self.do(self.answers.extend, [answer] * times)

    def redirect_next(self, location, times=1):
        text = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.answer_next(text.encode(), times)

    def answer_normally(self):
        self.do(self.answers.clear)

    def set_upstream(self, address):
        """For new connections."""
        self.upstream = parse_address(address)
        self.note(f"upstream {address}")

    def at(self, total_bytes, action):
        """Calls action() on the proxy's thread when so many bytes more have been forwarded, both directions together."""
        self.do(lambda: (self.at_bytes.append((sum(self.total.values()) + total_bytes, action)), self.at_bytes.sort(key=lambda item: item[0])))

    def cutter(self, reset=False):
        """An action for at()."""
        return lambda: self._cut_all(reset)

    # On the thread of the proxy.

    def open_listener(self):
        family, address = self.listen_address
        if family == socket.AF_UNIX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(address)
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen(256)
        self.listener.setblocking(False)
        self.listen_address = family, address if family == socket.AF_UNIX else self.listener.getsockname()[:2]
        self.loop.add_reader(self.listener, self.on_connection)

    def close_listener(self):
        if self.listener is not None:
            self.loop.remove_reader(self.listener)
            self.listener.close()
            self.listener = None

    def close_all(self):
        self.close_listener()
        self._cut_all(False)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for hole in self.holes:
            self.loop.remove_reader(hole)
            hole.close()
        self.holes.clear()

    def on_connection(self):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        client.setblocking(False)
        self.connections += 1
        if self.answers:
            self.speak(client, self.answers.popleft())
            return
        link = Link(self, client)
        self.links.add(link)
        self.note("a connection")
        self.loop.create_task(link.connect())

    def speak(self, client, answer):
        """Takes the agent's place: says its piece when the request is whole, and ends when the client does."""
        self.holes.add(client)
        self.counts["answered"] += 1
        seen = bytearray()

        def on_readable():
            try:
                piece = client.recv(CHUNK)
            except OSError:
                piece = b""
            seen.extend(piece)
            said = False
            if answer is not None and b"\r\n\r\n" in seen:
                said = True
                self.note(f"answered {answer[:40]!r}")
                with contextlib.suppress(OSError):
                    client.send(answer)
                    client.shutdown(socket.SHUT_WR)
            if said or not piece:
                self.loop.remove_reader(client)
                self.holes.discard(client)
                client.close()

        self.loop.add_reader(client, on_readable)

    def _cut_all(self, reset):
        victims = list(self.links)
        if victims:
            self.counts["reset" if reset else "cut"] += 1
            self.note(f"{'reset' if reset else 'cut'} {len(victims)} connections")
        for link in victims:
            link.close("cut", reset)
        self.cut_holes()
        return len(victims)

    def cut_holes(self):
        for hole in list(self.holes):
            self.loop.remove_reader(hole)
            hole.close()
        self.holes.clear()

    def _truncate(self, count, direction):
        for link in self.links:
            link.left[direction] = min(link.left[direction], max(count, 0))
        self.counts["truncate"] += 1
        self.note(f"will truncate {direction} behind {count} bytes")
        self.pump_all()

    def _stall(self, seconds, directions):
        for way in directions:
            self.stalled[way] = True
        self.counts["stall"] += 1
        self.note(f"stall {'+'.join(directions)} {seconds or 'until told'}")
        self.pump_all()
        if seconds is not None:
            self.loop.call_later(seconds, self._resume, directions)

    def _resume(self, directions):
        for way in directions:
            self.stalled[way] = False
        self.note("resume")
        self.pump_all()

    def _set(self, what, value, directions):
        for way in directions:
            what[way] = value
        self.pump_all()

    def _refuse(self, seconds):
        self.close_listener()
        self.refusing += 1
        self.counts["refuse"] += 1
        self.note(f"refuse {seconds or 'until told'}")
        if seconds is not None:
            self.loop.call_later(seconds, self._accept)

    def _accept(self):
        self.refusing = max(0, self.refusing - 1)
        if self.refusing == 0 and self.listener is None:
            self.open_listener()
            self.note("accept again")

    def pump_all(self):
        for link in list(self.links):
            if link.connected:
                for way in link.ways:
                    way.pump()

    def is_stalled(self, way):
        return self.stalled[way]

    def allowance(self, way, now):
        """How many bytes may go at once: a token bucket of 20 ms."""
        rate = self.rate[way]
        if rate is None:
            return CHUNK
        self.tokens[way] = min(max(rate * 0.02, 1024), self.tokens[way] + (now - self.token_time[way]) * rate)
        self.token_time[way] = now
        return int(self.tokens[way])

    def budget_wait(self, way, now):
        if self.rate[way] is None:
            return 0
        return 0 if self.allowance(way, now) >= 512 else max(0.001, 1024 / self.rate[way])

    def on_forwarded(self, way, count):
        self.total[way] += count
        if self.rate[way] is not None:
            self.tokens[way] -= count
        while self.at_bytes and self.at_bytes[0][0] <= sum(self.total.values()):
            self.at_bytes.pop(0)[1]()


def main():
    parser = argparse.ArgumentParser(description="Relays to UPSTREAM and breaks what it is told to.", epilog=(
        "A script: 'WHEN ACTION; ...' with WHEN in ms, s, B, KB, MB (of forwarded bytes) and ACTION one of: cut, reset, "
        "truncate BYTES [up|down], stall [MS] [up|down], resume, delay MS [up|down], throttle BYTES_PER_SECOND, refuse [MS], "
        "redirect URL, upstream ADDRESS. Addresses are HOST:PORT or unix:PATH."))
    parser.add_argument("upstream")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="ADDRESS")
    parser.add_argument("--script", default="", help="what to do when")
    parser.add_argument("--seed", type=int, help="random faults")
    parser.add_argument("--every", default="100-500", metavar="MS-MS", help="how far random faults are apart (100-500)")
    parser.add_argument("--kinds", default="cut,reset,truncate", help="which: of cut,reset,truncate,stall,refuse,delay")
    given = parser.parse_args()
    with FaultProxy(given.upstream, given.listen) as proxy:
        run_script(proxy, given.script)
        print(proxy.url, flush=True)
        if given.seed is not None:
            low, _, high = given.every.partition("-")
            Chaos(proxy, given.seed, (int(low) / 1000, int(high or low) / 1000), given.kinds.split(",")).start()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
        print(proxy.describe(), flush=True)


if __name__ == "__main__":
    # Before there is another thread that could get them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
