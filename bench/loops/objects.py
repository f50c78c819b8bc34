"""Time one method of passing objects between processes, on request.

The process answers each line ``OPERATION COUNT`` with one line of JSON: for every repetition, the
nanoseconds of put, of take, and of both including the release of the taken values. Operations are
``array-ELEMENTS-BATCH`` and ``mixed-NUMBER-BATCH``, and for Undercroft ``create-ELEMENTS-1`` and
``copy-ELEMENTS-1``, which is a plain copy of the array. The arguments are the name of the method
and the path or address of its store or server.
"""

import itertools
import json
import pickle
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

Values = Sequence[Any]


def packed(value: Any) -> bytes:
    """Return a value as a pickle."""
    return pickle.dumps(value, protocol=5)


class Undercroft:
    """Undercroft's objects in shared memory; ``take`` returns a view."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        import undercroft

        self.objects = undercroft.Objects(path, maxmemory=0)
        self.put: Any = self.objects.put_many
        self.take: Any = self.objects.take_many

    def create(self, elements: int) -> tuple[int, int, int]:
        """Create an array in place and take it, without writing to it."""
        start = time.perf_counter_ns()
        found = self.objects.create(elements).seal()
        put = time.perf_counter_ns()
        array = self.objects.take(found)
        taken = time.perf_counter_ns()
        if array.size != elements:
            raise AssertionError("an array is not whole")
        del array
        return put - start, taken - put, time.perf_counter_ns() - start


class UndercroftCopies(Undercroft):
    """Undercroft's objects in shared memory; ``take`` returns a writable copy."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        super().__init__(path)
        self.take = lambda ids: self.objects.take_many(ids, writable=True)


class UndercroftPickles(Undercroft):
    """Pickles, stored as bytes in Undercroft's shared memory."""

    def __init__(self, path: str) -> None:
        """Open the store."""
        super().__init__(path)
        self.put = lambda values: self.objects.put_many(map(packed, values))
        self.take = lambda ids: [pickle.loads(each) for each in self.objects.take_many(ids)]


class Plasma:
    """The object store that came with Arrow; ``take`` returns a view."""

    def __init__(self, path: str) -> None:
        """Connect to the store."""
        import pyarrow.plasma

        self.client = pyarrow.plasma.connect(path)

    def put(self, values: Values) -> list[Any]:
        """Put values one after another: plasma has no batches."""
        return [self.client.put(value) for value in values]

    def take(self, ids: list[Any]) -> Values:
        """Get views and delete the objects, which are freed after their last view."""
        values = self.client.get(ids)
        self.client.delete(ids)
        return values


class Redis:
    """Values on a Redis server: pickles, or the bytes of arrays if ``raw``."""

    def __init__(self, place: str, *, raw: bool = False) -> None:
        """Connect to the server."""
        import redis

        self.client: Any = redis.Redis.from_url(place)
        self.client.ping()
        self.dump = (lambda value: value.tobytes()) if raw else packed
        self.load = np.frombuffer if raw else pickle.loads

    def put(self, values: Values) -> list[Any]:
        """For each value in turn, request an ID and set the value."""
        ids = []
        for value in values:
            ids.append(self.client.incr("last"))
            self.client.set(ids[-1], self.dump(value))
        return ids

    def take(self, ids: list[Any]) -> Values:
        """Get and delete the values one by one."""
        return [self.load(self.client.getdel(each)) for each in ids]


class RedisPipe(Redis):
    """Redis with two pipelines: one for all IDs, then one for all values."""

    def put(self, values: Values) -> list[Any]:
        """Put all values with two pipelines."""
        pipe = self.client.pipeline(transaction=False)
        for _ in values:
            pipe.incr("last")
        ids = pipe.execute()
        for each, value in zip(ids, values, strict=True):
            pipe.set(each, self.dump(value))
        pipe.execute()
        return list(ids)

    def take(self, ids: list[Any]) -> Values:
        """Take all values with one pipeline."""
        pipe = self.client.pipeline(transaction=False)
        for each in ids:
            pipe.getdel(each)
        return [self.load(each) for each in pipe.execute()]


class RedisPipeNext(RedisPipe):
    """Redis with one pipeline for each value, which also gets the next ID."""

    next_id: Any = None

    def put(self, values: Values) -> list[Any]:
        """Put with one pipeline for each value."""
        ids = []
        for value in values:
            if self.next_id is None:
                self.next_id = self.client.incr("last")
            ids.append(self.next_id)
            pipe = self.client.pipeline(transaction=False)
            pipe.set(self.next_id, self.dump(value)).incr("last")
            self.next_id = pipe.execute()[1]
        return ids


class SharedMemory:
    """A block of Python's ``shared_memory`` for each array; ``take`` returns a view."""

    def __init__(self, _: str) -> None:
        """Import ``multiprocessing.shared_memory``."""
        from multiprocessing import shared_memory

        self.shared_memory = shared_memory

    def put(self, values: Values) -> list[Any]:
        """Create a block for each array and copy the array into it."""
        ids = []
        for value in values:
            block = self.shared_memory.SharedMemory(create=True, size=value.nbytes)
            np.ndarray(value.shape, value.dtype, block.buf)[:] = value
            ids.append((block.name, value.shape, value.dtype))
            block.close()
        return ids

    def take(self, ids: list[Any]) -> Values:
        """Attach to the blocks, and unlink each block immediately."""
        values = []
        for name, shape, dtype in ids:
            block = self.shared_memory.SharedMemory(name)
            block.unlink()
            values.append(View(block, np.ndarray(shape, dtype, block.buf)))
        return values


class View:
    """An array in a block of shared memory; releasing the array closes the block."""

    def __init__(self, block: Any, array: Any) -> None:
        """Store the block together with the array that it contains."""
        self.block, self.array = block, array

    def __del__(self) -> None:
        """Release the array, which holds the block's buffer, and close the block."""
        del self.array
        self.block.close()


class Lmdb:
    """Bytes in LMDB; ``take`` copies values, because a view is invalid after its transaction."""

    def __init__(self, path: str, *, raw: bool = False) -> None:
        """Open the LMDB environment."""
        import lmdb

        self.environment = lmdb.open(path, map_size=8 << 30, sync=False, writemap=True)
        self.numbers = itertools.count()
        self.dump = (lambda value: value.data) if raw else packed
        self.load = np.frombuffer if raw else pickle.loads

    def put(self, values: Values) -> list[Any]:
        """Put all values in one transaction."""
        ids = []
        with self.environment.begin(write=True) as transaction:
            for value in values:
                ids.append(b"%x" % next(self.numbers))
                transaction.put(ids[-1], self.dump(value))
        return ids

    def take(self, ids: list[Any]) -> Values:
        """Take all values in one transaction."""
        with self.environment.begin(write=True) as transaction:
            return [self.load(transaction.pop(each)) for each in ids]


WAYS: dict[str, Any] = {
    "undercroft": Undercroft,
    "undercroft-copies": UndercroftCopies,
    "undercroft-pickles": UndercroftPickles,
    "plasma": Plasma,
    "redis-raw": lambda place: Redis(place, raw=True),
    "redis": Redis,
    "redis-pipe": RedisPipe,
    "redis-pipe2": RedisPipeNext,
    "shared-memory": SharedMemory,
    "lmdb-raw": lambda place: Lmdb(place, raw=True),
    "lmdb": Lmdb,
}


def mixed(number: int) -> dict[str, Any]:
    """Return one of two dictionaries of text and arrays."""
    random = np.random.default_rng(number)
    if number == 1:
        return {
            "request": "3f8a-77c1",
            "text": "a photograph of a boat on a lake, " * 8,
            "tokens": random.integers(0, 50_000, 128),
            "logits": random.random(1_000, "float32"),
        }
    return {
        "request": "b09e-1142",
        "labels": ["boat", "lake", "mountain"] * 20,
        "size": (640, 480),
        "image": random.integers(0, 255, (480, 640, 3), "uint8"),
        "boxes": random.random((300, 4)),
    }


def same(one: Any, other: Any) -> bool:
    """Return whether a taken value equals the value that was put."""
    # Keep the view alive while its array is in use: the view closes the block.
    view, other = other, getattr(other, "array", other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, np.asarray(other))) and view is not None
    return bool(one == other)


def one_time(way: Any, values: Values) -> tuple[int, int, int]:
    """Put values and take them; return the nanoseconds of put, of take, and in total."""
    start = time.perf_counter_ns()
    ids = way.put(values)
    put = time.perf_counter_ns()
    found = way.take(ids)
    taken = time.perf_counter_ns()
    del found
    return put - start, taken - put, time.perf_counter_ns() - start


def copy(array: Any, target: Any) -> tuple[int, int, int]:
    """Time a copy of an array to memory that has been written before."""
    start = time.perf_counter_ns()
    np.copyto(target, array)
    taken = time.perf_counter_ns() - start
    return taken, 0, taken


def run(way: Any, operation: str, count: int, kept: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Repeat an operation and return the nanoseconds of each repetition."""
    kind, size, batch = operation.split("-")
    if kind == "create":
        way.create(int(size))
        return [way.create(int(size)) for _ in range(count)]
    if operation not in kept:
        # Release the values of the last operation, which may fill most of the machine's memory.
        kept.clear()
        if kind == "mixed":
            values: Values = [mixed(int(size)) for _ in range(int(batch))]
        else:
            values = [np.random.default_rng(7).random(int(size)) for _ in range(int(batch))]
        kept[operation] = values, values[0].copy() if kind == "copy" else None
        if kind != "copy" and not same(values[0], way.take(way.put(values))[0]):
            raise AssertionError("what was taken is not what was put")
    values, target = kept[operation]
    if kind == "copy":
        return [copy(values[0], target) for _ in range(count)]
    return [one_time(way, values) for _ in range(count)]


def main() -> None:
    """Answer one line at a time until standard input ends."""
    name, place = sys.argv[1:]
    way = WAYS[name](place)
    print("ready", flush=True)
    kept: dict[str, Any] = {}
    for line in sys.stdin:
        operation, count = line.split()
        try:
            print(json.dumps(run(way, operation, int(count), kept)), flush=True)
        except Exception as error:
            print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
