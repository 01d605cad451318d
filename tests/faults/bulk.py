# SPDX-License-Identifier: Apache-2.0
"""Much data, and much at once, with a cut every few hundred milliseconds: all of it arrives, as it was, and once."""

import hashlib
import os
import re
import threading

from chaos import Chaos
from faulty import Background, FaultCase, pattern, seeds, sha256
from harness import main, run, soak, wait_for

SIZE = soak(64 << 20, 1 << 30)
# So slow that there is time for cuts: a block of check's takes 2 s, one of --soak's 10 s.
RATE = soak(32_000_000, 100_000_000)
LEAST_CUTS = soak(3, 12)
LIMIT = soak(60, 300)


def write_pattern(path, seed):
    """SIZE bytes; returns their digest."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for number in range(SIZE >> 24):
            piece = pattern(1 << 24, (seed, number))
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


class Bulk(FaultCase):
    def setUp(self):
        super().setUp()
        self.via = self.through_proxy()
        self.via.proxy.throttle(RATE)

    def chaos(self, seed):
        return Chaos(self.via.proxy, seed)

    def cuts(self, chaos):
        """That there were any: else the test has shown nothing."""
        self.assertGreaterEqual(chaos.done, LEAST_CUTS)

    def test_upload_and_download(self):
        point = self.mount(self.via)
        for seed in seeds(2):
            with self.subTest(seed=seed):
                digest = write_pattern(self.work / "here", seed)
                with self.chaos(seed) as chaos:
                    run("cp", self.work / "here", point / "there", timeout=LIMIT)
                    self.cuts(chaos)
                self.assertEqual(sha256(self.via.root / "there"), digest)
                with self.chaos(seed + 100) as chaos:
                    # Past the kernel's cache: it has the pages that were just written.
                    run("dd", f"if={point}/there", f"of={self.work}/back", "bs=1M", "iflag=direct", timeout=LIMIT)
                    self.cuts(chaos)
                self.assertEqual(sha256(self.work / "back"), digest)
                os.unlink(point / "there")

    def test_a_pipe_both_ways(self):
        for seed in seeds(2):
            with self.subTest(seed=seed):
                digest = write_pattern(self.work / "here", seed)
                with open(self.work / "here", "rb") as source:
                    process = self.start_running("cat", stdin=source)
                with self.chaos(seed) as chaos:
                    got = Background(self.digest_of, process.stdout)
                    self.assertEqual(got.join(LIMIT), (digest, SIZE))
                    self.assertEqual(process.wait(timeout=30), 0, process.stderr.read())
                    self.cuts(chaos)

    def start_running(self, *command, **popen):
        """A command that has begun: a first connect that is cut would be an error, and rightly so."""
        before = self.children()
        process = self.start_exec(self.via, *command, **popen)
        wait_for("the command to run", lambda: self.children() - before)
        return process

    def children(self):
        return set(run("ps", "--ppid", self.via.agent.process.pid, "-o", "pid=", check=False).stdout.split())

    @staticmethod
    def digest_of(stream):
        digest, count = hashlib.sha256(), 0
        while piece := stream.read(1 << 20):
            digest.update(piece)
            count += len(piece)
        return digest.hexdigest(), count

    def test_output_of_many_lines(self):
        self.via.proxy.throttle(10_000_000)
        expected = hashlib.sha256(run("seq", 2_000_000, text=False).stdout).hexdigest()
        for seed in seeds(2):
            with self.subTest(seed=seed):
                process = self.start_running("sh", "-c", "seq 2000000; echo end >&2; exit 9")
                with self.chaos(seed) as chaos:
                    digest, _ = Background(self.digest_of, process.stdout).join(LIMIT)
                    self.assertEqual(digest, expected)
                    self.assertEqual(process.stderr.read().count(b"end\n"), 1)
                    self.assertEqual(process.wait(timeout=30), 9)
                    self.assertGreater(chaos.done, 0)

    def patient_exec(self, script):
        """Begins again when its connection was cut before it was there: it says so, and has started nothing."""
        while True:
            done = self.exec(self.via, "sh", "-c", script, timeout=60)
            if done.returncode != 125 or not re.fullmatch(r"sandbox-exec: connect to [^\n]*\n", done.stderr):
                return done

    def test_exit_codes_and_short_commands(self):
        """The command runs once: it leaves its trace."""
        count = soak(60, 500)
        with self.chaos(1) as chaos:
            for number in range(count):
                done = self.patient_exec(f"echo {number} >> trace; sleep 0.0{number % 7}; echo {number}; exit {number % 120}")
                self.assertEqual((done.returncode, done.stdout), (number % 120, f"{number}\n"), done.stderr)
            done = self.patient_exec("ulimit -c 0; kill -9 $$")
            self.assertEqual(done.returncode, 128 + 9, done.stderr)
            self.cuts(chaos)
        self.assertEqual((self.via.root / "trace").read_text(), "".join(f"{number}\n" for number in range(count)))

    def test_two_hundred_at_once(self):
        """200 threads, each with a file of its own: stat, read, write, append; and 20 commands beside them."""
        point = self.mount(self.via)
        for seed in seeds():
            with self.subTest(seed=seed):
                folder = point / f"s{seed}"
                folder.mkdir()
                stop = threading.Event()
                with self.chaos(seed) as chaos:
                    workers = [Background(self.use_a_file, folder / f"f{number}", number, chaos, stop) for number in range(200)]
                    commands = [Background(self.patient_exec, f"sleep 1; echo {number}") for number in range(20)]
                    try:
                        lengths = [worker.join(LIMIT) for worker in workers]
                    finally:
                        stop.set()
                    for number, command in enumerate(commands):
                        done = command.join()
                        self.assertEqual((done.returncode, done.stdout), (0, f"{number}\n"), done.stderr)
                    self.cuts(chaos)
                for number, length in enumerate(lengths):
                    data = (self.via.root / f"s{seed}/f{number}").read_bytes()
                    self.assertEqual(data, b"".join(pattern(1000 + n, (number, n)) for n in range(length)), f"file {number}")

    @staticmethod
    def use_a_file(path, number, chaos, stop):
        """Appends records until there were enough cuts; returns how many."""
        count, size = 0, 0
        while (count < 5 or chaos.done < LEAST_CUTS) and count < 400 and not stop.is_set():
            record = pattern(1000 + count, (number, count))
            with open(path, "ab", buffering=0) as file:
                assert file.write(record) == len(record)
            assert os.stat(path).st_size == size + len(record), (path, size, os.stat(path).st_size)
            with open(path, "rb", buffering=0) as file:
                file.seek(size)
                got = file.readall()
            assert got == record, (path, len(got))
            size += len(record)
            count += 1
        return count

    def test_cuts_at_byte_counts(self):
        """Cuts where a clock does not put them: in headers, heads and bodies, for small requests and large ones."""
        self.via.proxy.throttle(None)
        point = self.mount(self.via)
        (point / "f").write_bytes(pattern(3_000_000, 0))
        for distance in list(range(1, soak(80, 700), soak(7, 1))) + [1023, 4096, 65_543, 262_169, 300_007, 1_048_600]:
            self.via.proxy.at(distance, self.via.proxy.cutter(reset=distance % 2 == 1))
            data = pattern(5000 if distance < 5000 else 1_000_000, distance)
            with open(point / "f", "r+b", buffering=0) as file:
                file.seek(distance)
                self.assertEqual(file.write(data), len(data))
                file.seek(distance)
                self.assertEqual(os.pread(file.fileno(), len(data), distance), data)
            self.assertEqual((self.via.root / "f").read_bytes()[distance:distance + len(data)], data)
        self.assertGreater(self.via.proxy.counts["cut"] + self.via.proxy.counts["reset"], 10)

    def test_a_reader_that_goes_away(self):
        """The command ends though the connection is cut meanwhile."""
        with self.chaos(5):
            for _ in range(soak(5, 50)):
                line = b""
                while not line:  # it may be cut before it has begun
                    process = self.start_exec(self.via, "sh", "-c", "echo $$; exec yes")
                    line = process.stdout.readline()
                pid = int(line)
                self.assertEqual(process.stdout.read(2), b"y\n")
                process.stdout.close()
                process.wait(timeout=60)
                self.assertNotEqual(process.returncode, 0)
                wait_for("the command to end", lambda: not os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    main()
