# SPDX-License-Identifier: Apache-2.0
"""The POSIX suite (posix/): the same cases on a local directory and on a mount of another, with equal logs.

Both directories are of one file system, so whatever the two logs differ in is the mount's doing.
"""

import difflib
import os
import pathlib
import re
import subprocess
import sys

from harness import Case, main, run

HERE = pathlib.Path(__file__).resolve().parent / "posix"
sys.path.insert(0, str(HERE))
import readonly  # noqa: E402
from exclusions import EXCLUSIONS  # noqa: E402
from runner import CRASH, STEP  # noqa: E402

USER = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--inh-caps=-all"]
# Fewer means that cases were lost on the way, not that all is well.
FEWEST_CASES = {"root": 800, "user": 550, "read-only": 30}


def lines_of(log):
    """The cases of a log by their names."""
    return dict(line.split(": ", 1) for line in log.read_text(encoding="utf-8").splitlines())


def steps_that_differ(local, mount):
    """What to read first: the steps of a case that are not the same, in order, each with what comes before it."""
    local, mount = local.split(STEP), mount.split(STEP)
    for what, a, b, c, d in difflib.SequenceMatcher(None, local, mount, autojunk=False).get_opcodes():
        if what != "equal":
            yield f"  after {local[a - 1] if a else 'the start'}"
            yield from (f"    local: {step}" for step in local[a:b])
            yield from (f"    mount: {step}" for step in mount[c:d])


class Posix(Case):
    def start(self, directory, log, command, options):
        log.touch()
        if command:
            os.chown(log, 1000, 1000)
        runner = [*command, sys.executable, HERE / "runner.py", directory, log, "--only", os.environ.get("ONLY", "*")]
        return subprocess.Popen([*map(str, runner), *options], stdin=subprocess.DEVNULL, cwd="/")

    def compare(self, who, mount, command=(), options=()):
        local = self.folder("local")
        if command:
            os.chown(local, 1000, 1000)
        # Side by side: most of the mount's time is waiting.
        logs = [self.work / "local.log", self.work / "mount.log"]
        running = [self.start(directory, log, command, options) for directory, log in zip((local, mount), logs)]
        self.assertEqual([process.wait(timeout=300) for process in running], [0, 0])
        local, mounted = map(lines_of, logs)
        self.assertEqual([name for name, line in local.items() if CRASH in line], [], "cases that fail locally")
        self.assertEqual(list(local), list(mounted))
        self.judge(who, local, mounted)
        if "ONLY" not in os.environ:
            self.assertGreaterEqual(len(local), FEWEST_CASES[who])

    def judge(self, who, local, mounted):
        complaints = []
        for name in local:
            reason = next((e.reason for e in EXCLUSIONS if who in e.runs and re.fullmatch(e.cases, name)), None)
            if reason is None and local[name] != mounted[name]:
                complaints += [f"{name} differs", *steps_that_differ(local[name], mounted[name])]
            if reason is not None and local[name] == mounted[name]:
                complaints.append(f"{name} is the same by now: its exclusion ({reason}) can go")
        if complaints:
            self.fail(f"{who}, {len(local)} cases\n" + "\n".join(complaints))


class Root(Posix):
    def test_logs_are_equal(self):
        agent = self.agent()
        self.compare("root", self.mount(agent, options="idmap=none,allow_other"))


    def test_read_only(self):
        agent = self.agent()
        local = self.folder("local")
        for folder in (local, agent.root):
            readonly.prepare(folder)
        run("mount", "--bind", local, local)
        self.addCleanup(self.unmount, local)
        run("mount", "-o", "remount,bind,ro", local)
        self.compare("read-only", self.mount(agent, options="ro,idmap=none,allow_other"), options=["--read-only"])


class User(Posix):
    """uid 1000 through fusermount3, on an agent of its own."""

    def test_logs_are_equal(self):
        for name in ("root", "mnt"):
            os.chown(self.folder(name), 1000, 1000)
        agent = self.agent(command=USER, owner=1000)
        self.compare("user", self.mount(agent, command=USER), command=USER)


if __name__ == "__main__":
    main()
