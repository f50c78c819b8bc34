"""Time typical calls: large values, new keys, pipelines, collections, awaited calls.

The arguments are the subject and client (see ``CLIENTS``), and a store, a unix socket or a
directory. The answer to a line ``OPERATION COUNT`` is the number of nanoseconds per operation, or
``error`` and the reason.
"""

import asyncio
import itertools
import marshal
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from loop import VALUE, keys, over
from many import connected, fill_hash, fill_set, fill_sorted, walked

Operation = Callable[[int], float]
# The sizes of the large values in bytes.
SIZES = (100 << 10, 1 << 20, 16 << 20, 64 << 20)
# The number of items in each collection, a pattern that matches 1 % of the keys, the number of
# matches, and the number of keys per SCAN step.
ITEMS = 100_000
PATTERN, MATCHING, PAGE = "key:*99", 1_000, 100
# The number of key names that are created together, outside the measured time.
STEP = 100_000
# The number of commands in a pipeline.
PIPELINE = 10


def contents(size: int) -> bytes:
    """Return a large value of ``size`` bytes, made by repeating a random block of 64 KiB."""
    block = random.Random(size).randbytes(1 << 16)
    return (block * (size // len(block) + 1))[:size]


def calls(call: Callable[[], object], expected: object) -> Operation:
    """Return a timed loop over a call; the last result is checked outside the measured time."""

    def run(count: int) -> float:
        found = call()
        start = time.perf_counter_ns()
        for _ in range(count):
            found = call()
        taken = (time.perf_counter_ns() - start) / count
        if found != expected:
            raise AssertionError("a wrong reply")
        return taken

    return run


def large(path: str) -> dict[str, Operation]:
    """Return timed reads of large values, and timed copies of buffers of the same size."""
    client = connected("embedded", path)
    operations = {}
    for size in SIZES:
        value = contents(size)
        client.set(f"large:{size}", value)
        operations[f"get-{size}"] = calls(partial(client.get, f"large:{size}"), value)
        buffer = memoryview(bytearray(value))
        operations[f"copy-{size}"] = calls(partial(bytes, buffer), value)
    return operations


def large_lmdb(path: str) -> dict[str, Operation]:
    """Return timed reads of large values from py-lmdb, with one transaction each."""
    import lmdb

    environment = lmdb.open(path, map_size=1 << 30, writemap=True, sync=False, metasync=False)

    def get(key: bytes) -> Any:
        with environment.begin() as transaction:
            return transaction.get(key)

    operations = {}
    for size in SIZES:
        value, key = contents(size), b"large:%d" % size
        with environment.begin(write=True) as transaction:
            transaction.put(key, value)
        operations[f"get-{size}"] = calls(partial(get, key), value)
    return operations


def insertion(path: str) -> dict[str, Operation]:
    """Return loops that fill a new store, and that overwrite its keys in another order."""
    client: Any = None
    stores = 0

    def stepwise(order: Iterator[int], value: bytes) -> float:
        put, taken, made = client.set, 0, 0
        while some := [b"key:%012d" % number for number in itertools.islice(order, STEP)]:
            start = time.perf_counter_ns()
            for key in some:
                put(key, value)
            taken += time.perf_counter_ns() - start
            made += len(some)
        if client.dbsize() != made or client.get(b"key:%012d" % (made - 1)) != value:
            raise AssertionError("a SET was lost")
        return taken / made

    def insert(count: int) -> float:
        nonlocal client, stores
        if client is not None:
            client.close()
            Path(f"{path}{stores}").unlink()
        stores += 1
        client = connected("embedded", f"{path}{stores}")
        return stepwise(iter(range(count)), VALUE)

    def overwrite(count: int) -> float:
        # Visit every number once, with large distances between successive numbers.
        return stepwise((at * 611_953 % count for at in range(count)), b"w" * len(VALUE))

    return {"insert": insert, "overwrite": overwrite}


def pipelines(kind: str) -> Callable[[str], dict[str, Operation]]:
    """Return a function that creates loops over pipelines and transactions of ten commands."""

    def made(path: str) -> dict[str, Operation]:
        client = connected(kind, path)
        chosen = keys()[:PIPELINE]
        for key in chosen:
            client.set(key, VALUE)

        def gets() -> Any:
            pipe = client.pipeline(transaction=False)
            for key in chosen:
                pipe.get(key)
            return pipe.execute()

        def sets() -> Any:
            pipe = client.pipeline(transaction=True)
            for key in chosen:
                pipe.set(key, VALUE)
            return pipe.execute()

        def singly() -> Any:
            return [client.get(key) for key in chosen]

        return {
            "gets": calls(gets, [VALUE] * PIPELINE),
            "sets": calls(sets, [True] * PIPELINE),
            "single-gets": calls(singly, [VALUE] * PIPELINE),
        }

    return made


def collections(kind: str) -> Callable[[str], dict[str, Operation]]:
    """Return a function that creates loops over reads of entire collections and of all keys."""

    def made(path: str) -> dict[str, Operation]:
        client = connected(kind, path)
        for at in range(0, ITEMS, 1000):
            client.mset(dict.fromkeys((b"key:%012d" % n for n in range(at, at + 1000)), VALUE))
        fill_hash(client, "hash", ITEMS)
        fill_set(client, "set", ITEMS)
        fill_sorted(client, "zset", ITEMS)
        # `marshal.loads` is the lower bound: it creates the same objects and does no other work.
        own = {
            "hgetall": marshal.dumps(client.hgetall("hash")),
            "smembers": marshal.dumps(client.smembers("set")),
            "zrange": marshal.dumps(client.zrange("zset", 0, -1, withscores=True)),
        }
        return {
            **{
                f"own-{name}": calls(lambda text=text: len(marshal.loads(text)), ITEMS)
                for name, text in own.items()
            },
            "hgetall": calls(lambda: len(client.hgetall("hash")), ITEMS),
            "smembers": calls(lambda: len(client.smembers("set")), ITEMS),
            "zrange": calls(lambda: len(client.zrange("zset", 0, -1, withscores=True)), ITEMS),
            "keys": calls(lambda: len(client.keys(PATTERN)), MATCHING),
            "scan": calls(lambda: walked(client.scan_iter(PATTERN, count=PAGE)), MATCHING),
        }

    return made


def awaiting(path: str) -> dict[str, Operation]:
    """Return timed reads that are awaited one by one, and the same calls without asyncio."""
    import undercroft.asyncio

    client = connected("embedded", path)
    chosen = keys()
    client.mset(dict.fromkeys(chosen, VALUE))
    runner = asyncio.Runner()

    async def opened() -> Any:
        return undercroft.asyncio.Redis(path)

    later = runner.run(opened())

    async def gets(count: int) -> float:
        get, found = later.get, None
        start = time.perf_counter_ns()
        for key in chosen[:count]:
            found = await get(key)
        taken = (time.perf_counter_ns() - start) / count
        if found != VALUE:
            raise AssertionError("a wrong reply")
        return taken

    return {
        "await": lambda count: runner.run(gets(count)),
        "call": lambda count: over(client.get, chosen[:count]),
    }


CLIENTS: dict[str, Callable[[str], dict[str, Operation]]] = {
    "large": large,
    "large-lmdb": large_lmdb,
    "insertion": insertion,
    "pipelines": pipelines("embedded"),
    "pipelines-redis": pipelines("redis"),
    "collections": collections("embedded"),
    "collections-redis": collections("redis"),
    "awaiting": awaiting,
}


def main() -> None:
    """Answer one line at a time until standard input ends."""
    operations = CLIENTS[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        operation, count = line.split()
        try:
            print(operations[operation](int(count)), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split())[:200], flush=True)


if __name__ == "__main__":
    main()
