# SPDX-License-Identifier: Apache-2.0
"""What a FaultProxy is to do: by chance, from a seed, or by a script."""

import os
import random
import re

from relay import BOTH, DOWN, UP

# To tell a fault of the tests from one of what they test: random faults only count.
CALM = os.environ.get("SANDBAR_NO_FAULTS") == "1"


class Chaos:
    """Random faults, one after another, until it is stopped. The sequence of faults and pauses depends on the seed only.
    kinds: cut, reset, truncate, stall, refuse, delay. $SANDBAR_NO_FAULTS=1 leaves the faults out."""

    def __init__(self, proxy, seed, every=(0.1, 0.5), kinds=("cut", "reset", "truncate"), longest_stall=0.8):
        self.proxy, self.random = proxy, random.Random(seed)
        self.every, self.kinds, self.longest_stall = every, kinds, longest_stall
        self.timer = None
        self.done = 0

    def start(self):
        self.proxy.do(self.plan)
        return self

    def stop(self):
        def end():
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None
            self.proxy.stalled = {UP: False, DOWN: False}
            self.proxy.delays = {UP: 0.0, DOWN: 0.0}
            self.proxy.refusing = 0
            self.proxy._accept()
            self.proxy.pump_all()

        self.proxy.do(end)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def plan(self):
        self.timer = self.proxy.loop.call_later(self.random.uniform(*self.every), self.act)

    def act(self):
        # Every fault takes the same numbers, so that the sequence is the seed's.
        kind = self.random.choice(self.kinds)
        way = self.random.choice(BOTH)
        part = self.random.random()
        if CALM:
            self.done += 1
        elif kind in ("cut", "reset"):
            self.done += self.proxy._cut_all(kind == "reset") > 0
        elif kind == "truncate":
            self.done += len(self.proxy.links) > 0
            self.proxy._truncate(int(2 ** (part * 18)) - 1, way)
        elif kind == "stall":
            self.done += 1
            self.proxy._stall(part * self.longest_stall, BOTH if part < 0.5 else (way,))
        elif kind == "refuse":
            self.done += self.proxy._cut_all(False) > 0
            self.proxy._refuse(part * self.longest_stall)
        elif kind == "delay":
            self.done += 1
            self.proxy._set(self.proxy.delays, part * 0.05, (way,))
        self.plan()


STEP = re.compile(r"(?P<at>\d+(\.\d+)?)(?P<unit>ms|s|B|KB|MB|GB) +(?P<what>[a-z]+)(?P<rest>( +\S+)*)")
UNITS = {"ms": 0.001, "s": 1, "B": 1, "KB": 1000, "MB": 1_000_000, "GB": 1_000_000_000}


def apply_step(proxy, what, words):
    """One step of a script, on the thread of the proxy."""
    ways = tuple(word for word in words if word in BOTH) or BOTH
    numbers = [float(word) for word in words if re.fullmatch(r"\d+(\.\d+)?", word)]
    first = numbers[0] if numbers else None
    seconds = None if first is None else first / 1000
    text = [word for word in words if word not in BOTH]
    steps = {
        "cut": lambda: proxy._cut_all(False),
        "reset": lambda: proxy._cut_all(True),
        "truncate": lambda: proxy._truncate(int(first or 0), ways[0]),
        "stall": lambda: proxy._stall(seconds, ways),
        "resume": lambda: proxy._resume(ways),
        "delay": lambda: proxy._set(proxy.delays, seconds or 0.0, ways),
        "throttle": lambda: proxy._set(proxy.rate, first, ways),
        "refuse": lambda: proxy._refuse(seconds),
        "redirect": lambda: proxy.answers.append(
            f"HTTP/1.1 302 Found\r\nLocation: {text[0]}\r\nContent-Length: 0\r\n\r\n".encode()),
        "upstream": lambda: proxy.set_upstream(text[0]),
    }
    if what not in steps:
        raise ValueError(f"unknown action {what}; there are {', '.join(steps)}")
    return steps[what]


def run_script(proxy, script):
    """Plans "WHEN ACTION [ARGUMENT...]; ..."."""
    for line in filter(None, (part.strip() for part in script.replace("\n", ";").split(";"))):
        step = STEP.fullmatch(line)
        if step is None:
            raise ValueError(f"cannot read {line!r}; an example: 1.5s stall 500 up")
        act = apply_step(proxy, step["what"], step["rest"].split())
        when = float(step["at"]) * UNITS[step["unit"]]
        if step["unit"] in ("ms", "s"):
            proxy.do(proxy.loop.call_later, when, act)
        else:
            proxy.at(int(when), act)
