"""Dramatiq: workers process messages with delays, retries, results, groups, limits and barriers."""

import logging
import time

import dramatiq
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import Barrier, ConcurrentRateLimiter, WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimitsBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from dramatiq.results.errors import ResultFailure
from place import client, refused

logging.disable(logging.CRITICAL)
redis = client()
broker = RedisBroker(client=redis)
broker.add_middleware(Results(backend=RedisBackend(client=redis), store_results=True))
dramatiq.set_broker(broker)
limits = LimitsBackend(client=redis)


@dramatiq.actor
def add(one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


@dramatiq.actor(max_retries=3, min_backoff=10, max_backoff=20)
def fail_twice() -> str:
    """Fail until the third attempt."""
    if redis.incr("attempts") < 3:
        raise ValueError("again")
    return "third"


@dramatiq.actor(max_retries=0)
def fail() -> None:
    """Raise an error."""
    raise ValueError("always")


@dramatiq.actor(queue_name="limited")
def limited() -> bool:
    """Return whether this message may run while other messages run."""
    with ConcurrentRateLimiter(limits, "two", limit=2).acquire(raise_on_failure=False) as mine:
        if mine:
            time.sleep(0.3)
        return bool(mine)


worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=6)
worker.start()
try:
    begun = time.time()
    later = add.send_with_options(args=(20, 22), delay=1000)
    sums = group(add.message(number, 1) for number in range(20)).run()
    assert list(sums.get_results(block=True, timeout=20_000)) == list(range(1, 21))
    chain = pipeline([add.message(1, 2), add.message(10), add.message(100)]).run()
    assert chain.get_result(block=True, timeout=20_000) == 113
    assert fail_twice.send().get_result(block=True, timeout=20_000) == "third"
    with refused(ResultFailure, "always"):
        fail.send().get_result(block=True, timeout=20_000)
    ran = group(limited.message() for _ in range(5)).run().get_results(block=True, timeout=20_000)
    assert sum(ran) >= 2
    assert later.get_result(block=True, timeout=20_000) == 42
    assert time.time() - begun >= 1
    broker.join("default", timeout=20_000)
    broker.join("limited", timeout=20_000)
finally:
    worker.stop()

window = WindowRateLimiter(limits, "window", limit=3, window=60)
granted = []
for _ in range(5):
    with window.acquire(raise_on_failure=False) as mine:
        granted.append(bool(mine))
assert granted == [True, True, True, False, False]
barrier = Barrier(limits, "barrier", ttl=30_000)
assert barrier.create(parties=2)
assert not barrier.wait(block=False)
assert barrier.wait(block=False)
# The dead letter queue contains the failed message.
assert redis.zcard("dramatiq:default.XQ") == 1
