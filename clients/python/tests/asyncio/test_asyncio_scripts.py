"""Tests long-running scripts, which run in a thread while the loop keeps running."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft
import undercroft.asyncio
from conftest import Run

# A script that exceeds the time limit for scripts in the loop.
LONG = """
local sum = 0
for round = 1, 3000000 do sum = sum + round % 7 end
redis.call('incr', KEYS[1] .. ':count')
return sum
"""
SUM = sum(number % 7 for number in range(1, 3_000_001))
ENDLESS = "while true do end"


async def beside(work: Awaitable[Any]) -> tuple[Any, int]:
    """Return an awaitable's result, and how many turns another task got in the meantime."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        return await work, turns
    finally:
        counting.cancel()


@pytest.mark.parametrize("way", ["eval", "evalsha", "pipeline", "transaction", "pool"])
def test_the_loop_keeps_running_while_a_script_runs(path: str, run: Run, way: str) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            client: Any = r
            if way == "pool":
                pool = undercroft.asyncio.ConnectionPool(store=path)
                client = redis.asyncio.Redis(connection_pool=pool)
            expected: Any = SUM
            work: Awaitable[Any]
            if way in ("pipeline", "transaction"):
                pipe = client.pipeline(transaction=way == "transaction")
                pipe.set("before", 1)
                pipe.eval(LONG, 1, "k")
                pipe.get("before")
                work, expected = pipe.execute(), [True, SUM, b"1"]
            elif way == "evalsha":
                work = client.evalsha(await client.script_load(LONG), 1, "k")
            else:
                work = client.eval(LONG, 1, "k")
            got, turns = await beside(work)
            assert got == expected
            # If the script blocks the loop, the other task gets only a few turns.
            assert turns > 100
            # The run that began in the loop was rolled back, so the counter is 1.
            assert await r.get("k:count") == b"1"
            if way == "pool":
                await client.aclose()
                await pool.disconnect()

    run(main())


def test_cancelling_a_task_ends_its_script(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            for _ in range(20):
                task = asyncio.create_task(r.eval(ENDLESS, 0))
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(r.eval(ENDLESS, 0), 0.02)
            # A script that has already changed data runs to completion.
            script = "redis.call('set', KEYS[1], 'v') " + LONG.replace("3000000", "30000000")
            task = asyncio.create_task(r.eval(script, 1, "k"))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await r.get("k") == b"v"

    run(main())


def test_the_time_limit_applies_to_scripts_in_a_thread(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as r:
            with pytest.raises(redis.ResponseError, match="ran longer than its limit of 5000 ms"):
                await r.eval(ENDLESS, 0)
            assert await r.set("k", "v")

    run(main())
