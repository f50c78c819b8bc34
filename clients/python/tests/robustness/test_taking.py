"""Tests that items removed from a store reach the caller or are restored after any signal."""

from __future__ import annotations

import asyncio
import codecs
import os
import random
import signal
import types
from collections import Counter
from queue import Empty
from typing import Any

import pytest
import undercroft
import undercroft.asyncio
from children import fork, status_of
from undercroft._native import TAKING

# Bytes that cannot be decoded; their error handler runs after the commit.
ODD = b"\xff"
BEHIND = "interrupts"


class Interrupted(BaseException):
    """The exception that a signal handler raises."""


def interrupt(error: Any) -> tuple[str, int]:
    signal.raise_signal(signal.SIGUSR1)
    return "?", error.end


codecs.register_error(BEHIND, interrupt)


@pytest.fixture(autouse=True)
def raising():
    def handle(*_: object) -> None:
        raise Interrupted

    former = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, former)


def filled(path: str) -> Any:
    r = undercroft.Redis(path)
    r.rpush("l", ODD + b"1", ODD + b"2", ODD + b"3")
    r.sadd("s", ODD + b"1", ODD + b"2", ODD + b"3")
    r.zadd("z", {ODD + b"1": 1.5, ODD + b"2": 2, ODD + b"3": 2})
    r.set("t", ODD, px=10**9)
    r.xadd("x", {"f": ODD}, id="5-0")
    r.xadd("x", {"f": ODD}, id="5-1")
    r.xgroup_create("x", "g", "0")
    r.xgroup_create("y", "g", "0", mkstream=True)
    r.feed("f").create(2, (4,))
    r.feed("f").add(0, ODD + b"1", attributes=(3,))
    r.feed("f").add(-1, ODD + b"2", attributes=(4,))
    return r


def shown(r: Any) -> Any:
    group = r.xinfo_groups("x")[0]
    return (
        r.lrange("l", 0, -1),
        r.smembers("s"),
        r.zrange("z", 0, -1, withscores=True),
        r.get("t"),
        r.pexpiretime("t"),
        (group["pending"], group["lag"]),
        r.feed("f").range(0, 9, attributes=True),
    )


# The ways to call each command: with its method, if it has one, and with its words.
CALLS: dict[str, list[Any]] = {
    "BLMPOP": [lambda r: r.blmpop(0, 2, "none", "l", direction="LEFT", count=2)],
    "BLPOP": [lambda r: r.blpop(["none", "l"], 0)],
    "BRPOP": [lambda r: r.brpop("l", timeout=1)],
    "BZMPOP": [lambda r: r.bzmpop(0, 1, ["z"], min=True)],
    "BZPOPMAX": [lambda r: r.bzpopmax("z")],
    "BZPOPMIN": [lambda r: r.bzpopmin(["none", "z"], 1)],
    "FEED.POP": [lambda r: r.feed("f").pop(), lambda r: r.feed("f").pop("right", 2)],
    "GETDEL": [lambda r: r.getdel("t")],
    "GETSET": [lambda r: r.getset("t", "other")],
    "LMPOP": [lambda r: r.lmpop(2, "none", "l", direction="RIGHT", count=2)],
    "LPOP": [
        lambda r: r.lpop("l"),
        lambda r: r.lpop("l", 2),
        lambda r: r.lpop(name="l", count=5),
        lambda r: r.lpop(bytearray(b"l")),
    ],
    "RPOP": [lambda r: r.rpop("l"), lambda r: r.rpop("l", count=2)],
    "SET": [],
    "SPOP": [lambda r: r.spop("s"), lambda r: r.spop("s", 2)],
    "XREADGROUP": [
        lambda r: r.xreadgroup("g", "c", {"x": ">"}),
        lambda r: r.xreadgroup("g", "c", {"x": ">"}, count=1, block=10, noack=True),
        lambda r: r.xreadgroup("g", "c", streams={"x": ">", "y": ">"}),
    ],
    "ZMPOP": [lambda r: r.zmpop(1, ["z"], max=True, count=2)],
    "ZPOPMAX": [lambda r: r.zpopmax("z"), lambda r: r.zpopmax("z", 2)],
    "ZPOPMIN": [lambda r: r.zpopmin("z"), lambda r: r.zpopmin("z", count=3)],
}
WORDS = {
    "BLMPOP": "0 1 l LEFT",
    "BLPOP": "l 0",
    "BRPOP": "none l 0",
    "BZMPOP": "0 1 z MIN",
    "BZPOPMAX": "z 0",
    "BZPOPMIN": "z 0",
    "FEED.POP": "f LEFT 2",
    "GETDEL": "t",
    "GETSET": "t other",
    "LMPOP": "1 l LEFT COUNT 2",
    "LPOP": "l",
    "RPOP": "l 2",
    "SET": "t other GET",
    "SPOP": "s 2",
    "XREADGROUP": "GROUP g c NOACK STREAMS x >",
    "ZMPOP": "1 z MAX COUNT 2",
    "ZPOPMAX": "z 2",
    "ZPOPMIN": "z",
}


def test_every_command_that_takes_items_is_covered():
    assert set(TAKING) == set(CALLS) == set(WORDS)


@pytest.mark.parametrize("name", sorted(TAKING))
def test_every_method_that_takes_items_can_give_them_back(name):
    method = name.lower()
    for kind in (undercroft.EmbeddedRedis, undercroft.Store, undercroft.asyncio.EmbeddedRedis):
        found = getattr(kind, method, None)
        # SET removes a value only if it returns the old value, which the test with words covers.
        if found is not None and method != "set":
            assert found.takes, f"{kind}.{method}"
            assert type(found) is types.FunctionType


@pytest.mark.parametrize("name", sorted(TAKING))
@pytest.mark.parametrize("kind", [undercroft.Redis, undercroft.Store])
def test_a_handler_that_raises_after_the_commit_loses_nothing(path, kind, name):
    r = filled(path)
    client = kind(path, decode_responses=True, encoding_errors=BEHIND)
    run = client.execute_command if kind is undercroft.Redis else client.execute
    before = shown(r)
    calls = [
        lambda _: run(name, *WORDS[name].split()),
        lambda _: run(name.lower(), *WORDS[name].split()),
    ]
    for call in [*CALLS[name], *calls]:
        try:
            with pytest.raises(Interrupted):
                call(client)
        except (AttributeError, TypeError):
            assert kind is undercroft.Store
        assert shown(r) == before


@pytest.mark.parametrize("name", sorted(TAKING))
@pytest.mark.parametrize("kind", [undercroft.asyncio.Redis, undercroft.asyncio.Store])
def test_a_handler_that_raises_in_a_task_loses_nothing(path, kind, name):
    r = filled(path)
    before = shown(r)

    async def main() -> None:
        client = kind(path, decode_responses=True, encoding_errors=BEHIND)
        run = client.execute_command if kind is undercroft.asyncio.Redis else client.execute
        for call in [*CALLS[name], lambda _: run(name, *WORDS[name].split())]:
            try:
                with pytest.raises(Interrupted):
                    await call(client)
            except (AttributeError, TypeError):
                assert kind is undercroft.asyncio.Store
            assert shown(r) == before
        await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("name", sorted(TAKING))
def test_an_undecodable_item_stays_in_the_store(path, name):
    r = filled(path)
    before = shown(r)
    client = undercroft.Redis(path, decode_responses=True)
    for call in [*CALLS[name], lambda r: r.execute_command(name, *WORDS[name].split())]:
        with pytest.raises(UnicodeDecodeError):
            call(client)
        assert shown(r) == before


class Storm:
    """Sends signals, whose handler raises, at random times until enough calls were interrupted."""

    def __init__(self, seed: int) -> None:
        print("seed", seed)
        self._random = random.Random(seed)
        self.count = 0

    def _handle(self, *_: object) -> None:
        self.count += 1
        raise Interrupted

    def run(self, step: Any, times: int) -> None:
        """Repeat a step until `times` calls were interrupted, or no step is left."""
        former = signal.signal(signal.SIGALRM, self._handle)
        is_left = True
        try:
            while is_left and self.count < times:
                try:
                    # Set a one-shot timer, so that no signal arrives outside this block.
                    signal.setitimer(signal.ITIMER_REAL, self._random.uniform(2e-6, 1e-4))
                    before = self.count
                    while self.count == before:
                        is_left = step()
                except Interrupted:
                    pass
        finally:
            signal.signal(signal.SIGALRM, former)


@pytest.fixture
def storm():
    return Storm(random.randrange(2**32))


TIMES = 1000
MADE = 300


# For each kind of item: how to put items, which calls remove and return some, and how to list the
# rest.


def of_lists(r: Any) -> tuple[Any, Any, Any]:
    takes = [
        lambda: r.lpop("k"),
        lambda: r.rpop("k", 3),
        lambda: r.blpop("k", 0.01),
        lambda: r.lmpop(1, "k", direction="LEFT", count=2),
        lambda: r.execute_command("RPOP", "k"),
    ]
    return lambda items: r.rpush("k", *items), takes, lambda: r.lrange("k", 0, -1)


def of_sets(r: Any) -> tuple[Any, Any, Any]:
    takes = [lambda: r.spop("k"), lambda: r.spop("k", 3)]
    return lambda items: r.sadd("k", *items), takes, lambda: r.smembers("k")


def of_sorted_sets(r: Any) -> tuple[Any, Any, Any]:
    def put(items: list[bytes]) -> None:
        r.zadd("k", dict.fromkeys(items, 0.5))

    takes = [
        lambda: r.zpopmin("k", 2),
        lambda: r.bzpopmax("k", 0.01),
        lambda: r.zmpop(1, ["k"], True),
    ]
    return put, takes, lambda: r.zrange("k", 0, -1)


def of_texts(r: Any) -> tuple[Any, Any, Any]:
    names: list[bytes] = []

    def put(items: list[bytes]) -> None:
        names.extend(items)
        r.mset({item: item for item in items})

    def take() -> Any:
        while names and not r.exists(names[-1]):
            names.pop()
        return r.getdel(names[-1]) if names else None

    return put, [take], lambda: r.keys()


def of_streams(r: Any) -> tuple[Any, Any, Any]:
    r.xgroup_create("k", "g", "0", mkstream=True)

    def put(items: list[bytes]) -> None:
        for item in items:
            r.xadd("k", {"f": item})

    takes = [
        lambda: r.xreadgroup("g", "c", {"k": ">"}, count=2, noack=True),
        lambda: r.xreadgroup("g", "c", {"k": ">"}, 1, 10, True),
        lambda: r.execute_command("XREADGROUP", "GROUP", "g", "c", "NOACK", "STREAMS", "k", ">"),
    ]
    return put, takes, lambda: r.xreadgroup("g", "c", {"k": ">"}, noack=True)


def numbers(found: Any) -> list[int]:
    """Return all item numbers in a result, at any nesting depth."""
    if isinstance(found, dict):
        return numbers(list(found.values()))
    if isinstance(found, (list, tuple, set)):
        return [number for part in found for number in numbers(part)]
    return [int(found)] if isinstance(found, bytes) and found.isdigit() else []


@pytest.mark.parametrize("kind", [of_lists, of_sets, of_sorted_sets, of_texts, of_streams])
def test_a_storm_of_signals_loses_nothing(path, storm, kind):
    r = undercroft.Redis(path)
    put, takes, left = kind(r)
    received: list[Any] = []
    chance = random.Random(0)
    sent = 0

    def step() -> bool:
        take = chance.choice(takes)
        # No other code runs between the return of the removed items and this append.
        received.append(take())
        return bool(received[-1])

    while storm.count < TIMES:
        put([b"%d" % number for number in range(sent, sent + MADE)])
        sent += MADE
        storm.run(step, storm.count + TIMES // 5)
    received.append(left())
    assert Counter(numbers(received)) == Counter(range(sent))


LONG = b"x" * 50_000


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("how", ["get", "get_many", "ack"])
def test_a_storm_of_signals_loses_no_message(path, storm, how, is_long):
    channel = undercroft.Channel("c", path, maxsize=0)
    sent, received = 0, []

    def number(value: Any) -> int:
        return int(bytes(value[:12]))

    def step() -> bool:
        try:
            if how == "get":
                received.append(channel.get(timeout=0.001))
            elif how == "get_many":
                received.extend(channel.get_many(7, block=False))
            else:
                received.append(channel.get(timeout=0.001, ack=True))
        except Empty:
            return False
        return True

    while storm.count < TIMES:
        made = 30 if is_long else MADE
        for value in range(sent, sent + made):
            channel.put(b"%012d" % value + (LONG if is_long else b""))
        sent += made
        storm.run(step, storm.count + TIMES // 10)
        for place, delivery in enumerate(received):
            if how == "ack" and not isinstance(delivery, int):
                value = number(delivery.value)
                assert delivery.ack()
                received[place] = value
            elif how != "ack" and not isinstance(delivery, int):
                received[place] = number(delivery)
    while True:
        try:
            received.append(number(channel.get(block=False)))
        except Empty:
            break
    assert Counter(received) == Counter(range(sent))
    client = undercroft.Redis(path)
    assert not [key for key in client.scan_iter() if b":held:" in key or b":object:" in key]


def test_a_storm_of_signals_loses_no_object(path, storm):
    objects = undercroft.Objects(path)
    ids: list[bytes] = []
    taken: list[Any] = []
    made = 0

    def step() -> bool:
        if not ids:
            return False
        try:
            taken.append(objects.take(ids[-1]))
        except KeyError:
            ids.pop()
        return True

    while storm.count < TIMES:
        for number in range(made, made + 40):
            ids.append(objects.put(b"%012d" % number + (LONG if number % 2 else b"")))
        made += 40
        storm.run(step, storm.count + TIMES // 10)
        taken[:] = [value if isinstance(value, int) else int(bytes(value[:12])) for value in taken]
    for id in ids:
        if objects.contains(id):
            taken.append(int(bytes(objects.take(id)[:12])))
    assert Counter(taken) == Counter(range(made))
    assert undercroft.Redis(path).dbsize() == 0


def test_items_that_go_back_are_taken_next(path):
    channel = undercroft.Channel("c", path)
    channel.put_many([b"1", b"2", b"3"])
    channel._unpack = lambda _: signal.raise_signal(signal.SIGUSR1)
    with pytest.raises(Interrupted):
        channel.get_many(2)
    del channel._unpack
    assert channel.get_many(9) == [b"1", b"2", b"3"]


def test_cancelled_tasks_lose_nothing(path):
    async def main() -> None:
        r = undercroft.asyncio.Redis(path)
        channel = undercroft.asyncio.Channel("c", r)
        received: list[bytes] = []

        async def take() -> None:
            received.append((await r.blpop("k"))[1])

        async def get() -> None:
            received.append(bytes(await channel.get()))

        seed = random.randrange(2**32)
        print("seed", seed)
        chance = random.Random(seed)
        sent = 0
        for _ in range(TIMES):
            tasks = [asyncio.create_task(call()) for call in (take, get)]
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            await r.rpush("k", b"%d" % sent)
            await channel.put(b"%d" % (sent + 1))
            sent += 2
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        received.extend(await r.lrange("k", 0, -1))
        while True:
            try:
                received.append(bytes(await channel.get(0)))
            except Empty:
                break
        assert Counter(map(int, received)) == Counter(range(sent))
        await r.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("call", ["ack", "release"])
def test_a_forked_child_does_not_end_its_parent_s_deliveries(path, call):
    channel = undercroft.Channel("c", path)
    channel.put(b"1")
    delivery = channel.get(ack=True)

    def child() -> None:
        with pytest.raises(RuntimeError, match=f"belongs to process {os.getppid()}"):
            getattr(delivery, call)()
        # If the child exits a delivery's block with an exception, the delivery still belongs to its
        # parent.
        with pytest.raises(LookupError), delivery:
            raise LookupError

    assert status_of(fork(child)) == 0
    with pytest.raises(Empty):
        channel.get(block=False)
    assert delivery.ack()
