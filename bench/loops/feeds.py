"""One side of a comparison of feeds: a process that runs timed loops when it is told to.

It reads lines and answers them as ``loop.py`` does. The first argument is ``embedded``, the second
a store that ``bench/native/feeds.c`` has filled; or ``redis``, and the socket of a server with
lists of as many items. Operations are named as there: ``range-7-100-middle``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], object]
VALUE = b"inserted now"
WIDTHS = (4, 3, 1)


def timed(call: Call, count: int) -> float:
    """Return the nanoseconds of a call."""
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def place_of(name: str, items: int, length: int) -> int:
    """Return where a range begins."""
    return {"first": 0, "middle": items // 2, "last": -length}[name]


class Embedded:
    """Feeds of a store in this process, ranges as arrays of numpy's."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        import undercroft

        self.open: Callable[[], Any] = lambda: undercroft.Store(path, maxmemory=0)
        self.store = self.open()

    def _feed(self, power: str) -> Any:
        return self.store.feed(f"feed{power}", 12, WIDTHS)

    def range(self, count: int, power: str, size: str, place: str) -> float:
        """Read ranges as arrays."""
        length, array = int(size), self._feed(power).array
        start = place_of(place, 10 ** int(power), length)
        if len(array(start, length)) != length:
            raise AssertionError("a range is not whole")
        return timed(lambda: array(start, length), count)

    def attrs(self, count: int, power: str, size: str, place: str) -> float:
        """Read ranges as structured arrays."""
        length, array = int(size), self._feed(power).array
        start = place_of(place, 10 ** int(power), length)
        return timed(lambda: array(start, length, attributes=True), count)

    def lists(self, count: int, power: str, size: str, place: str) -> float:
        """Read ranges as lists of bytes."""
        length, read = int(size), self._feed(power).range
        start = place_of(place, 10 ** int(power), length)
        return timed(lambda: read(start, length), count)

    def insert(self, count: int, power: str, place: str) -> float:
        """Insert one item at a time, and remove them again."""
        feed = self._feed(power)
        at = {"head": 0, "middle": 10 ** int(power) // 2, "tail": -1}[place]
        taken = timed(lambda: feed.add(at, VALUE, attributes=(3, 1, 0)), count)
        if feed.delete(VALUE) != count:
            raise AssertionError("an item was lost")
        return taken

    def bulk(self, count: int, power: str) -> float:
        """Insert items at the tail from an array, and remove them again; for one item."""
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
        """Open the store, read the first 100, and close it."""
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
    """Lists of a Redis server, by redis-py."""

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
        """Read ranges as lists of bytes."""
        length, name = int(size), f"list{power}"
        start = place_of(place, 10 ** int(power), length)
        stop = -1 if start < 0 else start + length - 1
        if len(self.client.lrange(name, start, stop)) != length:
            raise AssertionError("a range is not whole")
        return timed(lambda: self.client.lrange(name, start, stop), count)

    def short(self, count: int, power: str) -> float:
        """Connect, read the first 100, and close the connection."""

        def call() -> None:
            client = self.open()
            client.lrange(f"list{power}", 0, 99)
            client.close()

        return timed(call, count)


def main() -> None:
    """Answer lines until there are no more."""
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
