# SPDX-License-Identifier: Apache-2.0
"""Symbolic links in a mount: none leads out, those that stay work as they are, and the stored target can be read."""

import ctypes
import os
import pathlib
import subprocess
import threading
import time

from harness import MOUNT, Case, main, run, soak

RENAME_EXCHANGE = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(a, b):
    """Swaps two names at once, as a hostile process in the sandbox would."""
    if LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


class Links(Case):
    def setUp(self):
        super().setUp()
        self.root, self.point = self.mounted()
        (self.root / "d").mkdir()
        (self.root / "a/b").mkdir(parents=True)
        (self.root / "x").write_text("in the sandbox")
        (self.root / "a/x").write_text("in a")
        # What a link that climbs out of the mount would find.
        (self.work / "x").write_text("outside")

    def link(self, path, target):
        (self.root / path).symlink_to(target)

    def assertStays(self, path):
        """Nothing of what the link shows can leave the mount."""
        target = os.readlink(self.point / path)
        self.assertFalse(target.startswith("/"), target)
        parts = pathlib.PurePosixPath(target).parts
        climbs = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
        self.assertLessEqual(climbs, path.count("/"), target)
        self.assertNotIn("..", parts[climbs:], target)

    def test_those_that_stay_are_as_stored(self):
        for path, target in (
            ("l", "x"),
            ("m", "a/x"),
            ("a/l", "../x"),
            ("a/b/l", "../../x"),
            ("a/b/m", "../x"),
            ("a/b/n", "./../x"),
            ("o", "none/at/all"),
            ("p", "d/"),
        ):
            self.link(path, target)
            self.assertEqual(os.readlink(self.point / path), target)
        self.assertEqual((self.point / "a/b/l").read_text(), "in the sandbox")
        self.assertEqual((self.point / "a/b/m").read_text(), "in a")

    def test_absolute_and_climbing_ones_lead_inside(self):
        (self.root / "same").symlink_to(".")
        (self.root / "down").symlink_to("a/b")
        for target in ("/x", "../x", "../../../../x", "d/../x", "same/../x", "a/b/../../../x", "/../x", f"{self.root}/x"):
            for path in ("l", "a/l", "a/b/l"):
                self.link(path, target)
                self.assertStays(path)
                self.assertNotEqual(self.read(path), "outside", target)
                (self.root / path).unlink()
            if target.startswith("/"):
                self.link("a/b/l", target)
                self.assertEqual(self.read("a/b/l"), "in the sandbox", target)
                (self.root / "a/b/l").unlink()
        # ".." of where a link leads, not of where it lies.
        self.link("l", "/down/../x")
        self.assertEqual(self.read("l"), "in a")

    def read(self, path):
        try:
            return (self.point / path).read_text()
        except OSError:
            return None

    def test_nothing_is_written_outside(self):
        self.link("l", "../new")
        self.link("a/m", "/../../new2")
        for path in ("l", "a/m"):
            (self.point / path).write_text("data")
        self.assertFalse((self.work / "new").exists() or (self.work / "new2").exists())
        self.assertEqual((self.root / "new").read_text(), "data")
        self.assertEqual((self.root / "new2").read_text(), "data")

    def test_what_is_made_through_the_mount_is_stored_as_given(self):
        for name, target in (("l", "/etc/passwd"), ("m", "../../x"), ("n", "d/../x"), ("o", "x" * 4095)):
            os.symlink(target, self.point / name)
            self.assertEqual(os.readlink(self.root / name), target)
            self.assertEqual(run(MOUNT, "--readlink", self.point / name).stdout, target + "\n")
        strange = b"l\xff\n"
        os.symlink(b"t\xfe\n", os.fsencode(self.point) + b"/" + strange)
        shown = subprocess.run(
            [MOUNT, "--readlink", os.fsencode(self.point) + b"/" + strange], stdout=subprocess.PIPE, check=True
        ).stdout
        self.assertEqual(shown, b"t\xfe\n\n")

    def test_readlink_says_what_is_wrong(self):
        for path, why in (
            (self.point / "x", "not a symbolic link"),
            (self.point / "none", "No such file"),
            ("/proc/self/exe", "sandbox-mount has mounted"),
        ):
            done = run(MOUNT, "--readlink", path, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
        done = run(MOUNT, "--readlink", self.point / "x", "more", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--readlink stands alone", done.stderr)

    def test_moved_links_and_parents(self):
        self.link("a/b/l", "../../x")
        inside = os.open(self.point / "a/b", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, inside)
        os.rename(self.point / "a/b", self.point / "b")
        # No lookup of b's new place has told the driver.
        target = os.readlink("l", dir_fd=inside)
        self.assertLessEqual(target.count(".."), 1)
        self.assertNotEqual(self.read("b/l"), "outside")
        os.rename(self.point / "b/l", self.point / "l")
        self.assertStays("l")
        self.assertNotEqual(self.read("l"), "outside")
        # By the other side.
        os.rename(self.root / "b", self.root / "a/b")
        os.rename(self.root / "l", self.root / "a/b/l")
        self.assertEqual(self.read("a/b/l"), "in the sandbox")

    def test_hard_linked_links(self):
        self.link("a/b/l", "../../x")
        os.link(self.root / "a/b/l", self.root / "l", follow_symlinks=False)
        os.link(self.point / "a/b/l", self.point / "a/l", follow_symlinks=False)
        for path in ("a/b/l", "l", "a/l", "a/b/l"):
            self.assertStays(path)
            self.assertNotEqual(self.read(path), "outside")
        states = [os.lstat(self.point / path) for path in ("a/b/l", "l", "a/l")]
        self.assertEqual({state.st_ino for state in states}, {states[0].st_ino})
        self.assertEqual({state.st_nlink for state in states}, {3})

    def test_a_racing_sandbox(self):
        """A name that is a directory one moment and a link to the root the next."""
        (self.root / "a/b/c").mkdir()
        (self.root / "a/flip").symlink_to("../.")
        self.link("a/b/l", "c/../../../x")
        self.link("a/m", "b/../../x")
        self.link("n", "a/b/../../x")
        stop = threading.Event()

        def flip():
            while not stop.is_set():
                exchange(self.root / "a/b", self.root / "a/flip")

        racer = threading.Thread(target=flip)
        racer.start()
        try:
            end = time.monotonic() + soak(3, 120)
            while time.monotonic() < end:
                for path in ("a/b/l", "a/flip/l", "a/m", "n"):
                    self.assertNotEqual(self.read(path), "outside")
        finally:
            stop.set()
            racer.join()


class Options(Case):
    def setUp(self):
        super().setUp()
        self.root = self.folder("root")
        (self.work / "x").write_text("outside")
        (self.root / "x").write_text("in the sandbox")
        (self.root / "l").symlink_to("../x")
        (self.root / "m").symlink_to("x")

    def test_raw(self):
        _, self.point = self.mounted(options="symlinks=raw")
        self.assertEqual(os.readlink(self.point / "l"), "../x")
        self.assertEqual((self.point / "l").read_text(), "outside")

    def test_nosymfollow(self):
        _, self.point = self.mounted(options="nosymfollow")
        self.assertEqual(os.readlink(self.point / "m"), "x")
        with self.assertRaisesRegex(OSError, "Too many levels"):
            (self.point / "m").read_text()
        flags = run("findmnt", "-no", "OPTIONS", self.point).stdout
        self.assertIn("nosymfollow", flags)
        for kept in ("nosuid", "nodev"):
            self.assertIn(kept, flags)

    def test_bad_values(self):
        for option, why in (("symlinks=all", "symlinks=safe or symlinks=raw"), ("nosymfollow=1", "has no value")):
            done = run(MOUNT, "unix:/nowhere", self.folder("mnt"), "-o", option, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)


class Subdirectory(Case):
    def test_a_directory_of_the_sandbox(self):
        """The top is the mounted directory; what a link has beyond it is not there."""
        self.root = self.folder("root")
        (self.root / "top/a").mkdir(parents=True)
        (self.root / "top/x").write_text("top")
        (self.root / "x").write_text("root")
        for name, target in (("l", "/top/x"), ("m", "../../x"), ("n", "/x"), ("o", "../../top/x")):
            (self.root / "top/a" / name).symlink_to(target)
        _, self.point = self.mounted(path="/top")
        self.assertEqual((self.point / "a/l").read_text(), "top")
        self.assertEqual((self.point / "a/o").read_text(), "top")
        for name in ("m", "n"):
            # Confined: the nearest thing inside.
            self.assertEqual(os.readlink(self.point / "a" / name), "../x")


if __name__ == "__main__":
    main()
