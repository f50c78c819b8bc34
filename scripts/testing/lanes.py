"""Runs jobs, several at a time, and stores their output."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from .jobs import Job

# The time limit of a job in seconds, which only a hanging job reaches.
LONGEST = 30 * 60
TERMINAL = sys.stdout.isatty()


@dataclass
class Result:
    """The result of a job."""

    job: Job
    status: int
    """The exit status of the job, negative if a signal ended it."""
    seconds: float
    cpu: float
    """CPU seconds of the job, including processes that it started and waited for."""

    @property
    def passed(self) -> bool:
        """Return whether all of the job's tests passed."""
        return self.status == 0


class _Screen:
    """Prints one line for each finished job and, on a terminal, a last line with the running jobs.

    The line contains the job's seed if the job failed. If the total number of jobs is unknown, it
    always contains the seed.
    """

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.ended = 0
        self.running: list[str] = []

    def begin(self, job: Job) -> None:
        self.running.append(job.title)
        self._draw()

    def end(self, result: Result) -> None:
        self.running.remove(result.job.title)
        self.ended += 1
        word = "ok    " if result.passed else "FAILED"
        of = f"/{self.total}" if self.total else ""
        place = f"[{self.ended:{max(1, len(of) - 1)}}{of}]"
        start = "\r\x1b[K" if TERMINAL else ""
        seed = result.job.variables.get("UNDERCROFT_SEED")
        is_shown = seed and not (self.total and result.passed)
        replay = f"  UNDERCROFT_SEED={seed}" if is_shown else ""
        line = f"{place} {word} {result.seconds:6.1f} s  {result.job.title}{replay}"
        print(f"{start}{line}", flush=True)
        self._draw()

    def _draw(self) -> None:
        if TERMINAL and self.running:
            text = f"running: {', '.join(self.running)}"
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:width]}", end="", flush=True)


class Lanes:
    """Runs a fixed number of jobs concurrently."""

    def __init__(self, next_job: Callable[[], Job | None], count: int, total: int | None) -> None:
        """Run jobs from ``next_job`` until it returns None; ``total`` is only displayed."""
        self._next = next_job
        self._count = count
        self._screen = _Screen(total)
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._ends = False
        self.results: list[Result] = []

    def run(self) -> None:
        """Run until all jobs have finished, or until an interrupt, which stops the running jobs."""
        threads = [threading.Thread(target=self._lane) for _ in range(self._count)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            while any(thread.is_alive() for thread in threads):
                with self._lock:
                    self._ends = True
                    for group in self._running:
                        _kill(group)
                threads[0].join(0.1)
            raise

    def _lane(self) -> None:
        while True:
            with self._lock:
                job = None if self._ends else self._next()
                if job is None:
                    return
                self._screen.begin(job)
            result = self._run(job)
            with self._lock:
                self._screen.end(result)
                self.results.append(result)

    def _run(self, job: Job) -> Result:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        since = time.monotonic()
        with job.log.open("wb") as log:
            process = subprocess.Popen(
                job.command,
                cwd=job.directory,
                env=os.environ | job.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with self._lock:
                self._running.add(process.pid)
            hanging = threading.Timer(LONGEST, _kill, (process.pid,))
            hanging.start()
            _, wait_status, usage = os.wait4(process.pid, 0)
            hanging.cancel()
            with self._lock:
                self._running.remove(process.pid)
            status = process.returncode = os.waitstatus_to_exitcode(wait_status)
            seconds = time.monotonic() - since
            if status < 0:
                name = signal.Signals(-status).name
                log.write(f"\nended by {name} after {seconds:.0f} s\n".encode())
        return Result(job, status, seconds, usage.ru_utime + usage.ru_stime)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run(jobs: list[Job], count: int) -> list[Result]:
    """Run jobs in order, `count` at a time; return the results in the order of completion."""
    waiting = iter(jobs)
    lanes = Lanes(lambda: next(waiting, None), count, len(jobs))
    lanes.run()
    return lanes.results
