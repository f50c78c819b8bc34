"""Tests reads that race with writes: the store changes in the middle of a read.

The reply must equal the reply to an undisturbed call in the second state. The test requires a
native module built with the feature ``races``, as in the test build.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import undercroft
from undercroft._native import Client

pytestmark = pytest.mark.skipif(
    not hasattr(Client, "_interrupt"), reason="the module was built without the feature races"
)

# The number of attempts before a read acquires the lock.
TRIES = 64
# The number of state pairs to try for each call.
PAIRS = 600 if os.environ.get("UNDERCROFT_CRASH") == "full" else 40
Command = tuple[bytes, ...]
Change = list[Command]


def text(tag: str, length: int) -> bytes:
    """Return bytes that identify the value they belong to."""
    return b"".join(b"%s%06d." % (tag.encode(), i) for i in range(length // 8 + 1))[:length]


def items(command: bytes, count: int, item: Callable[[int], tuple[bytes, ...]]) -> Change:
    """Return a change that consists of one command with many items."""
    return [(command, b"@", *itertools.chain.from_iterable(map(item, range(count))))]


def feed(count: int, size: int) -> Change:
    """Return the commands that create a feed whose values and attributes identify it."""
    value = text(f"{count}.", 8 * count + size)
    rows = (
        (value[8 * i :][:size], b"ATTRS", b"%d:%d:1" % (i % 16, count % 8)) for i in range(count)
    )
    return [
        (b"FEED.CREATE", b"@", b"SIZE", b"%d" % size, b"ATTRS", b"4:3:1"),
        (b"FEED.ADD", b"@", b"0", *itertools.chain.from_iterable(rows)),
    ]


STATES: dict[str, Change] = {
    "absent": [],
    "empty string": [(b"SET", b"@", b"")],
    "integer": [(b"SET", b"@", b"12345")],
    **{
        f"string of {n}": [(b"SET", b"@", text("s", n))]
        for n in (3, 256, 257, 5000, 20_000, 100_000)
    },
    "hash of 3": items(b"HSET", 3, lambda i: (b"m%d" % i, b"%d" % i)),
    "hash of 200": items(b"HSET", 200, lambda i: (b"m%d" % i, text("h", 40))),
    "hash of large values": items(b"HSET", 64, lambda i: (b"m%d" % i, text("l", 5000))),
    "list of 3": items(b"RPUSH", 3, lambda i: (b"%d" % i,)),
    "list of 1,000": items(b"RPUSH", 1000, lambda i: (text("i", i % 30),)),
    "set of integers": items(b"SADD", 50, lambda i: (b"%d" % i,)),
    "set of 300": items(b"SADD", 300, lambda i: (b"m%d" % i,)),
    "sorted set of 3": items(b"ZADD", 3, lambda i: (b"%d" % i, b"m%d" % i)),
    "sorted set of 300": items(b"ZADD", 300, lambda i: (b"%d" % i, b"m%d" % i)),
    "feed of 3": feed(3, 12),
    "feed of 290": feed(290, 12),
    "feed of 280 shorter": feed(280, 5),
}
# The handle that changes the store uses a clock that shows one second after the start of 1970.
EXPIRED = "string of 3", "string of 20000", "hash of 200", "list of 1,000", "set of 300"
STATES |= {f"expired {name}": [*STATES[name], (b"PEXPIREAT", b"@", b"2000")] for name in EXPIRED}

Call = Callable[[undercroft.Redis], Any]


def piped(r: undercroft.Redis) -> Any:
    """Run reads in a pipeline."""
    with r.pipeline(transaction=False) as pipe:
        pipe.get("k").hgetall("k").lrange("k", 0, -1).mget("k", "j").smembers("k").exists("k")
        pipe.zrange("k", 0, -1, withscores=True).hmget("k", ["m0", "m63"]).zscore("k", "m1")
        return [shown(reply) for reply in pipe.execute(raise_on_error=False)]


def shown(reply: Any) -> Any:
    """Return a reply in a form that can be compared for equality."""
    return repr(reply) if isinstance(reply, Exception) else reply


CALLS: dict[str, Call] = {
    "get": lambda r: r.get("k"),
    "mget": lambda r: r.mget("k", "j", "k"),
    "mget of a list": lambda r: r.mget(["j", "k"]),
    "exists": lambda r: r.exists("k", "j", "k"),
    "ttl": lambda r: r.ttl("k"),
    "lrange": lambda r: r.lrange("k", 0, -1),
    "lrange of some": lambda r: r.lrange("k", -3, -2),
    "llen": lambda r: r.llen("k"),
    "hget": lambda r: r.hget("k", "m0"),
    "hget of another field": lambda r: r.hget("k", "m50"),
    "sismember": lambda r: r.sismember("k", "m1"),
    "hgetall": lambda r: r.hgetall("k"),
    "hkeys": lambda r: r.hkeys("k"),
    "hvals": lambda r: r.hvals("k"),
    "hmget": lambda r: r.hmget("k", "m0", "none", "m63"),
    "smembers": lambda r: r.smembers("k"),
    "zrange": lambda r: r.zrange("k", 0, -1, withscores=True),
    "zrangebyscore": lambda r: r.zrangebyscore("k", 1, 100),
    "getrange": lambda r: r.getrange("k", 2, 9000),
    "strlen": lambda r: r.strlen("k"),
    "type": lambda r: r.type("k"),
    "sunion": lambda r: r.sunion("k", "j"),
    "dump": lambda r: (
        r.dump("k") if isinstance(r, undercroft.Redis) else r.execute("DUMP", "k", decode=False)
    ),
    "keys": lambda r: sorted(r.keys("[jk]")),
    "scan_iter": lambda r: sorted(r.scan_iter("[jk]")),
    "bitcount": lambda r: r.bitcount("k", 3, 5000),
    "lindex": lambda r: r.lindex("k", 700),
    "lpos": lambda r: r.lpos("k", "2", rank=-1),
    "smismember": lambda r: r.smismember("k", ["m0", "m200"]),
    "zscore": lambda r: r.zscore("k", "m1"),
    "zrange from the end": lambda r: r.zrange("k", 0, 100, desc=True),
    "zrevrangebyscore": lambda r: r.zrevrangebyscore("k", 200, 1, start=1, num=90),
    "pipeline": lambda r: piped(r),
    "feed range": lambda r: r.feed("k").range(1, 200, attributes=True),
    "feed count": lambda r: r.feed("k").count(where="3::"),
    "feed array": lambda r: r.feed("k", 12, (4, 3, 1)).array(1, 200).tolist(),
    "feed array of some": lambda r: (
        r.feed("k", 12, (4, 3, 1)).array(-100, 90, where=":2:", attributes=True).tolist()
    ),
}


def to(k: str, j: str) -> Change:
    """Return the commands that set the two keys to two states."""
    copies = [(b"COPY", name.encode(), key, b"DB", b"0") for name, key in ((k, b"k"), (j, b"j"))]
    marks = [(b"SELECT", b"2"), (b"INCR", b"k"), (b"INCR", b"j")]
    return [(b"SELECT", b"0"), (b"DEL", b"k", b"j"), (b"SELECT", b"1"), *copies, *marks]


def outcome(call: Call, r: undercroft.Redis) -> Any:
    """Return the result of a call, or the exception that it raises."""
    try:
        return shown(call(r))
    except (redis.RedisError, undercroft.StoreError) as error:
        return shown(error)


@pytest.fixture(
    params=[(undercroft.Redis, False), (undercroft.Redis, True), (undercroft.Store, True)],
    ids=["bytes", "text", "store"],
)
def staged(request: pytest.FixtureRequest, path: str) -> Iterator[undercroft.Redis]:
    """Yield a client for a store that contains all states."""
    kind, decode = request.param
    with kind(path, decode_responses=decode) as r:
        for name, commands in STATES.items():
            named = [tuple(name.encode() if word == b"@" else word for word in c) for c in commands]
            assert r._change([(b"SELECT", b"1"), *named]) == []
        yield r


@pytest.mark.parametrize("name", CALLS)
def test_a_discarded_read_attempt_returns_no_data(staged: undercroft.Redis, name: str) -> None:
    call = CALLS[name]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    pairs = list(itertools.product(STATES, STATES))
    for before, after in choice.sample(pairs, PAIRS):
        # The other key initially has one of the two states.
        second = to(after, before)
        staged._change(second)
        fresh = outcome(call, staged)
        many = [to(before, after), second] * (TRIES // 2)
        for tries in ([second], [to(choice.choice(list(STATES)), after), second], many):
            if tries is many and choice.randrange(8):
                continue
            staged._change(to(before, after))
            made = staged._interrupt(tries)
            answer = outcome(call, staged)
            made = staged._interrupt([]) - made
            # Reading too many bytes in failed attempts ends the attempts early (R10). The store
            # then remains in its current state.
            is_cut = tries is many and 0 < made < len(tries)
            assert made == len(tries) or is_cut, (seed, before, after)
            expected = outcome(call, staged) if is_cut else fresh
            assert answer == expected, (seed, before, after, made)
