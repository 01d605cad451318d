# SPDX-License-Identifier: Apache-2.0
"""Random file operations through a mount, alone and with the other side at work, each compared with what is expected.

$SANDBAR_FSX_SEED repeats the operations of an earlier run, which printed its seed.
"""

import ctypes
import os
import re

from harness import BIN, Case, main, run, soak

FSX = BIN / "fsx"
PUNCH_HOLE, KEEP_SIZE, ZERO_RANGE = 2, 1, 16
OPERATIONS = soak(8_000, 1_000_000)


def seed():
    return int(os.environ.get("SANDBAR_FSX_SEED") or int.from_bytes(os.urandom(4), "big"))


class Fsx(Case):
    def knows(self, folder, mode):
        """Whether the file system of the folder (not a mount of ours) can do this fallocate(2)."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        with open(folder / "probe", "wb") as file:
            known = libc.fallocate(file.fileno(), mode, 0, 4096) == 0
        os.unlink(folder / "probe")
        return known

    def fsx(self, tree, served, *options, operations=OPERATIONS, check=True):
        extra = [] if self.knows(served, ZERO_RANGE) else ["--no-zero-range"]
        number = seed()
        print(f"seed {number}", flush=True)
        done = run(FSX, tree, "--served", served, "--seed", number, "--ops", operations, *options, *extra, check=False,
                   timeout=soak(240, 5400))
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            counts = dict(re.findall(r"([\w-]+)=(\d+)", done.stdout))
            self.assertEqual(sum(map(int, counts.values())), operations)
            never = {kind for kind, count in counts.items() if count == "0"}
            self.assertLessEqual(never, {"zero-range"} if extra else set())
        return done

    def test_alone(self):
        root, mount = self.mounted()
        self.fsx(mount, root)

    def test_while_the_other_side_works(self):
        root, mount = self.mounted()
        self.fsx(mount, root, "--mutate")

    def test_two_mounts(self):
        """The other side may be another mount of the same sandbox, too."""
        agent = self.agent()
        one, other = self.mount(agent, "one"), self.mount(agent, "other")
        self.fsx(one, other, "--mutate", operations=OPERATIONS // 10)

    def test_the_tester_itself(self):
        """On a local disk it finds nothing, unless there is something."""
        folder = self.folder("good")
        self.fsx(folder, folder, "--mutate", operations=3000)
        # What it broke may be written over or removed before it is looked at: then another seed has to show it.
        for attempt in range(20):
            folder = self.folder(f"bad{attempt}")
            done = self.fsx(folder, folder, "--break-at", 2990, operations=3000, check=False)
            if done.returncode != 0:
                break
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("MISMATCH", done.stdout)
        self.assertIn("BROKE", done.stdout)
        self.assertEqual(len(re.findall(r"(?m)^  \d+ ", done.stdout)), 50)


if __name__ == "__main__":
    main()
