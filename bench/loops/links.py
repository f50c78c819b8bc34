"""A process that sets keys of a store while another one exports it.

Argument: the path of the store. It writes a line when it begins, and when standard input ends, a
JSON object with the longest SET in ms of its thread's CPU time.
"""

import json
import select
import sys
import time


def main() -> None:
    """Set keys until standard input ends."""
    import undercroft

    store = undercroft.Redis(f"undercroft://{sys.argv[1]}")
    longest, at = 0, 0
    print(flush=True)
    while at % 100 or not select.select([sys.stdin], [], [], 0)[0]:
        at += 1
        key = b"string:%010d" % (at * 20)
        start = time.thread_time_ns()
        store.set(key, b"v" * 80)
        longest = max(longest, time.thread_time_ns() - start)
    print(json.dumps({"longest_ms": longest / 1e6, "sets": at}), flush=True)


if __name__ == "__main__":
    main()
