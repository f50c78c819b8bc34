"""Time the slowest calls while a store grows, expires keys, is copied and is flushed.

The arguments are the client (``embedded`` or ``redis``), a store or a unix socket, and the command
that copies the data, as JSON. The answer to each line ``OPERATION COUNT`` is JSON: the slowest call
by the clock and by the CPU time of this thread, in total and in each interval. Redis is called over
a bare socket, because a Python client would add its own time.

Other processes run ``growth.py flush KIND PLACE``, which empties the store, and ``growth.py save
redis PLACE``, which makes Redis write its file.
"""

import gc
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

VALUE, OTHER = b"v" * 64, b"w" * 64
# The number of intervals during growth, and the length of later intervals in nanoseconds.
PARTS, INTERVAL = 100, 50_000_000
# The duration in nanoseconds from which a call counts as slow, and how long calls are watched after
# the other process has ended.
SLOW, AFTERWARDS = 1_000_000, 500_000_000
# The seconds until the keys expire together, and the seconds of watching before and after that
# moment.
DEADLINE, BEFORE, BEHIND = 8.0, 0.5, 3.0
# The number of keys that are overwritten.
CHANGED = 1_000_000
# The timeout for watching a phase, in seconds.
PATIENCE = 120.0


class Wire:
    """A bare socket to a Redis server, for commands with short replies."""

    def __init__(self, path: str) -> None:
        """Connect to the server's unix socket."""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def asked(self, *words: bytes) -> bytes:
        """Send a command and return its reply, which must arrive in one piece."""
        self.socket.sendall(packed(*words))
        return self.socket.recv(65536)

    def set(self, key: bytes, value: bytes) -> None:
        """Set a key and check the reply."""
        if self.asked(b"SET", key, value) != b"+OK\r\n":
            raise AssertionError("a SET failed")

    def set_until(self, keys: list[bytes], deadline: float) -> None:
        """Set keys that expire at ``deadline``, all in one write, because this is not measured."""
        at = b"%d" % (deadline * 1000)
        self.socket.sendall(b"".join(packed(b"SET", key, VALUE, b"PXAT", at) for key in keys))
        left = len(b"+OK\r\n") * len(keys)
        while left:
            left -= len(self.socket.recv(65536))

    def size(self) -> int:
        """Return the number of keys."""
        return int(self.asked(b"DBSIZE")[1:])


class Store:
    """An embedded store with the same methods as ``Wire``."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        import undercroft

        self.client = undercroft.Redis(path, maxmemory=0)
        self.set = self.client.set
        self.size = self.client.dbsize

    def set_until(self, keys: list[bytes], deadline: float) -> None:
        """Set keys that expire at ``deadline``."""
        for key in keys:
            self.client.set(key, VALUE, pxat=int(deadline * 1000))


def packed(*words: bytes) -> bytes:
    """Return a command in Redis' wire format."""
    parts = (b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n%b" % (len(words), b"".join(parts))


class Watch:
    """Records the slowest calls, in total and in each interval."""

    def __init__(self) -> None:
        """Start the clock with no recorded calls."""
        self.calls = self.slow = self.clock = self.processor = 0
        # For each interval: its end, and the milliseconds of its slowest call by clock and by CPU
        # time.
        self.points: list[tuple[float, float, float]] = []
        self.started = time.perf_counter_ns()

    def over(
        self, call: Callable[[bytes, bytes], object], keys: Iterable[bytes], value: bytes, end: int
    ) -> tuple[float, float]:
        """Call until the keys or the time run out; return the maximum clock and CPU time.

        Both maxima are in milliseconds and can come from different calls.
        """
        clock, processor = time.perf_counter_ns, time.thread_time_ns
        slowest = most = slow = calls = 0
        used = processor()
        for key in keys:
            before = clock()
            call(key, value)
            now = clock()
            taken, last, used = now - before, used, processor()
            calls += 1
            if taken > slowest:
                slowest = taken
            if used - last > most:
                most = used - last
            if taken > SLOW:
                slow += 1
            if now > end:
                break
        self.calls += calls
        self.slow += slow
        self.clock, self.processor = max(self.clock, slowest), max(self.processor, most)
        return slowest / 1e6, most / 1e6

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return (time.perf_counter_ns() - self.started) / 1e9

    def told(self) -> str:
        """Return all figures as JSON, with times in milliseconds."""
        return json.dumps(
            {
                "calls": self.calls,
                "slow": self.slow,
                "seconds": self.seconds(),
                "clock_ms": self.clock / 1e6,
                "processor_ms": self.processor / 1e6,
                "points": self.points,
            }
        )


def keys_of(numbers: Iterable[int]) -> list[bytes]:
    """Return one key of 16 bytes for each number."""
    return [b"key:%012d" % number for number in numbers]


class Life:
    """The phases in the life of a store: it grows, expires keys, is copied and is flushed."""

    def __init__(self, place: Any, kind: str, path: str, copying: list[str]) -> None:
        """Store the empty store or server, and the command that copies its data."""
        self.place = place
        self.flushing = [sys.executable, __file__, "flush", kind, path]
        self.copying = copying
        self.count = 0

    def grow(self, count: int) -> Watch:
        """Insert ``count`` keys, with an interval for each hundredth of them."""
        watch, never = Watch(), 1 << 62
        for start in range(0, count, count // PARTS):
            keys = keys_of(range(start, start + count // PARTS))
            slowest = watch.over(self.place.set, keys, VALUE, never)
            watch.points.append(((start + len(keys)) / 1e6, *slowest))
        self.count = self.place.size()
        if self.count != count:
            raise AssertionError(f"expected {count} keys, got {self.count}")
        return watch

    def expire(self, count: int) -> Watch:
        """Overwrite keys while ``count`` other keys expire at the same moment."""
        deadline = time.time() + DEADLINE
        for start in range(0, count, 1000):
            self.place.set_until(
                [b"gone:%011d" % number for number in range(start, start + 1000)], deadline
            )
        if (left := deadline - BEFORE - time.time()) < 0:
            raise AssertionError("the keys to expire were not made in time")
        time.sleep(left)
        return self.watched(lambda: time.time() > deadline + BEHIND, 0)

    def beside(self, command: list[str]) -> Watch:
        """Overwrite keys while another process runs, and for half a second after it ends."""
        other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            watch = self.watched(lambda: other.poll() is not None, AFTERWARDS)
        finally:
            other.kill()
            error = other.communicate()[1]
        if other.returncode:
            raise AssertionError(f"{command[0]} ended with {other.returncode}: {error!r:.100}")
        return watch

    def watched(self, ended: Callable[[], bool], more: int) -> Watch:
        """Overwrite keys in random order until ``ended`` is true, and then for ``more`` ns."""
        keys = keys_of(at * 611_953 % self.count for at in range(min(self.count, CHANGED)))
        forever: Iterator[bytes] = itertools.cycle(keys)
        watch, last = Watch(), 1 << 62
        while time.perf_counter_ns() < last and watch.seconds() < PATIENCE:
            end = time.perf_counter_ns() + INTERVAL
            slowest = watch.over(self.place.set, forever, OTHER, end)
            watch.points.append((watch.seconds(), *slowest))
            if last == 1 << 62 and ended():
                last = time.perf_counter_ns() + more
        return watch


def save(path: str) -> None:
    """Run BGSAVE on a Redis server and wait until the file is complete."""
    wire = Wire(path)
    if not wire.asked(b"BGSAVE").startswith(b"+"):
        raise SystemExit("BGSAVE failed")
    while b"rdb_bgsave_in_progress:1" in wire.asked(b"INFO", b"persistence"):
        time.sleep(0.05)


def flush(kind: str, path: str) -> None:
    """Remove all keys from a store or a Redis server."""
    if kind == "redis":
        Wire(path).asked(b"FLUSHALL")
        return
    import undercroft

    undercroft.Redis(path).flushall()


def main() -> None:
    """Answer one line at a time until standard input ends."""
    if sys.argv[1] == "save":
        return save(sys.argv[3])
    if sys.argv[1] == "flush":
        return flush(sys.argv[2], sys.argv[3])
    kind, path, copying = sys.argv[1:4]
    life = Life(Wire(path) if kind == "redis" else Store(path), kind, path, json.loads(copying))
    # A garbage collection between two readings of the clock would count as a slow call.
    gc.disable()
    print("ready", flush=True)
    operations: dict[str, Callable[[int], Watch]] = {
        "grow": life.grow,
        "expire": life.expire,
        "copy": lambda _: life.beside(life.copying),
        "flush": lambda _: life.beside(life.flushing),
    }
    for line in sys.stdin:
        operation, count = line.split()
        try:
            print(operations[operation](int(count)).told(), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split())[:200], flush=True)
    return None


if __name__ == "__main__":
    main()
