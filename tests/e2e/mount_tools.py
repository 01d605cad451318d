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
        for name, target in (("link", "d1/f1.txt"), ("d2/up", "../d3"), ("d4/dangling", "none"), ("directory", "d5")):
            os.symlink(target, source / name)
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
        # The sandbox sees the same repository, whole. (The worktree's files name each other by the mount's path.)
        self.assertEqual(run(*GIT, "-C", root / "clone", "fsck", "--full", "--strict").stdout, "")
        self.assertEqual(run(*GIT, "-C", root / "clone", "status", "--porcelain").stdout, "")
        self.assertEqual((root / "tree/new").read_text(), "new\n")
        self.assertEqual(os.readlink(root / "tree/d2/up"), "../d3")
        # A worktree is used at once with its repository, then goes; links are changed like files.
        tree = mount / "tree"
        os.unlink(tree / "link")
        os.symlink("d2/up/f3.txt", tree / "link")
        self.assertEqual(run(*GIT, "-C", tree, "status", "--porcelain").stdout, " M link\n")
        run(*GIT, "-C", tree, "commit", "-qam", "third")
        self.assertEqual((tree / "link").read_text(), "changed\n")
        run(*GIT, "-C", clone, "merge", "-q", "-m", "merged", "main")
        self.assertEqual(os.readlink(root / "clone/link"), "d2/up/f3.txt")
        run(*GIT, "-C", clone, "stash", "list")
        run(*GIT, "-C", clone, "worktree", "remove", "../tree")
        self.assertFalse(tree.exists())
        run(*GIT, "-C", clone, "rebase", "-q", "main")
        self.assertEqual(run(*GIT, "-C", clone, "status", "--porcelain").stdout, "")

    def test_git_and_links_that_lead_out(self):
        source = self.make_repository()
        for name, target in (("absolute", "/etc/passwd"), ("climbing", "../../../etc/passwd"), ("d1/root", "/"),
                             ("d2/behind", "../d3/../d4")):
            os.symlink(target, source / name)
        run(*GIT, "-C", source, "add", "-A")
        run(*GIT, "-C", source, "commit", "-qm", "links")
        agent = self.agent()
        raw, safe = self.mount(agent, "raw", options="symlinks=raw"), self.mount(agent, "safe")
        for mount in (raw, safe):
            run(*GIT, "clone", "-q", source, mount / mount.name)
            self.assertEqual(os.readlink(agent.root / mount.name / "absolute"), "/etc/passwd")
            self.assertEqual(os.readlink(agent.root / mount.name / "climbing"), "../../../etc/passwd")
            self.assertEqual(run(*GIT, "-C", agent.root / mount.name, "status", "--porcelain").stdout, "")
        clone = raw / "raw"
        self.assertEqual(run(*GIT, "-C", clone, "status", "--porcelain").stdout, "")
        run(*GIT, "-C", clone, "worktree", "add", "-q", "../tree", "HEAD")
        self.assertEqual(run(*GIT, "-C", raw / "tree", "status", "--porcelain").stdout, "")
        run(*GIT, "-C", clone, "mv", "absolute", "d1/moved")
        run(*GIT, "-C", clone, "commit", "-qm", "moved")
        self.assertEqual(os.readlink(agent.root / "raw/d1/moved"), "/etc/passwd")
        self.assertEqual(run(*GIT, "-C", clone, "fsck", "--full", "--strict").stdout, "")

    def test_git_from_both_sides(self):
        """Commits of either side are the other's at once; index.lock excludes both."""
        root, mount = self.mounted()
        run(*GIT, "init", "-q", root / "r")
        for i in range(soak(10, 200)):
            side = (root, mount)[i % 2] / "r"
            (side / f"f{i}").write_text(f"{i}\n")
            run(*GIT, "-C", side, "add", "-A")
            run(*GIT, "-C", side, "commit", "-qm", f"{i}")
            for other in (root, mount):
                self.assertEqual(run(*GIT, "-C", other / "r", "status", "--porcelain").stdout, "")
                self.assertEqual(run(*GIT, "-C", other / "r", "log", "--format=%s", "-1").stdout, f"{i}\n")
        (root / "r/.git/index.lock").write_text("")
        self.assertIn("index.lock", run(*GIT, "-C", mount / "r", "reset", check=False).stderr)

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

    def test_c_project(self):
        """Configured, built, tested; and built again after a change on either side."""
        root, mount = self.mounted()
        files = {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nenable_testing()\n"
                              "add_library(answer SHARED answer.c)\nadd_executable(ask ask.c)\n"
                              "target_link_libraries(ask answer)\nadd_test(NAME ask COMMAND ask)\n",
            "answer.h": "#define ANSWER 42\nint answer(void);\n",
            "answer.c": '#include "answer.h"\nint answer(void) { return ANSWER; }\n',
            "ask.c": '#include <stdio.h>\n#include "answer.h"\nint main(void) { printf("%d\\n", answer()); return 0; }\n',
        }
        (mount / "p").mkdir()
        for name, content in files.items():
            (mount / "p" / name).write_text(content)
        for generator in ("Ninja", "Unix Makefiles"):
            build = mount / f"p/build {generator}"
            run("cmake", "-G", generator, "-S", mount / "p", "-B", build)
            run("cmake", "--build", build)
            self.assertIn("100% tests passed", run("ctest", "--test-dir", build).stdout)
            self.assertEqual(run(build / "ask").stdout, "42\n")
            for i, side in enumerate((root, mount)):
                (side / "p/answer.h").write_text(f"#define ANSWER {i}\nint answer(void);\n")
                run("cmake", "--build", build)
                self.assertEqual(run(build / "ask").stdout, f"{i}\n")
                self.assertEqual(run(root / f"p/build {generator}/ask").stdout, f"{i}\n")
            (mount / "p/answer.h").write_text(files["answer.h"])
        run("ninja", "-C", mount / "p/build Ninja")
        self.assertIn("no work to do", run("ninja", "-C", mount / "p/build Ninja").stdout)

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
