"""A process that sets keys of a store while another one exports it, or watches a follower's store.

Arguments: the path of the store, and to watch, a number of seconds. The process writes a line when
it begins. A writer ends with standard input, and then writes a JSON object with the longest SET in
ms of its thread's CPU time. A watcher writes the lag of each change of the key ``stamp``, whose
value is the time of the change, in ms.
"""

import json
import select
import sys
import time

import undercroft


def watch(store: undercroft.Redis, seconds: float) -> None:
    """Look at the key until the time is over."""
    lags, last = [], store.get("stamp")
    print(flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # Looking all the time would take the processor from the follower.
        time.sleep(0.0002)
        value = store.get("stamp")
        if value != last:
            last = value
            lags.append((time.monotonic_ns() - int(value)) / 1e6)
    print(*lags, flush=True)


def write(store: undercroft.Redis) -> None:
    """Set keys until standard input ends."""
    longest, at = 0, 0
    # The first write of a process joins the store, with or without an export.
    store.set(b"first", b"v" * 80)
    print(flush=True)
    while at % 100 or not select.select([sys.stdin], [], [], 0)[0]:
        at += 1
        key = b"string:%010d" % (at * 20)
        start = time.thread_time_ns()
        store.set(key, b"v" * 80)
        longest = max(longest, time.thread_time_ns() - start)
    print(json.dumps({"longest_ms": longest / 1e6, "sets": at}), flush=True)


def main() -> None:
    """Write or watch."""
    store = undercroft.Redis(f"undercroft://{sys.argv[1]}")
    if len(sys.argv) > 2:
        watch(store, float(sys.argv[2]))
    else:
        write(store)


if __name__ == "__main__":
    main()
