"""python-redis-lock: threads and processes contend, wait with BLPOP, and renew their locks."""

import logging
import time

import redis_lock
from place import client, in_processes

logging.disable(logging.CRITICAL)


def count() -> None:
    """Increment a number that only the lock protects, in a separate process."""
    redis = client()
    for _ in range(25):
        with redis_lock.Lock(redis, "lock", expire=30):
            redis.set("number", int(redis.get("number") or 0) + 1)


if __name__ == "__main__":
    redis = client()
    in_processes(3, count)
    assert int(redis.get("number") or 0) == 75

    held = redis_lock.Lock(redis, "held", expire=3, auto_renewal=True)
    assert held.acquire(blocking=False)
    other = redis_lock.Lock(redis, "held", expire=2)
    begun = time.monotonic()
    # The lock is held for longer than its expiry time without renewal.
    while time.monotonic() < begun + 3.5:
        assert held.locked()
        time.sleep(0.05)
    assert not other.acquire(blocking=False)
    held.release()
    assert other.acquire(timeout=1)
    assert other.get_owner_id() == other.id
    other.extend(expire=20)
    assert redis.ttl("lock:held") > 10
    redis_lock.reset_all(redis)
    assert not other.locked()
    assert redis_lock.Lock(redis, "held").acquire(blocking=False)
