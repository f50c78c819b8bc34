"""Where the data of a program is: what all programs below this directory begin with.

`PYTHONPATH=. python FOLDER/PROGRAM.py URL` runs one here, with the URL of a Redis server or of a
store (`undercroft://NAME`), which redis-py learns here. What a program starts beside itself, its
workers, finds the same place in the environment.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

# A program's packages may read the URL while they are imported, so that it is known before.
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
    """Return a client of redis-py's; at a store, of a pool whose commands run here."""
    pools: Any = undercroft if EMBEDDED else redis
    return redis.Redis.from_pool(pools.ConnectionPool.from_url(URL, **options))


def asynchronous(**options: Any) -> redis.asyncio.Redis:
    """Return the same for asyncio."""
    pools: Any = undercroft.asyncio if EMBEDDED else redis.asyncio
    return redis.asyncio.Redis.from_pool(pools.ConnectionPool.from_url(URL, **options))


def in_threads(number: int, work: Callable[[], None]) -> None:
    """Do some work in so many threads at the same time; an error of one is raised here."""
    with ThreadPoolExecutor(number) as threads:
        for done in [threads.submit(work) for _ in range(number)]:
            done.result()


@contextmanager
def processes(number: int, work: Callable[[], None]) -> Iterator[None]:
    """Have some work done by so many new processes beside what is done within."""
    start = multiprocessing.get_context("spawn").Process
    workers = [start(target=work) for _ in range(number)]
    for worker in workers:
        worker.start()
    yield
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def in_processes(number: int, work: Callable[[], None]) -> None:
    """Do some work in so many new processes at the same time."""
    with processes(number, work):
        pass


def eventually(check: Callable[[], Any], seconds: float = 20) -> Any:
    """Return what a check returns once that is true, where nothing is there to wait for."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"not within {seconds} s: {check.__qualname__}"
        time.sleep(0.01)
    return found


@contextmanager
def refused(kind: type[BaseException], words: str = "") -> Iterator[None]:
    """Fail unless what is done within raises an error of a kind, with these words in it."""
    found = ""
    try:
        yield
    except kind as error:
        found = f"{error} "
    assert found, f"expected {kind.__name__}"
    assert words in found
