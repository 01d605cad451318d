# SPDX-License-Identifier: Apache-2.0
"""Users on a mount: who acts, who may, who owns what is new. The same steps run on a local directory, and their logs are
compared with the mount's."""

import errno
import json
import os
import pathlib
import stat
import struct

from harness import MOUNT, Case, is_mounted, main, run

ANN, BOB, CAT, TEAM, CREW = 1000, 1001, 1002, 2000, 2001
# Who: uid, gid, supplementary groups. The cat belongs to the team by a supplementary group only.
WHO = {
    "root": (0, 0, []),
    "ann": (ANN, ANN, [ANN, TEAM]),
    "bob": (BOB, BOB, []),
    "cat": (CAT, CAT, [CREW, TEAM]),
}
NOBODY = 65534
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def acl(*entries):
    """As an extended attribute has it: tag (u g m o, U and G for named ones), permissions, id."""
    tags = {"u": 1, "U": 2, "g": 4, "G": 8, "m": 0x10, "o": 0x20}
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tags[tag], permissions, number[0] if number else 0xFFFFFFFF)
        for tag, permissions, *number in entries
    )


def act(who, umask, where, call):
    """Runs `call` in a child that is `who`, in the folder `where`. What it returns, or the name of its errno."""
    uid, gid, groups = WHO.get(who, who)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            os.umask(umask)
            os.setgroups(groups), os.setgid(gid), os.setuid(uid)
            try:
                os.chdir(where)
                result = call()
            except OSError as error:
                result = errno.errorcode[error.errno]
            os.write(writer, json.dumps(result).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise AssertionError(f"{who} died: {status}")
    return json.loads(text)


def create(name, mode=0o666, flags=0):
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | flags, mode)
    os.write(fd, b"new")
    os.close(fd)


def read(name):
    with open(name, "rb") as file:
        return file.read().decode()


def append(name):
    with open(name, "ab", buffering=0) as file:
        file.write(b"+")


def set_up(where, shift=lambda number: number):
    """The scene, made by root on a disk; `shift` gives the owners' numbers there."""
    def make(name, mode, owner=0, group=0, content="old"):
        path = where / name
        if content is None:
            path.mkdir()
        else:
            path.write_text(content)
        os.chown(path, shift(owner), shift(group))
        path.chmod(mode)
        return path

    where.chmod(0o755)
    make("open", 0o777, content=None)
    make("sticky", 0o1777, content=None)
    make("team", 0o2775, 0, TEAM, content=None)
    make("closed", 0o700, content=None)
    make("shut", 0o711, content=None)
    for name in ("closed/f", "shut/f"):
        make(name, 0o644)
    make("sticky/roots", 0o666)
    make("sticky/anns", 0o666, ANN, ANN)
    make("private", 0o600)
    make("shared", 0o660, 0, TEAM)
    make("anns", 0o644, ANN, ANN)
    make("not-for-team", 0o604, 0, TEAM)
    some = make("acl-for-bob", 0o600)
    os.setxattr(some, ACCESS, acl(("u", 6), ("U", 4, shift(BOB)), ("g", 0), ("m", 6), ("o", 0)))
    some = make("acl-against-bob", 0o644)
    os.setxattr(some, ACCESS, acl(("u", 6), ("U", 0, shift(BOB)), ("g", 4), ("m", 4), ("o", 4)))
    some = make("acl-for-crew", 0o600)
    os.setxattr(some, ACCESS, acl(("u", 6), ("g", 0), ("G", 6, shift(CREW)), ("m", 6), ("o", 0)))
    some = make("acl-masked", 0o600)
    os.setxattr(some, ACCESS, acl(("u", 6), ("U", 6, shift(BOB)), ("g", 0), ("m", 4), ("o", 0)))
    some = make("inherits", 0o777, content=None)
    os.setxattr(some, DEFAULT, acl(("u", 7), ("g", 7), ("o", 5)))
    some = make("inherits-names", 0o777, content=None)
    os.setxattr(some, DEFAULT, acl(("u", 7), ("U", 7, shift(BOB)), ("g", 5), ("m", 7), ("o", 0)))


# Who, with which umask, does what. All on the same scene, in this order.
STEPS = [
    # New things: the caller's, with the caller's umask.
    *((who, umask, f"{who}{umask:o}", call) for who in WHO for umask in (0o022, 0o077, 0o002, 0) for call in ("file", "dir", "fifo", "link")),
    ("ann", 0o022, "open/tight", lambda: create("open/tight", 0o4751)),
    ("ann", 0o022, "open/setgid", lambda: create("open/setgid", 0o2771)),
    ("bob", 0o022, "here", lambda: create("here")),
    ("root", 0o022, "here", lambda: create("here")),
    # In a setgid folder of the team: its group, also for those who are not of it.
    ("ann", 0o022, "team/a", lambda: create("team/a")),
    ("cat", 0o002, "team/c", lambda: create("team/c")),
    ("cat", 0o002, "team/d", lambda: os.mkdir("team/d", 0o777)),
    ("cat", 0o002, "team/d/e", lambda: create("team/d/e", 0o666)),
    ("bob", 0o002, "team/b", lambda: create("team/b")),
    ("root", 0o022, "team/r", lambda: create("team/r", 0o2775)),
    # A default ACL replaces the umask.
    *((who, umask, f"inherits/{who}{umask:o}", call) for who in ("ann", "root") for umask in (0o077, 0) for call in ("file", "dir", "fifo")),
    *((who, 0o077, f"inherits-names/{who}", call) for who in ("bob", "root") for call in ("file", "dir")),
    ("bob", 0o077, "inherits-names/root.dir/below", lambda: create("inherits-names/root.dir/below")),
    ("cat", 0o077, "inherits-names/root.dir/below2", lambda: create("inherits-names/root.dir/below2")),
    # Who may.
    *((who, 0o022, f"{call.__name__} {name}", lambda call=call, name=name: call(name))
      for name in ("private", "shared", "anns", "not-for-team", "acl-for-bob", "acl-against-bob", "acl-for-crew", "acl-masked", "closed/f", "shut/f")
      for who in ("bob", "cat", "ann", "root") for call in (read, append)),
    *((who, 0, f"access {name} {mode}", lambda name=name, mode=mode: os.access(name, mode))
      for name in ("private", "shared", "acl-for-bob", "acl-masked", "team", "closed") for who in WHO for mode in (os.R_OK, os.W_OK, os.X_OK)),
    *((who, 0, f"list {name}", lambda name=name: sorted(os.listdir(name))) for name in ("closed", "shut", "team") for who in WHO),
    # Owners alone.
    *((who, 0, "chmod anns", lambda: os.chmod("anns", 0o640)) for who in ("bob", "cat", "root", "ann")),
    *((who, 0, "utime anns", lambda: os.utime("anns", (1, 2))) for who in ("bob", "ann")),
    *((who, 0, "touch open/bob22.file", lambda: os.utime("open/bob22.file")) for who in ("cat", "bob")),
    *((who, 0, f"chown anns {owner}", lambda owner=owner: os.chown("anns", owner, -1)) for who in ("ann", "bob") for owner in (BOB, ANN)),
    *((who, 0, f"chgrp anns {group}", lambda group=group: os.chown("anns", -1, group)) for who in ("bob", "ann") for group in (CREW, TEAM, ANN)),
    ("cat", 0, "chgrp own", lambda: os.chown("open/cat22.file", -1, CREW)),
    ("cat", 0, "setgid own", lambda: os.chmod("open/cat22.file", 0o2755)),
    ("root", 0, "give away", lambda: os.chown("open/cat2.file", BOB, TEAM)),
    ("cat", 0, "setgid of others", lambda: os.chmod("open/cat2.file", 0o2755)),
    ("bob", 0, "setgid without being of it", lambda: os.chmod("open/cat2.file", 0o2755)),
    ("ann", 0, "set an acl", lambda: os.setxattr("anns", ACCESS, acl(("u", 6), ("U", 6, BOB), ("g", 4), ("G", 2, CREW), ("m", 7), ("o", 0)))),
    ("bob", 0, "set an acl", lambda: os.setxattr("anns", ACCESS, acl(("u", 6), ("U", 6, BOB), ("g", 4), ("m", 7), ("o", 0)))),
    ("bob", 0, "use the acl", lambda: append("anns")),
    ("cat", 0, "use the acl", lambda: append("anns")),
    ("cat", 0, "not for this", lambda: read("anns")),
    ("ann", 0, "the mode is its mask", lambda: os.chmod("anns", 0o640)),
    ("bob", 0, "masked", lambda: append("anns")),
    ("ann", 0, "remove the acl", lambda: os.removexattr("anns", ACCESS)),
    ("bob", 0, "as before", lambda: append("anns")),
    # Sticky folders.
    *((who, 0, f"unlink sticky/{name}", lambda name=name: os.unlink("sticky/" + name)) for who in ("bob", "ann") for name in ("roots", "anns")),
    ("bob", 0, "rename in sticky", lambda: os.rename("sticky/roots", "sticky/mine")),
    ("root", 0, "rename in sticky", lambda: os.rename("sticky/roots", "sticky/theirs")),
    *((who, 0, "rmdir open/ann22.dir", lambda: os.rmdir("open/ann22.dir")) for who in ("bob",)),
    ("cat", 0, "into the closed", lambda: os.rename("open/cat0.file", "closed/x")),
    ("cat", 0, "link", lambda: os.link("open/cat22.file", "team/linked")),
]


def call_of(name, kind):
    if kind == "file":
        return lambda: create(name + ".file")
    if kind == "dir":
        return lambda: os.mkdir(name + ".dir", 0o777)
    if kind == "fifo":
        return lambda: os.mkfifo(name + ".fifo", 0o666)
    return lambda: os.symlink("to", name + ".link")


def play(where, whose=tuple(WHO)):
    """The log of all steps, or of some people's."""
    log = []
    for who, umask, what, call in STEPS:
        if who not in whose:
            continue
        if isinstance(call, str):
            what = what if "/" in what else "open/" + what
            call, what = call_of(what, call), f"{what} {call}"
        log.append(f"{who} {what}: {act(who, umask, where, call)}")
    return log


def tree(where, shift=lambda number: number):
    """What is there in the end: type and mode, owners, ACLs."""
    found = []
    for folder, names, files in os.walk(where):
        names.sort()
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            acls = []
            if not stat.S_ISLNK(info.st_mode):
                for which in (ACCESS, DEFAULT):
                    try:
                        acls.append(os.getxattr(path, which).hex())
                    except OSError as error:
                        acls.append(errno.errorcode[error.errno])
            found.append(
                f"{os.path.relpath(path, where)} {info.st_mode:o} {shift(info.st_uid)}:{shift(info.st_gid)} {acls}"
            )
    return found


class Users(Case):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.scene = self.folder("local")
        set_up(self.scene)

    def served_scene(self, shift=lambda number: number, **options):
        set_up(self.folder("root"), shift)
        return self.agent(**options)

    def map_file(self, *lines):
        path = self.work / "map"
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def test_as_on_a_disk(self):
        """The agent is root, and everybody acts as himself."""
        agent = self.served_scene()
        mount = self.mount(agent, options="idmap=none,allow_other")
        self.assertEqual(play(mount), play(self.scene))
        self.assertEqual(tree(mount), tree(self.scene))
        self.assertEqual(tree(agent.root), tree(self.scene))

    def test_as_on_a_disk_with_a_map(self):
        """The same, where the sandbox has other numbers for all but root."""

        def shift(number):
            return number + 50000 if ANN <= number <= CREW else number

        agent = self.served_scene(shift)
        lines = [f"{kind} {first} {first + 50000} {count}" for kind, first, count in
                 (("uid", ANN, 3), ("gid", ANN, 3), ("gid", TEAM, 2))]
        mount = self.mount(agent, options=f"idmap={self.map_file('# everybody', 'uid root 0', *lines, 'gid root 0')},allow_other")
        self.assertEqual(play(mount), play(self.scene))
        self.assertEqual(tree(mount), tree(self.scene))
        wanted = [line.rsplit("[", 1)[0] for line in tree(self.scene, shift)]
        self.assertEqual([line.rsplit("[", 1)[0] for line in tree(agent.root)], wanted)
        shown = run("getfacl", "-n", mount / "acl-for-bob").stdout
        self.assertIn(f"user:{BOB}:r--", shown)
        self.assertIn(f"user:{BOB + 50000}:r--", run("getfacl", "-n", agent.root / "acl-for-bob").stdout)
        run("setfacl", "-m", f"u:{CAT}:rw", mount / "private")
        self.assertIn(f"user:{CAT + 50000}:rw-", run("getfacl", "-n", agent.root / "private").stdout)

    def test_ids_without_an_entry(self):
        agent = self.served_scene()
        mount = self.mount(agent, options=f"idmap={self.map_file(f'uid {ANN} {ANN}', f'gid {ANN} {ANN}')},allow_other")
        self.assertEqual((os.stat(mount / "open").st_uid, os.stat(mount / "open").st_gid), (NOBODY, NOBODY))
        self.assertEqual((os.stat(mount / "anns").st_uid, os.stat(mount / "anns").st_gid), (ANN, ANN))
        for who, owner in (("bob", NOBODY), ("root", NOBODY), ("ann", ANN)):
            self.assertIsNone(act(who, 0o022, mount, lambda who=who: create(f"open/{who}")))
            self.assertEqual(os.stat(agent.root / "open" / who).st_uid, owner, who)
        self.assertEqual(act("root", 0, mount, lambda: read("private")), "EACCES", "root is nobody there")
        self.assertEqual(act("ann", 0, mount, lambda: os.chown("anns", -1, TEAM)), "EINVAL")
        self.assertEqual(act("root", 0, mount, lambda: os.chown("anns", BOB, -1)), "EINVAL")
        self.assertEqual(act("ann", 0, mount, lambda: os.setxattr("anns", ACCESS, acl(("u", 6), ("U", 6, BOB), ("g", 4), ("m", 7), ("o", 0)))), "EINVAL")
        # The group is left out: what only the team may is refused.
        self.assertEqual(act("ann", 0, mount, lambda: create("team/x")), "EACCES")
        shown = run("getfacl", "-n", mount / "acl-for-bob").stdout
        self.assertIn(f"user:{NOBODY}:r--", shown)

    def test_the_mounting_user_is_the_agents(self):
        """idmap=user, the default: ann mounts what root serves."""
        os.chmod("/dev/fuse", 0o666)
        agent = self.served_scene(listen="127.0.0.1:0")
        mount = self.user_mount(agent)
        self.assertEqual(act("ann", 0, mount, lambda: read("private")), "old", "her file now")
        self.assertEqual(act("ann", 0, mount, lambda: os.stat("private").st_uid), ANN)
        self.assertEqual(act("ann", 0, mount, lambda: os.stat("private").st_gid), ANN)
        self.assertEqual(act("ann", 0, mount, lambda: os.stat("anns").st_uid), NOBODY, "another ann: shadowed")
        self.assertIsNone(act("ann", 0o027, mount, lambda: create("new")))
        info = os.stat(agent.root / "new")
        self.assertEqual((info.st_uid, info.st_gid, info.st_mode & 0o777), (0, 0, 0o640))
        self.assertEqual(act("ann", 0, mount, lambda: os.chown("new", BOB, -1)), "EPERM", "she is not root here")
        self.assertIsNone(act("ann", 0, mount, lambda: os.setxattr("shared", ACCESS, acl(("u", 6), ("U", 6, ANN), ("g", 4), ("m", 7), ("o", 0)))))
        self.assertIn(b"\2\0\6\0\0\0\0\0", os.getxattr(agent.root / "shared", ACCESS))
        # Nobody else, not even root.
        for who in ("bob", "root"):
            for call in (lambda: os.listdir("."), lambda: os.stat("private").st_uid):
                self.assertEqual(act(who, 0, self.work, lambda call=call: [os.chdir(mount), call()]), "EACCES", who)
        run(*self.as_ann, "fusermount3", "-u", mount)
        self.assertFalse(is_mounted(mount))

    as_ann = ("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", "--inh-caps=-all")

    def anns_token(self, agent):
        token = self.work / "anns-token"
        token.write_text(agent.token_file.read_text())
        os.chown(token, ANN, ANN)
        token.chmod(0o600)
        return token

    def user_mount(self, agent, *options):
        mount = self.folder("anns-mount")
        os.chown(mount, ANN, ANN)
        token = self.anns_token(agent)
        run(*self.as_ann, MOUNT, agent.url, mount, "-o", ",".join((f"token_file={token}", *options)))
        self.addCleanup(self.unmount, mount)
        return mount

    def test_root_without_allow_other(self):
        """Root mounts: others are not let in either."""
        mount = self.mount(self.served_scene())
        self.assertEqual(act("bob", 0, self.work, lambda: os.listdir(mount)), "EACCES")
        self.assertEqual(act("root", 0, mount, lambda: read("private")), "old")

    def test_an_agent_of_a_user(self):
        """All act as that user; who may, the kernel of the mount decides."""
        root = self.folder("root")
        set_up(root)
        os.chown(root, ANN, ANN)
        agent = self.agent(command=self.as_ann, owner=ANN)
        for options in ("idmap=user,allow_other", "idmap=none,allow_other"):
            with self.subTest(options=options):
                mount = self.mount(agent, name=options.split(",")[0], options=options)
                mine = 0 if "user" in options else ANN
                self.assertEqual(os.stat(mount).st_uid, mine)
                self.assertIsNone(act("root", 0o027, mount, lambda: create("roots")))
                self.assertEqual(act("bob", 0, mount, lambda: create("bobs")), "EACCES")
                self.assertEqual(act("bob", 0, mount, lambda: read("open/../anns")), "old")
                self.assertIsNone(act("bob", 0o027, mount, lambda: create("open/bobs")))
                self.assertEqual(act("root", 0, mount, lambda: read("private")), "EACCES", "which ann may not")
                # Her groups are the agent's: another group at the moment does not lock her out.
                self.assertIsNone(act((ANN, TEAM, ()), 0o022, mount, lambda: create("open/teams")))
                for name, mode in (("roots", 0o640), ("open/bobs", 0o640), ("open/teams", 0o644)):
                    info = os.stat(root / name)
                    self.assertEqual((info.st_uid, info.st_gid, info.st_mode & 0o777), (ANN, ANN, mode), name)
                    os.unlink(root / name)
                self.unmount(mount)

    def test_as_on_a_disk_of_a_user(self):
        """Agent and mount are ann's, who is not root anywhere: what she does is as on a disk."""
        os.chmod("/dev/fuse", 0o666)
        set_up(self.folder("root"))
        with_team = ("setpriv", f"--reuid={ANN}", f"--regid={ANN}", f"--groups={ANN},{TEAM}", "--inh-caps=-all")
        agent = self.agent(command=with_team, owner=ANN)
        mount = self.user_mount(agent)
        self.assertEqual(play(mount, ["ann"]), play(self.scene, ["ann"]))
        self.assertEqual(tree(agent.root), tree(self.scene))
        self.assertEqual(act("ann", 0, mount, lambda: tree(".")), act("ann", 0, self.scene, lambda: tree(".")))

    def test_an_agent_of_a_user_with_a_map(self):
        root = self.folder("root")
        os.chown(root, ANN, ANN)
        root.chmod(0o777)
        agent = self.agent(command=self.as_ann, owner=ANN)
        mount = self.mount(agent, options=f"idmap={self.map_file(f'uid {BOB} {ANN}', f'gid {BOB} {ANN}')},allow_other")
        self.assertIsNone(act("bob", 0o022, mount, lambda: create("bobs")))
        self.assertEqual(os.stat(root / "bobs").st_uid, ANN)
        self.assertEqual(act("bob", 0, mount, lambda: os.stat("bobs").st_uid), BOB)
        self.assertEqual(act("cat", 0, mount, lambda: create("cats")), "EPERM", "without an entry: nobody, whom it cannot be")

    def test_allow_other_of_an_ordinary_user(self):
        agent = self.served_scene(listen="127.0.0.1:0")
        point = self.folder("point")
        os.chown(point, ANN, ANN)
        token = self.anns_token(agent)
        os.chmod("/dev/fuse", 0o666)
        command = [*self.as_ann, MOUNT, agent.url, str(point), "-o", f"allow_other,token_file={token}"]
        conf = self.work / "fuse.conf"
        # With the machine's file replaced, in a mount namespace of its own.
        inside = 'mount --bind "$1" /etc/fuse.conf && shift && exec "$@"'
        conf.write_text("# user_allow_other\n")
        refused = run("unshare", "-m", "sh", "-c", inside, "sh", conf, *command, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(len(refused.stderr.strip().splitlines()), 1, refused.stderr)
        for word in ("allow_other", "user_allow_other", "/etc/fuse.conf"):
            self.assertIn(word, refused.stderr)
        conf.write_text("user_allow_other\n")
        as_bob = f"setpriv --reuid={BOB} --regid={BOB} --clear-groups"
        script = (
            f'point="{point}"; mount --bind "$1" /etc/fuse.conf && shift && "$@" && '
            f'{as_bob} sh -c "cat $point/anns; echo x > $point/open/bobs; cat $point/private 2>&1; '
            f'stat -c %u: $point/private $point/open/bobs"; fusermount3 -u $point'
        )
        done = run("unshare", "-m", "sh", "-c", script, "sh", conf, *command)
        self.assertIn("old", done.stdout)
        self.assertIn("Permission denied", done.stdout)
        self.assertIn(f"{ANN}:", done.stdout)
        self.assertIn(f"{BOB}:", done.stdout)
        self.assertEqual(os.stat(agent.root / "open/bobs").st_uid, BOB)

    def test_map_files_that_are_wrong(self):
        point = self.folder("mnt")
        for text, says in (
            ("uid ann-without-account 1\n", ["map:1", "ann-without-account"]),
            ("uid 1 2\n\nuid 1 3\n", ["map:3", "LOCAL", "line 1"]),
            ("gid 1 2\ngid 2 2\n", ["map:2", "REMOTE", "line 1"]),
            ("uid 1\n", ["map:1", "uid LOCAL REMOTE"]),
            ("#\n" * 4097, ["map:4097", "4096"]),
        ):
            path = self.map_file()
            path.write_text(text)
            done = run(MOUNT, "unix:/none", point, "-o", f"idmap={path}", check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in (str(path.parent), *says):
                self.assertIn(word, done.stderr)
        for name in ("missing", "."):
            done = run(MOUNT, "unix:/none", point, "-o", f"idmap={self.work}/{name}", check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(str(pathlib.Path(f"{self.work}/{name}")), done.stderr)
        self.assertFalse(is_mounted(point))


if __name__ == "__main__":
    main()
