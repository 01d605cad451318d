# SPDX-License-Identifier: Apache-2.0
"""What the tests with hostile clients share: an agent that has to be as good afterwards as before."""

from faulty import FaultCase
from mux_peer import Peer, connect, hello

MEMORY = 160 << 20  # what an agent may have grown by, at most, after anything here


class HostileCase(FaultCase):
    def setUp(self):
        super().setUp()
        self.box = self.lasting_agent("--session-lease", "30")
        self.token = self.box.token_file.read_text().strip()
        (self.box.root / "f").write_bytes(b"0123456789" * 1000)
        self.honest()
        self.before = self.memory()

    def tearDown(self):
        self.honest()
        self.assertLess(self.memory() - self.before, MEMORY)
        super().tearDown()

    def memory(self):
        with open(f"/proc/{self.box.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

    def honest(self):
        done = self.exec(self.box, "cat", "f", timeout=30)
        self.assertEqual((done.returncode, done.stdout), (0, "0123456789" * 1000), done.stderr)

    def peer(self, token=None):
        peer = Peer(connect(self.box.url[len("unix:"):], token or self.token))
        self.addCleanup(peer.close)
        return peer

    def greeted(self, **fields):
        """A peer behind its hello, and the agent's hello."""
        peer = self.peer()
        return peer, hello(peer, **fields)

    def ends(self, peer, code="protocol"):
        """The agent ends the connection, and says why where it can be heard."""
        self.assertEqual(peer.wait_closed(), code)
