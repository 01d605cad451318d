# SPDX-License-Identifier: Apache-2.0
"""Connections that are cut again and again under tests that do not know of it: the suites of tests/e2e with $SANDBAR_CUTS,
which is the seed."""

import sys
import time

from chaos import Chaos
from proxy import FaultProxy

# A first connect that is cut is an error of the program, and rightly so: nothing has begun. Older ones are cut.
GREETED = 0.25


class Cuts(Chaos):
    """Cuts, resets and truncates connections that have lived long enough to be in use."""

    def __init__(self, proxy, seed):
        super().__init__(proxy, seed, every=(0.15, 0.5), kinds=("cut", "reset"))
        self.seen = {}

    def act(self):
        now = time.monotonic()
        self.seen = {link: self.seen.get(link, now) for link in self.proxy.links}
        for link, since in list(self.seen.items()):
            if now - since >= GREETED:
                link.close("cut", self.random.random() < 0.5)
                self.done += 1
        self.plan()


def main(url, seed):
    """Until standard input ends."""
    proxy = FaultProxy(url[len("ws://"):] if url.startswith("ws://") else url).start()
    chaos = Cuts(proxy, int(seed)).start()
    print(proxy.url, flush=True)
    sys.stdin.read()
    chaos.stop()
    proxy.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
