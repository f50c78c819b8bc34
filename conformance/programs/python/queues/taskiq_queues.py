"""taskiq-redis: brokers on a list, a stream and a channel, results, and a schedule."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from place import URL, asynchronous
from taskiq import AsyncBroker, TaskiqScheduler
from taskiq.api import run_receiver_task, run_scheduler_task
from taskiq_redis import (
    ListQueueBroker,
    ListRedisScheduleSource,
    PubSubBroker,
    RedisAsyncResultBackend,
    RedisStreamBroker,
)

logging.disable(logging.CRITICAL)


async def work(broker: AsyncBroker) -> None:
    """Run tasks in a broker's receiver. One of the tasks fails."""
    broker.with_result_backend(RedisAsyncResultBackend(URL, result_ex_time=60))

    @broker.task(task_name="add")
    async def add(one: int, two: int) -> int:
        return one + two

    @broker.task(task_name="fail")
    async def fail() -> None:
        raise ValueError("always")

    source = ListRedisScheduleSource(URL, prefix=f"schedule:{broker.queue_name}")
    await source.startup()
    await broker.startup()
    receiving = asyncio.create_task(run_receiver_task(broker))
    if isinstance(broker, PubSubBroker):
        # Wait for the subscription, because earlier messages are lost.
        redis = asynchronous()
        while not (await redis.pubsub_numsub(broker.queue_name))[0][1]:
            await asyncio.sleep(0.01)
        await redis.aclose()
    tasks = [await add.kiq(number, 1) for number in range(20)]
    results = [await task.wait_result(check_interval=0.01, timeout=20) for task in tasks]
    assert [result.return_value for result in results] == list(range(1, 21))
    failed = await (await fail.kiq()).wait_result(check_interval=0.01, timeout=20)
    assert failed.is_err
    assert "always" in str(failed.error)

    scheduler = TaskiqScheduler(broker, [source])
    scheduling = asyncio.create_task(run_scheduler_task(scheduler, interval=timedelta(seconds=0.1)))
    when = datetime.now(UTC) + timedelta(seconds=0.5)
    timed = await add.schedule_by_time(source, when, 20, 22)
    assert timed.schedule_id
    while await source.get_schedules() or not await done(22):
        await asyncio.sleep(0.02)
    for task in (receiving, scheduling):
        task.cancel()
    await asyncio.gather(receiving, scheduling, return_exceptions=True)
    await source.shutdown()
    await broker.shutdown()


async def done(number: int) -> bool:
    """Return whether `number` results exist."""
    redis = asynchronous()
    try:
        found = [key async for key in redis.scan_iter("*") if await redis.type(key) == b"string"]
        return len(found) >= number
    finally:
        await redis.aclose()


async def main() -> None:
    """Test each broker."""
    for kind in (ListQueueBroker, RedisStreamBroker, PubSubBroker):
        await work(kind(URL, queue_name=kind.__name__))
        redis = asynchronous()
        await redis.flushdb()
        await redis.aclose()


asyncio.run(main())
