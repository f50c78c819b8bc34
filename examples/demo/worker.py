"""A demo worker, which looks names up and counts their words until the demo stops it.

A counter in the store distributes the work: the worker that increments the counter gets the next
block of names. One MSET writes the results of a block, marked with the number of the turn, so that
readers can detect a torn write. This program contains no code that handles the death of a worker.
"""

import json
import os
import signal
import sys
import time
from collections import Counter

import undercroft


def main() -> None:
    """Process blocks in the store given as the first argument; the second is the worker number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo handles Ctrl-C and stops its workers
    parent = os.getppid()
    r = undercroft.Redis(sys.argv[1], decode_responses=True)
    own = f"names:worker {sys.argv[2]}"
    blocks = []
    while points := r.lrange(f"block:{len(blocks)}", 0, -1):
        blocks.append(points)

    words: Counter[str] = Counter()
    looked_up, slowest = 0, 0.0
    while not r.exists("stop") and os.getppid() == parent:
        turn = r.incr("turns")
        points = blocks[turn % len(blocks)]
        results = {}
        for point in points:
            found = r.get(f"name:{point}").split(" ")
            words.update(found)
            results[f"words:{point}"] = f"{turn} {len(found)}"
        since = time.perf_counter()
        r.mset(results)
        slowest = max(slowest, time.perf_counter() - since)
        r.incrby("names", len(points))
        r.incrby(own, len(points))
        looked_up += len(points)
    common = [word for word, _ in words.most_common(3)]
    print(
        json.dumps(
            {"names": looked_up, "words": words.total(), "common": common, "ms": slowest * 1000}
        )
    )


if __name__ == "__main__":
    main()
