"""Tests calls that find a stopped process's lock: calls retry, and the loop keeps running (M6)."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from conftest import SCRATCH, Run
from holder import Holder
from test_asyncio_waiting import HOLDER as ONE_SHARD
from undercroft.embedded import async_retries as retries

# The number of loop turns during which a call must remain pending. A call that blocks the loop
# fails.
TURNS = 50
# The maximum number of seconds to wait for an event that is certain to happen.
LONG = 60.0

KEYS = [f"key:{number}" for number in range(100)]


def is_kept(impatient: undercroft.Redis, key: str) -> bool:
    """Return whether another process holds the lock of the shard that contains a key."""
    try:
        impatient.set(key, "x")
    except redis.TimeoutError:
        return True
    return False


class Stopped(Holder):
    """A process that is stopped during a change to all shards."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def stop(self, quick: undercroft.Redis) -> None:
        """Stop the process while it holds the locks of all shards."""
        impatient = undercroft.Redis(self.path, timeout=0.01)
        while True:
            super().stop(quick)
            if all(is_kept(impatient, key) for key in KEYS[:20]):
                return
            self.go_on()

    def go_on(self) -> None:
        """Resume the process, which finishes its change and continues with more changes."""
        self.process.send_signal(signal.SIGCONT)


async def in_pipeline(client: Any) -> Any:
    return await client.pipeline(transaction=False).set("a", 1).get("b").mget(KEYS[:1]).execute()


async def in_transaction(client: Any) -> Any:
    return await client.pipeline().set("c", 2).incr("c").execute()


async def watched(client: Any) -> Any:
    async with client.pipeline() as pipe:
        for _ in range(10):
            await pipe.watch("d")
            value = await pipe.get("d")
            pipe.multi()
            pipe.set("d", 4)
            # Retry: the holder changes so many keys that one of them may share both change counters
            # with this key.
            with contextlib.suppress(redis.WatchError):
                return [value, *await pipe.execute()]
    raise AssertionError("ten times, another key's change counted as this one's")


async def in_function(client: Any) -> Any:
    return await client.transaction(lambda pipe: pipe.multi() or pipe.set("e", 5), "e")


async def subscribed(client: Any) -> Any:
    async with client.pubsub() as messages:
        await messages.subscribe("news")
        return (await messages.get_message(timeout=LONG))["type"]


async def locked(client: Any) -> Any:
    async with client.lock("f"):
        return "held"


async def released(client: Any) -> Any:
    lock = client.lock("g")
    lock.local.token = b"token"
    try:
        await lock.release()
    except redis.exceptions.LockNotOwnedError:
        return "not owned"


async def waited(client: Any) -> Any:
    return await client.blpop(["h", "i"], timeout=0.01)


async def waited_in_pipeline(client: Any) -> Any:
    return await client.pipeline(transaction=False).blpop("h", 0.01).llen("h").execute()


async def read(client: Any) -> Any:
    return type(await client.get("key:1"))


async def read_many(client: Any) -> Any:
    return {type(value) for value in await client.mget(KEYS)}


Call = Callable[[Any], Awaitable[Any]]
# Calls, each with its result on a store that contains only the holder's keys.
CALLS: dict[str, tuple[Call, Any]] = {
    "get": (read, bytes),
    "set": (lambda client: client.set("j", 1), True),
    "execute_command": (lambda client: client.execute_command("APPEND", "k", "xyz"), 3),
    "hset": (lambda client: client.hset("l", mapping={"a": 1, "b": 2}), 2),
    "mget": (read_many, {bytes}),
    "mset": (lambda client: client.mset({f"m:{number}": 1 for number in range(100)}), True),
    "pipeline": (in_pipeline, None),
    "transaction": (in_transaction, [True, 3]),
    "watch": (watched, [None, True]),
    "function": (in_function, [True]),
    "publish": (lambda client: client.publish("others", "hello"), 0),
    "subscribe": (subscribed, "subscribe"),
    "lock": (locked, "held"),
    "release": (released, "not owned"),
    "blpop": (waited, None),
    "blpop in a pipeline": (waited_in_pipeline, [None, 0]),
    "scan_iter": (lambda client: anext(client.scan_iter("key:1")), b"key:1"),
}


# Calls that acquire no lock, because they read through the stopped process's undo log.
READS = ["get", "mget", "scan_iter", "publish"]
PARKED = [name for name in CALLS if name not in READS]


async def turns() -> None:
    """Run the loop for `TURNS` turns."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def stopped() -> Iterator[str]:
    """Yield the path of a store whose locks a stopped process holds."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        holder = Stopped(f"{directory}/store")
        try:
            holder.stop(undercroft.Redis(f"{directory}/store", timeout=0.2))
            yield f"{directory}/store"
        finally:
            holder.end()


@pytest.mark.parametrize("name", READS)
def test_a_read_never_waits_for_a_lock(stopped: str, run: Run, name: str) -> None:
    call, wanted = CALLS[name]

    async def main() -> None:
        client = undercroft.asyncio.Redis(stopped, timeout=LONG)
        assert await call(client) == wanted

    run(main())


@pytest.mark.parametrize("name", PARKED)
def test_a_call_that_meets_a_lock_does_not_block_the_loop(
    stopped: str, run: Run, name: str
) -> None:
    call = CALLS[name][0]

    async def main() -> None:
        client = undercroft.asyncio.Redis(stopped, timeout=LONG)
        parked = asyncio.ensure_future(call(client))
        await turns()
        # At this point the call has been retried.
        await asyncio.sleep(0.02)
        assert not parked.done()
        parked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await parked
        late = undercroft.asyncio.Redis(stopped, timeout=0.2)
        parked, seen = asyncio.ensure_future(call(late)), 0
        while not parked.done():
            await asyncio.sleep(0)
            seen += 1
        assert seen > 2
        with pytest.raises(redis.TimeoutError, match="is stopped") as raised:
            await parked
        assert type(raised.value) is redis.TimeoutError

    run(main())


def test_a_call_is_made_once_the_lock_is_free(path: str, run: Run) -> None:
    holder = Stopped(path)

    async def main() -> None:
        client = undercroft.asyncio.Redis(path, timeout=LONG)
        subscribed = client.pubsub(ignore_subscribe_messages=True)
        await subscribed.subscribe("left")
        gone = client.pubsub()
        await gone.subscribe("gone")
        holder.stop(undercroft.Redis(path, timeout=0.2))
        client = undercroft.asyncio.Redis(path, timeout=LONG)
        given_up = [asyncio.ensure_future(CALLS[name][0](client)) for name in PARKED]
        await turns()
        assert not any(task.done() for task in given_up)
        for task in given_up:
            task.cancel()
        ended = await asyncio.gather(*given_up, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        # Cancelled calls changed nothing, so each new call returns the expected result.
        tasks = {name: asyncio.ensure_future(call(client)) for name, (call, _) in CALLS.items()}
        leaving = asyncio.ensure_future(subscribed.unsubscribe("left"))
        await gone.aclose()
        await turns()
        assert not any(task.done() for task in (*(tasks[name] for name in PARKED), leaving))
        holder.go_on()
        found = {name: await task for name, task in tasks.items()}
        assert found.pop("pipeline")[:2] == [True, None]
        wanted = {name: value for name, (_, value) in CALLS.items() if name != "pipeline"}
        assert found == wanted
        await leaving
        holder.end()
        await client.aclose()
        # The work that finished calls deferred is complete: the client is subscribed to no channel.
        numbers = await client.pubsub_numsub("left", "gone", "news")
        assert numbers == [(b"left", 0), (b"gone", 0), (b"news", 0)]
        names = {key async for key in client.scan_iter() if not key.startswith((b"key:", b"m:"))}
        assert names == {b"rounds", *(name.encode() for name in "acdejkl")}

    try:
        run(main())
    finally:
        holder.end()


def test_a_call_that_timed_out_has_changed_nothing(path: str, run: Run) -> None:
    holder = Stopped(path)

    async def main() -> None:
        holder.stop(undercroft.Redis(path))
        # The process's death is detected within 110 milliseconds.
        client = undercroft.asyncio.Redis(path, timeout=0.2)
        calls = [asyncio.ensure_future(CALLS[name][0](client)) for name in PARKED]
        seen = 0
        while not all(call.done() for call in calls):
            await asyncio.sleep(0)
            seen += 1
        assert seen > 2
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {redis.TimeoutError}
        holder.end()
        names = {key async for key in client.scan_iter() if not key.startswith(b"key:")}
        assert names == {b"rounds"}
        assert await client.pubsub_channels() == []
        assert await client.rpush("h", "kept") == 1
        await client.aclose()

    try:
        run(main())
    finally:
        holder.end()


def test_many_waiting_calls_yield_the_loop_to_other_tasks(stopped: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(stopped, timeout=LONG)
        tasks = [asyncio.create_task(client.incr("n")) for _ in range(500)]
        await asyncio.sleep(0)
        lot = retries._lot()
        left: list[int] = []
        begin = lot._begin

        def begun() -> None:
            left.append(lot._to_try)
            begin()

        lot._begin = begun
        seen = 0
        while len(left) < 5:
            await asyncio.sleep(0)
            seen += 1
        # A round of retries is short. It leaves some calls for the next round and yields to other
        # tasks.
        assert all(left)
        assert seen > len(left)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main())


SOURCES = [f"from:{number}" for number in range(30)]
MOVER = """
import asyncio, sys, undercroft.asyncio

async def main():
    client = undercroft.asyncio.Redis(sys.argv[1], db=1)
    sources = [f"from:{number}" for number in range(30)]
    tasks = [asyncio.create_task(client.blmove(name, "key:1", 0)) for name in sources]
    await asyncio.sleep(0)
    print("waits", flush=True)
    await asyncio.gather(*tasks)

asyncio.run(main())
"""


def test_work_deferred_past_the_commit_is_done_later(
    path: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holder.HOLDER", ONE_SHARD)
    # The mover waits to move an item to the shard that the holder will lock. While the mover is
    # stopped, it does not process its queue.
    mover = subprocess.Popen([sys.executable, "-c", MOVER, path], stdout=subprocess.PIPE, text=True)
    assert mover.stdout is not None
    assert mover.stdout.readline() == "waits\n"
    mover.send_signal(signal.SIGSTOP)
    os.waitpid(mover.pid, os.WUNTRACED)
    holder = Holder(path)

    async def main() -> None:
        store = undercroft.Redis(path, db=1, timeout=0.2)
        holder.stop(undercroft.Redis(path))
        client = undercroft.asyncio.Redis(path, db=1, timeout=LONG)
        for source in SOURCES:
            pushing = asyncio.create_task(client.rpush(source, "item"))
            await turns()
            if pushing.done():
                break
            pushing.cancel()  # its key is in the shard that the holder has locked
        assert await pushing == 1
        assert store.lrange(source, 0, -1) == [b"item"]
        holder.end()
        # The loop finishes the deferred work without a call; polling the store does not help.
        until = time.monotonic() + LONG
        while store.exists(source):
            assert time.monotonic() < until
            await asyncio.sleep(0.001)
        assert store.lrange("key:1", 0, -1) == [b"item"]

    try:
        run(main())
    finally:
        mover.kill()
        mover.wait()
        holder.end()


def test_a_closed_loop_releases_its_parked_calls(stopped: str) -> None:
    client = undercroft.asyncio.Redis(stopped, timeout=LONG)
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(client.set("key:1", "x")) for _ in range(3)]
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    for task in tasks:
        assert not task.done()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    closed = weakref.ref(loop)
    del tasks, task, loop
    gc.collect()
    assert closed() is None
    other = undercroft.asyncio.Redis(stopped, timeout=0.05)
    with pytest.raises(redis.TimeoutError):
        asyncio.run(other.set("key:1", "x"))  # type: ignore[arg-type]
