"""Time Lua scripts: ``scripts.py CLIENT PLACE``, with a line ``OPERATION COUNT`` per figure."""

import itertools
import sys
import time
from pathlib import Path
from typing import Any

from loop import Operation
from many import connected

LUA = Path(__file__).parents[1] / "lua"
# The number of commands in the long script.
CALLS = 1000
# The limiter's window in milliseconds, and the number of requests that it admits per window.
WINDOW, MOST = 1000, 100


def loops(client: Any) -> dict[str, Operation]:
    """Return the loops over the scripts that one client runs."""
    client.flushall()
    compare, limiter, many = (
        client.script_load((LUA / f"{name}.lua").read_text(encoding="utf-8"))
        for name in ("compare", "limiter", "many")
    )
    ticks = itertools.count(1)

    def compare_and_delete(count: int) -> float:
        taken, call = 0, client.evalsha
        for number in range(count):
            client.set("lock", number)
            start = time.perf_counter_ns()
            deleted = call(compare, 1, "lock", number)
            taken += time.perf_counter_ns() - start
            if deleted != 1:
                raise AssertionError("not deleted")
        return taken / count

    def limit(count: int) -> float:
        call, admitted = client.evalsha, 0
        start = time.perf_counter_ns()
        # Send one request every 5 ms; the limiter admits half of them.
        for tick in itertools.islice(ticks, count):
            admitted += call(limiter, 1, "limiter", tick * 5, tick, WINDOW, MOST)
        taken = (time.perf_counter_ns() - start) / count
        if count > 2 * WINDOW and not count / 4 < admitted < count * 3 / 4:
            raise AssertionError(f"admitted {admitted} of {count}")
        return taken

    def call_many(count: int) -> float:
        call, found = client.evalsha, b""
        client.delete("number")
        start = time.perf_counter_ns()
        for _ in range(count):
            found = call(many, 1, "number", CALLS)
        taken = (time.perf_counter_ns() - start) / count
        if int(found) != count * CALLS:
            raise AssertionError("a wrong reply")
        return taken

    return {"compare": compare_and_delete, "limiter": limit, "many": call_many}


if __name__ == "__main__":
    operations = loops(connected(*sys.argv[1:]))
    print("ready", flush=True)
    for line in sys.stdin:
        operation, number = line.split()
        print(operations[operation](int(number)), flush=True)
