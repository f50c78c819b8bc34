"""Time the slowest calls of eight processes that only write, on two cores.

The arguments are the client (``embedded``, ``apart`` or ``redis``), a store or a unix socket, and
the cores. With ``apart``, each process has a separate store, so its calls wait only for a core. On
a line ``set MILLISECONDS`` or ``mset MILLISECONDS``, all processes write for that long; the answer
is JSON with the number of calls, the slowest call and the 99.9th percentile.
"""

import json
import multiprocessing
import os
import random
import sys
import time
from array import array
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

PROCESSES, AT_ONCE, KEYS = 8, 10, 100_000
VALUE = b"v" * 64
# The timeout for starting the processes, and for receiving their reports, in seconds.
PATIENCE = 60.0


def opened(kind: str, path: str) -> Any:
    """Return a new client for this process."""
    if kind != "redis":
        import undercroft

        if kind == "apart":
            path = f"{path}-{os.getpid()}"
        return undercroft.Redis(path, maxmemory=0)
    import redis

    return redis.Redis(unix_socket_path=path)


def write(
    where: tuple[str, str], work: str, seconds: float, start: Barrier, told: Connection
) -> None:
    """Write for a given time and report the nanoseconds of each call."""
    client = opened(*where)
    order = [b"key:%012d" % number for number in range(KEYS)]
    random.Random(os.getpid()).shuffle(order)
    put: Any = client.set
    arguments: list[Any] = [(key, VALUE) for key in order]
    if work == "mset":
        put = client.mset
        groups = (order[at : at + AT_ONCE] for at in range(0, KEYS, AT_ONCE))
        arguments = [(dict.fromkeys(group, VALUE),) for group in groups]
    put(*arguments[0])
    clock, times = time.perf_counter_ns, array("q")
    start.wait(PATIENCE)
    end = clock() + int(seconds * 1e9)
    now = 0
    while now < end:
        for each in arguments:
            before = clock()
            put(*each)
            now = clock()
            times.append(now - before)
            if now > end:
                break
    told.send_bytes(times.tobytes())
    if where[0] == "apart":
        Path(f"{where[1]}-{os.getpid()}").unlink()


def crowd(where: tuple[str, str], work: str, seconds: float) -> str:
    """Run all writing processes concurrently and return their combined report as JSON."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(PROCESSES)
    running, pipes = [], []
    for _ in range(PROCESSES):
        receiving, sending = context.Pipe(duplex=False)
        arguments = (where, work, seconds, start, sending)
        process = context.Process(target=write, args=arguments, daemon=True)
        process.start()
        # Close this copy of the sending end; otherwise the exit of the process would go unnoticed.
        sending.close()
        running.append(process)
        pipes.append(receiving)
    times = array("q")
    try:
        for pipe in pipes:
            if not pipe.poll(seconds + PATIENCE):
                raise AssertionError("a process does not answer")
            times.frombytes(pipe.recv_bytes())
    finally:
        for process in running:
            process.join(PATIENCE)
            process.kill()
    ordered = sorted(times)
    return json.dumps(
        {
            "calls": len(ordered),
            "late_us": ordered[int(len(ordered) * 0.999)] / 1e3,
            "slowest_us": ordered[-1] / 1e3,
        }
    )


def main() -> None:
    """Answer one line at a time until standard input ends."""
    where = (sys.argv[1], sys.argv[2])
    os.sched_setaffinity(0, {int(core) for core in sys.argv[3].split(",")})
    if where[0] == "redis":
        import redis

        print(f"redis-py {redis.__version__} with hiredis", flush=True)
    print("ready", flush=True)
    for line in sys.stdin:
        work, milliseconds = line.split()
        try:
            print(crowd(where, work, int(milliseconds) / 1e3), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split())[:200], flush=True)


if __name__ == "__main__":
    main()
