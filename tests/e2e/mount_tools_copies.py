# SPDX-License-Identifier: Apache-2.0
"""rsync and tar with all that they can carry, into a mount and out of it: nothing is lost, and nothing is sent twice."""

import os
import stat

from harness import Case, main, run, soak

MEGABYTE = 1 << 20
SPARSE = 8 * MEGABYTE + 3


def look(folder):
    """Every name below a folder with all that a copy should keep. Times of symlinks and directories included."""
    seen = {}
    first = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        for name in [b".", *folders, *files]:
            path = os.path.join(where, name)
            info = os.lstat(path)
            kind = stat.S_IFMT(info.st_mode)
            short = os.path.relpath(path, os.fsencode(folder))
            content = None
            if kind == stat.S_IFLNK:
                content = os.readlink(path)
            elif kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    content = hash(file.read())
            names = [] if kind == stat.S_IFLNK else os.listxattr(path, follow_symlinks=False)
            xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in names}
            seen[short] = (oct(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns, info.st_rdev, content, xattrs,
                           info.st_size if kind == stat.S_IFREG else 0,
                           info.st_nlink if kind == stat.S_IFREG else 0,
                           first.setdefault(info.st_ino, short) if kind == stat.S_IFREG else None)
    return seen


def make_files(folder):
    for i in range(soak(60, 3000)):
        file = folder / f"d{i % 7}/e{i % 3}/f{i}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(i * 97 % 20_000))
        file.chmod((0o644, 0o600, 0o755, 0o444, 0o4755, 0o2750)[i % 6])
        if i % 9 == 0:
            os.link(file, folder / f"linked-{i}")
            os.link(file, file.parent / f"linked-too-{i}")
    (folder / "large").write_bytes(os.urandom(3 * MEGABYTE + 1))
    with open(folder / "sparse", "wb") as file:
        for offset in (0, 2 * MEGABYTE, 6 * MEGABYTE):
            file.seek(offset)
            file.write(os.urandom(5000))
        file.truncate(SPARSE)
    os.mkfifo(folder / "fifo", 0o620)
    for name in (b"\xff\xfe", b"new\nline", b"-rf", " ünï".encode(), b"n" * 255):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name)


def make_links(folder, outside):
    """Links that stay inside, and with `outside` those that do not, or are absolute."""
    inside = {"to-file": "d1/e1/f1", "to-directory": "d1", "d1/up": "../d2", "d1/e1/up": "../../d2/e2",
              "dangling": "no/such", "d1/self": "self", "through": "d1/up/e2", "long": "d1/" + "./" * 500 + "e1"}
    leading_out = {"absolute": "/etc/passwd", "to-nothing": "/no/such", "climbing": "../../../../../../etc/passwd",
                   "d1/climbing": "../../x", "to-itself": str(folder / "d1"), "dots": ".."}
    for name, target in {**inside, **(leading_out if outside else {})}.items():
        os.symlink(target, folder / name)


def make_attributes(folder):
    for i, name in enumerate(("d1", "d1/e1", "large", "sparse", "d2")):
        os.setxattr(folder / name, "user.binary", bytes(range(256)))
        os.setxattr(folder / name, f"user.n{i}", b"")
    os.setxattr(folder / "large", "user.long", b"x" * 2000)
    run("setfacl", "-m", "u:1234:rwx,g:2345:r-x,m::rwx", folder / "d3", folder / "large")
    run("setfacl", "-d", "-m", "u:1234:rw-,o::-", folder / "d4")
    os.chown(folder / "d1/e1/f1", 1234, 2345)
    os.chown(folder / "to-file", 1234, 2345, follow_symlinks=False)
    (folder / "d5").chmod(0o1777)
    (folder / "d6").chmod(0o2750)
    for i, (where, folders, files) in enumerate(os.walk(folder, topdown=False)):
        for name in folders + files:
            moment = 1_000_000_000_123_456_789 + i * 1_000_003
            os.utime(os.path.join(where, name), ns=(moment, moment), follow_symlinks=False)
    os.utime(folder, (1, 1))  # rsync compares whole seconds


class Copies(Case):
    def make_source(self, outside=False):
        source = self.folder("source")
        make_files(source)
        make_links(source, outside)
        make_attributes(source)
        return source

    def same(self, one, other):
        """The same trees; what differs is shown, and not all of both."""
        wanted, found = look(one), look(other)
        names = wanted.keys() | found.keys()
        differing = {n: (wanted.get(n), found.get(n)) for n in names if wanted.get(n) != found.get(n)}
        self.assertEqual(dict(list(differing.items())[:3]), {}, f"{len(differing)} of {len(names)} differ")

    def is_sparse(self, file):
        self.assertEqual(os.stat(file).st_size, SPARSE)
        self.assertLess(os.stat(file).st_blocks * 512, MEGABYTE, file)

    def rsync_sends_nothing(self, source, target, *options):
        self.assertEqual(run("rsync", "-aHAXS", "-i", *options, f"{source}/", target).stdout, "")

    def both_ways_by_rsync(self, source, root, mount):
        run("rsync", "-aHAXS", f"{source}/", mount / "copy")
        self.rsync_sends_nothing(source, mount / "copy")
        self.rsync_sends_nothing(source, mount / "copy", "--checksum")
        self.same(source, mount / "copy")
        self.same(source, root / "copy")
        self.is_sparse(root / "copy/sparse")
        self.is_sparse(mount / "copy/sparse")
        back = self.folder("back")
        run("rsync", "-aHAXS", f"{mount}/copy/", back)
        self.rsync_sends_nothing(f"{mount}/copy", back)
        self.same(source, back)
        self.is_sparse(back / "sparse")

    def test_rsync(self):
        source = self.make_source()
        root, mount = self.mounted()
        self.both_ways_by_rsync(source, root, mount)
        # A change on either side is the only thing that moves.
        (root / "copy/d1/e1/f1").write_text("changed there")
        (source / "d2/new").write_text("new")
        changed = run("rsync", "-aHAXSi", f"{source}/", mount / "copy").stdout.splitlines()
        self.assertEqual([line.split()[1] for line in changed if line.startswith(">f")], ["d1/e1/f1", "d2/new"])
        run("rsync", "-aHAXS", "--delete", f"{self.folder('empty')}/", mount / "copy")
        self.assertEqual(os.listdir(root / "copy"), [])

    def test_tar(self):
        source = self.make_source()
        root, mount = self.mounted()
        keep = ("--xattrs", "--xattrs-include=*", "--acls", "--sparse")
        run("tar", "--format=posix", *keep, "-C", source, "-cf", self.work / "there.tar", ".")
        (mount / "out").mkdir()
        run("tar", *keep, "-C", mount / "out", "-xpf", self.work / "there.tar")
        self.same(source, root / "out")
        self.same(source, mount / "out")
        self.is_sparse(root / "out/sparse")
        run("tar", "--format=posix", *keep, "-C", mount / "out", "-cf", self.work / "back.tar", ".")
        back = self.folder("back")
        run("tar", *keep, "-C", back, "-xpf", self.work / "back.tar")
        self.same(source, back)
        self.is_sparse(back / "sparse")
        run("tar", "-C", mount / "out", "--compare", "-f", self.work / "there.tar")

    def test_links_that_lead_out(self):
        """With symlinks=raw all links are what they are, on both ways and for every tool."""
        source = self.make_source(outside=True)
        root, mount = self.mounted(options="symlinks=raw")
        self.both_ways_by_rsync(source, root, mount)
        run("sh", "-c", f"tar -C {mount}/copy -c . | tar -C {self.folder('untarred')} -xp")
        self.assertEqual(self.links(self.folder("untarred")), self.links(source))

    def links(self, folder):
        found = {}
        for where, folders, files in os.walk(folder):
            for name in folders + files:
                path = os.path.join(where, name)
                if os.path.islink(path):
                    found[os.path.relpath(path, folder)] = os.readlink(path)
        return found

    def test_links_are_stored_as_made_and_shown_as_safe(self):
        source = self.make_source(outside=True)
        root, mount = self.mounted()
        for way, copy in (("rsync", ("rsync", "-aHAXS", f"{source}/")), ("cp", ("cp", "-a", f"{source}/."))):
            run(*copy, mount / way)
            self.same(source, root / way)
            shown = self.links(mount / way)
            self.assertEqual(shown.keys(), self.links(source).keys())
            for name, target in shown.items():
                self.assertFalse(os.path.isabs(target), name)
                place = os.path.normpath(os.path.join(way, os.path.dirname(name), target))
                self.assertFalse(place.startswith(".."), f"{name} -> {target}")
                # Nothing of this machine, by whatever way.
                self.assertTrue(os.path.realpath(mount / way / name).startswith(str(mount)), name)
            for name in ("to-file", "to-directory", "d1/up", "dangling"):
                self.assertEqual(shown[name], os.readlink(source / name))
            self.assertFalse(os.path.exists(mount / way / "absolute"))
            run("tar", "-C", mount, "-cf", "/dev/null", way)

    def test_cp(self):
        source = self.make_source()
        root, mount = self.mounted()
        run("cp", "-a", f"{source}/.", mount / "copy")
        self.same(source, root / "copy")
        run("cp", "-a", f"{mount}/copy/.", mount / "second")
        self.same(source, root / "second")
        self.is_sparse(root / "second/sparse")
        run("cp", "-a", f"{mount}/second/.", self.work / "back")
        self.same(source, self.work / "back")
        found = run("find", mount / "second", "-xtype", "l", check=False)
        self.assertEqual(found.stdout, f"{mount}/second/dangling\n")
        self.assertIn("d1/self", found.stderr)
        run("rm", "-rf", mount / "copy", mount / "second")
        self.assertEqual(os.listdir(root), [])


if __name__ == "__main__":
    main()
