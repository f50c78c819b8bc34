"""aiocache: values, batches, the lock against cache stampedes, and check-and-set."""

import asyncio

import redis.asyncio
from aiocache import RedisCache, cached_stampede
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from aiocache.serializers import JsonSerializer
from place import URL, refused


def cache(namespace: str) -> RedisCache:
    """Return a cache with a prepared pool, because aiocache's own pool supports no store URL."""
    pool = redis.asyncio.ConnectionPool.from_url(URL)
    return RedisCache(
        serializer=JsonSerializer(), namespace=namespace, connection_pool_class=lambda **_: pool
    )


computed: list[int] = []


async def dear(number: int) -> int:
    """Compute a result slowly."""
    computed.append(number)
    await asyncio.sleep(0.1)
    return number * 2


async def main() -> None:
    """Exercise the cache."""
    values = cache("values")
    await values.set("a", {"x": [1]}, ttl=60)
    assert await values.get("a") == {"x": [1]}
    await values.multi_set([("b", 1), ("c", 2)])
    assert await values.multi_get(["b", "c", "gone"]) == [1, 2, None]
    assert await values.increment("n", 5) == 5
    assert await values.add("d", 1)
    with refused(ValueError):
        await values.add("d", 2)
    await values.set("short", 1, ttl=0.2)
    while await values.exists("short"):
        await asyncio.sleep(0.02)
    assert await values.expire("a", 1)
    assert await values.delete("a") == 1

    async def locked() -> None:
        async with RedLock(values, "number", lease=20):
            number = await values.get("number") or 0
            await asyncio.sleep(0)
            await values.set("number", number + 1)

    await locked()
    async with OptimisticLock(values, "b") as lock:
        await values.set("b", "changed by another")
        with refused(OptimisticLockError):
            await lock.cas("mine")
    async with OptimisticLock(values, "b") as lock:
        assert await lock.cas("mine", ttl=60)
    assert await values.get("b") == "mine"

    pool = redis.asyncio.ConnectionPool.from_url(URL)
    piled = cached_stampede(
        cache=RedisCache,
        lease=5,
        namespace="piled",
        key_builder=lambda _, number: str(number),
        connection_pool_class=lambda **_: pool,
        serializer=JsonSerializer(),
    )(dear)
    first = asyncio.create_task(piled(21))
    # aiocache's lock admits other tasks until its holder begins to compute.
    while not computed:
        await asyncio.sleep(0)
    assert await asyncio.gather(first, *(piled(21) for _ in range(9))) == [42] * 10
    assert computed == [21]
    await values.clear(namespace="values")
    assert await values.get("b") is None
    await values.close()
    await pool.disconnect()


asyncio.run(main())
