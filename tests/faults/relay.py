# SPDX-License-Identifier: Apache-2.0
"""The part of the proxy that moves bytes. All of it runs on the thread of the proxy's loop."""

import collections
import contextlib
import socket
import struct

CHUNK = 256 * 1024
# What is kept of a direction while its receiver is slow; a delayed line holds a bandwidth-delay product more.
QUEUE = 1024 * 1024
DELAYED_QUEUE = 64 * 1024 * 1024
UP, DOWN = "up", "down"
BOTH = (UP, DOWN)


def parse_address(text):
    """"HOST:PORT" or "unix:PATH", as (family, what connect(2) takes)."""
    if text.startswith("unix:"):
        return socket.AF_UNIX, text[len("unix:"):]
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, int(port))


class Direction:
    """One way of a connection: what was read and not yet written, and when it may be."""

    def __init__(self, link, name, source, sink):
        self.link, self.proxy, self.name, self.source, self.sink = link, link.proxy, name, source, sink
        self.queue = collections.deque()  # (time from which it may be written, bytes)
        self.queued = 0
        self.ended = False  # the source has
        self.shut = False  # and the sink was told
        self.reading = self.writing = False
        self.timer = None

    def pump(self):
        """Reads and writes what is possible now, and waits for what is not."""
        if self.link.closed:
            return
        self.timer = None
        self.write()
        if not self.link.closed:
            self.watch()

    def watch(self):
        loop, stalled = self.proxy.loop, self.proxy.is_stalled(self.name)
        bound = DELAYED_QUEUE if self.proxy.delays[self.name] else QUEUE
        stalled = stalled or (self.name == DOWN and self.link.until_silent <= 0)
        read = not self.ended and not stalled and self.queued < bound and self.link.connected
        due = self.queue[0][0] if self.queue else None
        now = loop.time()
        wait = None
        if due is not None and not stalled:
            wait = max(due - now, self.proxy.budget_wait(self.name, now))
        write = wait is not None and wait <= 0
        if read != self.reading:
            loop.add_reader(self.source, self.on_readable) if read else loop.remove_reader(self.source)
            self.reading = read
        if write != self.writing:
            loop.add_writer(self.sink, self.pump) if write else loop.remove_writer(self.sink)
            self.writing = write
        if wait is not None and wait > 0 and self.timer is None:
            self.timer = loop.call_later(wait, self.pump)

    def on_readable(self):
        try:
            piece = self.source.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.link.close("the peer reset", reset=True)
            return
        if piece:
            self.queue.append((self.proxy.loop.time() + self.proxy.delays[self.name], memoryview(piece)))
            self.queued += len(piece)
        else:
            self.ended = True
        self.pump()

    def write(self):
        now = self.proxy.loop.time()
        while self.queue and not self.proxy.is_stalled(self.name) and self.queue[0][0] <= now:
            piece = self.queue[0][1]
            most = min(len(piece), self.proxy.allowance(self.name, now), self.link.left[self.name])
            if self.name == DOWN:
                most = min(most, self.link.until_silent)
            if most <= 0 and self.link.left[self.name] > 0:
                return
            try:
                count = self.sink.send(piece[:most]) if most > 0 else 0
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.link.close("the receiver went away", reset=True)
                return
            self.queued -= count
            self.queue[0] = (self.queue[0][0], piece[count:])
            if not self.queue[0][1]:
                self.queue.popleft()
            self.link.left[self.name] -= count
            if self.name == DOWN:
                self.link.until_silent -= count
            self.proxy.on_forwarded(self.name, count)
            if self.link.closed:
                return
            if self.link.left[self.name] <= 0:
                self.proxy.note(f"truncated {self.name}")
                self.link.close("truncated", reset=False)
                return
        if self.ended and not self.queue and not self.shut:
            self.shut = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)
            if all(way.shut for way in self.link.ways):
                self.link.close("both ended")

    def detach(self):
        if self.reading:
            self.proxy.loop.remove_reader(self.source)
        if self.writing:
            self.proxy.loop.remove_writer(self.sink)
        if self.timer is not None:
            self.timer.cancel()
        self.reading = self.writing = False


class Link:
    """One connection of a client, and ours to the agent for it."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.closed = self.connected = False
        self.left = {UP: float("inf"), DOWN: float("inf")}  # bytes until it is cut
        if proxy.first_bytes is not None:
            self.left[DOWN] = proxy.first_bytes
        self.until_silent = float("inf") if proxy.silent_after is None else proxy.silent_after
        family, self.address = proxy.upstream
        self.server = socket.socket(family, socket.SOCK_STREAM)
        self.server.setblocking(False)
        for end in (self.client, self.server):
            if end.family != socket.AF_UNIX:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ways = [Direction(self, UP, self.client, self.server), Direction(self, DOWN, self.server, self.client)]

    async def connect(self):
        try:
            await self.proxy.loop.sock_connect(self.server, self.address)
        except OSError as error:
            self.close(f"the agent cannot be reached: {error}", reset=True)
            return
        if self.closed:
            return
        self.connected = True
        for way in self.ways:
            way.pump()

    def close(self, why, reset=False):
        """Ends both connections at once; what is queued is lost."""
        if self.closed:
            return
        self.closed = True
        for way in self.ways:
            way.detach()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.proxy.links.discard(self)
