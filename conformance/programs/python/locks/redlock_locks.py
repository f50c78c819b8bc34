"""redlock-py: threads contend for a lock on one server."""

from place import client, eventually, in_threads
from redlock import Redlock

redis = client()


def count() -> None:
    """Increment a number that only the lock protects."""
    locks = Redlock([client()], retry_count=10_000, retry_delay=0.005)
    for _ in range(25):
        lock = locks.lock("lock", 30_000)
        assert lock
        redis.set("number", int(redis.get("number") or 0) + 1)
        locks.unlock(lock)


in_threads(3, count)
assert int(redis.get("number") or 0) == 75

locks = Redlock([redis], retry_count=1, retry_delay=0.01)
short = locks.lock("short", 200)
assert 0 < short.validity < 200
assert not locks.lock("short", 200)
eventually(lambda: not redis.exists("short"))
other = locks.lock("short", 60_000)
# Releasing an expired lock does not release it for its next owner.
locks.unlock(short)
assert redis.get("short") == other.key
locks.unlock(other)
assert not redis.exists("short")
