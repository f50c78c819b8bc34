"""pyredlock: threads and tasks contend for a lock, and extend it."""

import asyncio

from loguru import logger
from place import asynchronous, client, in_threads
from pyredlock import Redlock

logger.remove()
redis = client()


def count() -> None:
    """Increment a number that only the lock protects."""
    locks = Redlock([client()], async_mode=False, retry_count=10_000, retry_delay=0.005)
    for _ in range(25):
        granted, lock = locks.lock("lock", 30_000)
        assert granted
        redis.set("number", int(redis.get("number") or 0) + 1)
        assert locks.unlock(lock)


async def tasks() -> None:
    """Contend for the lock in tasks."""
    theirs = asynchronous()

    async def task() -> None:
        locks = Redlock([theirs], async_mode=True, retry_count=10_000, retry_delay=0.005)
        for _ in range(10):
            granted, lock = await locks.alock("lock", 30_000)
            assert granted
            await theirs.set("number", int(await theirs.get("number")) + 1)
            assert await locks.aextend(lock, 30_000)
            assert await locks.aunlock(lock)

    await asyncio.gather(*(task() for _ in range(3)))
    await theirs.close()


in_threads(3, count)
assert int(redis.get("number") or 0) == 75
asyncio.run(tasks())
assert int(redis.get("number") or 0) == 105
locks = Redlock([redis], async_mode=False, retry_count=1, retry_delay=0.01)
granted, lock = locks.lock("held", 30_000)
assert granted
assert not locks.lock("held", 30_000)[0]
assert locks.unlock(lock)
