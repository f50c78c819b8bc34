"""sherlock: processes contend for a lock, which expires, and is renewed."""

import multiprocessing

import sherlock
from place import client, eventually, refused

sherlock.configure(
    backend=sherlock.backends.REDIS,
    client=client(),
    expire=30,
    timeout=20,
    retry_interval=0.005,
    namespace="program",
)


def count() -> None:
    """Add to a number that only the lock protects, in a process of its own."""
    redis = client()
    for _ in range(25):
        with sherlock.Lock("lock"):
            redis.set("number", int(redis.get("number") or 0) + 1)


if __name__ == "__main__":
    start = multiprocessing.get_context("spawn").Process
    workers = [start(target=count) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
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
