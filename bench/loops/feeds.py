"""One side of a comparison of feeds: a process that runs timed loops on request.

It reads and answers lines like ``loop.py``. The arguments are ``embedded`` and a store that
``bench/native/feeds.c`` has filled, or ``redis`` and the socket of a server with lists of the same
length. Operations are named as in feeds.c: ``range-7-100-middle``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], object]
VALUE = b"inserted now"
WIDTHS = (4, 3, 1)


def timed(call: Call, count: int) -> float:
    """Return the nanoseconds per call over ``count`` calls."""
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def place_of(name: str, items: int, length: int) -> int:
    """Return the index of the first item of a range at the head, middle or tail."""
    return {"first": 0, "middle": items // 2, "last": -length}[name]


class Embedded:
    """Feeds in a store in this process; ranges are numpy arrays."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        import undercroft

        self.open: Callable[[], Any] = lambda: undercroft.Store(path, maxmemory=0)
        self.store = self.open()

    def _feed(self, power: str) -> Any:
        return self.store.feed(f"feed{power}", 12, WIDTHS)

    def range(self, count: int, power: str, size: str, place: str) -> float:
        """Time reads of ranges as arrays."""
        length, array = int(size), self._feed(power).array
        start = place_of(place, 10 ** int(power), length)
        if len(array(start, length)) != length:
            raise AssertionError("a range is not whole")
        return timed(lambda: array(start, length), count)

    def attrs(self, count: int, power: str, size: str, place: str) -> float:
        """Time reads of ranges with attributes as structured arrays."""
        length, array = int(size), self._feed(power).array
        start = place_of(place, 10 ** int(power), length)
        return timed(lambda: array(start, length, attributes=True), count)

    def lists(self, count: int, power: str, size: str, place: str) -> float:
        """Time reads of ranges as lists of bytes."""
        length, read = int(size), self._feed(power).range
        start = place_of(place, 10 ** int(power), length)
        return timed(lambda: read(start, length), count)

    def insert(self, count: int, power: str, place: str) -> float:
        """Time insertions of single items, and remove the items again."""
        feed = self._feed(power)
        at = {"head": 0, "middle": 10 ** int(power) // 2, "tail": -1}[place]
        taken = timed(lambda: feed.add(at, VALUE, attributes=(3, 1, 0)), count)
        if feed.delete(VALUE) != count:
            raise AssertionError("an item was lost")
        return taken

    def bulk(self, count: int, power: str) -> float:
        """Return the time per item of inserting an array at the tail; remove the items again."""
        import numpy as np

        values = np.full(count, VALUE, "S12")
        attributes = np.zeros((count, len(WIDTHS)), np.uint32)
        feed = self._feed(power)
        start = time.perf_counter_ns()
        feed.add_many(-1, values, attributes)
        taken = (time.perf_counter_ns() - start) / count
        if feed.delete(VALUE) != count:
            raise AssertionError("an item was lost")
        return taken

    def short(self, count: int, power: str) -> float:
        """Time opening the store, reading the first 100 items and closing the store."""
        self.store.close()

        def call() -> None:
            store = self.open()
            if len(store.feed(f"feed{power}", 12, WIDTHS).array()) != 100:
                raise AssertionError("a range is not whole")
            store.close()

        taken = timed(call, count)
        self.store = self.open()
        return taken


class Lists:
    """Lists on a Redis server, through redis-py."""

    def __init__(self, path: str) -> None:
        """Connect to the server."""
        import redis
        import redis.utils

        self.open: Callable[[], Any] = lambda: redis.Redis(unix_socket_path=path)
        self.client = self.open()
        self.client.ping()
        parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "its own parser"
        print(f"redis-py {redis.__version__} with {parser}", flush=True)

    def range(self, count: int, power: str, size: str, place: str) -> float:
        """Time reads of ranges as lists of bytes."""
        length, name = int(size), f"list{power}"
        start = place_of(place, 10 ** int(power), length)
        stop = -1 if start < 0 else start + length - 1
        if len(self.client.lrange(name, start, stop)) != length:
            raise AssertionError("a range is not whole")
        return timed(lambda: self.client.lrange(name, start, stop), count)

    def short(self, count: int, power: str) -> float:
        """Time connecting, reading the first 100 items and closing the connection."""

        def call() -> None:
            client = self.open()
            client.lrange(f"list{power}", 0, 99)
            client.close()

        return timed(call, count)


def main() -> None:
    """Answer one line at a time until standard input ends."""
    kind, path = sys.argv[1:]
    side = {"embedded": Embedded, "redis": Lists}[kind](path)
    print("ready", flush=True)
    for line in sys.stdin:
        operation, count = line.split()
        name, *parts = operation.split("-")
        try:
            print(getattr(side, name)(int(count), *parts), flush=True)
        except Exception as error:
            print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
