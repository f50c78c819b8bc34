"""Processes that are stopped while they hold a store's locks."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import redis
import undercroft

# A program that writes continuously, so that every other stop finds it holding a lock. Its values
# are short, because long values are copied before the lock is acquired. Every key exists before the
# program prints `ready`. Otherwise a stop during the first MSET could leave readers with a store
# that has no keys.
HOLDER = """
import sys, undercroft
r = undercroft.Redis(sys.argv[1])
pairs = {f"key:{i}": "v" * 30 for i in range(2000)}
r.mset(pairs)
print("ready", flush=True)
while True:
    r.incr("rounds")
    r.mset(pairs)
"""


class Holder:
    """A process that is stopped while it holds a store's locks."""

    def __init__(self, path: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self, quick: undercroft.Redis) -> None:
        """Stop the process, and repeat this until it stops inside a transaction."""
        seed = random.randrange(2**32)
        moments = random.Random(seed)
        for _ in range(500):
            rounds = quick.get("rounds")
            while quick.get("rounds") == rounds:
                pass
            # Do not open the store again for this check, because opening it waits until a
            # transaction has ended.
            time.sleep(moments.random() / 1000)
            self.process.send_signal(signal.SIGSTOP)
            os.waitpid(self.process.pid, os.WUNTRACED)
            try:
                quick.set("key:1", "x")
            except redis.TimeoutError:
                return
            self.process.send_signal(signal.SIGCONT)
        pytest.fail(f"500 stops (seed {seed}), and none met the writer inside a transaction")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
