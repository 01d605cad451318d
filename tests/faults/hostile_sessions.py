# SPDX-License-Identifier: Apache-2.0
"""Clients that want the session or the journal of another, or come back to their own with lies."""

import os

from faulty import LastingAgent  # finds the harness, too
from harness import main, run, soak, wait_for
from hostile_case import MEMORY, HostileCase
from mux_peer import ACK, DATA, END, GOODBYE, OPEN, PING, PONG, RESPONSE, Closed, Peer, connect, hello


class Resume(HostileCase):
    """Sessions that somebody else has, or had, or never had."""

    def victim(self):
        """A session with an open command, cut off; its id, what it received."""
        peer, theirs = self.greeted(journal="victim")
        self.assertRegex(theirs["session"], "^[0-9a-f]{32}$")
        self.assertEqual(theirs["lease"], 30)
        peer.send(OPEN, 1)
        peer.send(OPEN, 3)
        peer.ask("spawn", id="victim", argv=["sh", "-c", "cat > stolen; sleep 1000"], stdin=1, stdout=3)
        wait_for("the command", lambda: (self.box.root / "stolen").exists())
        return peer, theirs["session"]

    def refused(self, peer, *codes, **fields):
        """A hello that gets a goodbye."""
        with self.assertRaises(Closed) as caught:
            hello(peer, **fields)
        self.assertIn(caught.exception.code, codes)

    def test_resume_works_at_all(self):
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        peer.close()
        again = self.peer()
        theirs = hello(again, session=session, fence=1, received=received, journal="victim")
        self.assertEqual(theirs["session"], session)
        self.assertEqual(theirs["received"], sent)
        again.sent, again.received = sent, received
        again.send(DATA, 1, body=b"from the same")
        again.send(END, 1)
        wait_for("the bytes", lambda: (self.box.root / "stolen").read_bytes() == b"from the same")

    def test_what_was_not_received_comes_again(self):
        peer, session = self.victim()
        number = peer.request("signal_process", id="nobody", signal=1)
        frame = peer.answer(number)
        before = frame.sequence - 1
        sent = peer.sent
        peer.close()
        for fence in range(1, 4):
            again = self.peer()
            hello(again, session=session, fence=fence, received=before, journal="victim")
            again.received, again.sent = before, sent
            repeated = again.receive(RESPONSE)
            self.assertEqual((repeated.channel, repeated.sequence, repeated.head), (frame.channel, frame.sequence, frame.head))
            again.close()

    def test_frames_that_were_received_already(self):
        """Sent again they are dropped: the command runs once, the bytes come once."""
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        peer.close()
        again = self.peer()
        hello(again, session=session, fence=1, received=received, journal="victim")
        again.received = received
        again.sent = 0
        again.send(OPEN, 1)  # number 1, as it was
        try:
            again.receive(RESPONSE)
        except (Closed, TimeoutError):
            pass
        self.assertFalse((self.box.root / "stolen").read_bytes())
        self.assertGreater(sent, 2)

    def test_an_unknown_session(self):
        for session in ("ab" * 16, "0" * 32, "ff" * 16):
            self.refused(self.peer(), "unknown", session=session, fence=1, received=0)

    def test_session_ids_that_cannot_be(self):
        for session in ("x", "../../etc/passwd", "A" * 32, "0" * 31, "0" * 255, "\u00e9" * 16):
            self.refused(self.peer(), "unknown", "protocol", "invalid", session=session, fence=1, received=0)

    def test_a_stolen_id_without_the_token(self):
        """Without the token there is not even an upgrade."""
        _, session = self.victim()
        with self.assertRaises(Closed) as caught:
            self.peer(token="guessed")
        self.assertEqual(caught.exception.code, "401")
        self.assertEqual(len(session), 32)

    def test_a_session_of_another_agent(self):
        """Its id is worth nothing at this one, the same token or not."""
        _, session = self.victim()
        work = self.folder("other")
        other = LastingAgent(self.folder("other-root"), work)
        self.addCleanup(other.stop)
        peer = Peer(connect(other.url[len("unix:"):], other.token_file.read_text().strip()))
        self.addCleanup(peer.close)
        self.refused(peer, "unknown", session=session, fence=1, received=0)

    def test_an_old_fence(self):
        """A half-dead connection cannot come back, and the living one does not notice."""
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        living = self.peer()
        hello(living, session=session, fence=5, received=received, journal="victim")
        living.received, living.sent = received, sent
        self.assertNotEqual(peer.wait_closed(), "internal")
        for fence in (0, 1, 4, 5):
            old = self.peer()
            fields = {} if fence == 0 else {"fence": fence}
            with self.assertRaises(Closed):
                hello(old, session=session, received=received, journal="victim", **fields)
        living.send(DATA, 1, body=b"alive")
        living.send(END, 1)
        wait_for("the bytes", lambda: (self.box.root / "stolen").read_bytes() == b"alive")

    def test_the_last_fence_there_is(self):
        """Nobody is ahead of it; its session ends with its lease, like any other."""
        peer, session = self.victim()
        received = peer.received
        peer.close()
        last = self.peer()
        hello(last, session=session, fence=2**64 - 1, received=received, journal="victim")
        for fence in (1, 2**64 - 1):
            with self.assertRaises(Closed):
                hello(self.peer(), session=session, fence=fence, received=received, journal="victim")

    def test_received_beyond_what_was_sent(self):
        """And below what was acknowledged: neither can be made true, and the session is not lost by the lie."""
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        peer.send(ACK, received)
        peer.close()
        for lie in (received + 1000, 2**64 - 1, 2**63):
            with self.subTest(received=lie):
                with self.assertRaises(Closed) as caught:
                    hello(self.peer(), session=session, fence=2, received=lie, journal="victim")
                self.assertIn(caught.exception.code, ("protocol", "unknown"))
        again = self.peer()
        theirs = hello(again, session=session, fence=9, received=received, journal="victim")
        self.assertEqual(theirs["received"], sent)

    def test_received_that_goes_back(self):
        """Frames that were acknowledged are gone: asking for them again is refused."""
        peer, session = self.victim()
        for _ in range(5):
            peer.ask("attach", object=100 + _, path="/")
        peer.send(ACK, peer.received)
        peer.send(PING, 1)
        peer.receive(PONG)  # the ack was read
        peer.close()
        with self.assertRaises(Closed) as caught:
            hello(self.peer(), session=session, fence=1, received=0, journal="victim")
        self.assertIn(caught.exception.code, ("protocol", "unknown"))

    def test_two_connections_of_one_session(self):
        """The newer one has it; the older one is ended, whatever it still sends."""
        first, session = self.victim()
        received, sent = first.received, first.sent
        second = self.peer()
        hello(second, session=session, fence=1, received=received, journal="victim")
        second.received, second.sent = received, sent
        try:
            first.send(DATA, 1, body=b"too late")
        except Closed:
            pass
        first.wait_closed()
        second.send(DATA, 1, body=b"in time")
        second.send(END, 1)
        wait_for("the bytes", lambda: (self.box.root / "stolen").read_bytes() == b"in time")

    def test_a_storm_of_resumes(self):
        """A hundred connections fight for one session; one has it in the end, and nothing is left of the others."""
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        for fence in range(1, soak(100, 2000)):
            peer = self.peer()
            hello(peer, session=session, fence=fence, received=received, journal="victim")
            if fence % 3:
                peer.close()
        peer.received, peer.sent = received, sent
        last = self.peer()
        hello(last, session=session, fence=10_000, received=received, journal="victim")
        last.received, last.sent = received, sent
        last.send(END, 1)
        wait_for("the command to see its end", lambda: "sleep" in run("ps", "-o", "args", "--ppid", self.child(), check=False).stdout)

    def child(self):
        return run("ps", "-o", "pid=", "--ppid", self.box.process.pid, check=False).stdout.split()[0]

    def test_sessions_without_end(self):
        """Detached sessions are bounded together, in number and in bytes."""
        for number in range(soak(600, 5000)):
            try:
                peer = self.peer()
                hello(peer)
                peer.request("attach", object=1, path="/")
                peer.close()
            except Closed as closed:
                self.assertIn(closed.code, ("limit", "disconnected", "503"), number)
                break
        self.assertLess(self.memory() - self.before, MEMORY)
        wait_for("an honest client to be served", lambda: self.exec(self.box, "true", timeout=60).returncode == 0, 40)

    def test_numbers_that_begin_again(self):
        """After a resume the numbers go on; they do not begin at 1."""
        peer, session = self.victim()
        received, sent = peer.received, peer.sent
        peer.close()
        again = self.peer()
        hello(again, session=session, fence=1, received=received, journal="victim")
        again.received = received
        again.send(OPEN, 5, sequence=sent + 2)
        self.ends(again)

    def test_journals_of_others(self):
        """A number that a journal has done changes nothing; a number far ahead waits, and does not keep others."""
        first, _ = self.greeted(journal="shared journal")
        first.ask("attach", object=1, path="/")
        self.assertEqual(first.ask("make_directory", parent=1, name="one", mode=0o755, object=2, mutation=1).flags, 0)
        thief, theirs = self.greeted(journal="shared journal")
        self.assertEqual(theirs.get("last_mutation"), 1)
        thief.ask("attach", object=1, path="/")
        frame = thief.ask("make_directory", parent=1, name="two", mode=0o755, object=2, mutation=1)
        self.assertFalse((self.box.root / "two").exists(), frame)
        thief.request("make_directory", parent=1, name="far", mode=0o755, object=3, mutation=2**64 - 1)
        self.assertEqual(first.ask("make_directory", parent=1, name="three", mode=0o755, object=3, mutation=2).flags, 0)
        other, _ = self.greeted(journal="another")
        other.ask("attach", object=1, path="/")
        self.assertEqual(other.ask("make_directory", parent=1, name="four", mode=0o755, object=2, mutation=1).flags, 0)

    def test_journals_without_end(self):
        """Each new id costs little, and the first one may be forgotten, but not the agent."""
        for number in range(soak(300, 3000)):
            peer = self.peer()
            hello(peer, resumable=False, journal=f"j{number}-" + "x" * 200)
            peer.request("attach", object=1, path="/")
            peer.ask("make_directory", parent=1, name=f"d{number}", mode=0o755, object=2, mutation=1)
            peer.send(GOODBYE, 0, {"code": "disconnected"})
            peer.close()
        self.assertLess(self.memory() - self.before, MEMORY)

    def test_journal_names_that_are_paths(self):
        """A journal has a file in the state folder; its name is no path."""
        for name in ("../../evil", "/tmp/evil", "..", ".", "a/b", "\n", "x" * 255):
            try:
                peer, _ = self.greeted(journal=name)
                peer.ask("attach", object=1, path="/")
                peer.ask("make_directory", parent=1, name="of-evil", mode=0o755, object=2, mutation=1)
            except Closed as closed:
                self.assertIn(closed.code, ("invalid", "protocol"))
        found = run("find", self.work, "-name", "*evil*", "-not", "-name", "of-evil", "-not", "-path", f"{self.box.root}/*").stdout
        self.assertEqual(found, "")
        self.assertFalse(os.path.exists("/tmp/evil"))


if __name__ == "__main__":
    main()
