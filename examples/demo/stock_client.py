"""An unmodified redis-py client, which only connects to a socket, without any Undercroft code."""

import json
import os
import random
import signal
import sys

import redis


def main() -> None:
    """Read the workers' results through the server whose socket is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    r = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)
    blocks = []
    while points := r.lrange(f"block:{len(blocks)}", 0, -1):
        blocks.append([f"words:{point}" for point in points])
    views = torn = 0
    while not r.exists("stop") and os.getppid() == parent:
        results = r.mget(random.choice(blocks))
        # One MSET writes a block, so all of its results must be from the same turn.
        torn += len({result and result.split(" ")[0] for result in results}) > 1
        views += 1
        r.incr("views")
    print(json.dumps({"views": views, "torn": torn, "version": redis.__version__}))


if __name__ == "__main__":
    main()
