# SPDX-License-Identifier: Apache-2.0
"""Both ends of the protocol in a few lines, written from man/sandbox-mux.7 and from nothing else, so that it can say what no
well-behaved end would. Blocking sockets; one thread each."""

import base64
import hashlib
import json
import os
import socket
import struct
import time

HELLO, REQUEST, RESPONSE, CANCEL, OPEN, DATA, CREDIT, END, RESET, PING, PONG, GOODBYE, ACK = range(1, 14)
UNNUMBERED = {HELLO, PING, PONG, GOODBYE, ACK}
MORE, FAILED = 1, 2
LIMITS = {"max_body": 1 << 20, "max_requests": 4096, "request_window": 32 << 20, "max_channels": 4096, "channel_window": 1 << 20}
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Closed(Exception):
    """The other end has ended the connection; `goodbye` is what it said, or None."""

    def __init__(self, goodbye=None):
        super().__init__(f"closed, {goodbye}")
        self.goodbye = goodbye

    @property
    def code(self):
        return self.goodbye and self.goodbye.get("code")


class Frame:
    def __init__(self, message):
        self.version, self.kind, self.flags, self.lane, length, self.channel, self.sequence = struct.unpack_from("<BBBBIQQ", message)
        self.head = json.loads(message[24:24 + length]) if length else None
        self.body = message[24 + length:]

    def __repr__(self):
        return f"Frame(type {self.kind}, flags {self.flags}, channel {self.channel}, sequence {self.sequence}, {self.head}, {len(self.body)} bytes)"


def frame_bytes(kind, channel=0, head=None, body=b"", flags=0, sequence=0, version=1, lane=0, head_length=None):
    """head: what json.dumps takes, or bytes as they are."""
    text = b"" if head is None else head if isinstance(head, bytes) else json.dumps(head).encode()
    length = len(text) if head_length is None else head_length
    return struct.pack("<BBBBIQQ", version, kind, flags, lane, length, channel, sequence) + text + body


class WebSocket:
    """Messages over a socket; a client masks."""

    def __init__(self, connection, masks):
        self.socket, self.masks, self.buffer = connection, masks, b""

    def close(self):
        self.socket.close()

    def raw(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed() from error

    def fill(self):
        """Reads more."""
        try:
            piece = self.socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed() from error
        if not piece:
            raise Closed()
        self.buffer += piece

    def exactly(self, count):
        while len(self.buffer) < count:
            self.fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def until(self, mark):
        while mark not in self.buffer:
            self.fill()
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def header(self, length, opcode=2, final=True):
        mask = 0x80 if self.masks else 0
        first = (0x80 if final else 0) | opcode
        if length < 126:
            return struct.pack("!BB", first, mask | length)
        if length < 65536:
            return struct.pack("!BBH", first, mask | 126, length)
        return struct.pack("!BBQ", first, mask | 127, length)

    def send(self, data, opcode=2, final=True):
        # A mask of zeros is as good as any for a test.
        self.raw(self.header(len(data), opcode, final) + (b"\0\0\0\0" if self.masks else b"") + data)

    def receive(self):
        """The next binary message."""
        message = b""
        while True:
            first, second = self.exactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self.exactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self.exactly(8))
            mask = self.exactly(4) if second & 0x80 else None
            data = self.exactly(length)
            if mask and mask != b"\0\0\0\0":
                key = int.from_bytes(mask * (length // 4 + 1), "big") >> (8 * (4 - length % 4) if length % 4 else 32)
                data = (int.from_bytes(data, "big") ^ key).to_bytes(length, "big")
            opcode = first & 15
            if opcode == 8:
                raise Closed()
            if opcode == 9:
                self.send(data, 10)
            elif opcode in (0, 2):
                message += data
                if first & 0x80:
                    return message


class Peer:
    """Frames over a WebSocket: numbers what is to be numbered, unless it is told otherwise."""

    def __init__(self, web_socket):
        self.web = web_socket
        self.sent = self.received = 0
        self.requests = 0

    def close(self):
        self.web.close()

    def send(self, kind, channel=0, head=None, body=b"", flags=0, sequence=None, **rest):
        if sequence is None:
            sequence = 0 if kind in UNNUMBERED else self.sent + 1
            self.sent += kind not in UNNUMBERED
        self.web.send(frame_bytes(kind, channel, head, body, flags, sequence, **rest))

    def receive(self, *kinds):
        """The next frame of these kinds (none: any); pings are answered; a goodbye or the end raises Closed."""
        while True:
            frame = Frame(self.web.receive())
            if frame.kind not in UNNUMBERED:
                if frame.sequence != self.received + 1:
                    raise AssertionError(f"{frame} behind number {self.received}")
                self.received = frame.sequence
            if frame.kind == PING:
                self.send(PONG, frame.channel)
            if frame.kind == GOODBYE:
                raise Closed(frame.head)
            if not kinds or frame.kind in kinds:
                return frame

    def wait_closed(self, seconds=15):
        """Reads to the end; the code of the goodbye, None when there was none, "still open" when there is no end."""
        limit = time.monotonic() + seconds
        self.web.socket.settimeout(seconds)
        try:
            while time.monotonic() < limit:
                self.receive()
        except Closed as closed:
            return closed.code
        except TimeoutError:
            pass
        return "still open"

    def request(self, op, body=b"", **fields):
        """Sends it; its number."""
        self.requests += 1
        self.send(REQUEST, self.requests, {"op": op, **fields}, body)
        return self.requests

    def answer(self, number):
        """The response to a request: a frame (other responses are dropped)."""
        while True:
            frame = self.receive(RESPONSE)
            if frame.channel == number and not frame.flags & MORE:
                return frame

    def ask(self, op, body=b"", **fields):
        return self.answer(self.request(op, body, **fields))


def connect(address, token, timeout=20):
    """A client's WebSocket, upgraded. address: ("host", port) or a path."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(address)
        web = WebSocket(connection, masks=True)
        key = base64.b64encode(os.urandom(16))
        web.raw(b"GET / HTTP/1.1\r\nHost: agent\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: " + key + b"\r\nSec-WebSocket-Protocol: sandbox-mux.v1\r\n"
                b"Authorization: Bearer " + token.encode() + b"\r\n\r\n")
        answer = web.until(b"\r\n\r\n")
        if b" 101 " not in answer.split(b"\r\n")[0]:
            raise Closed({"code": answer.split(b" ")[1].decode()})
        return web
    except BaseException:
        connection.close()
        raise


def hello(peer, resumable=True, **fields):
    """Says hello, and reads the other's; fields go over what a plain hello has."""
    capabilities = ["resume.1"] if resumable else []
    peer.send(HELLO, 0, {"software": "hostile", "capabilities": capabilities, "limits": LIMITS, **fields})
    frame = peer.receive()
    if frame.kind != HELLO:
        raise AssertionError(f"{frame} instead of a hello")
    return frame.head


class Server:
    """An agent's place: serve(peer, hello of the client) runs for each client that comes, on the thread of whoever calls
    accept()."""

    def __init__(self, timeout=20):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(timeout)
        self.url = "ws://127.0.0.1:%d" % self.listener.getsockname()[1]

    def close(self):
        self.listener.close()

    def accept(self, says_hello=True, **fields):
        """A Peer whose upgrade and hellos are done, and the client's hello. One that went away before is not counted: a client
        that has ended may have tried to come back."""
        while True:
            connection, _ = self.listener.accept()
            connection.settimeout(20)
            try:
                peer, theirs = self.greet(WebSocket(connection, masks=False))
            except Closed:
                connection.close()
                continue
            if says_hello:
                peer.send(HELLO, 0, {**self.greeting(), **fields})
            return peer, theirs

    @staticmethod
    def greet(web):
        request = web.until(b"\r\n\r\n")
        key = next(line.split(b":", 1)[1].strip() for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        web.raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept +
                b"\r\nSec-WebSocket-Protocol: sandbox-mux.v1\r\n\r\n")
        peer = Peer(web)
        return peer, peer.receive(HELLO).head

    @staticmethod
    def greeting():
        return {"software": "hostile", "capabilities": ["files.posix.1", "process.1"], "limits": LIMITS, "agent": "ab" * 16,
                "epoch": 1, "root": "/srv"}
