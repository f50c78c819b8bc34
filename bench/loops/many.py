"""Time, per item, one command with many items, or one that derives a value from another.

The arguments are the client (``embedded``, ``redis``, or ``python`` for Python's own objects) and a
store or a unix socket. A line ``prepare:OPERATION COUNT`` empties the database, adds the data that
the operation needs and creates its arguments. ``OPERATION COUNT`` then makes the one call, checks
its result, and answers with its nanoseconds divided by the number of items. ``names 0`` lists all
operations, ``names 1`` the operations that were once found slow, and ``names 2`` the operations on
Python's own objects.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# The number of items per command while a value is prepared.
STEP = 200
# The number of bytes of a scanned string that count as one item.
WORD = 64
# The number of items per step of SCAN, HSCAN, SSCAN and ZSCAN.
PAGE = 1000
Call = Callable[[], object]
# An operation prepares a database with a number of items. It returns the call to time and the
# expected result, where None accepts any result.
Operation = Callable[[Any, int], tuple[Call, object]]


def names(kind: str, count: int, start: int = 0) -> list[bytes]:
    """Return ordered names: ``kind``, a colon and 12 digits."""
    return [b"%b:%012d" % (kind.encode(), number) for number in range(start, start + count)]


def mixed(count: int, start: int = 0) -> list[bytes]:
    """Return distinct member names in an unordered sequence, like those in most data."""
    return [b"m:%012d" % (start + number * 7_919 % count) for number in range(count)]


def fields(count: int, start: int = 0) -> dict[bytes, bytes]:
    """Return the fields and values of a hash."""
    return {name: b"v:" + name for name in mixed(count, start)}


def scores(count: int, start: int = 0) -> dict[bytes, float]:
    """Return members and scores whose orders are unrelated."""
    return {name: float(at) for at, name in enumerate(mixed(count, start))}


def chunks(items: Any) -> Iterator[list[Any]]:
    """Split the items of a value into the arguments of several commands."""
    rest = iter(items)
    while some := list(itertools.islice(rest, STEP)):
        yield some


def fill_hash(client: Any, name: str, count: int) -> None:
    """Create a hash of ``count`` fields."""
    for some in chunks(fields(count).items()):
        client.hset(name, mapping=dict(some))


def fill_set(client: Any, name: str, count: int, start: int = 0) -> None:
    """Create a set of ``count`` members."""
    for some in chunks(mixed(count, start)):
        client.sadd(name, *some)


def fill_sorted(client: Any, name: str, count: int, start: int = 0) -> None:
    """Create a sorted set of ``count`` members."""
    for some in chunks(scores(count, start).items()):
        client.zadd(name, dict(some))


def fill_list(client: Any, name: str, count: int) -> None:
    """Create a list of ``count`` items."""
    for some in chunks(mixed(count)):
        client.rpush(name, *some)


def fill_strings(client: Any, count: int) -> list[bytes]:
    """Create ``count`` strings and return their keys in another order."""
    keys = names("key", count)
    for some in chunks(keys):
        client.mset(dict.fromkeys(some, b"v" * 16))
    return [keys[number * 7_919 % count] for number in range(count)]


FILLS: dict[str, Callable[[Any, str, int], None]] = {
    "hash": fill_hash,
    "set": fill_set,
    "zset": fill_sorted,
    "list": fill_list,
}


def first_fill(method: str, make: Callable[[int], Any], spread: bool = True) -> Operation:
    """Return an operation that creates a value with one command."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        items, call = make(count), getattr(client, method)
        if spread:
            return lambda: call("made", *items), count
        return lambda: call("made", items), count

    return prepare


def of_value(kind: str, make: Callable[[Any, int], Call], gives: object = ...) -> Operation:
    """Return an operation on an existing value; ``...`` expects one result for each item."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        FILLS[kind](client, "value", count)
        return make(client, count), count if gives is ... else gives

    return prepare


def of_members(
    kind: str, make: Callable[[Any, list[bytes]], Call], gives: object = ...
) -> Operation:
    """Return an operation on all members of a value, in order from the last to the first."""
    return of_value(kind, lambda client, count: make(client, mixed(count)[::-1]), gives)


def of_two(
    kind: str, make: Callable[[Any], Callable[[], object]], share: Callable[[int], int]
) -> Operation:
    """Return an operation on two values that share half of their members."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        fill = fill_set if kind == "set" else fill_sorted
        fill(client, "one", count)
        fill(client, "two", count, count // 2)
        return make(client), share(count)

    return prepare


def of_strings(make: Callable[[Any, list[bytes]], Call], gives: object = ...) -> Operation:
    """Return an operation on many existing keys."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        keys = fill_strings(client, count)
        return make(client, keys), count if gives is ... else gives

    return prepare


def together(transaction: bool, add: Callable[[Any, int, bytes], object]) -> Operation:
    """Return an operation that fills and runs a pipeline of commands."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        keys = names("key", count)

        def call() -> int:
            pipe = client.pipeline(transaction=transaction)
            for number, key in enumerate(keys):
                add(pipe, number, key)
            return len(pipe.execute())

        return call, count

    return prepare


def restored(kind: str) -> Operation:
    """Return an operation that restores a dumped value."""

    def make(client: Any, _: int) -> Call:
        dumped = client.dump("value")
        return lambda: client.restore("made", 0, dumped)

    return of_value(kind, make, None)


def bits(make: Callable[[Any], Call], gives: object) -> Operation:
    """Return an operation that scans a string of zeros, with 64 bytes per item."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        client.set("value", bytes(WORD * count))
        return make(client), gives

    return prepare


def walked(steps: Iterable[object]) -> int:
    """Return the number of items that a walk by SCAN yields."""
    return sum(1 for _ in steps)


def union(count: int) -> int:
    """Return the number of members in the union of the two values of ``of_two``."""
    return count + count // 2


def common(count: int) -> int:
    """Return the number of members that the two values of ``of_two`` share."""
    return count - count // 2


def alone(count: int) -> int:
    """Return the number of members that only the first value of ``of_two`` has."""
    return count // 2


def msetnx(client: Any, count: int) -> tuple[Call, object]:
    """Prepare MSETNX of ``count`` keys, none of which exists."""
    values = dict.fromkeys(names("key", count), b"v" * 16)
    return lambda: client.msetnx(values), True


def mset(client: Any, count: int) -> tuple[Call, object]:
    """Prepare MSET of ``count`` new keys."""
    values = dict.fromkeys(names("key", count), b"v" * 16)
    return lambda: client.mset(values), True


def hset(make: Callable[[int], dict[Any, Any]]) -> Operation:
    """Return an operation that creates a hash with one HSET."""

    def prepare(client: Any, count: int) -> tuple[Call, object]:
        mapping = make(count)
        return lambda: client.hset("made", mapping=mapping), count

    return prepare


def geoadd(client: Any, count: int) -> tuple[Call, object]:
    """Prepare GEOADD of ``count`` places."""
    places: list[object] = []
    for number, name in enumerate(mixed(count)):
        places += [number * 7_919 % 36_000 / 100 - 180, number % 17_000 / 100 - 85, name]
    return lambda: client.geoadd("made", places), count


def pfadd(client: Any, count: int) -> tuple[Call, object]:
    """Prepare PFADD of ``count`` members."""
    members = mixed(count)
    return lambda: client.pfadd("made", *members), 1


TWO = ["one", "two"]

# Operations that were once slower per item with more items, or slower than redis-py.
MADE: dict[str, Operation] = {
    "hset": hset(fields),
    "restore-hash": restored("hash"),
    "multi-set": together(True, lambda pipe, _, key: pipe.set(key, b"v" * 16)),
    "multi-zadd": together(True, lambda pipe, at, key: pipe.zadd("made", {key: at})),
    "pipeline-set": together(False, lambda pipe, _, key: pipe.set(key, b"v" * 16)),
    "multi-hset": together(True, lambda pipe, _, key: pipe.hset("made", key, b"v" * 16)),
    "sunionstore": of_two("set", lambda c: lambda: c.sunionstore("made", TWO), union),
    "msetnx": msetnx,
    "zunionstore": of_two("zset", lambda c: lambda: c.zunionstore("made", TWO), union),
    "zadd-one-score": first_fill("zadd", lambda n: dict.fromkeys(mixed(n), 1.0), spread=False),
    "sadd-falling": first_fill("sadd", lambda n: range(n, 0, -1)),
    "zadd": first_fill("zadd", scores, spread=False),
    "geoadd": geoadd,
    "mset": mset,
    "zinterstore": of_two("zset", lambda c: lambda: c.zinterstore("made", TWO), common),
    "sadd-integers": first_fill("sadd", lambda n: [at * 7_919 % n for at in range(n)]),
    "zdiffstore": of_two("zset", lambda c: lambda: c.zdiffstore("made", TWO), alone),
    "zrem": of_members("zset", lambda c, m: lambda: c.zrem("value", *m)),
    "del": of_strings(lambda c, keys: lambda: c.delete(*keys)),
    "sinterstore": of_two("set", lambda c: lambda: c.sinterstore("made", TWO), common),
    "zrangestore": of_value("zset", lambda c, _: lambda: c.zrangestore("made", "value", 0, -1)),
    "sdiffstore": of_two("set", lambda c: lambda: c.sdiffstore("made", TWO), alone),
    "sadd": first_fill("sadd", mixed),
    "zpopmin": of_value("zset", lambda c, n: lambda: len(c.zpopmin("value", n))),
    "copy-hash": of_value("hash", lambda c, _: lambda: c.copy("value", "made"), True),
    "hdel": of_members("hash", lambda c, m: lambda: c.hdel("value", *m)),
    "srem": of_members("set", lambda c, m: lambda: c.srem("value", *m)),
    "sort-store": of_value("list", lambda c, _: lambda: c.sort("value", alpha=True, store="made")),
    "zremrangebyscore": of_value("zset", lambda c, n: lambda: c.zremrangebyscore("value", 0, n)),
    "dump-list": of_value("list", lambda c, _: lambda: c.dump("value"), None),
    "restore-list": restored("list"),
    "keys": of_strings(lambda c, _: lambda: len(c.keys())),
    "bitop": of_strings(lambda c, keys: lambda: c.bitop("OR", "made", *keys), 16),
    "copy-list": of_value("list", lambda c, _: lambda: c.copy("value", "made"), True),
    "bitpos": bits(lambda c: lambda: c.bitpos("value", 1), -1),
}

# More operations that create, read, change and remove values of the same types.
OTHERS: dict[str, Operation] = {
    "multi-get": together(True, lambda pipe, _, key: pipe.get(key)),
    "multi-sadd": together(True, lambda pipe, _, key: pipe.sadd("made", key)),
    "multi-rpush": together(True, lambda pipe, _, key: pipe.rpush("made", key)),
    "multi-incr": together(True, lambda pipe, _, __: pipe.incr("made")),
    "pipeline-get": together(False, lambda pipe, _, key: pipe.get(key)),
    "pipeline-hset": together(False, lambda pipe, _, key: pipe.hset("made", key, b"v" * 16)),
    "pipeline-zadd": together(False, lambda pipe, at, key: pipe.zadd("made", {key: at})),
    "pipeline-sadd": together(False, lambda pipe, _, key: pipe.sadd("made", key)),
    "pipeline-rpush": together(False, lambda pipe, _, key: pipe.rpush("made", key)),
    "multi-hget": together(True, lambda pipe, _, key: pipe.hget("made", key)),
    "multi-lpush": together(True, lambda pipe, _, key: pipe.lpush("made", key)),
    "pipeline-incr": together(False, lambda pipe, _, key: pipe.incr(key)),
    "pipeline-set-ex": together(False, lambda pipe, _, key: pipe.set(key, b"v" * 16, ex=1000)),
    "pipeline-lpush": together(False, lambda pipe, _, key: pipe.lpush("made", key)),
    "rpush": first_fill("rpush", mixed),
    "lpush": first_fill("lpush", mixed),
    "rpush-integers": first_fill("rpush", lambda n: [at * 7_919 % n for at in range(n)]),
    "hset-integers": hset(lambda n: {at * 7_919 % n: at for at in range(n)}),
    "pfadd": pfadd,
    "hmget": of_members("hash", lambda c, m: lambda: len(c.hmget("value", m))),
    "hgetall": of_value("hash", lambda c, _: lambda: len(c.hgetall("value"))),
    "hkeys": of_value("hash", lambda c, _: lambda: len(c.hkeys("value"))),
    "hvals": of_value("hash", lambda c, _: lambda: len(c.hvals("value"))),
    "hrandfield": of_value("hash", lambda c, n: lambda: len(c.hrandfield("value", n))),
    "hscan": of_value("hash", lambda c, _: lambda: walked(c.hscan_iter("value", count=PAGE))),
    "smembers": of_value("set", lambda c, _: lambda: len(c.smembers("value"))),
    "smismember": of_members("set", lambda c, m: lambda: sum(c.smismember("value", m))),
    "srandmember": of_value("set", lambda c, n: lambda: len(c.srandmember("value", n))),
    "spop": of_value("set", lambda c, n: lambda: len(c.spop("value", n))),
    "sscan": of_value("set", lambda c, _: lambda: walked(c.sscan_iter("value", count=PAGE))),
    "sunion": of_two("set", lambda c: lambda: len(c.sunion(TWO)), union),
    "sinter": of_two("set", lambda c: lambda: len(c.sinter(TWO)), common),
    "sdiff": of_two("set", lambda c: lambda: len(c.sdiff(TWO)), alone),
    "sintercard": of_two("set", lambda c: lambda: c.sintercard(2, TWO), common),
    "zrange": of_value("zset", lambda c, _: lambda: len(c.zrange("value", 0, -1))),
    "zrange-scores": of_value(
        "zset", lambda c, _: lambda: len(c.zrange("value", 0, -1, withscores=True))
    ),
    "zrevrange": of_value("zset", lambda c, _: lambda: len(c.zrevrange("value", 0, -1))),
    "zrangebyscore": of_value("zset", lambda c, n: lambda: len(c.zrangebyscore("value", 0, n))),
    "zrevrangebyscore": of_value(
        "zset", lambda c, n: lambda: len(c.zrevrangebyscore("value", n, 0))
    ),
    "zrandmember": of_value("zset", lambda c, n: lambda: len(c.zrandmember("value", n))),
    "zscan": of_value("zset", lambda c, _: lambda: walked(c.zscan_iter("value", count=PAGE))),
    "zmscore": of_members("zset", lambda c, m: lambda: len(c.zmscore("value", m))),
    "zpopmax": of_value("zset", lambda c, n: lambda: len(c.zpopmax("value", n))),
    "zremrangebyrank": of_value("zset", lambda c, _: lambda: c.zremrangebyrank("value", 0, -1)),
    "zunion": of_two("zset", lambda c: lambda: len(c.zunion(TWO)), union),
    "zinter": of_two("zset", lambda c: lambda: len(c.zinter(TWO)), common),
    "zdiff": of_two("zset", lambda c: lambda: len(c.zdiff(TWO)), alone),
    "zintercard": of_two("zset", lambda c: lambda: c.zintercard(2, TWO), common),
    "lrange": of_value("list", lambda c, _: lambda: len(c.lrange("value", 0, -1))),
    "lpop": of_value("list", lambda c, n: lambda: len(c.lpop("value", n))),
    "rpop": of_value("list", lambda c, n: lambda: len(c.rpop("value", n))),
    "ltrim": of_value("list", lambda c, _: lambda: c.ltrim("value", 1, 0), True),
    "lrem": of_members("list", lambda c, m: lambda: c.lrem("value", 0, m[0]), 1),
    "lpos": of_members("list", lambda c, m: lambda: c.lpos("value", m[0]) + 1),
    "linsert": of_members("list", lambda c, m: lambda: c.linsert("value", "AFTER", m[0], m[0]) - 1),
    "sort": of_value("list", lambda c, _: lambda: len(c.sort("value", alpha=True))),
    "mget": of_strings(lambda c, keys: lambda: len(c.mget(keys))),
    "touch": of_strings(lambda c, keys: lambda: c.touch(*keys)),
    "exists": of_strings(lambda c, keys: lambda: c.exists(*keys)),
    "unlink": of_strings(lambda c, keys: lambda: c.unlink(*keys)),
    "scan": of_strings(lambda c, _: lambda: walked(c.scan_iter(count=PAGE))),
    "flushall": of_strings(lambda c, _: lambda: c.flushall(), True),
    "bitcount": bits(lambda c: lambda: c.bitcount("value"), 0),
    "del-hash": of_value("hash", lambda c, _: lambda: c.delete("value"), 1),
    "del-zset": of_value("zset", lambda c, _: lambda: c.delete("value"), 1),
    "copy-set": of_value("set", lambda c, _: lambda: c.copy("value", "made"), True),
    "copy-zset": of_value("zset", lambda c, _: lambda: c.copy("value", "made"), True),
    "dump-hash": of_value("hash", lambda c, _: lambda: c.dump("value"), None),
    "dump-set": of_value("set", lambda c, _: lambda: c.dump("value"), None),
    "dump-zset": of_value("zset", lambda c, _: lambda: c.dump("value"), None),
    "restore-set": restored("set"),
    "restore-zset": restored("zset"),
}
# Operations on Python's own objects with the same number of items: their slowdown is due to the
# machine's memory.
BASELINES: dict[str, Operation] = {
    "dict.get": lambda _, n: (lambda d, keys: (lambda: len([d.get(key) for key in keys]), n))(
        fields(n), mixed(n)
    ),
    "dict": lambda _, n: (lambda d: (lambda: len(dict(d)), n))(fields(n)),
    "set": lambda _, n: (lambda keys: (lambda: len(set(keys)), n))(mixed(n)),
}
OPERATIONS = MADE | OTHERS


class Nobody:
    """A stand-in for a client when only Python's own objects are measured."""

    def flushall(self) -> None:
        """Do nothing, because there is no database to empty."""


def connected(kind: str, path: str) -> Any:
    """Return a client of an embedded store or of a server, or the stand-in for Python's objects."""
    if kind == "python":
        return Nobody()
    if kind == "embedded":
        import undercroft

        return undercroft.Redis(path, maxmemory=0)
    import redis
    import redis.utils

    parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "its own parser"
    print(f"redis-py {redis.__version__} with {parser}", flush=True)
    return redis.Redis(unix_socket_path=path)


def timed(call: Call, gives: object, count: int) -> float:
    """Make the call once, check its result, and return the nanoseconds per item."""
    start = time.perf_counter_ns()
    found = call()
    taken = time.perf_counter_ns() - start
    if gives is not None and found != gives:
        raise AssertionError(f"expected {gives!r}, got {found!r:.60}")
    return taken / count


def main() -> None:
    """Answer one line at a time until standard input ends."""
    client = connected(sys.argv[1], sys.argv[2])
    print("ready", flush=True)
    prepared: tuple[Call, object] | None = None
    for line in sys.stdin:
        operation, number = line.split()
        count = int(number)
        try:
            if operation == "names":
                print(*(OPERATIONS, MADE, BASELINES)[count], flush=True)
            elif operation.startswith("prepare:"):
                prepared = None
                client.flushall()
                name = operation.removeprefix("prepare:")
                prepared = (OPERATIONS | BASELINES)[name](client, count)
                print(0, flush=True)
            elif prepared is not None:
                print(timed(*prepared, count), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split())[:200], flush=True)


if __name__ == "__main__":
    main()
