# SPDX-License-Identifier: Apache-2.0
"""SQLite on a mount and, at the same time, on the directory that is served: transactions of both sides count once each."""

import os
import sqlite3
import subprocess
import sys

from harness import Case, main, run, soak

TRANSACTIONS = soak(200, 5000)

# One side: so many transactions, each of which reads what the last one of either side left and adds to it. SQLite's way
# to wait lets one side do all its work first; so for every second one it must be the other side's turn, until that is done.
WRITER = """
import sqlite3, sys, time
path, side, count, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
base = sqlite3.connect(path, timeout=120, isolation_level=None)
base.execute(f"pragma journal_mode={mode}")
base.execute("pragma synchronous=normal")

def my_turn():
    (last,) = base.execute("select side from log order by number desc limit 1").fetchone()
    (others,) = base.execute("select count(*) from log where side != ? and number > 0", (side,)).fetchone()
    return last != side or others >= count - count // 10

sys.stdin.readline()  # both start at once
for i in range(count):
    base.execute("begin immediate")
    while i % 2 == 0 and not my_turn():
        base.execute("rollback")
        time.sleep(0.001)
        base.execute("begin immediate")
    (last,) = base.execute("select max(number) from log").fetchone()
    base.execute("insert into log values (?, ?, ?)", (last + 1, side, "x" * (i % 900)))
    base.execute("update total set value = value + 1")
    if i % 10 == 9:
        base.execute("rollback")
    else:
        base.execute("commit")
base.close()
"""


class Sqlite(Case):
    def writer(self, path, side, mode, count):
        return subprocess.Popen([sys.executable, "-c", WRITER, str(path), side, str(count), mode],
                                stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def hammer(self, mode, places, readers=(), count=TRANSACTIONS):
        """All writers at once, and readers that must see whole transactions meanwhile."""
        base = sqlite3.connect(places[0] / "base", isolation_level=None)
        base.execute(f"pragma journal_mode={mode}")
        base.executescript("create table log (number integer primary key, side text, filling text);"
                           "create table total (value integer); insert into total values (0);"
                           "insert into log values (0, 'start', '');")
        base.close()
        writers = [self.writer(place / "base", f"side{i}", mode, count) for i, place in enumerate(places)]
        for writer in writers:
            writer.stdin.write("\n")
            writer.stdin.flush()
        looks = 0
        while any(writer.poll() is None for writer in writers):
            for reader in readers:
                base = sqlite3.connect(reader / "base", timeout=120, isolation_level=None)
                base.execute("begin")
                rows = base.execute("select count(*) - 1 from log").fetchone()
                self.assertEqual(rows, base.execute("select value from total").fetchone())
                base.execute("commit")
                base.close()
                looks += 1
        for writer in writers:
            said = writer.communicate()[1]
            self.assertEqual((writer.returncode, said), (0, ""))
        kept = count - count // 10
        for place in places:
            base = sqlite3.connect(place / "base")
            self.assertEqual(base.execute("pragma integrity_check").fetchone(), ("ok",))
            self.assertEqual(base.execute("select count(*), max(number) from log").fetchone(),
                             (kept * len(places) + 1, kept * len(places)))
            self.assertEqual(base.execute("select value from total").fetchone(), (kept * len(places),))
            sides = [side for (side,) in base.execute("select side from log order by number")]
            self.assertEqual([sides.count(f"side{i}") for i in range(len(places))], [kept] * len(places))
            self.assertGreater(sum(map(str.__ne__, sides, sides[1:])), count // 3, "the sides did not work at once")
            base.close()
        if readers:
            self.assertGreater(looks, 0)

    def test_rollback_journal_from_both_sides(self):
        root, mount = self.mounted()
        self.hammer("delete", [mount, root], readers=[mount, root])

    def test_other_rollback_journals(self):
        for mode in ("truncate", "persist"):
            with self.subTest(mode):
                agent = self.agent(self.folder(f"root-{mode}"), name=f"agent-{mode}")
                self.hammer(mode, [agent.root, self.mount(agent, f"mnt-{mode}")], count=TRANSACTIONS // 4)

    def test_two_mounts(self):
        agent = self.agent()
        self.hammer("delete", [self.mount(agent, "one"), self.mount(agent, "other")], count=TRANSACTIONS // 4)

    def test_wal_on_one_side(self):
        """With shared memory, several programs of one side work together."""
        _, mount = self.mounted()
        self.hammer("wal", [mount, mount], readers=[mount])

    def test_a_writer_that_is_killed_is_rolled_back_by_the_other_side(self):
        root, mount = self.mounted()
        script = ("import os, signal, sqlite3, sys; b = sqlite3.connect(sys.argv[1], isolation_level=None); "
                  "b.execute('pragma cache_size=5'); b.execute('begin immediate'); "
                  "[b.execute('update t set a = ?', (os.urandom(900),)) for i in range(3)]; "
                  "os.kill(os.getpid(), signal.SIGKILL)")
        for writing, looking in ((mount, root), (root, mount)):
            base = sqlite3.connect(writing / "base", isolation_level=None)
            base.execute("create table if not exists t (a blob)")
            base.execute("delete from t")
            base.executemany("insert into t values (?)", [(b"old" * 300,)] * 200)
            base.close()
            run(sys.executable, "-c", script, writing / "base", check=False)
            self.assertTrue(os.path.exists(looking / "base-journal"), "nothing was left to roll back")
            base = sqlite3.connect(looking / "base", timeout=30)
            self.assertEqual(base.execute("select count(*), count(distinct a), min(a) from t").fetchone(),
                             (200, 1, b"old" * 300))
            self.assertEqual(base.execute("pragma integrity_check").fetchone(), ("ok",))
            base.close()
            self.assertFalse(os.path.exists(writing / "base-journal"))


if __name__ == "__main__":
    main()
