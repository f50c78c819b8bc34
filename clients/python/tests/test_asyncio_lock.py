"""Tasks that wait for locks of a store: one receiver for a loop, and a line before each lock."""

import asyncio
import gc
import os
from typing import Any

import pytest
import undercroft
import undercroft.asyncio
from conftest import Run
from test_processes import in_child

CHANNEL = b"undercroft:released:0:l"
# A task that would only look again after this time would never get it.
NEVER = 10**6


async def in_line(client: Any, number: int) -> list[asyncio.Task[bool]]:
    """Return tasks that wait for the lock in this order."""
    locks = [client.lock("l", sleep=NEVER) for _ in range(number)]
    tasks = [asyncio.create_task(lock.acquire()) for lock in locks]
    await asyncio.sleep(0)
    return tasks


def test_more_tasks_wait_than_there_are_seats(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        order: list[int] = []

        async def work(number: int) -> None:
            async with client.lock("l", sleep=NEVER):
                order.append(number)

        async with client.lock("l"):
            tasks = [asyncio.create_task(work(number)) for number in range(600)]
            await asyncio.sleep(0)
            assert await client.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 1)]
        await asyncio.gather(*tasks)
        assert order == list(range(600))
        assert await client.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 0)]

    run(main())


def test_who_leaves_the_line_lets_the_next_one_look(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        # Another lock is waited for beside it, the name of which is not text.
        async with client.lock(b"\xff") as other:
            beside = asyncio.create_task(client.lock(b"\xff", sleep=NEVER).acquire())
            async with client.lock("l"):
                first, second, third = await in_line(client, 3)
            client.releases()._look()
            first.cancel()  # which had been woken
            assert await second
            assert not third.done()
            assert await other.owned()
        assert await beside
        await client.delete("l")
        third.cancel()

    run(main())


def test_who_gives_up_in_time_does_not_stand_in_the_way(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        async with client.lock("l"):
            lock = client.lock("l", blocking_timeout=0.001, sleep=NEVER)
            short = asyncio.create_task(lock.acquire())
            (task,) = await in_line(client, 1)
            assert not await short
        assert await task

    run(main())


def test_a_closed_loop_s_tasks_keep_no_receiver(path: str) -> None:
    client = undercroft.asyncio.Redis(path)
    loop = asyncio.new_event_loop()
    with undercroft.Redis(path) as store, store.lock("l"):
        tasks = loop.run_until_complete(in_line(client, 2))
        assert store.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 1)]
        loop.close()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        del tasks, task, loop
        gc.collect()
        assert store.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_leaves_its_parent_s_line_alone(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        async with client.lock("l"):
            tasks = await in_line(client, 1)

            def throw_away() -> None:
                # The child's copies of the coroutines.
                for task in tasks:
                    task.get_coro().close()  # type: ignore[union-attr]

            assert in_child(throw_away) == 0
        assert await asyncio.gather(*tasks) == [True]

    run(main())
