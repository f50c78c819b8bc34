"""Tests that a wait without a timeout ends when the store's file is removed or replaced (M7)."""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
from conftest import Run

GONE = "was removed or replaced"


def blpop(r: undercroft.Redis) -> object:
    """Wait for an item in a list."""
    return r.blpop("jobs", 0)


def blmove(r: undercroft.Redis) -> object:
    """Wait for an item in a list, and move the item."""
    return r.blmove("jobs", "done", 0)


def bzpopmin(r: undercroft.Redis) -> object:
    """Wait for a member in a sorted set."""
    return r.bzpopmin("jobs", 0)


def listen(r: undercroft.Redis) -> object:
    """Wait for a message."""
    pubsub = r.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe("news")
    return next(pubsub.listen())


def put_another(path: str) -> None:
    """Replace a store with another one."""
    other = f"{path}.other"
    with undercroft.Redis(other) as r:
        r.set("k", "v")
    Path(other).rename(path)


def is_expected(r: undercroft.Redis) -> bool:
    """Return whether a client is waiting for a key or a message."""
    return r.info("memory")["used_memory_waiting"] > 0


@pytest.mark.parametrize("wait", [blpop, blmove, bzpopmin, listen])
@pytest.mark.parametrize("end", [os.unlink, put_another])
def test_a_wait_ends_when_the_file_is_removed(
    path: str, wait: Callable[[undercroft.Redis], object], end: Callable[[str], None]
) -> None:
    with undercroft.Redis(path) as r:
        raised = []

        def begin() -> None:
            try:
                wait(r)
            except redis.ConnectionError as error:
                raised.append(str(error))

        waiter = threading.Thread(target=begin, daemon=True)
        waiter.start()
        while not is_expected(r):
            pass
        end(path)
        waiter.join()
        assert len(raised) == 1
        assert GONE in raised[0]


async def listen_there(client: undercroft.asyncio.Redis) -> object:
    """Wait for a message in an event loop."""
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    await pubsub.subscribe("news")
    return await anext(pubsub.listen())


@pytest.mark.parametrize("wait", [blpop, blmove, bzpopmin, listen_there])
def test_a_wait_on_an_event_loop_ends_when_the_file_is_removed(
    path: str, run: Run, wait: Any
) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        waiter = asyncio.create_task(wait(client))
        with undercroft.Redis(path) as other:
            while not is_expected(other):
                await asyncio.sleep(0)
        Path(path).unlink()
        with pytest.raises(redis.ConnectionError, match=GONE):
            await waiter

    run(main())


def get_call(r: Any) -> Any:
    """Read a key of the old store with a native method."""
    return r.get("old")


def set_call(r: Any) -> Any:
    """Write with a native method."""
    return r.set("k", "v")


def any_command(r: Any) -> Any:
    """Write with a command that has no native method."""
    return r.execute_command("GETSET", "k", "v")


def pipelined(r: Any) -> Any:
    """Write with a pipeline."""
    return r.pipeline(transaction=False).set("k", "v").get("k").execute()


def transacted(r: Any) -> Any:
    """Write with a transaction."""
    return r.pipeline().set("k", "v").get("k").execute()


def pipelined_command(r: Any) -> Any:
    """Write with a pipeline whose replies Python processes."""
    return r.pipeline(transaction=False).set("k", "v").mget([]).execute()


def transacted_command(r: Any) -> Any:
    """Write with a transaction whose replies Python processes."""
    return r.pipeline().set("k", "v").mget([]).execute()


def call_until_gone(r: undercroft.Redis) -> None:
    """Write until this process has noticed that the file was removed."""
    writes = iter(lambda: r.set("k", "v"), None)
    with pytest.raises(redis.ConnectionError, match=GONE):
        deque(writes, maxlen=0)


WORDS = [("MULTI",), ("SET", "k", "v"), ("INCR", "n"), ("EXEC",)]
PIPELINES = [pipelined, transacted, pipelined_command, transacted_command]
CALLS = [get_call, set_call, any_command, *PIPELINES]


def until_new(r: Any, call: Callable[[Any], Any], path: str) -> None:
    """Repeat a call until it has reached the newest store at the path."""
    with undercroft.Redis(path) as other:
        while not (other.get("k") == b"v" and r.get("new") == b"1"):
            call(r)
            if call is get_call:
                other.set("k", "v")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("form", [undercroft.Redis, undercroft.Store])
def test_a_client_continues_with_the_recreated_store(
    path: str, call: Callable[[Any], Any], form: Any
) -> None:
    if form is undercroft.Store and call is not get_call and call is not set_call:
        pytest.skip("undercroft.Store has other methods for this")
    with form(path) as r:
        r.set("old", "1")
        for _ in range(2):
            Path(path).unlink()
            with undercroft.Redis(path) as other:
                other.set("new", "1")
            until_new(r, call, path)
            assert r.get("old") is None


def test_a_client_recreates_a_removed_store(path: str) -> None:
    with undercroft.Redis(path) as r:
        assert r.set("k", "v")
        Path(path).unlink()
        while not Path(path).exists():
            assert r.set("k", "w")
        assert r.get("k") == b"w"


def absent(r: undercroft.Redis) -> object:
    """Read a key that exists in no store."""
    return r.get("absent")


def absent_field(r: undercroft.Redis) -> object:
    """Read a field of a nonexistent hash with a command."""
    return r.execute_command("HGET", "absent", "field")


def no_key(r: undercroft.Redis) -> object:
    """Request data of a key that does not exist."""
    return r.execute_command("DBSIZE")


def put(r: undercroft.Redis) -> object:
    """Store an object."""
    return undercroft.Objects(r).put(b"object")


def take(r: undercroft.Redis) -> object:
    """Take an object that does not exist."""
    with contextlib.suppress(KeyError):
        undercroft.Objects(r).take(b"absent")
    return None


def cached(r: undercroft.Redis) -> object:
    """Compute a value, and cache it briefly."""
    return r.cache(ttl=0.001)(str)()


def subscribe(r: undercroft.Redis) -> object:
    """Subscribe and unsubscribe."""
    with r.pubsub() as pubsub:
        pubsub.subscribe("news")
    return None


def watch(r: undercroft.Redis) -> object:
    """Watch a key, and unwatch it."""
    with r.pipeline() as pipe:
        pipe.watch("k")
    return None


def draft(r: undercroft.Redis) -> object:
    """Allocate memory for an object, and free it."""
    return undercroft.Objects(r).create_bytes(100_000)


@pytest.mark.parametrize(
    "call", [absent, absent_field, no_key, put, take, cached, subscribe, watch, draft]
)
def test_every_call_notices_that_the_store_was_replaced(
    path: str, call: Callable[[undercroft.Redis], object]
) -> None:
    with undercroft.Redis(path) as r:
        Path(path).unlink()
        while not Path(path).exists():
            call(r)


def test_the_timeout_applies_to_the_recreated_store(path: str) -> None:
    with undercroft.Redis(path, timeout=0.25) as r:
        Path(path).unlink()
        while not Path(path).exists():
            r.set("k", "v")
        assert r._patience() == 0.25


def test_a_full_store_that_was_removed_raises_that_it_was_removed(path: str) -> None:
    with undercroft.Redis(path, maxmemory=1 << 20, on_removed="error") as r:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            deque((r.set(f"k{number}", "v" * 10_000) for number in range(1000)), maxlen=0)
        Path(path).unlink()
        with pytest.raises(redis.ConnectionError, match=GONE) as raised:
            r.set("k", "v" * 10_000)
        assert "OOM" not in str(raised.value)


def test_on_removed_error_raises_an_error(path: str) -> None:
    with undercroft.Redis.from_url(f"undercroft://{path}?on_removed=error") as r:
        Path(path).unlink()
        call_until_gone(r)
        with pytest.raises(redis.ConnectionError, match=GONE):
            r.set("k", "v")
    with pytest.raises(ValueError, match="on_removed"):
        undercroft.Redis(path, on_removed="retry")


def test_watched_keys_end_with_the_old_store(path: str) -> None:
    with undercroft.Redis(path) as r, undercroft.Redis(path, on_removed="error") as probe:
        pipe = r.pipeline()
        pipe.watch("watched")
        Path(path).unlink()
        # Wait until this process has noticed that the file was removed.
        call_until_gone(probe)
        pipe.multi()
        pipe.set("k", "w")
        with pytest.raises(redis.ConnectionError, match=GONE):
            pipe.execute()
        assert r.set("k", "v")
        assert r.get("k") == b"v"


def test_a_transaction_begun_by_multi_ends_with_the_old_store(path: str) -> None:
    with undercroft.Redis(path) as r, undercroft.Redis(path, on_removed="error") as probe:
        r.execute_command("MULTI")
        r.execute_command("SET", "k", "w")
        Path(path).unlink()
        call_until_gone(probe)
        with pytest.raises(redis.ConnectionError, match=GONE):
            r.execute_command("EXEC")
        assert r.get("k") is None
        assert r.set("k", "v")


def test_all_commands_of_a_pipeline_reach_one_store(path: str) -> None:
    with undercroft.Redis(path) as r:
        for whole in (False, True):
            Path(path).unlink()
            while not Path(path).exists():
                pipe = r.pipeline(transaction=whole)
                results = pipe.set("k", "v").incr("n").lpop("none").get("k").execute()
                assert results[0] is True
                assert results[2:] == [None, b"v"]


def test_a_pipeline_that_contains_multi_reaches_one_store(path: str) -> None:
    with undercroft.Redis(path) as r:
        Path(path).unlink()
        while not Path(path).exists():
            results = r._execute_many([(words, {}) for words in WORDS])
            assert results[3][0] == b"OK"
        assert results[3] == [b"OK", 1]


def test_a_pipeline_on_an_event_loop_continues_in_the_new_store(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            for whole in (False, True):
                for extra in ([], ["mget"]):
                    Path(path).unlink()
                    while not Path(path).exists():
                        pipe = r.pipeline(transaction=whole).set("k", "v")
                        for _ in extra:
                            pipe.mget([])
                        assert (await pipe.execute())[0] is True

    run(main())


def gone_for(path: str) -> None:
    """Remove a store's file, and wait until this process has noticed the removal."""
    with undercroft.Redis(path, on_removed="error") as probe:
        Path(path).unlink()
        call_until_gone(probe)


LONG = b"long" * 20_000


@pytest.mark.parametrize("value", [b"short", LONG])
@pytest.mark.parametrize("known", [False, True])
def test_a_channel_without_held_messages_continues(path: str, value: bytes, known: bool) -> None:
    with undercroft.Store(path) as store:
        channel = undercroft.Channel("jobs", store)
        for _ in range(2):
            channel.put(value)
            if known:
                gone_for(path)
            else:
                Path(path).unlink()
            while not Path(path).exists():
                channel.put(value)
            with undercroft.Channel("jobs", path)._client as other:
                there = undercroft.Channel("jobs", other)
                assert bytes(there.get(block=False)) == value
                there.put_many([value, value])
            assert bytes(channel.get(block=False)) == value
            with channel.get(block=False, ack=True) as delivery:
                assert bytes(delivery.value) == value


def test_many_values_are_put_into_one_store(path: str) -> None:
    channel = undercroft.Channel("jobs", path)
    Path(path).unlink()
    while not Path(path).exists():
        assert channel.put_many([LONG, b"short", LONG]) == 3
    for value in (LONG, b"short", LONG):
        assert bytes(channel.get(block=False)) == value


@pytest.mark.parametrize("known", [False, True])
def test_a_channel_that_holds_a_message_raises_once(path: str, known: bool) -> None:
    with undercroft.Store(path) as store:
        channel = undercroft.Channel("jobs", store)
        channel.put(b"1")
        delivery = channel.get(ack=True)
        if known:
            gone_for(path)
            store.set("k", "v")
        else:
            Path(path).unlink()
        with pytest.raises(undercroft.StoreError, match=GONE):
            deque(iter(lambda: channel.put(b"2"), channel), maxlen=0)
        channel.put(b"3")
        assert channel.get() == b"3"
        assert not delivery.ack()


def test_an_acknowledged_message_is_not_held(path: str) -> None:
    channel = undercroft.Channel("jobs", path)
    channel.put(b"1")
    assert channel.get(ack=True).ack()
    gone_for(path)
    channel.put(b"2")
    assert channel.get() == b"2"


def test_on_removed_error_applies_to_channels(path: str) -> None:
    with undercroft.Redis(path, on_removed="error") as r:
        channel = undercroft.Channel("jobs", r)
        Path(path).unlink()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError, match=GONE):
                deque(iter(lambda: channel.put(b"2"), channel), maxlen=0)
        assert not Path(path).exists()


def test_threads_waiting_for_a_message_continue(path: str) -> None:
    with undercroft.Redis(path) as r:
        channel = undercroft.Channel("jobs", r)
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(channel.get())) for _ in range(3)]
        for thread in threads:
            thread.start()
        while not is_expected(r):
            pass
        gone_for(path)
        for number in range(3):
            channel.put(f"{number}")
        for thread in threads:
            thread.join()
        assert sorted(found) == ["0", "1", "2"]


def test_channels_on_an_event_loop_continue(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            channel = undercroft.asyncio.Channel("jobs", r)
            takers = [asyncio.create_task(channel.get()) for _ in range(3)]
            with undercroft.Redis(path) as other:
                while not is_expected(other):
                    await asyncio.sleep(0)
            gone_for(path)
            for value in (b"short", LONG, b"last"):
                await channel.put(value)
            found = await asyncio.gather(*takers)
            assert sorted(map(bytes, found)) == sorted([b"short", LONG, b"last"])

    run(main())


def test_a_channel_on_an_event_loop_that_holds_a_message_raises_once(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            channel = undercroft.asyncio.Channel("jobs", r)
            await channel.put(b"1")
            delivery = await channel.get(ack=True)
            gone_for(path)
            with pytest.raises(redis.ConnectionError, match=GONE):
                await delivery.ack()
            assert not await delivery.ack()
            await channel.put(b"3")
            assert await channel.get() == b"3"

    run(main())


def test_another_wait_on_an_event_loop_begins_in_the_new_store(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            old = asyncio.create_task(r.blpop("jobs", 0))
            with undercroft.Redis(path) as other:
                while not is_expected(other):
                    await asyncio.sleep(0)
            gone_for(path)
            await r.set("k", "v")
            new = asyncio.create_task(r.blpop("jobs", 0))
            with pytest.raises(redis.ConnectionError, match=GONE):
                await old
            await r.rpush("jobs", "1")
            assert await new == (b"jobs", b"1")

    run(main())


def test_a_client_on_an_event_loop_continues(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            await r.set("old", "1")
            Path(path).unlink()
            with undercroft.Redis(path) as other:
                other.set("new", "1")
            while await r.get("new") != b"1":
                await r.set("k", "v")
            assert await r.get("old") is None

    run(main())
