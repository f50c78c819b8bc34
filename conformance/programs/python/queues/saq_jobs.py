"""saq: a worker runs jobs, retries and schedules them, and callers wait for their results."""

import asyncio
import logging
import time

from place import asynchronous, refused
from saq import CronJob, Worker
from saq.job import Status
from saq.queue import JobError
from saq.queue.redis import RedisQueue

logging.disable(logging.CRITICAL)
runs: list[float] = []


async def add(_: object, *, one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


async def fail_once(context: dict[str, object]) -> int:
    """Fail at the first attempt."""
    attempts = context["job"].attempts
    if attempts < 2:
        raise ValueError("the first time")
    return attempts


async def fail(_: object) -> None:
    """Raise an error."""
    raise ValueError("always")


async def tick(_: object) -> None:
    """Record that a second has passed."""
    runs.append(time.time())


async def main() -> None:
    """Queue jobs and run them."""
    queue = RedisQueue(asynchronous())
    await queue.connect()
    worker = Worker(
        queue,
        functions=[add, fail_once, fail],
        cron_jobs=[CronJob(tick, cron="* * * * * */1")],
        timers={"schedule": 1},
    )
    working = asyncio.create_task(worker.start())
    # Wait for saq's first sweep, which can mistake a job that was just assigned for a lost job.
    while not await queue.redis.exists(queue.namespace("sweep")):
        await asyncio.sleep(0.01)
    assert await queue.apply("add", one=1, two=2, timeout=20) == 3
    numbers = await queue.map("add", [{"one": n, "two": 1} for n in range(20)], timeout=20)
    assert numbers == list(range(1, 21))
    assert await queue.apply("fail_once", retries=2) == 2
    with refused(JobError, "always"):
        await queue.apply("fail")
    begun = time.time()
    later = await queue.enqueue("add", one=20, two=22, scheduled=time.time() + 1)
    assert await queue.enqueue("add", key="one", one=1, two=1, scheduled=time.time() + 60)
    assert await queue.enqueue("add", key="one", one=1, two=1) is None
    await later.refresh(until_complete=20)
    assert (later.status, later.result) == (Status.COMPLETE, 42)
    assert int(time.time()) > int(begun)
    while not runs:
        await asyncio.sleep(0.02)
    assert await queue.count("incomplete") >= 1
    await worker.stop()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await queue.disconnect()


asyncio.run(main())
