"""Serves the forum, which it first fills if it is empty.

example: python examples/forum/serve.py --threads 1000000 --port 8000
"""

import argparse
import time

import undercroft
from app import create_app
from boards import BOARDS, Forum
from generate import fill
from werkzeug.serving import run_simple


def main() -> None:
    """Parse the command line and serve the forum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", default="undercroft://forum", help="default: %(default)s")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument(
        "--threads",
        type=int,
        default=1_000_000,
        help="threads to generate on the largest board if empty",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated threads")
    arguments = parser.parse_args()
    with undercroft.Redis.from_url(arguments.store, decode_responses=True) as r:
        r.config_set("maxmemory", "0")
        forum = Forum(r)
        if not forum.is_there():
            since = time.perf_counter()
            print("filling the boards ...", flush=True)
            fill(forum, arguments.threads, arguments.seed)
            count = sum(forum.feed(board).count(seen="all") for board in BOARDS)
            print(f"{count:,} threads in {time.perf_counter() - since:.0f} s", flush=True)
    app = create_app(arguments.store)
    # One process is enough for a trial. In production, use any WSGI server with one process per
    # core; the processes share the store.
    run_simple(arguments.host, arguments.port, app, threaded=True)


if __name__ == "__main__":
    main()
