# SPDX-License-Identifier: Apache-2.0
"""Each way in which editors save, on a mount: what it leaves (names, modes, owners, links, contents) is what the same
leaves on a local disk, and the time of the file stands still from then on."""

import os
import pty
import re
import select
import shutil
import signal
import stat
import tempfile

from harness import Case, main, run

TEXT = "one\ntwo\nthree\n"
EDITED = "1\n2\nthree\n"
USER = GROUP = 1000
OTHER_GROUP = 2345
VIM_WAYS = ("yes", "no", "auto", "auto,breakhardlink", "auto,breaksymlink", "no,breakhardlink,breaksymlink")


def make_plain(folder):
    (folder / "file").write_text(TEXT)
    (folder / "file").chmod(0o644)


def make_hard_linked(folder):
    make_plain(folder)
    os.link(folder / "file", folder / "other name")


def make_symlink(folder):
    (folder / "real").mkdir()
    make_plain(folder / "real")
    os.symlink("real/file", folder / "file")


def make_of_another_group(folder):
    make_plain(folder)
    os.chown(folder / "file", USER, OTHER_GROUP)
    (folder / "file").chmod(0o640)


def make_private_program(folder):
    make_plain(folder)
    (folder / "file").chmod(0o4700)


KINDS = {"plain": make_plain, "hard-linked": make_hard_linked, "symlink": make_symlink,
         "group": make_of_another_group, "mode": make_private_program}


def look(folder):
    """All that is to be the same: names, what they are, which of them are one file."""
    seen = {}
    first = {}
    for where, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            path = os.path.join(where, name)
            info = os.lstat(path)
            short = os.path.relpath(path, folder)
            content = None
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                with open(path, encoding="utf-8") as file:
                    content = file.read()
            links = info.st_nlink if stat.S_ISREG(info.st_mode) else None
            seen[short] = (oct(info.st_mode), info.st_uid, info.st_gid, links,
                           first.setdefault(info.st_ino, short), content)
    return seen


def times(folder):
    return {path: os.stat(path).st_mtime_ns for path in (os.path.join(folder, name) for name in os.listdir(folder))}


# The ways to save. Each gets the file and makes EDITED of TEXT.

def vim(mode, backup):
    def save(file, as_user):
        # Two edits and saves, then a look whether anybody else has changed the file: nobody has.
        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o777)
            run(*as_user, "vim", "-Nu", "NONE", "-i", "NONE", "-es",
                "-c", f"set {backup} backupcopy={mode} verbosefile={scratch}/said",
                "-c", "%s/one/1/", "-c", "w", "-c", "%s/two/2/", "-c", "w", "-c", "checktime", "-c", "q", file,
                env={**os.environ, "HOME": scratch, "TERM": "dumb"})
            with open(f"{scratch}/said", encoding="utf-8") as said:
                warnings = re.findall(r".*(?:\bE\d+|\bW\d+|WARNING).*", said.read())
        assert not warnings, warnings
    return save


def emacs(file, _as_user):
    """files.el's basic-save-buffer-2: a lock beside the file, the old one renamed away, a new one with its mode."""
    folder, name = os.path.split(file)
    lock = os.path.join(folder, ".#" + name)
    os.symlink("user@host.123:456", lock)
    assert os.readlink(lock) == "user@host.123:456"
    file = os.path.realpath(file)
    before = os.stat(file)
    if before.st_nlink > 1:  # backup-by-copying-when-linked
        shutil.copy2(file, file + "~")
        fd = os.open(file, os.O_WRONLY | os.O_TRUNC)
    else:
        os.rename(file, file + "~")
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    os.write(fd, EDITED.encode())
    os.fsync(fd)
    os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))
    shown = os.fstat(fd).st_mtime_ns
    os.close(fd)
    assert os.stat(file).st_mtime_ns == shown
    os.unlink(lock)


def code_in_place(file, _as_user):
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, EDITED.encode())
    os.fdatasync(fd)
    os.close(fd)


def code_atomic(file, _as_user):
    """A new file beside it that takes its mode, then its place."""
    file = os.path.realpath(file)
    before = os.stat(file)
    fd = os.open(file + ".vsctmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, EDITED.encode())
    os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))
    os.fsync(fd)
    os.close(fd)
    os.rename(file + ".vsctmp", file)


def sed(file, as_user):
    run(*as_user, "sed", "-i", "s/one/1/;s/two/2/", file)


def nano(file, _as_user):
    """In a terminal: delete two lines, type others, save, leave."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("nano", ["nano", "--ignorercfiles", "--backup", str(file)], {**os.environ, "TERM": "xterm"})
    keys = b"\x0b\x0b1\r2\r\x13\x18"
    try:
        # It throws away what was typed before it had set up its terminal; the bottom line is the last that it draws.
        seen = b""
        while select.select([terminal], [], [], 20)[0]:
            seen += os.read(terminal, 4096)
            if keys and b"Exit" in seen:
                os.write(terminal, keys)
                keys = b""
        os.kill(pid, signal.SIGKILL)
    except OSError:  # EIO: it has left its terminal
        pass
    assert os.waitpid(pid, 0)[1] == 0, seen
    os.close(terminal)


WAYS = {f"vim {mode}": vim(mode, "backup") for mode in VIM_WAYS}
WAYS.update({"vim without backup": vim("auto", "nobackup"), "emacs": emacs, "code in place": code_in_place,
             "code atomic": code_atomic, "sed": sed, "nano": nano})


class Editors(Case):
    def prepare(self, folder):
        """One folder for each way and kind of file."""
        for way in WAYS:
            for kind, make in KINDS.items():
                place = folder / f"{way} on {kind}"
                place.mkdir()
                make(place)

    def save_all(self, folder, ways, as_user=()):
        """Runs each way on each kind, and returns what it left, or how it failed."""
        left = {}
        for way in ways:
            for kind in KINDS:
                place = folder / f"{way} on {kind}"
                try:
                    WAYS[way](place / "file", as_user)
                except (OSError, AssertionError) as error:
                    self.fail(f"{way} on {kind} in {folder}: {error}")
                left[place.name] = look(place)
        return left

    def test_saves_leave_what_they_leave_on_a_local_disk(self):
        root, mount = self.mounted()
        local = self.folder("local")
        self.prepare(local)
        self.prepare(root)
        wanted = self.save_all(local, WAYS)
        for place, names in wanted.items():
            self.assertIn(EDITED, [name[-1] for name in names.values()], place)
        found = self.save_all(mount, WAYS)
        after = {place: times(mount / place) for place in found}
        self.maxDiff = None
        for place, names in wanted.items():
            self.assertEqual(found[place], names, place)
            self.assertEqual(look(root / place), names, place)
        for place, stood in after.items():
            self.assertEqual(times(mount / place), stood, f"the time moved: {place}")
            self.assertEqual(list(times(root / place).values()), list(stood.values()), place)

    def test_as_a_user_who_has_the_group(self):
        """A colleague edits what the group may write: vim and sed decide by what they may do."""
        agent = self.agent()
        mount = self.mount(agent, options="allow_other,idmap=none")
        local = self.folder("local")
        ways = [way for way in WAYS if way.startswith(("vim", "sed"))]
        for folder in (local, agent.root):
            self.prepare(folder)
            run("chown", "-R", f"0:{OTHER_GROUP}", folder)
            run("chmod", "-R", "g+rwX", folder)
        as_user = ("setpriv", f"--reuid={USER}", f"--regid={GROUP}", f"--groups={OTHER_GROUP}")
        wanted = self.save_all(local, ways, as_user)
        self.maxDiff = None
        for place, names in self.save_all(mount, ways, as_user).items():
            self.assertEqual(names, wanted[place], place)
            self.assertEqual(look(agent.root / place), names, place)


if __name__ == "__main__":
    main()
