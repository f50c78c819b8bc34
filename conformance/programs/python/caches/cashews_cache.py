"""cashews: decorators for caching, locks, rate limits and circuit breakers; tags, transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cashews import LockedError, RateLimitError, cache
from cashews.backends.redis import Redis
from cashews.picklers import PicklerType
from cashews.wrapper.backend_settings import register_backend
from place import EMBEDDED, URL, refused

if EMBEDDED:
    register_backend("undercroft", Redis, pass_uri=True, pickler=PicklerType.DEFAULT)
computed: list[int] = []


@cache(ttl="1m", key="dear:{number}", lock=True, tags=["dear"])
async def dear(number: int) -> int:
    """Compute a result slowly."""
    computed.append(number)
    await asyncio.sleep(0.1)
    return number * 2


@cache.rate_limit(limit=3, period="1m", key="limited")
async def limited() -> bool:
    """Run at most three times a minute; further calls are rejected."""
    return True


@cache.slice_rate_limit(limit=3, period="1m", key="sliced")
async def sliced() -> bool:
    """Run at most three times in any sliding minute."""
    return True


async def granted(function: Callable[[], Awaitable[bool]]) -> int:
    """Return how many of five calls are admitted."""
    count = 0
    for _ in range(5):
        with suppress(RateLimitError):
            count += await function()
    return count


async def main() -> None:
    """Exercise the cache."""
    cache.setup(URL, suppress=False)
    await cache.set("a", {"x": [1]}, expire=60)
    assert await cache.get("a") == {"x": [1]}
    await cache.set_many({"b": 1, "c": 2}, expire="1m")
    assert await cache.get_many("b", "c", "gone") == (1, 2, None)
    assert await cache.incr("n", 5) == 5
    assert 0 < await cache.get_expire("a") <= 60
    assert not await cache.set("a", 1, exist=False)
    assert sorted([key async for key in cache.scan("[abc]")]) == ["a", "b", "c"]

    assert await asyncio.gather(*(dear(21) for _ in range(10))) == [42] * 10
    assert computed == [21]
    await cache.delete_tags("dear")
    assert await dear(21) == 42
    assert computed == [21, 21]
    assert await granted(limited) == 3
    assert await granted(sliced) == 3

    async with cache.lock("lock", expire="10s"):
        with refused(LockedError):
            async with cache.lock("lock", expire="10s", wait=False):
                pass
    async with cache.transaction() as transaction:
        await cache.set("b", "changed")
        await transaction.rollback()
    assert await cache.get("b") == 1
    async with cache.transaction():
        await cache.set("b", "changed", expire=60)
        await cache.incr("n")
    assert (await cache.get("b"), await cache.get("n")) == ("changed", 6)
    await cache.set_add("set", "x", "y")
    assert sorted(await cache.set_pop("set", 2)) == ["x", "y"]
    await cache.set("short", 1, expire=0.2)
    while await cache.exists("short"):
        await asyncio.sleep(0.02)
    await cache.delete_match("*")
    assert await cache.get("a") is None
    await cache.close()


asyncio.run(main())
