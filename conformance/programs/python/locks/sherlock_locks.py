"""sherlock: processes contend for a lock, which expires and is renewed."""

import sherlock
from place import client, eventually, in_processes, refused

sherlock.configure(
    backend=sherlock.backends.REDIS,
    client=client(),
    expire=30,
    timeout=20,
    retry_interval=0.005,
    namespace="program",
)


def count() -> None:
    """Increment a number that only the lock protects, in a separate process."""
    redis = client()
    for _ in range(25):
        with sherlock.Lock("lock"):
            redis.set("number", int(redis.get("number") or 0) + 1)


if __name__ == "__main__":
    in_processes(3, count)
    redis = client()
    assert int(redis.get("number") or 0) == 75

    short = sherlock.RedisLock("short", client=redis, expire=1, namespace="program")
    assert short.acquire()
    assert not sherlock.RedisLock("short", client=redis, namespace="program").acquire(
        blocking=False
    )
    assert short.renew()
    eventually(lambda: not short.locked())
    with refused(sherlock.LockException):
        short.release()
    assert short.acquire(blocking=False)
    short.release()
    assert not short.locked()
