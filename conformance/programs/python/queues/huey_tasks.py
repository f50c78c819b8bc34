"""Huey: a consumer with its scheduler runs tasks by priority, retries, pipelines and locks."""

import logging
import time

from huey import PriorityRedisExpireHuey, crontab
from huey.exceptions import TaskException
from place import URL, client, eventually, refused

logging.disable(logging.CRITICAL)
huey = PriorityRedisExpireHuey("program", url=URL, notify_result=True)
order: list[str] = []


@huey.task()
def add(one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


@huey.task()
def note(name: str) -> None:
    """Record the order in which tasks run."""
    order.append(name)


@huey.task(retries=2, retry_delay=0)
def fail_twice() -> str:
    """Fail until the third attempt."""
    if client().incr("attempts") < 3:
        raise ValueError("again")
    return "third"


@huey.task()
def fail() -> None:
    """Raise an error."""
    raise ValueError("always")


@huey.task()
@huey.lock_task("alone")
def alone() -> float:
    """Run under a lock that admits one task at a time."""
    time.sleep(0.3)
    return time.time()


@huey.periodic_task(crontab(minute="*"))
def every_minute() -> None:
    """Run every minute, starting immediately."""
    client().incr("minutes")


for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
    note(name, priority=priority)
assert len(huey) == 3
# A revoked task does not run.
revoked = add(1, 1)
revoked.revoke()
consumer = huey.create_consumer(
    workers=1, periodic=True, initial_delay=0.01, backoff=1, max_delay=0.1, scheduler_interval=1
)
consumer.start()
begun = time.time()
later = add.schedule((20, 22), delay=1)
assert add(1, 2)(blocking=True, timeout=20) == 3
assert order == ["high", "middle", "low"]
chain = huey.enqueue(add.s(1, 2).then(add, 10).then(add, 100))
assert chain.get(blocking=True, timeout=20) == [3, 13, 113]
sums = add.map([(number, number) for number in range(5)])
assert sums.get(blocking=True, timeout=20) == [0, 2, 4, 6, 8]
attempts = fail_twice()


def third() -> str | None:
    """Return the result, which until the last attempt is the previous attempt's error."""
    try:
        return attempts.get()
    except TaskException:
        attempts.reset()
        return None


assert eventually(third) == "third"
with refused(TaskException, "always"):
    fail()(blocking=True, timeout=20)
assert alone()(blocking=True, timeout=20) > begun
assert later(blocking=True, timeout=20) == 42
assert time.time() - begun >= 1
assert revoked() is None
eventually(lambda: client().get("minutes"))
consumer.stop(graceful=True)
