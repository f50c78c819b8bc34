"""Time streams: ``streams.py CLIENT PLACE``, with a line ``OPERATION COUNT`` for each figure.

``streams.py readers CLIENT PLACE READERS COUNT PAUSE`` prints the microseconds until entries
reached blocked processes, one line for each entry and reader. The client ``eventfd`` uses no store
and shows the cost of waking the processes.
"""

import contextlib
import io
import mmap
import multiprocessing
import os
import struct
import sys
import time
from typing import Any

from loop import Operation
from many import connected

STREAM = "stream"
ENTRIES = 100_000
NAMES = (b"sensor", b"temperature", b"place")


def loops(client: Any) -> dict[str, Operation]:
    """Return the loops over the stream commands of one client."""
    client.flushall()
    fields = {"sensor": "12", "temperature": "21", "place": "cellar"}
    pipeline = client.pipeline(transaction=False)
    for number in range(1, ENTRIES + 1):
        pipeline.xadd(STREAM, {**fields, "sensor": number}, id=f"{number}-0")
        if number % 1000 == 0:
            pipeline.execute()

    def add(count: int) -> float:
        call = client.xadd
        start = time.perf_counter_ns()
        for _ in range(count):
            call("grown", fields)
        return (time.perf_counter_ns() - start) / count

    def read(count: int, each: int) -> float:
        # Read at positions far apart, so that neighboring entries are not cached.
        places = [f"{at * 7919 % (ENTRIES - each)}-0" for at in range(count)]
        call, found = client.xread, None
        start = time.perf_counter_ns()
        for place in places:
            found = call({STREAM: place}, count=each)
        taken = (time.perf_counter_ns() - start) / count
        if not found or len(found[0][1]) != each or len(found[0][1][0][1]) != len(NAMES):
            raise AssertionError("a wrong reply")
        return taken

    return {
        "xadd": add,
        "xread": lambda count: read(count, 1),
        "xread-100": lambda count: read(max(count // 20, 1), 100),
    }


def readers(name: str, place: str, number: int, count: int, pause: float) -> None:
    """Print the microseconds until each entry reached each of ``number`` blocked readers."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(number + 1)
    found: Any = context.SimpleQueue()

    def read() -> None:
        # Keep the version line that the client prints out of the readers' output.
        with contextlib.redirect_stdout(io.StringIO()):
            client = connected(name, place)
        last, took = "$", []
        client.xlen(STREAM)
        ready.wait()
        while len(took) < count:
            ((_, entries),) = client.xread({STREAM: last}, block=10_000)
            now = time.monotonic_ns()
            for last, fields in entries:  # noqa: B007 - the last one is where the next read begins
                took.append((now - int(fields[b"sent"])) / 1e3)
        found.put(took)

    connected(name, place).delete(STREAM)
    workers = [context.Process(target=read) for _ in range(number)]
    for worker in workers:
        worker.start()
    client = connected(name, place)
    ready.wait()
    # Give the readers time to block in their first call.
    time.sleep(0.5)
    for _ in range(count):
        time.sleep(pause)
        client.xadd(STREAM, {"sent": time.monotonic_ns()})
    for _ in workers:
        print(*found.get(), sep="\n")
    for worker in workers:
        worker.join()


def woken(number: int, count: int, pause: float) -> None:
    """Print the microseconds until processes that wait for an eventfd woke up."""
    context = multiprocessing.get_context("fork")
    bells = [os.eventfd(0, os.EFD_SEMAPHORE) for _ in range(number)]
    sent = mmap.mmap(-1, 8)
    found: Any = context.SimpleQueue()

    def read(bell: int) -> None:
        took = []
        while len(took) < count:
            os.eventfd_read(bell)
            now = time.monotonic_ns()
            took.append((now - struct.unpack_from("q", sent)[0]) / 1e3)
        found.put(took)

    workers = [context.Process(target=read, args=(bell,)) for bell in bells]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    for _ in range(count):
        time.sleep(pause)
        struct.pack_into("q", sent, 0, time.monotonic_ns())
        for bell in bells:
            os.eventfd_write(bell, 1)
    for _ in workers:
        print(*found.get(), sep="\n")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    if sys.argv[1] == "readers":
        name, place, number, count, pause = sys.argv[2:]
        words = int(number), int(count), float(pause) / 1e6
        if name == "eventfd":
            woken(*words)
        else:
            readers(name, place, *words)
    else:
        operations = loops(connected(*sys.argv[1:]))
        print("ready", flush=True)
        for line in sys.stdin:
            operation, number = line.split()
            print(operations[operation](int(number)), flush=True)
