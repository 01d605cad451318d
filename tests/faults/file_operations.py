# SPDX-License-Identifier: Apache-2.0
"""Random file operations through a mount whose connection is cut every 100 to 500 ms: each does what it does on a local
disk, none fails because of a cut, none is done twice, and at the end both trees are equal."""

import collections
import errno
import os
import random
import threading
import time
import tempfile
import unittest

from chaos import Chaos
from faulty import Background, FaultCase, pattern, seeds
from harness import BIN, main, run, soak

THREADS = 4
OPERATIONS = soak(250, 1500)  # of each thread, at least
CUTS = soak(12, 40)  # during them, at least
LONG_AGO = 10**18  # times that were set lie before this, in ns: such a one stays until the file is changed


class Pair:
    """Does each operation on the mount and on a local directory, and compares what they say."""

    def __init__(self, mount, model, seed, share):
        self.mount, self.model, self.random, self.share = mount, model, random.Random(seed), share
        self.counts = collections.Counter()
        self.history = collections.deque(maxlen=30)
        self.open_files = []  # pairs of descriptors
        self.names = [f"{prefix}{i}" for prefix in "ab" for i in range(6)] + ["ü\udcff-odd"]
        self.folders = ["", "d0", "d1", "d0/e"]
        self.appended = 0

    def path(self):
        return os.path.join(self.random.choice(self.folders), self.random.choice(self.names))

    @staticmethod
    def outcome(function, *arguments):
        try:
            return 0, function(*arguments)
        except OSError as error:
            return error.errno, None

    def both(self, what, function, *paths, rest=()):
        """function(path..., *rest) on either side."""
        self.counts[what] += 1
        self.history.append((what, *paths, *(word if not isinstance(word, bytes) else len(word) for word in rest)))
        expected = self.outcome(function, *(os.path.join(self.model, path) for path in paths), *rest)
        got = self.outcome(function, *(os.path.join(self.mount, path) for path in paths), *rest)
        self.compare(expected, got)

    def compare(self, expected, got):
        if expected != got:
            short = [(number, value[:80] if isinstance(value, (bytes, str)) else value) for number, value in (expected, got)]
            lines = "\n  ".join(map(repr, self.history))
            raise AssertionError(f"expected {short[0]}, got {short[1]}; the last operations:\n  {lines}")

    def step(self):
        kinds = ("create", "write", "append", "read", "truncate", "rename", "unlink", "mkdir", "rmdir", "link", "symlink",
                 "xattr", "chmod", "utimens", "list", "open", "held", "held", "held", "close", "shared", "stat")
        getattr(self, self.random.choice(kinds))()

    def data(self, most=200_000):
        return pattern(int(2 ** self.random.uniform(0, 17.6)) % most, self.random.random())

    def create(self):
        def make(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
        self.both("create", make, self.path())

    def write(self):
        def put(path, offset, data):
            with open(path, "r+b", buffering=0) as file:
                file.seek(offset)
                return file.write(data)
        self.both("write", put, self.path(), rest=(self.random.randrange(300_000), self.data()))

    def append(self):
        def add(path, data):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                return os.write(descriptor, data)
            finally:
                os.close(descriptor)
        self.both("append", add, self.path(), rest=(self.data(5000),))

    def shared(self):
        """A record in the file that all threads append to; it has no model: each must be there once."""
        descriptor = os.open(os.path.join(self.mount, "../shared"), os.O_WRONLY | os.O_APPEND)
        try:
            record = f"{self.share}-{self.appended}\n".encode()
            assert os.write(descriptor, record) == len(record)
            self.appended += 1
        finally:
            os.close(descriptor)

    def read(self):
        def get(path):
            with open(path, "rb", buffering=0) as file:
                return file.readall()
        self.both("read", get, self.path())

    def stat(self):
        def look(path):
            info = os.lstat(path)
            return info.st_mode, info.st_nlink, info.st_size if not os.path.isdir(path) else 0
        self.both("stat", look, self.path())

    def truncate(self):
        self.both("truncate", os.truncate, self.path(), rest=(self.random.randrange(400_000),))

    def rename(self):
        self.both("rename", os.rename, self.path(), self.path())

    def unlink(self):
        self.both("unlink", os.unlink, self.path())

    def mkdir(self):
        self.both("mkdir", os.mkdir, self.path() if self.random.random() < 0.3 else self.random.choice(self.folders[1:]))

    def rmdir(self):
        self.both("rmdir", os.rmdir, self.path() if self.random.random() < 0.9 else "d1")

    def link(self):
        self.both("link", lambda old, new: os.link(old, new, follow_symlinks=False), self.path(), self.path())

    def symlink(self):
        target = self.random.choice(self.names)
        self.both("symlink", lambda path: os.symlink(target, path), self.path())
        self.both("readlink", os.readlink, self.path())

    def xattr(self):
        name, value, path = f"user.n{self.random.randrange(3)}", self.data(2000), self.path()
        flags = self.random.choice((0, os.XATTR_CREATE, os.XATTR_REPLACE))
        self.both("setxattr", lambda where: os.setxattr(where, name, value, flags, follow_symlinks=False), path)
        self.both("getxattr", lambda where: os.getxattr(where, name, follow_symlinks=False), path)
        if self.random.random() < 0.3:
            self.both("removexattr", lambda where: os.removexattr(where, name, follow_symlinks=False), path)

    def chmod(self):
        self.both("chmod", os.chmod, self.path(), rest=(self.random.choice((0o644, 0o600, 0o755, 0o4711, 0o400)),))

    def utimens(self):
        when = self.random.randrange(LONG_AGO)
        self.both("utimens", lambda path: os.utime(path, ns=(when, when), follow_symlinks=False), self.path())

    def list(self):
        folder = self.random.choice(self.folders)
        self.both("list", lambda path: sorted(os.listdir(path)), folder)

    def open(self):
        if len(self.open_files) >= 6:
            self.close()
        path = self.path()
        self.history.append(("open", path))
        ends = [self.outcome(os.open, os.path.join(base, path), os.O_RDWR | os.O_NONBLOCK) for base in (self.model, self.mount)]
        if ends[0][0] == 0 and ends[1][0] == 0:
            self.open_files.append((ends[0][1], ends[1][1]))
            self.counts["open"] += 1
        else:
            self.compare(*((number, None) for number, _ in ends))

    def held(self):
        """An operation on a file that has been open for a while, and may have lost its name."""
        if not self.open_files:
            return
        files = self.random.choice(self.open_files)
        offset, data = self.random.randrange(300_000), self.data()
        name, function = self.random.choice((
            ("pwrite", lambda file: os.pwrite(file, data, offset)),
            ("pread", lambda file: os.pread(file, 100_000, offset)),
            ("fstat", lambda file: (os.fstat(file).st_size, os.fstat(file).st_nlink, os.fstat(file).st_mode)),
            ("ftruncate", lambda file: os.ftruncate(file, offset)),
            ("fsync", os.fsync),
            ("fchmod", lambda file: os.fchmod(file, 0o600 + offset % 64))))
        self.counts["held " + name] += 1
        self.history.append((name, files, offset, len(data)))
        self.compare(self.outcome(function, files[0]), self.outcome(function, files[1]))

    def close(self):
        if self.open_files:
            for file in self.open_files.pop(self.random.randrange(len(self.open_files))):
                os.close(file)

    def finish(self):
        while self.open_files:
            self.close()


def describe_tree(base):
    """All that must be equal, by path; hard links as the smallest of an object's names."""
    found, first = {}, {}
    for folder, folders, files in os.walk(base):
        for name in sorted(folders) + sorted(files):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            relative = os.path.relpath(path, base)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            names = sorted(os.listxattr(path, follow_symlinks=False))
            xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in names}
            first.setdefault(info.st_ino, set()).add(relative)
            found[relative] = [info.st_mode, info.st_nlink if not os.path.isdir(path) else 0, content, xattrs,
                               info.st_mtime_ns if info.st_mtime_ns < LONG_AGO else "now", info.st_ino]
    for value in found.values():
        value[-1] = min(first[value[-1]])
    return found


class FileOperations(FaultCase):
    def work_on(self, pair, chaos, stop, operations):
        count = 0
        while (count < operations or chaos.done < CUTS) and not stop.is_set():
            pair.step()
            count += 1
        pair.finish()

    def storm(self, seed, operations=OPERATIONS, **faults):
        via = self.through_proxy()
        root = via.root
        (root / "shared").touch()
        point = self.mount(via)
        pairs = []
        for number in range(THREADS):
            mount, model = point / f"t{number}", self.folder("model") / f"t{number}"
            mount.mkdir()
            model.mkdir()
            pairs.append(Pair(mount, model, seed * 1000 + number, number))
        stop = threading.Event()
        with Chaos(via.proxy, seed, **faults) as chaos:
            workers = [Background(self.work_on, pair, chaos, stop, operations) for pair in pairs]
            try:
                for worker in workers:
                    worker.join(soak(90, 600))
            finally:
                stop.set()
        self.judge(pairs, root, via.proxy)
        self.unmount(point)
        return pairs

    def judge(self, pairs, root, proxy):
        for pair in pairs:
            expected, got = describe_tree(pair.model), describe_tree(root / f"t{pair.share}")
            self.assertEqual(sorted(expected), sorted(got))
            for path, value in expected.items():
                self.assertEqual(value, got[path], path)
        lines = (root / "shared").read_text().splitlines()
        wanted = sorted(f"{pair.share}-{i}" for pair in pairs for i in range(pair.appended))
        self.assertEqual(sorted(lines), wanted)
        for pair in pairs:  # and those of one thread in order
            own = [int(line.split("-")[1]) for line in lines if line.startswith(f"{pair.share}-")]
            self.assertEqual(own, sorted(own))

    def one_seed(self, seed, **faults):
        start = time.monotonic()
        try:
            pairs = self.storm(seed, **faults)
        except BaseException:
            print(f"SANDBAR_FAULT_SEED={seed} repeats it", flush=True)
            raise
        total = sum((pair.counts for pair in pairs), collections.Counter())
        print(f"seed {seed}: {sum(total.values())} operations, {dict(self.proxies[-1].counts)}, "
              f"{time.monotonic() - start:.1f} s", flush=True)
        if "operations" not in faults:
            self.assertGreater(len(total), 20, "not every kind of operation happened")

    def test_cuts(self):
        for seed in seeds():
            with self.subTest(seed=seed):
                self.fresh_work()
                self.one_seed(seed)

    def test_stalls_refusals_and_delays(self):
        for seed in seeds(1, 20):
            with self.subTest(seed=seed):
                self.fresh_work()
                # Not so near that nothing gets through: each round trip of a connection may take 100 ms here.
                self.one_seed(seed, operations=OPERATIONS // 5, every=(0.2, 1.2),
                              kinds=("cut", "reset", "truncate", "stall", "refuse", "delay"))

    def fresh_work(self):
        """Folders of its own for each seed."""
        self.made = set()
        self.base = getattr(self, "base", self.work)
        self.work = self.base / f"seed{len(self.proxies)}"
        self.work.mkdir(exist_ok=True)

    def test_fsx(self):
        """The tester of tests/e2e, behind the proxy."""
        via = self.through_proxy()
        point = self.mount(via)
        for seed in seeds(1, 5):
            (point / f"s{seed}").mkdir()
            with Chaos(via.proxy, seed) as chaos:
                done = run(BIN / "fsx", point / f"s{seed}", "--served", via.root / f"s{seed}", "--seed", seed, "--ops",
                           soak(3000, 50_000), check=False, timeout=soak(90, 1200))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, "all as expected")
            self.assertGreater(chaos.done, 3)


class Model(unittest.TestCase):
    """What judges finds a difference."""

    def test_it_finds_what_is_different(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            pair = Pair(one, other, 1, 0)
            for _ in range(300):
                if pair.random.random() < 0.95:
                    kind = pair.random.choice(("create", "write", "mkdir", "rename", "link", "utimens", "xattr", "chmod"))
                    getattr(pair, kind)()
            self.assertEqual(describe_tree(one), describe_tree(other))
            files = [path for path, value in describe_tree(one).items() if isinstance(value[2], bytes) and value[2]]
            with open(os.path.join(one, files[0]), "r+b") as file:
                byte = file.read(1)
                file.seek(0)
                file.write(bytes([byte[0] ^ 1]))
            self.assertNotEqual(describe_tree(one), describe_tree(other))
            os.mkdir(os.path.join(one, "extra"))
            with self.assertRaisesRegex(AssertionError, f"got \\({errno.EEXIST}"):
                pair.both("mkdir", os.mkdir, "extra")


if __name__ == "__main__":
    main()
