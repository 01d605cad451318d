# SPDX-License-Identifier: Apache-2.0
"""What the tests under faults share: an agent behind a FaultProxy, agents that come back, seeds.

$SANDBAR_FAULT_SEED repeats one seed; a failed test prints its seed and what the proxy did.
"""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

from harness import EXEC, Agent, Case, main, soak, wait_for  # noqa: E402,F401
from proxy import FaultProxy  # noqa: E402

# The connection is lost for good after this many seconds without a byte: mux's dead_after.
DEAD_AFTER = 13


def seeds(short=3, long=20):
    given = os.environ.get("SANDBAR_FAULT_SEED")
    return [int(given)] if given else range(1, soak(short, long) + 1)


class Behind:
    """What Case.mount and Case.exec need of an agent, with the proxy in front of it."""

    def __init__(self, agent, proxy):
        self.agent, self.proxy = agent, proxy
        self.root, self.token_file, self.url = agent.root, agent.token_file, proxy.url


class LastingAgent(Agent):
    """An agent that can be killed and started again at the same address, with the same token and state folder."""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def start_again(self):
        environment = {k: v for k, v in os.environ.items() if k != "SANDBOX_TOKEN"}
        self.process = subprocess.Popen(self.process.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env=environment)
        if not self.process.stdout.readline():
            self.log.seek(0)
            raise AssertionError("the agent did not start again: " + self.log.read()[-2000:])

    def restart(self):
        self.kill()
        self.start_again()


class FaultCase(Case):
    def setUp(self):
        super().setUp()
        self.proxies = []

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result is not None else 0
        self.proxies = []
        super().run(result)
        if result is not None and len(result.failures) + len(result.errors) > before:
            for proxy in self.proxies:
                print(proxy.describe(), file=sys.stderr)
        return result

    def lasting_agent(self, *extra, name="agent", state=True):
        work = self.folder(name)
        extra = [*extra, *(["--state", str(work / "state")] if state else [])]
        agent = LastingAgent(self.folder("root"), work, extra=extra)
        self.addCleanup(agent.stop)
        return agent

    def behind(self, agent):
        """A proxy in front of the agent (which listens on a Unix socket)."""
        address = agent.url[len("ws://"):] if agent.url.startswith("ws://") else agent.url
        proxy = FaultProxy(address).start()
        self.proxies.append(proxy)
        self.addCleanup(proxy.stop)
        return Behind(agent, proxy)

    def through_proxy(self, *extra):
        return self.behind(self.lasting_agent(*extra, state=False))

    def start_exec(self, via, *command, options=(), **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([EXEC, via.url, "--token-file", str(via.token_file), *options, "--", *command], **popen)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stop_agent(self, agent):
        """SIGSTOP; the cleanup wakes it up, so that it can be ended."""
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)


class Background:
    """Runs a function on a thread; join() gives its result or raises what it raised, and fails when it hangs."""

    def __init__(self, function, *arguments):
        self.result = self.error = None
        self.function, self.arguments = function, arguments
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error

    @property
    def is_running(self):
        return self.thread.is_alive()

    def join(self, seconds=90):
        self.thread.join(seconds)
        if self.thread.is_alive():
            raise AssertionError(f"{getattr(self.function, '__name__', 'it')} {self.arguments} has hung for {seconds} s")
        if self.error is not None:
            raise self.error
        return self.result


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def pattern(length, seed):
    """Bytes without repetition that a seed gives, fast."""
    step = hashlib.sha256(str(seed).encode()).digest()
    block = bytearray()
    while len(block) < min(length, 1 << 20):
        step = hashlib.sha256(step).digest()
        block += step
    out = bytearray()
    number = 0
    while len(out) < length:
        out += number.to_bytes(8, "big") + block
        number += 1
    return bytes(out[:length])
