"""pyrate-limiter: a bucket in Redis that limiters and tasks share, for several rates at once."""

import asyncio
import time

from place import asynchronous, client
from pyrate_limiter import Duration, Limiter, Rate, RedisBucket

RATES = [Rate(5, Duration.SECOND), Rate(20, Duration.MINUTE)]

redis = client()
limiters = [Limiter(RedisBucket.init(RATES, redis, "bucket")) for _ in range(2)]
begun = time.monotonic()
# As two processes do it, in turns.
granted = [limiters[n % 2].try_acquire("item", blocking=False) for n in range(10)]
assert granted == [True] * 5 + [False] * 5
# One that waits is granted when the second is over.
assert limiters[0].try_acquire("item", timeout=10)
assert time.monotonic() - begun >= 0.9
assert redis.zcard("bucket") >= 6
assert not limiters[0].try_acquire("item", weight=6, blocking=False)


async def tasks() -> None:
    """Do so in tasks."""
    theirs = asynchronous()
    bucket = await RedisBucket.init([Rate(5, Duration.MINUTE)], theirs, "tasks")
    with Limiter(bucket) as limiter:
        found = [await limiter.try_acquire_async("item", blocking=False) for _ in range(8)]
        assert found == [True] * 5 + [False] * 3
    await theirs.aclose()


asyncio.run(tasks())
for limiter in limiters:
    limiter.close()
