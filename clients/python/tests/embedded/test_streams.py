"""Tests embedded streams: waiting readers in threads, tasks and processes, some of them killed."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from conftest import Run
from undercroft._native import waits
from undercroft.remote.command_kinds import kind_of

READER = """
import sys, undercroft
r = undercroft.Redis(sys.argv[1])
print("ready", flush=True)
last = "0"
while True:
    for _, entries in r.xread({"s": last}, block=0):
        for last, fields in entries:
            print(last.decode(), fields[b"n"].decode(), flush=True)
"""
CONSUMER = """
import sys, undercroft
r = undercroft.Redis(sys.argv[1])
print("ready", flush=True)
while True:
    for _, entries in r.xreadgroup("g", sys.argv[2], {"s": ">"}, count=3, block=0):
        for id, fields in entries:
            r.xack("s", "g", id)
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program and wait until it prints a line."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def ended(child: subprocess.Popen[str]) -> None:
    """Kill a child and wait for it."""
    child.kill()
    child.communicate()


def blocked(r: undercroft.Redis) -> int:
    """Return the number of bytes that waits and subscriptions occupy."""
    return r.info("memory")["used_memory_waiting"]


def until_blocked(r: undercroft.Redis, more_than: int = 0) -> int:
    """Wait until another client waits for a key."""
    while (bytes_now := blocked(r)) <= more_than:
        time.sleep(0.001)
    return bytes_now


def test_all_readers_receive_each_entry(r: undercroft.Redis, path: str) -> None:
    children = [started(READER, path) for _ in range(3)]
    try:
        ids = [r.xadd("s", {"n": number}).decode() for number in range(100)]
        for child in children:
            assert child.stdout is not None
            lines = [child.stdout.readline().split() for _ in ids]
            assert lines == [[id, str(number)] for number, id in enumerate(ids)]
    finally:
        for child in children:
            ended(child)


def test_a_group_delivers_an_entry_to_the_longest_waiter(r: undercroft.Redis, path: str) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    given: dict[str, Any] = {}
    threads, bytes_before = [], blocked(r)

    def consume(name: str) -> None:
        with undercroft.Redis(path) as client:
            given[name] = client.xreadgroup("g", name, {"s": ">"}, count=1, block=0)

    for name in ("first", "second", "third"):
        threads.append(threading.Thread(target=consume, args=(name,)))
        threads[-1].start()
        bytes_before = until_blocked(r, bytes_before)
    ids = [r.xadd("s", {"n": number}) for number in range(3)]
    for thread in threads:
        thread.join()
    expected = [[[b"s", [(id, {b"n": str(number).encode()})]]] for number, id in enumerate(ids)]
    assert [given[name] for name in ("first", "second", "third")] == expected
    assert r.xpending("s", "g")["pending"] == 3


def test_entries_of_a_killed_consumer_are_pending_and_can_be_claimed(
    r: undercroft.Redis, path: str
) -> None:
    seed = int(os.environ.get("UNDERCROFT_SEED", random.randrange(1 << 32)))
    print(f"UNDERCROFT_SEED={seed}")
    chance = random.Random(seed)
    r.xgroup_create("s", "g", mkstream=True)
    children = {name: started(CONSUMER, path, name) for name in ("a", "b")}
    added = []
    try:
        for _ in range(20):
            for _ in range(chance.randrange(1, 40)):
                added.append(r.xadd("s", {"n": len(added)}))
            victim = chance.choice(list(children))
            ended(children[victim])
            children[victim] = started(CONSUMER, path, victim)
    finally:
        for child in children.values():
            ended(child)
    # Each entry was acknowledged, is pending for one of the two consumers, or is still undelivered.
    (group,) = r.xinfo_groups("s")
    pending = [row["message_id"] for row in r.xpending_range("s", "g", "-", "+", len(added) + 1)]
    assert pending == sorted(set(pending), key=pending.index)
    fresh = r.xreadgroup("g", "heir", {"s": ">"}, count=len(added) + 1)
    given = [id for _, entries in fresh for id, _ in entries]
    assert given == [id for id in added if id > group["last-delivered-id"]] or not given
    _, claimed, gone = r.xautoclaim("s", "g", "heir", 0, count=len(added) + 1)
    assert [id for id, _ in claimed] == sorted({*pending, *given}, key=added.index)
    assert gone == []
    assert r.xack("s", "g", *(id for id, _ in claimed)) == len(claimed) if claimed else True
    assert r.xpending("s", "g")["pending"] == 0


def test_reads_end_at_timeouts_in_transactions_and_with_their_group(
    r: undercroft.Redis, path: str
) -> None:
    start = time.monotonic()
    assert r.xread({"s": "$"}, block=50) == []
    assert time.monotonic() - start >= 0.05
    with r.pipeline(transaction=True) as p:
        p.xread({"s": "$"}, block=0).xadd("s", {"n": 1}, id="1-1").xread({"s": "0"}, block=0)
        assert p.execute() == [[], b"1-1", [[b"s", [(b"1-1", {b"n": b"1"})]]]]
    r.xgroup_create("s", "g", id="$")
    said: list[str] = []

    def consume() -> None:
        with undercroft.Redis(path) as client:
            try:
                client.xreadgroup("g", "c", {"s": ">"}, block=0)
            except redis.ResponseError as error:
                said.append(str(error))

    for end in (lambda: r.xgroup_destroy("s", "g"), lambda: r.delete("s")):
        thread = threading.Thread(target=consume)
        bytes_before = blocked(r)
        thread.start()
        until_blocked(r, bytes_before)
        end()
        thread.join()
        r.xgroup_create("s", "g", mkstream=True)
    assert len(said) == 2
    assert said[0].startswith("NOGROUP")
    assert said[1].startswith("UNBLOCKED")


# "$" uses redis-py's method, "0" the native method.
@pytest.mark.parametrize("behind", ["$", "0"])
def test_a_waiting_reader_can_be_interrupted(path: str, behind: str) -> None:
    # Set the handler, because a process started in the background may inherit an ignored SIGINT.
    program = """
import signal, sys, undercroft
signal.signal(signal.SIGINT, signal.default_int_handler)
r = undercroft.Redis(sys.argv[1])
print("ready", flush=True)
try:
    r.xread({"s": sys.argv[2]}, block=0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with undercroft.Redis(path) as r:
        child = started(program, path, behind)
        until_blocked(r)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate()
        assert out == "interrupted\n"
        assert r.xadd("s", {"n": 1}) is not None


def test_several_tasks_wait_at_the_same_time(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path, decode_responses=True) as r:
            await r.xgroup_create("s", "g", mkstream=True)
            readers = [asyncio.create_task(r.xread({"s": "$"}, block=0)) for _ in range(3)]
            consumers = [
                asyncio.create_task(r.xreadgroup("g", name, {"s": ">"}, count=1, block=0))
                for name in "ab"
            ]
            left = asyncio.create_task(r.xread({"t": "$"}, block=0))
            await asyncio.sleep(0)
            first = await r.xadd("s", {"n": 1})
            second = await r.xadd("s", {"n": 2})
            for reader in readers:
                ((name, ((id, fields), *_)),) = await reader
                assert (name, id, fields) == ("s", first, {"n": "1"})
            for consumer, id in zip(consumers, (first, second), strict=True):
                ((_, ((given, _),)),) = await consumer
                assert given == id
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left
            assert left.cancelled()
            assert await r.xread({"t": "$"}, block=10) == []

    run(main())


def test_every_blocking_command_waits_in_an_event_loop(r: undercroft.Redis) -> None:
    blocking = {name.upper() for name, about in r.command().items() if "blocking" in about["flags"]}
    assert {"BLPOP", "XREAD", "XREADGROUP"} <= blocking
    for name in blocking:
        assert waits(name)
        assert waits(name.lower().encode())
        assert kind_of((name,)) in {"alone", "replicated"}
    assert not waits("XRANGE")
    assert not waits("BITCOUNT")
    assert not waits(7)


@pytest.mark.parametrize("count", [10, 100_000])
def test_long_streams_are_read_completely(r: undercroft.Redis, count: int) -> None:
    pipeline = r.pipeline(transaction=False)
    for number in range(count):
        pipeline.xadd("s", {"name": "value", "number": number}, id=f"{number + 1}-0")
    pipeline.execute()
    assert r.xlen("s") == count
    r.xgroup_create("s", "g", id="0")
    ((_, entries),) = r.xreadgroup("g", "c", {"s": ">"})
    assert [fields[b"number"] for _, fields in entries] == [b"%d" % at for at in range(count)]
    assert r.xpending("s", "g")["pending"] == count
    middle = f"{count // 2}-0"
    assert r.xrange("s", middle, middle)[0][0] == middle.encode()
    payload = r.dump("s")
    assert payload is not None
    r.restore("copy", 0, payload)
    assert r.xinfo_stream("copy", full=True) is not None
    assert r.xrange("copy") == r.xrange("s")
    assert r.xack("s", "g", *(id for id, _ in entries[: count // 2])) == count // 2
    assert r.xtrim("s", minid=middle, approximate=False) == count // 2 - 1
    assert r.delete("s", "copy") == 2
