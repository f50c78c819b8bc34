"""One side of a comparison: a process that runs timed loops on request.

The process has one client, which the first argument names. It answers each line ``OPERATION COUNT``
of standard input with the number of nanoseconds per operation, including the loop itself, so that
the caller can alternate between several processes. The module imports only the client under test,
because some environments contain no other packages.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

KEYS = 100_000
VALUE = b"v" * 64
LIST = b"list"
Operation = Callable[[int], float]


def keys() -> list[bytes]:
    """Return new key objects of 16 bytes in order; their hashes are not computed yet."""
    return [b"key:%012d" % index for index in range(KEYS)]


def random_keys() -> list[bytes]:
    """Return new key objects in a random order that is the same in every process.

    The objects are in memory in that order, like keys that a program has just created or received.
    Loops over these keys measure the lookup, not the distance between the key objects.
    """
    order = keys()
    random.Random(1).shuffle(order)
    return [bytes(bytearray(key)) for key in order]


def over(operation: Callable[[bytes], object], chosen: list[bytes]) -> float:
    """Return the nanoseconds per call of an operation over these keys."""
    start = time.perf_counter_ns()
    for key in chosen:
        operation(key)
    return (time.perf_counter_ns() - start) / len(chosen)


def parts(order: list[bytes]) -> Callable[[int], list[bytes]]:
    """Return a function that returns the next keys of ``order``, and restarts at its end."""
    position = 0

    def take(count: int) -> list[bytes]:
        nonlocal position
        if position + count > len(order):
            position = 0
        chosen = order[position : position + count]
        position += count
        return chosen

    return take


def values() -> Iterator[bytes]:
    """Yield an endless sequence of 64-byte values, each different from the previous value."""
    while True:
        for letter in b"abcdefghijklmnopqrstuvwxyz":
            yield bytes([letter]) * 64


def empty(chosen: list[bytes]) -> float:
    """Return the nanoseconds per key of a loop that does nothing."""
    start = time.perf_counter_ns()
    for _key in chosen:
        pass
    return (time.perf_counter_ns() - start) / len(chosen)


def embedded(path: str) -> dict[str, Operation]:
    """Return the loops over a store in this process, and over a dict of the same data."""
    import undercroft

    store = undercroft.Redis(path, maxmemory=0)
    stored = keys()
    plain = dict.fromkeys(stored)
    for key in stored:
        store.set(key, VALUE)
        # Give each key a separate value object, as in a program that reads its data from a file.
        plain[key] = b"%b" % bytearray(VALUE)
    get, put, look = store.get, store.set, plain.get
    if any(get(key) != look(key) for key in random_keys()):
        raise AssertionError("store and dict differ")
    take, take_random, value = parts(keys()), parts(random_keys()), values()

    def overwrite(chosen: list[bytes]) -> float:
        new = next(value)
        start = time.perf_counter_ns()
        for key in chosen:
            put(key, new)
        taken = time.perf_counter_ns() - start
        if get(chosen[-1]) != new:
            raise AssertionError("a SET was lost")
        return taken / len(chosen)

    return {
        "get": lambda count: over(get, take(count)),
        "get-random": lambda count: over(get, take_random(count)),
        "dict": lambda count: over(look, take(count)),
        "dict-random": lambda count: over(look, take_random(count)),
        "loop": lambda count: empty(take(count)),
        "set": lambda count: overwrite(take(count)),
        "set-random": lambda count: overwrite(take_random(count)),
        "mget100": lambda count: many(store.mget, take(count)),
    }


def many(mget: Callable[[list[bytes]], list[object]], chosen: list[bytes]) -> float:
    """Return the nanoseconds per key of MGET calls with 100 keys each."""
    groups = [chosen[at : at + 100] for at in range(0, len(chosen), 100)]
    start = time.perf_counter_ns()
    for group in groups:
        mget(group)
    return (time.perf_counter_ns() - start) / len(chosen)


def over_socket(path: str) -> dict[str, Operation]:
    """Return the loops over redis-py, in the version that this environment has."""
    import redis
    import redis.utils

    client = redis.Redis(unix_socket_path=path)
    client.ping()
    parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "its own parser"
    print(f"redis-py {redis.__version__} with {parser}", flush=True)
    take, value = parts(keys()), values()
    if client.get(take(1)[0]) is None:
        raise AssertionError("the server was not filled")

    def overwrite(count: int) -> float:
        new = next(value)
        return over(lambda key: client.set(key, new), take(count))

    return {
        "get": lambda count: over(client.get, take(count)),
        "set": overwrite,
        "mget100": lambda count: many(client.mget, take(count)),
    }


def lmdb_puts(path: str) -> dict[str, Operation]:
    """Return the loops over py-lmdb, with one transaction for each put and without syncing."""
    import lmdb

    environment = lmdb.open(
        path, map_size=1 << 30, writemap=True, sync=False, metasync=False, map_async=True
    )
    with environment.begin(write=True) as transaction:
        for key in keys():
            transaction.put(key, VALUE)
    take, take_random, value = parts(keys()), parts(random_keys()), values()
    begin = environment.begin

    def overwrite(chosen: list[bytes]) -> float:
        new = next(value)
        start = time.perf_counter_ns()
        for key in chosen:
            with begin(write=True) as transaction:
                transaction.put(key, new)
        taken = time.perf_counter_ns() - start
        with begin() as transaction:
            if transaction.get(chosen[-1]) != new:
                raise AssertionError("a put was lost")
        return taken / len(chosen)

    return {
        "put": lambda count: overwrite(take(count)),
        "put-random": lambda count: overwrite(take_random(count)),
    }


def embedded_types(path: str) -> dict[str, Operation]:
    """Return the loops over a long list in an embedded store."""
    import undercroft

    client = undercroft.Redis(path, maxmemory=0)

    def fill(count: int) -> float:
        numbers = range(count)
        for start in range(0, count, 100):
            some = numbers[start : start + 100]
            client.rpush(LIST, *[b"%011dz" % (at * 7_919 % 99_999_999_977) for at in some])
        return 0.0

    return {"fill": fill} | list_operations(client)


def socket_types(path: str) -> dict[str, Operation]:
    """Return the loops over a long list on a Redis server, called through redis-py."""
    import redis
    import redis.utils

    client = redis.Redis(unix_socket_path=path)
    client.ping()
    parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "its own parser"
    print(f"redis-py {redis.__version__} with {parser}", flush=True)
    return list_operations(client)


def repeated(call: Callable[..., object], *arguments: object) -> Operation:
    """Return a timed loop over one call."""

    def run(count: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(count):
            call(*arguments)
        return (time.perf_counter_ns() - start) / count

    return run


def list_operations(client: Any) -> dict[str, Operation]:
    """Return the loops over a long list; no loop changes the length of the list."""
    item = b"twelve bytes"

    def pushed(push: Operation, pop: Operation, first: bool) -> Operation:
        """Return a loop of as many pushes as pops that reports the time of either kind."""

        def run(count: int) -> float:
            pushing, popping = push(count), pop(count)
            return pushing if first else popping

        return run

    def middle() -> int:
        return int(client.llen(LIST)) // 2

    def range_of_100(place: str) -> Operation:
        def run(count: int) -> float:
            start = {"head": 0, "middle": middle(), "tail": -100}[place]
            stop = -1 if start < 0 else start + 99
            if len(client.lrange(LIST, start, stop)) != 100:
                raise AssertionError("a range is not whole")
            return repeated(client.lrange, LIST, start, stop)(count)

        return run

    def with_pivot(change: Callable[[int, bytes], float]) -> Operation:
        """Return a loop that makes its changes next to a unique item in the middle of the list."""

        def run(count: int) -> float:
            at, pivot = middle(), b"pivot of all"
            old = client.lindex(LIST, at)
            client.lset(LIST, at, pivot)
            taken = change(count, pivot)
            client.lset(LIST, middle(), old)
            return taken

        return run

    def inserts(count: int, pivot: bytes) -> float:
        taken = repeated(client.linsert, LIST, "AFTER", pivot, item)(count)
        if client.lrem(LIST, 0, item) != count:
            raise AssertionError("an item was lost")
        return taken

    def removals(count: int, pivot: bytes) -> float:
        taken = 0
        for _ in range(count):
            client.linsert(LIST, "AFTER", pivot, item)
            start = time.perf_counter_ns()
            removed = client.lrem(LIST, 1, item)
            taken += time.perf_counter_ns() - start
            if removed != 1:
                raise AssertionError("an item was not found")
        return taken / count

    ends = {
        "l": (repeated(client.lpush, LIST, item), repeated(client.lpop, LIST)),
        "r": (repeated(client.rpush, LIST, item), repeated(client.rpop, LIST)),
    }
    operations = {f"lrange-{place}": range_of_100(place) for place in ("head", "middle", "tail")}
    for side, (push, pop) in ends.items():
        operations[f"{side}push"] = pushed(push, pop, first=True)
        operations[f"{side}pop"] = pushed(push, pop, first=False)
    operations["lset"] = lambda count: repeated(client.lset, LIST, middle(), b"another text")(count)
    operations["linsert"] = with_pivot(inserts)
    operations["lrem"] = with_pivot(removals)
    return operations


CLIENTS = {
    "embedded": embedded,
    "redis": over_socket,
    "lmdb": lmdb_puts,
    "embedded-types": embedded_types,
    "redis-types": socket_types,
}


def main() -> None:
    """Answer one line at a time until standard input ends."""
    operations = CLIENTS[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        operation, count = line.split()
        print(operations[operation](int(count)), flush=True)


if __name__ == "__main__":
    main()
