# SPDX-License-Identifier: Apache-2.0
"""Files through a mount: what each side does, the other sees; errors are the kernel's own."""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import threading

from harness import Case, main, run, soak, wait_for


class Files(Case):
    def fails(self, number, call, *arguments, **named):
        with self.assertRaises(OSError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.errno, number, f"{call.__name__}{arguments}: {caught.exception}")

    def test_both_sides_see_each_other(self):
        root, mount = self.mounted()
        (mount / "a").write_text("from here")
        self.assertEqual((root / "a").read_text(), "from here")
        (root / "a").write_text("from there, longer")
        self.assertEqual((mount / "a").read_text(), "from there, longer")
        (root / "a").write_text("from THERE, longer")
        self.assertEqual((mount / "a").read_text(), "from THERE, longer")
        (root / "a").unlink()
        self.assertFalse((mount / "a").exists())
        (root / "dir").mkdir()
        self.assertEqual(os.listdir(mount), ["dir"])

    def test_errors_are_exact(self):
        _, mount = self.mounted()
        (mount / "file").write_text("x")
        (mount / "dir").mkdir()
        (mount / "dir/in").write_text("x")
        self.fails(errno.ENOENT, os.stat, mount / "none")
        self.fails(errno.ENOTDIR, os.stat, mount / "file/x")
        self.fails(errno.EEXIST, os.mkdir, mount / "dir")
        self.fails(errno.ENOTEMPTY, os.rmdir, mount / "dir")
        self.fails(errno.ENOTDIR, os.rmdir, mount / "file")
        self.fails(errno.EISDIR, os.unlink, mount / "dir")
        self.fails(errno.EISDIR, os.open, mount / "dir", os.O_WRONLY)
        self.fails(errno.EEXIST, os.open, mount / "file", os.O_CREAT | os.O_EXCL)
        self.fails(errno.ENAMETOOLONG, os.mkdir, mount / ("n" * 256))
        self.fails(errno.EINVAL, os.rename, mount / "dir", mount / "dir/below")
        self.fails(errno.EISDIR, os.rename, mount / "file", mount / "dir")
        self.fails(errno.EXDEV, os.rename, mount / "file", self.work / "out")
        self.fails(errno.ENODATA, os.getxattr, mount / "file", "user.none")
        os.symlink("loop", mount / "loop")
        self.fails(errno.ELOOP, os.stat, mount / "loop")
        (mount / ("n" * 255)).mkdir()

    def test_open_files_outlive_their_names(self):
        root, mount = self.mounted()
        with open(mount / "f", "w+b", buffering=0) as file:
            file.write(b"one")
            os.rename(mount / "f", mount / "g")
            file.write(b"two")
            os.unlink(root / "g")
            file.write(b"three")
            file.seek(0)
            self.assertEqual(file.read(), b"onetwothree")
            self.assertEqual(os.fstat(file.fileno()).st_nlink, 0)
            os.ftruncate(file.fileno(), 3)
            self.assertEqual(os.fstat(file.fileno()).st_size, 3)
        self.assertEqual(os.listdir(root), [])
        with open(mount / "x", "w+b", buffering=0) as file:
            file.write(b"old")
            (root / "new").write_bytes(b"new")
            os.rename(root / "new", root / "x")
            file.seek(0)
            self.assertEqual(file.read(), b"old")
            self.assertEqual((mount / "x").read_bytes(), b"new")

    def test_rename_flags(self):
        _, mount = self.mounted()
        libc = ctypes.CDLL(None, use_errno=True)

        def renameat2(old, new, flags):
            if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")

        (mount / "a").write_text("A")
        (mount / "b").write_text("B")
        self.fails(errno.EEXIST, renameat2, mount / "a", mount / "b", 1)
        renameat2(mount / "a", mount / "b", 2)
        self.assertEqual(((mount / "a").read_text(), (mount / "b").read_text()), ("B", "A"))
        renameat2(mount / "a", mount / "c", 1)
        self.assertEqual(sorted(os.listdir(mount)), ["b", "c"])

    def test_rename_is_atomic(self):
        _, mount = self.mounted()
        (mount / "t").write_text("x" * 100)
        done = threading.Event()
        missed = []

        def look():
            while not done.is_set():
                try:
                    if len((mount / "t").read_text()) != 100:
                        missed.append("short")
                except FileNotFoundError:
                    missed.append("gone")

        looker = threading.Thread(target=look)
        looker.start()
        for i in range(soak(300, 5000)):
            (mount / f"n{i}").write_text("y" * 100)
            os.rename(mount / f"n{i}", mount / "t")
        done.set()
        looker.join()
        self.assertEqual(missed, [])

    def test_hard_links_and_inodes(self):
        root, mount = self.mounted()
        (mount / "a").write_text("x")
        os.link(mount / "a", mount / "b")
        a, b = os.stat(mount / "a"), os.stat(mount / "b")
        self.assertEqual((a.st_ino, a.st_nlink), (b.st_ino, 2))
        (mount / "b").write_text("longer")
        self.assertEqual(os.stat(mount / "a").st_size, 6)
        os.rename(mount / "a", mount / "c")
        self.assertEqual(os.stat(mount / "c").st_ino, a.st_ino)
        self.assertEqual(os.stat(root / "c").st_nlink, 2)

    def test_appends_of_both_sides_survive(self):
        root, mount = self.mounted()
        count = soak(300, 5000)

        def append(folder, mark):
            fd = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for i in range(count):
                os.write(fd, f"{mark}{i:06}\n".encode())
            os.close(fd)

        threads = [threading.Thread(target=append, args=pair) for pair in ((root, "r"), (mount, "m"), (mount, "n"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = (root / "log").read_text().splitlines()
        self.assertEqual(sorted(lines), sorted(f"{mark}{i:06}" for mark in "rmn" for i in range(count)))

    def test_truncation_leaves_no_tail(self):
        root, mount = self.mounted()
        (mount / "f").write_text("long content here")
        (mount / "f").write_text("short")
        self.assertEqual((root / "f").read_text(), "short")
        os.truncate(mount / "f", 2)
        self.assertEqual((root / "f").read_text(), "sh")
        os.truncate(mount / "f", 4)
        self.assertEqual((root / "f").read_bytes(), b"sh\0\0")

    def test_times_modes_and_owners(self):
        root, mount = self.mounted()
        (mount / "f").write_text("x")
        os.utime(mount / "f", ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))
        info = os.stat(root / "f")
        self.assertEqual((info.st_atime_ns, info.st_mtime_ns), (1_234_567_890_123_456_789, 987_654_321_987_654_321))
        self.assertEqual(os.stat(mount / "f").st_mtime_ns, 987_654_321_987_654_321)
        os.chmod(mount / "f", 0o4751)
        self.assertEqual(stat.S_IMODE(os.stat(root / "f").st_mode), 0o4751)
        os.chown(mount / "f", 1234, 2345)
        info = os.stat(root / "f")
        self.assertEqual((info.st_uid, info.st_gid), (1234, 2345))
        for mask in (0o000, 0o022, 0o077):
            old = os.umask(mask)
            try:
                os.mkdir(mount / f"d{mask}", 0o777)
                os.close(os.open(mount / f"f{mask}", os.O_CREAT | os.O_WRONLY, 0o666))
            finally:
                os.umask(old)
            self.assertEqual(stat.S_IMODE(os.stat(root / f"d{mask}").st_mode), 0o777 & ~mask)
            self.assertEqual(stat.S_IMODE(os.stat(root / f"f{mask}").st_mode), 0o666 & ~mask)

    def test_names_are_bytes(self):
        root, mount = self.mounted()
        names = [b"\xff\xfe", b"new\nline", b"-dash", b" ", b"\x01", "ü".encode(), b"n" * 255, b"a\\b", b'"']
        for name in names:
            with open(os.path.join(os.fsencode(mount), name), "wb") as file:
                file.write(name)
        self.assertEqual(sorted(os.listdir(os.fsencode(mount))), sorted(names))
        for name in names:
            with open(os.path.join(os.fsencode(root), name), "rb") as file:
                self.assertEqual(file.read(), name)
        os.symlink(b"\xfftarget", os.path.join(os.fsencode(mount), b"l"))
        self.assertEqual(os.readlink(os.path.join(os.fsencode(root), b"l")), b"\xfftarget")

    def test_long_paths(self):
        _, mount = self.mounted()
        os.chdir(mount)
        self.addCleanup(os.chdir, "/")
        for _ in range(60):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        with open("deep", "w", encoding="utf-8") as file:
            file.write("x")
        self.assertEqual(os.listdir("."), ["deep"])
        os.chdir("/")
        run("rm", "-rf", mount / ("d" * 200))
        self.assertEqual(os.listdir(mount), [])

    def test_large_directories_and_offsets(self):
        root, mount = self.mounted()
        count = soak(20_000, 100_000)
        (root / "many").mkdir()
        for i in range(count):
            os.close(os.open(root / f"many/entry-{i}", os.O_CREAT | os.O_WRONLY))
        self.assertEqual(len(set(os.listdir(mount / "many"))), count)
        seen = run("find", mount / "many", "-type", "f").stdout.splitlines()
        self.assertEqual(len(set(seen)), count)
        self.check_seekdir(mount / "many", count)

    def check_seekdir(self, folder, count):
        """telldir positions stay good: from any of them the rest of the directory follows."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
        libc.opendir.argtypes = [ctypes.c_char_p]
        for name in ("readdir", "telldir", "closedir"):
            getattr(libc, name).argtypes = [ctypes.c_void_p]
        libc.telldir.restype = ctypes.c_long
        libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
        stream = libc.opendir(os.fsencode(folder))
        positions, names = [], []
        while entry := libc.readdir(stream):
            names.append(ctypes.string_at(entry + 19))
            positions.append(libc.telldir(stream))
        self.assertEqual(len(names), count + 2)
        for index in (len(names) // 2, 10, len(names) - 3, 0):
            libc.seekdir(stream, positions[index])
            self.assertEqual(ctypes.string_at(libc.readdir(stream) + 19), names[index + 1])
        libc.closedir(stream)

    def test_holes_allocation_and_copies(self):
        root, mount = self.mounted()
        with open(mount / "sparse", "w+b", buffering=0) as file:
            file.seek(6 << 30)
            file.write(b"end")
            fd = file.fileno()
            self.assertEqual(os.fstat(fd).st_size, (6 << 30) + 3)
            self.assertLess(os.fstat(fd).st_blocks * 512, 1 << 20)
            self.assertEqual(os.lseek(fd, 0, os.SEEK_DATA), 6 << 30)
            self.assertEqual(os.lseek(fd, 0, os.SEEK_HOLE), 0)
            self.fails(errno.ENXIO, os.lseek, fd, 7 << 30, os.SEEK_DATA)
            os.posix_fallocate(fd, 0, 1 << 20)
            self.assertGreaterEqual(os.fstat(fd).st_blocks * 512, 1 << 20)
        self.assertEqual((root / "sparse").stat().st_size, (6 << 30) + 3)
        (mount / "from").write_bytes(os.urandom(3 << 20))
        with open(mount / "from", "rb") as source, open(mount / "to", "wb") as target:
            left = 3 << 20
            while left:
                left -= os.copy_file_range(source.fileno(), target.fileno(), left)
        self.assertEqual((root / "to").read_bytes(), (root / "from").read_bytes())

    def test_mmap(self):
        root, mount = self.mounted()
        (mount / "m").write_bytes(b"\0" * 10_000)
        with open(mount / "m", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[5000:5005] = b"hello"
            view.flush()
            self.assertEqual((root / "m").read_bytes()[5000:5005], b"hello")
            view[1:4] = b"abc"
        self.assertEqual((root / "m").read_bytes()[1:4], b"abc")

    def test_xattrs_fifos_sockets(self):
        root, mount = self.mounted()
        (mount / "f").write_text("x")
        os.setxattr(mount / "f", "user.k", b"\0v\xff")
        self.assertEqual(os.getxattr(root / "f", "user.k"), b"\0v\xff")
        self.assertEqual(os.listxattr(mount / "f"), ["user.k"])
        self.fails(errno.EEXIST, os.setxattr, mount / "f", "user.k", b"2", os.XATTR_CREATE)
        os.removexattr(mount / "f", "user.k")
        self.assertEqual(os.listxattr(root / "f"), [])
        os.mkfifo(mount / "fifo")
        self.assertTrue(stat.S_ISFIFO(os.stat(root / "fifo").st_mode))
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(mount / "sock"))
            server.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(mount / "sock"))
        self.assertTrue(stat.S_ISSOCK(os.stat(root / "sock").st_mode))

    def test_locks_exclude_the_other_side(self):
        root, mount = self.mounted()
        (mount / "l").write_text("x" * 100)
        with open(mount / "l", "r+b") as here, open(root / "l", "r+b") as there:
            fcntl.lockf(here, fcntl.LOCK_EX, 10, 0)
            self.fails(errno.EAGAIN, fcntl.lockf, there, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
            fcntl.lockf(there, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 50)
            fcntl.lockf(here, fcntl.LOCK_UN)
            fcntl.lockf(there, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
            fcntl.lockf(there, fcntl.LOCK_UN)
            fcntl.flock(here, fcntl.LOCK_EX)
            self.fails(errno.EAGAIN, fcntl.flock, there, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(root / "l", "r+b") as there:
            # The kernel tells a FUSE driver of the last close after close(2) has returned.
            wait_for("the lock to be given back", lambda: self.locks(there))

    @staticmethod
    def locks(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def test_exclusive_creates_have_one_winner(self):
        root, mount = self.mounted()
        for i in range(soak(200, 10_000)):
            won = []

            def race(folder):
                try:
                    os.close(os.open(folder / f"lock{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                    won.append(folder)
                except FileExistsError:
                    pass

            threads = [threading.Thread(target=race, args=(folder,)) for folder in (root, mount, mount)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(won), 1)

    def test_setuid_is_cleared_by_a_write(self):
        """By whoever writes, as on the local disk."""
        agent = self.agent()
        mount = self.mount(agent, options="allow_other")
        for folder in (mount, self.folder("local")):
            folder.chmod(0o777)
            for writer in (0, 1000):
                file = folder / f"s{writer}"
                file.write_text("x")
                file.chmod(0o6777)
                run("setpriv", "--reuid", str(writer), "--regid", str(writer), "--clear-groups", "sh", "-c",
                    f"echo y >> {file}")
        for name in ("s0", "s1000"):
            wanted = stat.S_IMODE((self.folder("local") / name).stat().st_mode)
            self.assertEqual(stat.S_IMODE((agent.root / name).stat().st_mode), wanted, name)
            self.assertEqual(stat.S_IMODE((mount / name).stat().st_mode), wanted, name)

    def test_links_and_devices_stay_inside(self):
        root, mount = self.mounted()
        os.mknod(mount / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.assertEqual(os.stat(root / "null").st_rdev, os.makedev(1, 3))
        self.assertEqual(os.stat(mount / "null").st_rdev, os.makedev(1, 3))
        self.fails(errno.EACCES, os.open, mount / "null", os.O_RDONLY)
        done = run("findmnt", "-no", "OPTIONS", mount).stdout
        self.assertIn("nosuid", done)
        self.assertIn("nodev", done)
        self.assertEqual(run("findmnt", "-no", "FSTYPE", mount).stdout.strip(), "fuse.sandbox")

    def test_statfs(self):
        root, mount = self.mounted()
        here, there = os.statvfs(mount), os.statvfs(root)
        self.assertEqual((here.f_blocks * here.f_frsize, here.f_namemax), (there.f_blocks * there.f_frsize, 255))

    def test_read_only(self):
        agent = self.agent()
        (agent.root / "f").write_text("x")
        mount = self.mount(agent, options="ro")
        self.assertEqual((mount / "f").read_text(), "x")
        for call, arguments in ((os.mkdir, (mount / "d",)), (os.unlink, (mount / "f",)), (os.chmod, (mount / "f", 0o600))):
            self.fails(errno.EROFS, call, *arguments)

    def test_many_at_once(self):
        root, mount = self.mounted()
        failures = []

        def work(number):
            try:
                folder = mount / f"t{number}"
                folder.mkdir()
                for i in range(40):
                    data = os.urandom(1000 * (i + 1))
                    (folder / str(i)).write_bytes(data)
                    if (folder / str(i)).read_bytes() != data or (root / f"t{number}/{i}").read_bytes() != data:
                        failures.append((number, i))
                run("find", mount, "-type", "f")
            except (OSError, AssertionError) as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    main()
