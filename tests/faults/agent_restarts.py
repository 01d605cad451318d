# SPDX-License-Identifier: Apache-2.0
"""The agent is killed (SIGKILL) and started again, with its state folder, in the middle of everything. What a program was
told to be done is there, once; what it was told to have failed is there at most once; nothing has to be mounted again."""

import collections
import errno
import fcntl
import os
import random
import signal
import subprocess
import tarfile
import threading

from chaos import CALM
from faulty import Background, FaultCase, pattern, seeds
from harness import main, run, soak, wait_for

KILLS = soak(4, 40)
# What an operation may say whose fate nobody knows: the agent died behind its beginning and before its record.
UNKNOWN = {errno.EIO}


class Killer:
    """Kills and restarts the agent at times that a seed gives, on a thread of its own."""

    def __init__(self, agent, seed, every=(0.8, 1.6), down=(0.0, 0.2)):
        self.agent, self.random, self.every, self.down = agent, random.Random(seed), every, down
        self.kills = 0
        self.ending = threading.Event()
        self.work = None

    def run(self):
        while not self.ending.wait(self.random.uniform(*self.every)):
            self.kills += 1
            if CALM:
                continue
            self.agent.kill()
            self.ending.wait(self.random.uniform(*self.down))
            self.agent.start_again()

    def __enter__(self):
        self.work = Background(self.run)
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.work.join(60)

    @property
    def enough(self):
        return self.kills >= KILLS or not self.work.is_running


class Tally:
    """What became of the operations; an error that is not allowed ends the test."""

    def __init__(self):
        self.counts = collections.Counter()

    def attempt(self, what, function, *arguments):
        """"done", or "unknown"."""
        try:
            function(*arguments)
        except OSError as error:
            if error.errno not in UNKNOWN:
                raise AssertionError(f"{what} {arguments}: {error}") from error
            self.counts[what + " unknown"] += 1
            return "unknown"
        self.counts[what] += 1
        return "done"


class Restarts(FaultCase):
    def setUp(self):
        super().setUp()
        self.box = self.lasting_agent()
        self.root = self.box.root
        self.point = self.mount(self.box)
        self.tally = Tally()

    def storm(self, seed, *workers, **how):
        """Runs the workers, each with killer.enough as its end; what is unknown is rare."""
        with Killer(self.box, seed, **how) as killer:
            running = [Background(worker, killer) for worker in workers]
            results = [work.join(soak(80, 600)) for work in running]
            kills = killer.kills
        self.assertGreaterEqual(kills, KILLS)
        unknown = sum(count for what, count in self.tally.counts.items() if what.endswith("unknown"))
        print(f"seed {seed}: {kills} kills, {dict(self.tally.counts)}", flush=True)
        # A kill meets at most the one operation of each program that is under way.
        self.assertLessEqual(unknown, kills * len(workers))
        return results

    def test_appends(self):
        """Each record once; one that failed at most once."""
        def append(number):
            def work(killer):
                file = os.open(self.point / "log", os.O_WRONLY | os.O_APPEND)
                told, count = {}, 0
                try:
                    while not killer.enough:
                        told[f"{number}-{count}"] = self.tally.attempt("append", os.write, file, f"{number}-{count}\n".encode())
                        count += 1
                finally:
                    os.close(file)
                return told
            return work

        for seed in seeds(2):
            with self.subTest(seed=seed):
                (self.root / "log").write_text("")
                told = {}
                for part in self.storm(seed, append(0), append(1), append(2)):
                    told.update(part)
                found = collections.Counter((self.root / "log").read_text().splitlines())
                self.assertEqual([line for line in found if line not in told], [], "never written")
                wrong = {line: (word, found[line]) for line, word in told.items()
                         if found[line] != 1 and not (word == "unknown" and found[line] == 0)}
                self.assertEqual(wrong, {}, "lost or repeated")
                self.assertGreater(len(told), 100)

    def test_creation_renames_and_removal(self):
        """As tar and rm do it, and the way editors save: after each operation its effect is there, and after an unknown one
        either the old or the new state."""
        def tree(killer):
            round_ = 0
            while not killer.enough:
                top = self.point / f"tree{round_}"
                self.make(os.mkdir, top)
                for number in range(20):
                    path = top / f"f{number}"
                    data = pattern(100 + 3000 * number, number)
                    if self.tally.attempt("create", self.write_new, path, data) == "unknown":
                        self.make(lambda path=path, data=data: path.write_bytes(data))
                    if number % 5 == 0:
                        self.make(os.symlink, f"f{number}", top / f"l{number}")
                    assert (self.root / path.relative_to(self.point)).read_bytes() == data, path
                round_ += 1
            return round_

        def renames(killer):
            current = 0
            (self.point / "r0").write_text("content")
            while not killer.enough:
                old, new = self.root / f"r{current}", self.root / f"r{current + 1}"
                result = self.tally.attempt("rename", os.rename, self.point / old.name, self.point / new.name)
                assert old.exists() != new.exists(), (old, result)
                assert new.exists() or result == "unknown", new
                current += new.exists()
            assert (self.root / f"r{current}").read_text() == "content"
            return current

        def save(killer):
            version = 0
            while not killer.enough:
                data = pattern(40_000, version)
                temporary = self.point / "document.new"
                if self.tally.attempt("write", temporary.write_bytes, data) == "unknown":
                    continue
                assert (self.root / "document.new").read_bytes() == data
                if self.tally.attempt("replace", os.replace, temporary, self.point / "document") == "done":
                    assert (self.root / "document").read_bytes() == data, version
                version += 1
            return version

        for seed in seeds(1):
            with self.subTest(seed=seed):
                for path in self.root.iterdir():
                    run("rm", "-rf", path)
                trees, count, versions = self.storm(seed, tree, renames, save)
                self.assertGreaterEqual(min(trees, count, versions), 2)
                self.check_trees(trees)

    def make(self, function, *arguments):
        """Until it is done; that it is already, after an unknown one, is as good."""
        try:
            self.tally.attempt("make", function, *arguments)
        except AssertionError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
        else:
            return
        raise AssertionError(f"{arguments} was there before")

    @staticmethod
    def write_new(path, data):
        with open(path, "xb", buffering=0) as file:
            file.write(data)

    def check_trees(self, count):
        for number in range(count):
            names = sorted(os.listdir(self.root / f"tree{number}"))
            self.assertEqual(names, sorted([f"f{i}" for i in range(20)] + [f"l{i}" for i in range(0, 20, 5)]))

    def test_tar(self):
        """It ends with 0 and all is there, or says what failed; then a second run is whole."""
        archive = self.work / "a.tar"
        source = self.folder("source")
        for number in range(200):
            (source / f"d{number % 7}").mkdir(exist_ok=True)
            (source / f"d{number % 7}/f{number}").write_bytes(pattern(1000 + 100 * number, number))
        with tarfile.open(archive, "w") as tar:
            tar.add(source, "tree")
        silent = 0
        with Killer(self.box, 1, every=(0.7, 1.5)) as killer:
            number = 0
            while number < soak(3, 30) or killer.kills < 3:
                into = self.point / f"into{number}"
                done = run("sh", "-c", f"mkdir -p {into} && tar xf {archive} -C {into}", check=False, timeout=90)
                if done.returncode == 0:
                    silent += 1
                    run("diff", "-r", source, self.root / f"into{number}/tree")
                else:
                    self.assertRegex(done.stderr, "Input/output error")
                    self.assertNotRegex(done.stderr, "not connected|timed out|Stale")
                number += 1
            kills = killer.kills
        print(f"{silent} of {number} whole, {kills} kills", flush=True)

    def test_git(self):
        """Every commit that git reports is there, and the repository is sound."""
        env = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
               "GIT_COMMITTER_EMAIL": "a@example.org", "HOME": str(self.work), "GIT_CONFIG_NOSYSTEM": "1"}
        repository = self.point / "repo"
        run("git", "init", "-q", repository)
        run("git", "config", "gc.auto", "0", cwd=repository)

        def prepare(number):
            for name in ("index.lock", "HEAD.lock", "refs/heads/master.lock", "refs/heads/main.lock"):  # of one that failed
                (repository / ".git" / name).unlink(missing_ok=True)
            (repository / f"f{number % 10}").write_text(f"{number}\n" * 50)

        def commits(killer):
            told = []
            while not killer.enough:
                number = len(told)
                if self.tally.attempt("prepare", prepare, number) == "unknown":
                    continue
                done = subprocess.run(["sh", "-c", f"git add -A && git commit -q --allow-empty -m c{number}"], env=env, cwd=repository,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=90)
                told.append((f"c{number}", done.returncode, done.stderr))
            return told

        (told,) = self.storm(1, commits)
        log = run("git", "log", "--format=%s", cwd=self.root / "repo", env=env).stdout.split()
        lost = [name for name, code, _ in told if code == 0 and name not in log]
        self.assertEqual(lost, [])
        for name, code, text in told:
            if code != 0:
                self.assertNotEqual(text, "", name)
        failed = sum(code != 0 for _, code, _ in told)
        print(f"{len(told)} commits, {failed} failed", flush=True)
        self.assertLess(failed, len(told) / 2)
        run("git", "fsck", "--strict", "--no-dangling", cwd=self.root / "repo", env=env)


class OpenFiles(FaultCase):
    """What was open before the agent died."""

    def setUp(self):
        super().setUp()
        self.box = self.lasting_agent()
        self.root = self.box.root
        self.point = self.mount(self.box)

    def open(self, name, flags=os.O_RDWR):
        file = os.open(self.point / name, flags)
        self.addCleanup(os.close, file)
        return file

    def test_they_go_on(self):
        (self.root / "f").write_bytes(pattern(500_000, 1))
        (self.root / "dir").mkdir()
        for number in range(3000):
            (self.root / f"dir/{number}").touch()
        file, folder = self.open("f"), self.open("dir", os.O_RDONLY | os.O_DIRECTORY)
        listing = os.scandir(folder)
        names = [next(listing).name for _ in range(10)]
        for number in range(soak(2, 20)):
            self.box.restart()
            self.assertEqual(os.pwrite(file, b"after", 100 * number), 5)
            self.assertEqual(os.pread(file, 5, 100 * number), b"after")
            self.assertEqual(os.fstat(file).st_size, 500_000)
            os.fsync(file)
        names += [entry.name for entry in listing]
        self.assertEqual(sorted(names), sorted(map(str, range(3000))), "a listing that had begun")
        self.assertEqual((self.root / "f").read_bytes()[:5], b"after")

    def test_a_file_that_was_moved(self):
        """It is the file that counts, not its name."""
        (self.root / "f").write_text("mine")
        (self.root / "dir").mkdir()
        file = self.open("f")
        self.box.kill()
        os.rename(self.root / "f", self.root / "dir/moved")
        self.box.start_again()
        try:
            self.assertEqual(os.pread(file, 10, 0), b"mine")
        except OSError as error:
            self.assertEqual(error.errno, errno.ESTALE, "the file, or the truth: that it was not found")
        (self.root / "f").write_text("other")
        self.assertNotEqual(self.read_or_error(file), b"other")

    @staticmethod
    def read_or_error(file):
        try:
            return os.pread(file, 10, 0)
        except OSError as error:
            return error.errno

    def test_a_file_that_was_replaced(self):
        """ESTALE, and never the other file's bytes or damage to it."""
        (self.root / "f").write_text("mine")
        (self.root / "new").write_text("other")
        file, reader = self.open("f"), self.open("f", os.O_RDONLY)
        self.box.kill()
        os.replace(self.root / "new", self.root / "f")
        self.box.start_again()
        for what in (lambda: os.pwrite(file, b"damage", 0), lambda: os.ftruncate(file, 0), lambda: os.fsync(file),
                     lambda: os.preadv(reader, [bytearray(9000)], 4096)):
            with self.assertRaises(OSError) as caught:
                what()
            self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertEqual((self.root / "f").read_text(), "other")
        self.assertEqual((self.point / "f").read_text(), "other", "by its name")

    def test_a_file_that_was_removed(self):
        (self.root / "f").write_text("mine")
        file = self.open("f")
        self.box.kill()
        os.unlink(self.root / "f")
        self.box.start_again()
        with self.assertRaises(OSError) as caught:
            os.pwrite(file, b"x", 0)
        self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertFalse((self.root / "f").exists())

    def test_a_lock_that_was_lost(self):
        """Never taken again in silence: the file that held it says EIO until it is closed; others do not."""
        for kind in ("posix", "flock"):
            with self.subTest(kind=kind):
                name = "lock-" + kind
                (self.root / name).write_text("content")
                held, other = os.open(self.point / name, os.O_RDWR), self.open(name)
                take = fcntl.lockf if kind == "posix" else fcntl.flock
                take(held, fcntl.LOCK_EX)
                self.box.kill()
                self.box.start_again()
                for what in (lambda: os.pwrite(held, b"x", 0), lambda: os.fsync(held), lambda: take(held, fcntl.LOCK_EX)):
                    with self.assertRaises(OSError) as caught:
                        what()
                    self.assertEqual(caught.exception.errno, errno.EIO)
                self.assertEqual((self.root / name).read_text(), "content")
                self.assertEqual(os.pread(other, 7, 0), b"content", "a file without a lock")
                os.close(held)
                again = self.open(name)
                take(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.assertEqual(os.pwrite(again, b"C", 0), 1)

    def test_a_wait_for_a_lock(self):
        """It goes on waiting, and gets it."""
        (self.root / "f").write_text("")
        with open(self.root / "f", "r+b") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            file = self.open("f")
            waiting = Background(fcntl.flock, file, fcntl.LOCK_EX)
            self.box.restart()
            os.stat(self.point / "f")
            self.assertTrue(waiting.is_running)
            fcntl.flock(owner, fcntl.LOCK_UN)
            waiting.join()
            with self.assertRaises(BlockingIOError):
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_command_is_never_a_zero(self):
        for script in ("sleep 1000", "exit 0", "seq 1000000", "sleep 0.2"):
            for _ in range(soak(2, 30)):
                process = self.start_exec(self.box, "sh", "-c", f"echo begun; sleep 0.1; {script}")
                self.assertEqual(process.stdout.readline(), b"begun\n")
                self.box.restart()
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 125, (script, out[-100:], err))
                self.assertRegex(err, rb"(?m)^sandbox-exec: .+")

    def test_commands_work_again(self):
        for number in range(soak(3, 30)):
            self.box.restart()
            self.assertEqual(self.exec(self.box, "echo", str(number)).stdout, f"{number}\n")

    def test_an_agent_that_knows_nothing_any_more(self):
        """Started again without its state: the mount goes on with what is safe."""
        box = self.lasting_agent(name="forgetful", state=False)
        point = self.mount(box, name="second")
        (point / "f").write_text("x")
        file = os.open(point / "f", os.O_RDWR)
        box.restart()
        self.assertEqual((point / "f").read_text(), "x")
        (point / "g").write_text("new")
        self.assertEqual((box.root / "g").read_text(), "new")
        self.assertEqual(os.pread(file, 1, 0), b"x")
        os.close(file)

    def test_down_for_a_while(self):
        waiting = None
        self.box.kill()
        waiting = [Background(os.listdir, self.point), Background((self.point / "f").write_text, "x")]
        wait_for("the mount to notice", lambda: os.getxattr(self.point, "user.sandbar.state") == b"connecting")
        self.assertTrue(all(work.is_running for work in waiting))
        self.box.start_again()
        for work in waiting:
            work.join()
        self.assertEqual((self.root / "f").read_text(), "x")

    def test_the_socket_file_is_away(self):
        """SIGTERM removes it; a mount waits for the next agent all the same."""
        self.box.process.send_signal(signal.SIGTERM)
        self.box.process.wait(timeout=30)
        self.box.process.stdout.close()
        waiting = Background(os.listdir, self.point)
        wait_for("the socket to go", lambda: not os.path.exists(self.box.url[len("unix:"):]))
        self.box.start_again()
        self.assertEqual(waiting.join(), [])


if __name__ == "__main__":
    main()
