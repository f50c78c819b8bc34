"""Runs storms, kill tests and random tests with one seed after another until the time is up.

Each run prints its seed, and ``UNDERCROFT_SEED`` repeats it. The jobs alternate.
``target/soak/state.json`` stores the position at which a soak stopped, and the next soak continues
from there. The first soak begins with a random job, or in CI with the first job. The exit status is
0 if no run failed.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter

from testing import jobs, lanes, summary
from testing.jobs import ROOT, Job

STATE = ROOT / "target/soak/state.json"
# The assumed duration, in seconds, of a job without a measured time.
UNKNOWN = 120.0


class Soak:
    """The jobs that a soak runs in rotation, and the remaining time."""

    def __init__(self, every: list[Job], seconds: float) -> None:
        """Start at the position at which the last soak stopped."""
        self.end = time.monotonic() + seconds
        self.every = every
        self.started: Counter[str] = Counter()
        self.results: list[lanes.Result] = []
        state = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
        first = 0 if "CI" in os.environ else random.randrange(len(every))
        self.turn: int = state.get("turn", first)
        self.times: dict[str, float] = jobs.times() | state.get("times", {})

    def next(self) -> Job | None:
        """Return the next job that fits into the remaining time, with a seed, or None."""
        left = self.end - time.monotonic()
        for _ in self.every:
            job = self.every[self.turn % len(self.every)]
            self.turn += 1
            if not self.runs(job) and self.times.get(job.title, UNKNOWN) <= left:
                self.started[job.title] += 1
                return jobs.seeded(job, self.started[job.title])
        return None

    def runs(self, job: Job) -> bool:
        """Return whether a job is still running."""
        ended = sum(result.job.title == job.title for result in self.results)
        return self.started[job.title] > ended

    def keep(self) -> None:
        """Save the position at which this soak stopped, and the durations of the jobs."""
        self.times |= {result.job.title: result.seconds for result in self.results}
        STATE.parent.mkdir(parents=True, exist_ok=True)
        state = {"turn": self.turn, "times": self.times}
        STATE.write_text(json.dumps(state, indent=1), encoding="utf-8")


def main() -> int:
    """Run a soak with the options from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: make soak MINUTES=60",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    minutes_help = "duration; only jobs that can finish in time are started (default: 15)"
    parser.add_argument("--minutes", type=float, default=15, help=minutes_help)
    parser.add_argument("--only", metavar="TEXT", help="only jobs with this text in their title")
    lanes_help = "jobs at a time (default: one more than cores)"
    parser.add_argument("--lanes", type=int, default=jobs.cores() + 1, help=lanes_help)
    times_help = "record how long each job took"
    parser.add_argument("--write-times", action="store_true", help=times_help)
    arguments = parser.parse_args()

    every = [job for job in jobs.soak(jobs.compiled()) if (arguments.only or "") in job.title]
    if not every:
        parser.error(f"no job has {arguments.only!r} in its title")
    started = time.monotonic()
    soak = Soak(every, arguments.minutes * 60)
    turns = f"{len(every)} jobs in turns, {arguments.lanes} at a time"
    print(f"== {turns}, for {arguments.minutes:g} minutes", flush=True)
    running = lanes.Lanes(soak.next, arguments.lanes, None)
    soak.results = running.results
    try:
        running.run()
    except KeyboardInterrupt:
        print("\ninterrupted: all jobs are stopped", file=sys.stderr)
    finally:
        soak.keep()
    if arguments.write_times:
        jobs.write_times(soak.times)
    summary.show(running.results, time.monotonic() - started, 0)
    return int(not all(result.passed for result in running.results))


if __name__ == "__main__":
    os.environ["UNDERCROFT_BUILT"] = "1"
    sys.exit(main())
