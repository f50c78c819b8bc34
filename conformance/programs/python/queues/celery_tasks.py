"""Celery: a worker runs tasks, chains, groups and chords with retries, delays and control."""

import os
import subprocess
import sys
import time
from typing import Any

import celery
from celery import chain, chord, group
from place import URL, client, eventually, refused

application = celery.Celery("celery_tasks", broker=URL, backend=URL)
application.conf.update(
    broker_connection_retry_on_startup=True,
    result_expires=60,
    task_default_queue="program",
    task_queue_max_priority=10,
    worker_hijack_root_logger=False,
)


@application.task
def add(one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


@application.task
def total(numbers: list[int]) -> int:
    """Return the sum of many numbers."""
    return sum(numbers)


@application.task(bind=True, max_retries=3)
def fail_twice(self: Any) -> int:
    """Fail until the third attempt."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@application.task
def fail() -> None:
    """Raise an error."""
    raise ValueError("always")


def main() -> None:
    """Queue tasks, some of them before the worker starts."""
    early = [add.delay(number, 1) for number in range(20)]
    command = [sys.executable, "-m", "celery", "--app", "celery_tasks", "--quiet", "worker"]
    worker = subprocess.Popen(
        [*command, "--concurrency=2", "--loglevel=CRITICAL"],
        env=os.environ | {"C_FORCE_ROOT": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert [task.get(timeout=30) for task in early] == list(range(1, 21))
        begun = time.time()
        later = add.apply_async((20, 22), countdown=1)
        assert chain(add.s(1, 2), add.s(10), add.s(100))().get(timeout=20) == 113
        assert group(add.s(n, n) for n in range(10))().get(timeout=20) == list(range(0, 20, 2))
        assert chord((add.s(n, 1) for n in range(10)), total.s())().get(timeout=20) == 55
        assert fail_twice.delay().get(timeout=20) == 2
        with refused(ValueError, "always"):
            fail.delay().get(timeout=20)
        revoked = add.apply_async((1, 1), countdown=1)
        revoked.revoke()
        assert application.control.ping(timeout=20, limit=1)
        (active,) = application.control.inspect(timeout=20, limit=1).registered().values()
        assert "celery_tasks.add" in active
        assert later.get(timeout=20) == 42
        assert time.time() - begun >= 1
        eventually(lambda: revoked.state == "REVOKED")
        # All tasks are acknowledged; the revoked task is acknowledged when it is due.
        eventually(lambda: not client().hlen("unacked"))
        early[0].forget()
        assert client().ttl(f"celery-task-meta-{later.id}") > 0
    finally:
        worker.terminate()
        worker.wait(20)


if __name__ == "__main__":
    main()
