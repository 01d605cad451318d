# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: real agents, real mounts, real commands, and nothing left behind.

The programs come from $SANDBAR_BIN. $SANDBAR_SOAK=1 asks for the long counts. A missing /dev/fuse fails a run: the
tests never skip it.
"""

import fcntl
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["SANDBAR_BIN"]).resolve()
SOAK = os.environ.get("SANDBAR_SOAK") == "1"
SANDBOXD, MOUNT, EXEC = (str(BIN / name) for name in ("sandboxd", "sandbox-mount", "sandbox-exec"))
# Nothing of these tests takes longer than this when it works; a hang must fail, not block the suite.
DEADLINE = 240


def soak(short, long):
    """A count: the short one in tools/check, the long one in --soak."""
    return long if SOAK else short


def run(*command, check=True, timeout=DEADLINE, **options):
    """Runs a command to its end; its output is text unless text=False."""
    options.setdefault("text", True)
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **options
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout!r}\n{done.stderr!r}")
    return done


def ensure_account(uid):
    """fusermount3 mounts for nobody whose name it cannot find; a fresh machine has no ordinary user."""
    with open("/etc/passwd", encoding="utf-8") as accounts:
        fcntl.flock(accounts, fcntl.LOCK_EX)  # tests run side by side
        try:
            pwd.getpwuid(uid)
        except KeyError:
            run("useradd", "--no-create-home", "--no-user-group", "--uid", uid, f"sandbar-test-{uid}")


def is_mounted(path):
    """Whether something is mounted there, without asking the file system itself (which may be dead)."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        return any(line.split()[4] == str(path) for line in mounts)


def wait_for(what, condition, seconds=30):
    """Waits for a state that the system reaches by itself; fails when it does not."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.01)


class Agent:
    """A `sandboxd agent` on a directory."""

    def __init__(self, root, work, listen=None, token=True, extra=(), command=(), owner=None):
        self.root = root
        self.token_file = work / "token"
        self.token_file.write_text("secret-" + os.urandom(8).hex() + "\n")
        self.token_file.chmod(0o600)
        if owner is not None:
            for path in (work, self.token_file):
                os.chown(path, owner, owner)
        listen = listen or f"unix:{work}/agent.sock"
        auth = ["--token-file", str(self.token_file)] if token else ["--no-auth"]
        self.log = open(work / "agent.log", "w+", encoding="utf-8")
        environment = {k: v for k, v in os.environ.items() if k != "SANDBOX_TOKEN"}
        self.process = subprocess.Popen(
            [*command, SANDBOXD, "agent", "--root", str(root), "--listen", listen, *auth, *extra],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
        )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise AssertionError("the agent did not start: " + self.log.read())
        self.ready = json.loads(line)
        self.url = self.ready["url"]

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.log.close()
        return code


class Case(unittest.TestCase):
    """A test with a folder of its own, and whatever agents and mounts it starts. All is taken down afterwards, and what a
    test leaves behind (a mount, a process) fails it."""

    def setUp(self):
        if not os.path.exists("/dev/fuse"):
            self.fail("/dev/fuse is missing: these tests mount for real")
        if os.geteuid() == 0:
            ensure_account(1000)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="sandbar-e2e-"))
        self.work.chmod(0o755)
        self.made = set()
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def folder(self, name):
        path = self.work / name
        if name not in self.made:  # it may be a dead mount point by now, which cannot even be looked at
            path.mkdir(parents=True, exist_ok=True)
            self.made.add(name)
        return path

    def agent(self, root=None, name="agent", **options):
        agent = Agent(root or self.folder("root"), self.folder(name), **options)
        self.addCleanup(agent.stop)
        if os.environ.get("SANDBAR_CUTS"):
            self.cut_in_between(agent)
        return agent

    def cut_in_between(self, agent):
        """Puts a proxy in front of the agent that cuts its connections. A process of its own: this one may wait for the
        mount in a page fault, with Python's lock held."""
        program = pathlib.Path(__file__).resolve().parent.parent / "faults" / "cuts.py"
        proxy = subprocess.Popen([sys.executable, program, agent.url, os.environ["SANDBAR_CUTS"]],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def stop():
            proxy.communicate()
            self.assertEqual(proxy.returncode, 0)

        self.addCleanup(stop)
        agent.url = proxy.stdout.readline().strip()

    def mount(self, agent, name="mnt", options="", path="", command=()):
        """Mounts the agent's root and returns the mount point."""
        point = self.folder(name)
        wanted = [f"token_file={agent.token_file}", *([options] if options else [])]
        target = agent.url + (f":{path}" if path else "")
        run(*command, MOUNT, target, point, "-o", ",".join(wanted))
        self.addCleanup(self.unmount, point)
        self.assertTrue(is_mounted(point), "sandbox-mount returned 0 before the mount was there")
        return point

    def unmount(self, point):
        if is_mounted(point):
            done = run("umount", point, check=False)
            if done.returncode != 0:
                run("umount", "-l", point, check=False)
        self.assertFalse(is_mounted(point))

    def mounted(self, **options):
        """The usual pair: a directory as the sandbox has it, and as the mount shows it."""
        agent = self.agent()
        return agent.root, self.mount(agent, **options)

    def exec(self, agent, *command, options=(), **rest):
        """Runs a command in the sandbox through sandbox-exec."""
        target = agent if isinstance(agent, str) else agent.url
        token = [] if isinstance(agent, str) else ["--token-file", agent.token_file]
        return run(EXEC, target, *token, *options, "--", *command, **{"check": False, **rest})


def main():
    unittest.main(verbosity=2)
