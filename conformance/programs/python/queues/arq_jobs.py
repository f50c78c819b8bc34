"""arq: a worker runs jobs, delays and retries them, aborts one, and stores results."""

import asyncio
import logging
import time

from arq import ArqRedis, Retry, Worker, cron
from arq.jobs import Job, JobStatus
from place import asynchronous, refused

logging.disable(logging.CRITICAL)


async def add(_: object, one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


async def fail_once(context: dict[str, int]) -> int:
    """Request a retry at the first attempt."""
    if context["job_try"] < 2:
        raise Retry(defer=0.05)
    return context["job_try"]


async def fail(_: object) -> None:
    """Raise an error."""
    raise ValueError("always")


async def endless(_: object) -> None:
    """Run until aborted."""
    await asyncio.sleep(3600)


async def tick(context: dict[str, ArqRedis]) -> None:
    """Count the seconds."""
    await context["redis"].incr("ticks")


async def main() -> None:
    """Queue jobs and run them."""
    # Pass a pool, because arq's own settings support no store URL.
    redis = ArqRedis(connection_pool=asynchronous().connection_pool)
    worker = Worker(
        [add, fail_once, fail, endless],
        redis_pool=redis,
        handle_signals=False,
        poll_delay=0.05,
        allow_abort_jobs=True,
        cron_jobs=[cron(tick, second=set(range(60)))],
    )
    working = asyncio.create_task(worker.main())
    begun = time.time()
    jobs = [await redis.enqueue_job("add", number, 1) for number in range(10)]
    later = await redis.enqueue_job("add", 20, 22, _defer_by=1)
    assert await later.status() == JobStatus.deferred
    assert await redis.enqueue_job("add", 1, 1, _job_id="once") is not None
    assert await redis.enqueue_job("add", 1, 1, _job_id="once") is None
    again = await redis.enqueue_job("fail_once")
    failed = await redis.enqueue_job("fail")
    running = await redis.enqueue_job("endless")
    wait = {"timeout": 20, "poll_delay": 0.02}
    assert [await job.result(**wait) for job in jobs] == list(range(1, 11))
    assert await again.result(**wait) == 2
    with refused(ValueError, "always"):
        await failed.result(**wait)
    while await running.status() != JobStatus.in_progress:
        await asyncio.sleep(0.02)
    assert await running.abort(timeout=20, poll_delay=0.02)
    assert await later.result(**wait) == 42
    assert time.time() - begun >= 1
    assert await Job("once", redis).status() == JobStatus.complete
    while not await redis.get("ticks"):
        await asyncio.sleep(0.02)
    assert len(await redis.all_job_results()) >= 14
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await worker.close()


asyncio.run(main())
