"""Runs every test, several programs at a time, and reports which tests ran and which were skipped.

The output of each job is stored in ``target/test/``. The exit status is 0 only if all jobs passed.
"""

import argparse
import os
import subprocess
import sys
import time

from testing import jobs, lanes, summary
from testing.jobs import ROOT, Job

# The number of seconds that `--quick` may take, not counting compilation.
QUICK = 120


def expected(job: Job, times: dict[str, float]) -> float:
    """Return the expected duration of a job in seconds. A new job is assumed to be short."""
    return times.get(job.title, 1.0)


def quick(every: list[Job], times: dict[str, float], count: int) -> list[Job]:
    """Return the jobs for changed sources, and as many other jobs as fit into the time."""
    changes = jobs.changed()

    def is_changed(job: Job) -> bool:
        return any(name.startswith(job.sources) for name in changes)

    wanted, left = [], float(QUICK * count)
    for job in sorted(every, key=lambda job: (not is_changed(job), expected(job, times))):
        left -= expected(job, times)
        if left >= 0:
            wanted.append(job)
    return wanted


def options() -> argparse.ArgumentParser:
    """Return the command line parser."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: scripts/test.sh --only 'rust undercroft-engine'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    yes = "store_true"
    parser.add_argument(
        "--only", metavar="TEXT", help="only jobs of this stage or with this text in their title"
    )
    parser.add_argument(
        "--quick",
        action=yes,
        help="the tests of the latest changes, and others: 2 minutes after compiling",
    )
    parser.add_argument(
        "--build", action=yes, help="compile everything that tests need, and run nothing"
    )
    parser.add_argument("--list", action=yes, help="list the jobs and run nothing")
    lanes_help = "jobs at a time (default: one more than cores)"
    parser.add_argument("--lanes", type=int, default=jobs.cores() + 1, help=lanes_help)
    parser.add_argument("--write-times", action=yes, help="record how long each job took")
    return parser


def main() -> int:
    """Run the jobs that the command line selects."""
    parser = options()
    arguments = parser.parse_args()
    started = time.monotonic()
    times = jobs.times()
    print("== compiling the workspace, once for all tests (5 minutes the first time)", flush=True)
    messages = jobs.compiled()
    module = ROOT / "target/debug/libundercroft_python.so"
    subprocess.run([sys.executable, ROOT / "scripts/setup/editable.py", module], check=True)
    compiling = time.monotonic() - started
    if arguments.build:
        return 0
    wanted = jobs.every(messages)
    if arguments.only:
        wanted = jobs.named(wanted, arguments.only)
        if not wanted:
            parser.error(f"no job has {arguments.only!r} in its title; --list shows all titles")
    if arguments.quick:
        wanted = quick(wanted, times, arguments.lanes)
    wanted.sort(key=lambda job: -expected(job, times))
    if arguments.list:
        print(*[f"{expected(job, times):7.1f} s  {job.title}" for job in wanted], sep="\n")
        return 0
    minutes = sum(expected(job, times) for job in wanted) / arguments.lanes / 60
    about = f"about {minutes:.0f} minutes on two cores"
    print(f"== {len(wanted)} jobs, {arguments.lanes} at a time: {about}", flush=True)
    try:
        results = lanes.run([jobs.seeded(job) for job in wanted], arguments.lanes)
    except KeyboardInterrupt:
        print("\ninterrupted: all jobs are stopped", file=sys.stderr)
        return 130
    if arguments.write_times:
        jobs.write_times({result.job.title: result.seconds for result in results})
    summary.show(results, time.monotonic() - started, compiling)
    failed = [result.job for result in results if not result.passed]
    if failed and os.environ.get("CI"):
        print("\n== the failed jobs run once more, alone", flush=True)
        again = lanes.run(failed, 1)
        summary.show(again, time.monotonic() - started, compiling)
        return int(not all(result.passed for result in again))
    return int(bool(failed))


if __name__ == "__main__":
    os.environ["UNDERCROFT_BUILT"] = "1"
    os.environ["PATH"] = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    sys.exit(main())
