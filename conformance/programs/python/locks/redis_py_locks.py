"""redis-py's locks: processes, threads and asyncio tasks contend for one lock."""

import asyncio

from place import asynchronous, client, eventually, processes, refused
from redis.exceptions import LockError, LockNotOwnedError

ROUNDS = 25


def count() -> None:
    """Increment a number that only the lock protects, in a separate process."""
    redis = client()
    lock = redis.lock("lock", timeout=30, sleep=0.005)
    for _ in range(ROUNDS):
        with lock:
            redis.set("number", int(redis.get("number") or 0) + 1)


async def count_tasks() -> None:
    """Contend for the lock in tasks."""
    redis = asynchronous()

    async def task() -> None:
        for _ in range(ROUNDS):
            async with redis.lock("lock", timeout=30, sleep=0.005):
                await redis.set("number", int(await redis.get("number") or 0) + 1)

    await asyncio.gather(*(task() for _ in range(3)))
    await redis.aclose()


def terms() -> None:
    """Check that locks expire, can be extended, and cannot be released twice."""
    redis = client()
    lock = redis.lock("short", timeout=0.2)
    assert lock.acquire()
    assert not redis.lock("short").acquire(blocking=False)
    eventually(lambda: not lock.locked())
    with refused(LockNotOwnedError):
        lock.release()
    assert lock.acquire()
    assert lock.extend(50)
    assert lock.reacquire()
    assert lock.owned()
    lock.release()
    with refused(LockError):
        lock.release()


if __name__ == "__main__":
    with processes(2, count):
        asyncio.run(count_tasks())
    assert int(client().get("number") or 0) == 5 * ROUNDS
    terms()
