"""RQ: forking workers run jobs, store results, retry, schedule, and resolve dependencies."""

import logging
import multiprocessing
import time
from datetime import timedelta

from place import client, eventually, processes
from rq import Queue, Repeat, Retry, Worker
from rq.job import Job, JobStatus

logging.disable(logging.CRITICAL)


def add(one: int, two: int) -> int:
    """Return the sum of two numbers."""
    return one + two


def sum_of_parents() -> int:
    """Return the sum of the results of this job's dependencies."""
    job = Job.fetch(current(), connection=client())
    return sum(parent.return_value() for parent in job.fetch_dependencies())


def current() -> str:
    """Return the id of the current job."""
    from rq import get_current_job

    return get_current_job().id


def fail_once() -> str:
    """Fail at the first attempt."""
    if client().incr("attempts") == 1:
        raise ValueError("the first time")
    return "the second time"


def fail() -> None:
    """Raise an error."""
    raise ValueError("always")


def count() -> None:
    """Count the runs."""
    client().incr("runs")


def work() -> None:
    """Process the queues until they are empty, forking for each job."""
    redis = client()
    Worker(
        [Queue("high", connection=redis), Queue("low", connection=redis)], connection=redis
    ).work(burst=True)


def schedule() -> None:
    """Process the queues until stopped, with a scheduler."""
    redis = client()
    worker = Worker([Queue("later", connection=redis)], connection=redis)
    worker.work(with_scheduler=True)


if __name__ == "__main__":
    redis = client()
    high, low = Queue("high", connection=redis), Queue("low", connection=redis)
    sums = [high.enqueue("rq_jobs.add", number, 1) for number in range(5)]
    total = low.enqueue("rq_jobs.sum_of_parents", depends_on=sums)
    again = high.enqueue("rq_jobs.fail_once", retry=Retry(max=1))
    failed = high.enqueue("rq_jobs.fail")
    assert total.get_status() == JobStatus.DEFERRED
    with processes(2, work):
        assert eventually(lambda: total.latest_result()).return_value == 15
    assert [job.return_value() for job in sums] == [1, 2, 3, 4, 5]
    assert again.return_value() == "the second time"
    assert "always" in failed.latest_result().exc_string
    assert failed.id in high.failed_job_registry
    assert len(high.finished_job_registry) == 6

    later = Queue("later", connection=redis)
    begun = time.time()
    timed = later.enqueue_in(timedelta(seconds=1), "rq_jobs.add", 20, 22)
    later.enqueue("rq_jobs.count", repeat=Repeat(times=2, interval=1))
    assert timed.id in later.scheduled_job_registry
    worker = multiprocessing.get_context("spawn").Process(target=schedule)
    worker.start()
    result = eventually(lambda: timed.latest_result())
    assert result.return_value == 42
    # Compare whole seconds, because RQ schedules in whole seconds.
    assert int(time.time()) > int(begun)
    eventually(lambda: int(redis.get("runs") or 0) == 3)
    worker.terminate()
    worker.join()
