# SPDX-License-Identifier: Apache-2.0
"""The tools that people use on a directory, on a mount: they must not notice."""

import os
import pathlib
import shutil
import stat

from harness import SOAK, Case, main, run, soak

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main",
       "-c", "safe.directory=*", "-c", "protocol.file.allow=always"]


def tree(path):
    """Every name below `path` with its type, mode, size, target and time."""
    seen = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(folder, name)
            info = os.lstat(full)
            target = os.readlink(full) if stat.S_ISLNK(info.st_mode) else None
            size = info.st_size if stat.S_ISREG(info.st_mode) else None
            seen[os.path.relpath(full, path)] = (info.st_mode, size, target, info.st_mtime_ns)
    return seen


class Tools(Case):
    def make_repository(self):
        source = self.folder("source")
        run(*GIT, "init", "-q", source)
        for i in range(200):
            file = source / f"d{i % 10}" / f"f{i}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{i}\n" * (i + 1))
        os.symlink("d1/f1.txt", source / "link")
        run(*GIT, "-C", source, "add", "-A")
        run(*GIT, "-C", source, "commit", "-qm", "first")
        return source

    def test_git(self):
        source = self.make_repository()
        root, mount = self.mounted()
        clone = mount / "clone"
        run(*GIT, "clone", "-q", source, clone)
        self.assertEqual(run(*GIT, "-C", clone, "status", "--porcelain").stdout, "")
        (clone / "d3/f3.txt").write_text("changed\n")
        (clone / "new").write_text("new\n")
        self.assertEqual(run(*GIT, "-C", clone, "status", "--porcelain").stdout.split(), ["M", "d3/f3.txt", "??", "new"])
        run(*GIT, "-C", clone, "add", "-A")
        run(*GIT, "-C", clone, "commit", "-qm", "second")
        run(*GIT, "-C", clone, "checkout", "-qb", "other", "HEAD~1")
        run(*GIT, "-C", clone, "worktree", "add", "-q", "../tree", "main")
        run(*GIT, "-C", clone, "gc", "-q", "--prune=now")
        self.assertEqual(run(*GIT, "-C", clone, "fsck", "--full", "--strict").stdout, "")
        # The sandbox sees the same repository, whole.
        self.assertEqual(run(*GIT, "-C", root / "clone", "fsck", "--full", "--strict").stdout, "")
        self.assertEqual((root / "tree/new").read_text(), "new\n")

    def test_rsync_copies_once(self):
        root, mount = self.mounted()
        count = soak(60, None)
        source = pathlib.Path("/usr/include")
        if count:
            part = self.folder("part")
            run("cp", "-a", source / "linux", part)
            source = part
        run("rsync", "-a", f"{source}/", mount / "copy")
        again = run("rsync", "-a", "-i", "--stats", f"{source}/", mount / "copy").stdout
        self.assertIn("Number of regular files transferred: 0", again)
        self.assertNotRegex(again, r"(?m)^[<>ch.*][fdL]")
        self.assertEqual(tree(root / "copy"), tree(source))

    def test_tar_there_and_back(self):
        root, mount = self.mounted()
        source = self.folder("files")
        for i in range(soak(2_000, 10_000)):
            file = source / f"{i // 100:03}" / f"{i}"
            if i % 100 == 0:
                file.parent.mkdir()
            file.write_bytes(os.urandom(i % 3000))
            if i % 50 == 0:
                os.symlink(f"{i}", f"{file}.link")
                os.link(file, f"{file}.hard")
        run("tar", "--format=posix", "-C", source, "-cf", self.work / "there.tar", ".")
        (mount / "out").mkdir()
        run("tar", "-C", mount / "out", "-xf", self.work / "there.tar")
        run("tar", "--format=posix", "-C", mount / "out", "-cf", self.work / "back.tar", ".")
        back = self.folder("back")
        run("tar", "-C", back, "-xf", self.work / "back.tar")
        run("diff", "-r", "--no-dereference", source, back)
        run("diff", "-r", "--no-dereference", source, root / "out")
        self.assertEqual(tree(back), tree(source))

    def test_vim_and_sed(self):
        root, mount = self.mounted()
        for mode in ("yes", "no", "auto"):
            file = mount / f"file-{mode}"
            file.write_text("one\ntwo\nthree\n")
            file.chmod(0o640)
            run("vim", "-Nu", "NONE", "-es", "-c", f"set backup backupcopy={mode}", "-c", "%s/two/2/", "-c", "wq", file,
                env={**os.environ, "HOME": str(self.work), "TERM": "dumb"})
            self.assertEqual((root / file.name).read_text(), "one\n2\nthree\n")
            self.assertEqual(stat.S_IMODE((root / file.name).stat().st_mode), 0o640)
        run("sed", "-i", "s/three/3/", mount / "file-no")
        self.assertEqual((root / "file-no").read_text(), "one\n2\n3\n")

    def test_find_cp_rm(self):
        root, mount = self.mounted()
        source = self.folder("some")
        for i in range(300):
            file = source / f"{i % 7}/{i % 3}/{i}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x" * i)
        os.symlink("../elsewhere", source / "dangling")
        os.mkfifo(source / "fifo")
        run("cp", "-a", source, mount / "copy")
        self.assertEqual(tree(mount / "copy"), tree(source))
        run("cp", "-a", mount / "copy", mount / "second")
        self.assertEqual(tree(root / "second"), tree(source))
        listed = run("find", mount / "second", "-type", "f", "-size", "+0").stdout.splitlines()
        self.assertEqual(len(listed), 299)
        run("rm", "-rf", mount / "copy", mount / "second")
        self.assertEqual(os.listdir(root), [])

    def test_sqlite_commits(self):
        _, mount = self.mounted()
        script = "create table t(a); " + "".join(f"insert into t values({i});" for i in range(50))
        run("sqlite3", mount / "db", script)
        self.assertEqual(run("sqlite3", mount / "db", "select count(*), sum(a) from t; pragma integrity_check").stdout,
                         "50|1225\nok\n")

    def test_cmake_build(self):
        """This project itself, configured and built inside the mount (whole in --soak, its lower layers else)."""
        _, mount = self.mounted()
        top = pathlib.Path(__file__).resolve().parents[2]
        source = mount / "sandbar"
        shutil.copytree(top, source, ignore=shutil.ignore_patterns("build", ".git", ".cache", "node_modules"), symlinks=True)
        run("cmake", "-G", "Ninja", "-S", source, "-B", source / "build", "-DCMAKE_BUILD_TYPE=Debug",
            f"-DSANDBAR_TESTS={'ON' if SOAK else 'OFF'}", timeout=1200)
        run("ninja", "-C", source / "build", *([] if SOAK else ["sandbar_base", "sandbar_wire"]), timeout=3000)
        again = run("ninja", "-C", source / "build", "-n", *([] if SOAK else ["sandbar_base", "sandbar_wire"])).stdout
        self.assertIn("no work to do", again)


if __name__ == "__main__":
    main()
