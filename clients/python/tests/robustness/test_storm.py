"""Readers compete with writers that continuously change the type and size of a few keys.

Every value repeats one eight-byte word, and no two values share a word. Each string therefore
identifies its value, and a collection must contain all of its items or none. Some writers are
killed. ``UNDERCROFT_CRASH=full`` lengthens the test.
"""

import asyncio
import multiprocessing
import os
import random
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from chance import drawn_seed

SERVER = Path(__file__).parents[4] / "target/debug/undercroft"
KEYS = [f"shape:{i}" for i in range(5)]
ITEMS = 64
# The lengths, in words, of strings that are stored in the entry, in blocks, in runs of pages, and
# in a separate arena (memory region).
STRINGS = 1, 24, 31, 32, 33, 40, 490, 640, 2600, 12_600
# Item counts of feeds that fill one leaf or many leaves. Attributes are below 16.
FEEDS = ITEMS, 2400
WRITERS = 2
ROUNDS = 10_000 if os.environ.get("UNDERCROFT_CRASH") == "full" else 600
A_KILL = 150
# The factor for the number of rounds and kills with an embedded client, whose rounds are shorter.
EMBEDDED = 10
# The number of extra reads of a string between other calls, because a single read rarely races with
# a writer.
GETS = 30


def replace(r: undercroft.Redis, key: str, word: bytes, choice: random.Random) -> None:
    """Replace the value of a key atomically."""
    kind = choice.randrange(9)
    if kind < 4:
        r.set(key, word * choice.choice(STRINGS)) if kind else r.delete(key)
        return
    value = word * choice.choice((1, 6, 625))
    members = [b"%s:%03d" % (word, i) for i in range(ITEMS)]
    with r.pipeline() as pipe:
        pipe.delete(key)
        if kind == 4:
            pipe.hset(key, mapping={f"field:{i}": value for i in range(ITEMS)})
        elif kind == 5:
            pipe.rpush(key, *[value] * ITEMS)
        elif kind == 6:
            pipe.sadd(key, *members)
        elif kind == 7:
            pipe.zadd(key, {member: i for i, member in enumerate(members)})
        else:
            feed = pipe.feed(key, 12, (4,))
            feed.create(12, (4,), index=choice.random() < 0.5)
            items = range(choice.choice(FEEDS))
            feed.add_many(
                0, [b"%s:%03d" % (word, i % 1000) for i in items], [(i % 16,) for i in items]
            )
        pipe.execute()


def write(path: str, seed: int) -> None:
    """Replace values until the process is killed."""
    choice = random.Random(seed)
    with undercroft.Redis(path) as r:
        r.lpush(f"started:{seed}", 1)
        number = 0
        while True:
            number += 1
            word = b"%03x%05x" % (seed & 0xFFF, number & 0xFFFFF)
            replace(r, choice.choice(KEYS), word, choice)


@pytest.fixture
def writers(path: str) -> Iterator["Writers"]:
    """Yield a store's writers."""
    some = Writers(path)
    yield some
    some.end()


class Writers:
    """Writer processes, some of which are killed and replaced."""

    def __init__(self, path: str) -> None:
        self.seed = drawn_seed()
        self.choice = random.Random(self.seed)
        self._path = path
        # The number of nonempty results, by call.
        self.seen: Counter[str] = Counter()
        self._processes = [self._start() for _ in range(WRITERS)]

    def _start(self) -> SpawnProcess:
        context = multiprocessing.get_context("spawn")
        seed = self.choice.randrange(1 << 32)
        process = context.Process(target=write, args=(self._path, seed), daemon=True)
        process.start()
        with undercroft.Redis(self._path) as r:
            assert r.blpop(f"started:{seed}", timeout=60)
        return process

    def kill_one(self) -> None:
        """Kill one writer and start another."""
        process = self._processes.pop(0)
        assert process.is_alive()
        process.kill()
        process.join()
        self._processes.append(self._start())

    def check(self, name: str, reply: Any) -> None:
        """Count a nonempty result, and check it."""
        check(name, reply)
        if not isinstance(reply, Exception):
            self.seen[name] += len(reply) if hasattr(reply, "__len__") else bool(reply)

    def end(self) -> None:
        """Kill all writers."""
        for process in self._processes:
            process.kill()
            process.join()


def check_values(values: Collection[bytes], count: int) -> None:
    """Check that values read together are either none or `count` values of one word."""
    assert len(values) in (0, count), len(values)
    words = {value[at : at + 8] for value in values for at in range(0, len(value), 8)}
    assert len(words) == (1 if values else 0), words


def check_members(members: Collection[bytes]) -> None:
    """Check that members read together are either none or all members of one word."""
    words = {member[:8] for member in members}
    expected = {b"%s:%03d" % (word, i) for word in words for i in range(ITEMS)}
    assert len(words) <= 1, words
    assert set(members) == expected, len(members)


def check_fields(fields: Collection[bytes]) -> None:
    """Check that fields read together are either none or all fields."""
    assert not fields or set(fields) == {b"field:%d" % i for i in range(ITEMS)}, len(fields)


def check_feed(name: str, reply: Any) -> None:
    """Check that a feed call's result is either empty or data from one complete feed."""
    if name == "feed_count":
        assert reply in (0, *(items // 16 for items in FEEDS)), reply
        return
    if name == "feed_array":
        reply = [(value, (attribute,)) for value, attribute in reply.tolist()]
    if name != "feed_where":
        assert [attributes for _, attributes in reply] == [(i % 16,) for i in range(len(reply))]
        check_members([value for value, _ in reply])
    else:
        words = {value[:8] for value in reply}
        assert reply == [b"%s:%03d" % (word, i) for word in words for i in range(3, ITEMS, 16)]


def check(name: str, reply: Any) -> None:
    """Check the result of a call."""
    if isinstance(reply, redis.ResponseError):
        assert str(reply).startswith("WRONGTYPE"), reply
    elif name.startswith("feed"):
        check_feed(name, reply)
    elif name == "get" or name == "hget":
        check_values([reply] if reply else [], 1)
    elif name == "mget":
        for value in reply:
            check_values([value] if value else [], 1)
    elif name == "hgetall":
        check_fields(reply)
        check_values(list(reply.values()), ITEMS)
    elif name == "hmget":
        check_values([value for value in reply if value is not None], 3)
    elif name == "hkeys":
        check_fields(reply)
    elif name == "lrange" or name == "hvals":
        check_values(reply, ITEMS)
    else:
        check_members([item[0] for item in reply] if name == "zrange" else reply)


def calls(key: str, field: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Return calls that read a key."""
    return [
        ("get", (key,), {}),
        ("mget", (KEYS,), {}),
        ("hget", (key, field), {}),
        ("lrange", (key, 0, -1), {}),
        ("hgetall", (key,), {}),
        ("hkeys", (key,), {}),
        ("hvals", (key,), {}),
        ("hmget", (key, ["field:0", "field:31", "field:63"]), {}),
        ("smembers", (key,), {}),
        ("zrange", (key, 0, -1), {"withscores": True}),
        ("feed_range", (key, 0, ITEMS), {"attributes": True}),
        ("feed_array", (key, 0, ITEMS), {"attributes": True}),
        ("feed_where", (key, 0, ITEMS // 16), {"where": "3"}),
        ("feed_count", (key,), {"where": "3"}),
    ]


def call(r: Any, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make one of these calls."""
    if not name.startswith("feed"):
        return getattr(r, name)(*arguments, **options)
    key, *arguments = arguments
    feed = r.feed(key, 12, (4,))
    methods = {"feed_array": feed.array, "feed_count": feed.count}
    return methods.get(name, feed.range)(*arguments, **options)


def kills(writers: Writers, haste: int) -> Iterator[int]:
    """Count rounds, killing a writer after some. By the end, each call must have read data."""
    for number in range(ROUNDS * haste):
        if number % (A_KILL * haste) == A_KILL * haste - 1:
            writers.kill_one()
        yield number
    unseen = {name for name, *_ in calls("", "")} - set(+writers.seen)
    assert not unseen, unseen


def look(r: Any, writers: Writers, haste: int = 1) -> None:
    """Read continuously, with calls and with pipelines."""
    for number in kills(writers, haste):
        wanted = calls(writers.choice.choice(KEYS), f"field:{writers.choice.randrange(ITEMS)}")
        for name, arguments, options in wanted:
            try:
                writers.check(name, call(r, name, arguments, options))
            except redis.ResponseError as error:
                writers.check(name, error)
        for _ in range(GETS):
            try:
                writers.check("get", r.get(writers.choice.choice(KEYS)))
            except redis.ResponseError as error:
                writers.check("get", error)
        with r.pipeline(transaction=number % 4 == 0) as pipe:
            for name, arguments, options in wanted:
                call(pipe, name, arguments, options)
            for (name, *_), reply in zip(wanted, pipe.execute(raise_on_error=False), strict=True):
                writers.check(name, reply)


def test_an_embedded_client_never_mixes_two_values(path: str, writers: Writers) -> None:
    with undercroft.Redis(path) as r:
        look(r, writers, EMBEDDED)


def test_an_asyncio_client_never_mixes_two_values(path: str, writers: Writers) -> None:
    async def reads() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            for _ in kills(writers, EMBEDDED):
                field = f"field:{writers.choice.randrange(ITEMS)}"
                wanted = calls(writers.choice.choice(KEYS), field)
                replies = await asyncio.gather(
                    *(call(r, *one) for one in wanted),
                    return_exceptions=True,
                )
                for (name, *_), reply in zip(wanted, replies, strict=True):
                    writers.check(name, reply)

    asyncio.run(reads())


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_remote_client_never_mixes_two_values(path: str, writers: Writers, protocol: int) -> None:
    if not SERVER.exists():
        pytest.skip("target/debug/undercroft is not built")
    socket = f"{path}.socket"
    command = [str(SERVER), "serve", "--store", path, "--unixsocket", socket, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        if not any(" serves " in line for line in iter(server.stdout.readline, "")):
            pytest.fail(f"the store is not served; exit status {server.wait()}")
        with undercroft.Redis.from_url(f"unix://{socket}", protocol=protocol) as r:
            look(r, writers)
    finally:
        server.terminate()
        server.communicate()
