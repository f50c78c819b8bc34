"""Loops over streams: ``streams.py CLIENT PLACE``, a line ``OPERATION COUNT`` for each figure.

``streams.py readers CLIENT PLACE READERS COUNT PAUSE`` prints the microseconds that entries took
to processes that were blocked, one line for each entry and reader; the client ``eventfd`` has no
store, and shows what it costs to wake them.
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
    """Return the loops over one client."""
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
        # Places far from one another, whose neighbours are not read before.
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
    """Print how long entries took to so many blocked readers, in microseconds."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(number + 1)
    found: Any = context.SimpleQueue()

    def read() -> None:
        # It says what it is, in the midst of the others' lines.
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
    # The readers get into their first wait.
    time.sleep(0.5)
    for _ in range(count):
        time.sleep(pause)
        client.xadd(STREAM, {"sent": time.monotonic_ns()})
    for _ in workers:
        print(*found.get(), sep="\n")
    for worker in workers:
        worker.join()


def woken(number: int, count: int, pause: float) -> None:
    """Print the same of processes that have an eventfd each, and a time in shared memory."""
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
