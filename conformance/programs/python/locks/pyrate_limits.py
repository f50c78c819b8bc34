"""pyrate-limiter: limiters and tasks share a bucket in Redis that has several rates."""

import asyncio
import time

from place import asynchronous, client
from pyrate_limiter import Duration, Limiter, Rate, RedisBucket

RATES = [Rate(5, Duration.MINUTE), Rate(20, Duration.HOUR)]

redis = client()
# Two limiters use one bucket alternately, as two processes do.
limiters = [Limiter(RedisBucket.init(RATES, redis, "bucket")) for _ in range(2)]
granted = [limiters[n % 2].try_acquire("item", blocking=False) for n in range(10)]
assert granted == [True] * 5 + [False] * 5
assert redis.zcard("bucket") == 5

# A waiting attempt is admitted when the second has passed.
patient = Limiter(RedisBucket.init([Rate(2, Duration.SECOND)], redis, "second"))
begun = time.monotonic()
assert all(patient.try_acquire("item", timeout=10) for _ in range(3))
assert time.monotonic() - begun >= 0.9
assert not patient.try_acquire("item", weight=3, blocking=False)


async def tasks() -> None:
    """Acquire the bucket from several tasks."""
    theirs = asynchronous()
    bucket = await RedisBucket.init([Rate(5, Duration.MINUTE)], theirs, "tasks")
    with Limiter(bucket) as limiter:
        found = [await limiter.try_acquire_async("item", blocking=False) for _ in range(8)]
        assert found == [True] * 5 + [False] * 3
    await theirs.aclose()


asyncio.run(tasks())
for limiter in (*limiters, patient):
    limiter.close()
