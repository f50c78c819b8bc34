"""Tests changes in an event loop that wait until they are durable, which they do in a thread."""

import asyncio
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import undercroft
import undercroft.asyncio
from conftest import Run
from undercroft.embedded import async_retries as retries


async def off_the_loop(work: Awaitable[Any]) -> Any:
    """Return an awaitable's result, and fail if the loop ran nothing else in the meantime."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        result = await work
    finally:
        counting.cancel()
    assert turns > 1
    return result


def recovered(path: str) -> Any:
    """Remove a store's file, and open the store that its journal contains."""
    Path(path).unlink()
    return undercroft.Redis(path)


@pytest.mark.parametrize(
    "way", ["typed", "command", "pipeline", "transaction", "script", "pool", "store"]
)
def test_the_loop_keeps_running_while_a_change_waits(path: str, run: Run, way: str) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path, durability="always") as r:
            if way == "typed":
                await off_the_loop(r.set("k", 1))
            elif way == "command":
                await off_the_loop(r.execute_command("SET", "k", 1))
            elif way in ("pipeline", "transaction"):
                pipe = r.pipeline(transaction=way == "transaction")
                pipe.get("k").set("k", 1).get("k")
                assert await off_the_loop(pipe.execute()) == [None, True, b"1"]
            elif way == "script":
                await off_the_loop(r.eval("return redis.call('set', KEYS[1], 1)", 1, "k"))
            elif way == "pool":
                pool = undercroft.asyncio.ConnectionPool(store=path)
                await redis.asyncio.Redis(connection_pool=pool).set("k", 1)
                await pool.disconnect()
            else:
                async with undercroft.asyncio.Store(path) as store:
                    await off_the_loop(store.set("k", 1))
            assert await r.get("k") == b"1"
            info = await r.info("persistence")
            assert info["journal_lag_bytes"] == 0
        with recovered(path) as again:
            assert again.get("k") == b"1"

    run(main())


def test_the_loop_keeps_running_during_a_checkpoint(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            await r.set("k", 1)
            await off_the_loop(r.config_set("appendonly", "yes"))
            await off_the_loop(r.save())
            assert (await r.info("persistence"))["rdb_last_bgsave_status"] == "ok"
        with recovered(path) as again:
            assert again.get("k") == b"1"

    run(main())


def test_reads_and_other_modes_use_no_thread(
    path: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 0
    threads = retries._syncing

    def counted() -> Any:
        nonlocal used
        used += 1
        return threads()

    monkeypatch.setattr(retries, "_syncing", counted)

    async def main() -> None:
        async with undercroft.asyncio.Redis(path, durability="everysec") as r:
            await r.set("k", 1)
            assert used == 0
            await r.config_set("durability", "always")
            await r.set("k", 2)
            now = used
            assert now > 0
            assert await r.get("k") == b"2"
            pipe = r.pipeline(transaction=False)
            assert await pipe.get("k").strlen("k").execute() == [b"2", 1]
            assert used == now
            await r.config_set("durability", "everysec")
            now = used
            await r.set("k", 3)
            assert used == now

    run(main())


def test_many_tasks_change_at_once(path: str, run: Run) -> None:
    async def add(r: Any, number: int) -> None:
        for turn in range(20):
            await r.incr("count")
            await r.rpush("list", number)
            assert await r.lpop("list") is not None
            await r.set(f"key:{number}", turn)

    async def main() -> None:
        async with undercroft.asyncio.Redis(path, durability="always") as r:
            await asyncio.gather(*(add(r, number) for number in range(100)))
        with recovered(path) as again:
            assert again.get("count") == b"2000"
            assert again.llen("list") == 0
            assert all(again.get(f"key:{number}") == b"19" for number in range(100))

    run(main())


def test_waiting_for_items_of_a_durable_store(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path, durability="always") as r:
            waits = [asyncio.create_task(r.blpop("list", timeout=60)) for _ in range(10)]
            await asyncio.sleep(0)
            for number in range(10):
                await r.rpush("list", number)
            found = await asyncio.gather(*waits)
            assert sorted(int(item) for _, item in found) == list(range(10))
        with recovered(path) as again:
            assert again.llen("list") == 0

    run(main())


def test_cancelled_pop_gives_its_item_back(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path, durability="always") as r:
            await r.rpush("list", *range(1000))
            for _ in range(50):
                pop = asyncio.create_task(r.lpop("list"))
                # The task has begun its change in a thread once it has had a turn.
                await asyncio.sleep(0)
                pop.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await pop
            assert await r.lrange("list", 0, -1) == [b"%d" % number for number in range(1000)]

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_forked_child_has_threads_of_its_own(path: str, run: Run) -> None:
    run(_set(path, "parent"))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(_set(path, "child"))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with recovered(path) as again:
        assert again.mget("parent", "child") == [b"1", b"1"]


async def _set(path: str, key: str) -> None:
    async with undercroft.asyncio.Redis(path, durability="always") as r:
        await off_the_loop(r.set(key, 1))
