"""A wait without a timeout ends when the store's file is removed or replaced (M7)."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
from conftest import Run

GONE = "was removed or replaced"


def blpop(r: undercroft.Redis) -> object:
    """Wait for an item of a list."""
    return r.blpop("jobs", 0)


def blmove(r: undercroft.Redis) -> object:
    """Wait for an item, and move it."""
    return r.blmove("jobs", "done", 0)


def bzpopmin(r: undercroft.Redis) -> object:
    """Wait for a member of a sorted set."""
    return r.bzpopmin("jobs", 0)


def listen(r: undercroft.Redis) -> object:
    """Wait for a message."""
    pubsub = r.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe("news")
    return next(pubsub.listen())


def put_another(path: str) -> None:
    """Put another store in the place of one."""
    other = f"{path}.other"
    with undercroft.Redis(other) as r:
        r.set("k", "v")
    Path(other).rename(path)


def is_expected(r: undercroft.Redis) -> bool:
    """Return whether somebody waits for a key or a message."""
    return r.info("memory")["used_memory_waiting"] > 0


@pytest.mark.parametrize("wait", [blpop, blmove, bzpopmin, listen])
@pytest.mark.parametrize("end", [os.unlink, put_another])
def test_a_wait_ends_with_the_file(
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
    """Wait for a message on an event loop."""
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    await pubsub.subscribe("news")
    return await anext(pubsub.listen())


@pytest.mark.parametrize("wait", [blpop, blmove, bzpopmin, listen_there])
def test_a_wait_on_an_event_loop_ends_with_the_file(path: str, run: Run, wait: Any) -> None:
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
