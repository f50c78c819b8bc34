"""Tests processes that drop privileges while a store is open, as gunicorn and Celery do."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import undercroft
from children import fork, status_of

NOBODY = 65_534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its privileges")


def become_nobody() -> None:
    """Drop privileges, as a server does after opening its files."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@pytest.fixture
def r(path: str) -> Iterator[undercroft.Redis]:
    """Yield a client for a store in a directory that only root can search."""
    assert Path(path).parent.stat().st_mode & 0o077 == 0
    with undercroft.Redis(path) as client:
        client.set("n", 0)
        yield client


def test_workers_forked_before_the_drop_keep_working(r: undercroft.Redis) -> None:
    def work() -> None:
        become_nobody()
        for _ in range(1000):
            r.incr("n")

    workers = [fork(work) for _ in range(4)]
    assert [status_of(worker) for worker in workers] == [0] * 4
    assert int(r.get("n")) == 4000


def test_workers_forked_after_the_drop_keep_working(r: undercroft.Redis) -> None:
    def serve() -> None:
        become_nobody()
        workers = [fork(lambda: [r.incr("n") for _ in range(1000)]) for _ in range(4)]
        for _ in range(1000):
            r.incr("n")
        assert [status_of(worker) for worker in workers] == [0] * 4

    assert status_of(fork(serve)) == 0
    assert int(r.get("n")) == 5000


def test_an_unreachable_path_does_not_count_as_removed(r: undercroft.Redis) -> None:
    def work() -> None:
        r.incr("n")
        become_nobody()
        # The client checks once a second whether the file exists.
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            r.incr("n")

    assert status_of(fork(work)) == 0


def test_a_killed_worker_does_not_block_the_others(r: undercroft.Redis) -> None:
    def serve() -> None:
        become_nobody()
        for _ in range(10):
            began, begin = os.pipe()

            def write(begin: int = begin) -> None:
                while True:
                    r.incr("n")
                    os.write(begin, b".")

            worker = fork(write)
            os.read(began, 1)
            os.kill(worker, signal.SIGKILL)
            r.incr("n")
            assert status_of(worker) == -signal.SIGKILL
            os.close(began)
            os.close(begin)

    assert status_of(fork(serve)) == 0
    assert int(r.get("n")) >= 20
