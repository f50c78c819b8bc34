"""Locates a program's data. All programs below this directory import this module first.

`PYTHONPATH=. python FOLDER/PROGRAM.py URL` runs one program, with the URL of a Redis server or of a
store (`undercroft://NAME`), whose scheme this module registers in redis-py. Worker processes that a
program starts get the URL from the environment.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

# Set the URL first, because a program's packages may read it during their import.
URL = os.environ.setdefault("PROGRAM_URL", sys.argv[1] if len(sys.argv) > 1 else "")
if not URL:
    sys.exit(f"usage: python {sys.argv[0]} redis://HOST:PORT/0 | undercroft://NAME")

EMBEDDED = URL.startswith("undercroft://")
if EMBEDDED:
    import undercroft
    import undercroft.asyncio

    undercroft.register_scheme()

import redis  # noqa: E402
import redis.asyncio  # noqa: E402


def client(**options: Any) -> redis.Redis:
    """Return a redis-py client. For a store, its pool runs commands in this process."""
    pools: Any = undercroft if EMBEDDED else redis
    return redis.Redis.from_pool(pools.ConnectionPool.from_url(URL, **options))


def asynchronous(**options: Any) -> redis.asyncio.Redis:
    """Return a redis-py asyncio client of the same server or store."""
    pools: Any = undercroft.asyncio if EMBEDDED else redis.asyncio
    return redis.asyncio.Redis.from_pool(pools.ConnectionPool.from_url(URL, **options))


def in_threads(number: int, work: Callable[[], None]) -> None:
    """Run work in `number` threads concurrently; raise the error of any thread."""
    with ThreadPoolExecutor(number) as threads:
        for done in [threads.submit(work) for _ in range(number)]:
            done.result()


@contextmanager
def processes(number: int, work: Callable[[], None]) -> Iterator[None]:
    """Run work in `number` new processes during the block."""
    start = multiprocessing.get_context("spawn").Process
    workers = [start(target=work) for _ in range(number)]
    for worker in workers:
        worker.start()
    yield
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def in_processes(number: int, work: Callable[[], None]) -> None:
    """Run work in `number` new processes concurrently."""
    with processes(number, work):
        pass


def eventually(check: Callable[[], Any], seconds: float = 20) -> Any:
    """Poll a check until its result is true, because no event announces it; return the result."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"{check.__qualname__} did not hold within {seconds} s"
        time.sleep(0.01)
    return found


@contextmanager
def refused(kind: type[BaseException], words: str = "") -> Iterator[None]:
    """Fail unless the block raises an error of this kind whose text contains `words`."""
    found = ""
    try:
        yield
    except kind as error:
        found = f"{error} "
    assert found, f"expected {kind.__name__}"
    assert words in found
