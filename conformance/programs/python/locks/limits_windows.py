"""limits: threads and tasks share a limit over fixed, moving and sliding windows."""

import asyncio
from collections.abc import Callable

from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.aio.storage import RedisStorage as AsyncStorage
from limits.aio.strategies import MovingWindowRateLimiter as AsyncMovingWindow
from limits.storage import RedisStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)
from place import asynchronous, client, eventually, in_threads

storage = RedisStorage("redis://", connection_pool=client().connection_pool)
MANY = RateLimitItemPerMinute(20, 60)
FEW = RateLimitItemPerSecond(2, 1)


def granted(hit: Callable[[], bool]) -> int:
    """Return how many of forty attempts by four threads are admitted."""
    successes: list[bool] = []
    in_threads(4, lambda: successes.extend([hit() for _ in range(10)]))
    assert len(successes) == 40
    return sum(successes)


def kept(limiter: RateLimiter, name: str) -> None:
    """Check that a limit applies to all threads and ends with its window."""
    assert granted(lambda: limiter.hit(MANY, name, "many")) == 20
    assert not limiter.test(MANY, name, "many")
    assert limiter.get_window_stats(MANY, name, "many").remaining == 0
    assert limiter.hit(MANY, name, "somebody else")
    limiter.clear(MANY, name, "many")
    assert limiter.hit(MANY, name, "many", cost=20)
    assert limiter.hit(FEW, name, "few", cost=2)
    eventually(lambda: limiter.test(FEW, name, "few"))


async def kept_in_tasks() -> None:
    """Check that a limit applies to tasks."""
    redis = asynchronous()
    pool = redis.connection_pool
    theirs = AsyncStorage("async+redis://", implementation="redispy", connection_pool=pool)
    limiter = AsyncMovingWindow(theirs)
    hits = await asyncio.gather(*(limiter.hit(MANY, "tasks") for _ in range(40)))
    assert sum(hits) == 20
    assert (await limiter.get_window_stats(MANY, "tasks")).remaining == 0
    await redis.aclose()


assert storage.check()
kept(FixedWindowRateLimiter(storage), "fixed")
kept(MovingWindowRateLimiter(storage), "moving")
kept(SlidingWindowCounterRateLimiter(storage), "sliding")
asyncio.run(kept_in_tasks())
