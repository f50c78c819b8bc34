"""Measure a table and its peers on this machine.

Writes the table as Markdown to standard output and everything that was measured as
JSON to ``bench/results/``. Progress goes to standard error.
"""

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from core import machine, plot, report
from rows import tables

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure the groups of rows that the command line selects, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: bench/run.py --table core --quick --only server",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--table", choices=sorted(tables.TABLES), default="core")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    known = "; ".join(f"{name}: {', '.join(groups)}" for name, groups in tables.TABLES.items())
    parser.add_argument(
        "--only", metavar="GROUP", nargs="+", help=f"groups to measure, by table: {known}"
    )
    parser.add_argument(
        "--binaries",
        type=Path,
        default=Path("target/release"),
        metavar="DIRECTORY",
        help="folder that contains undercroft and undercroft-bench (default: target/release)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the JSON file to write (default: named after the date)",
    )
    arguments = parser.parse_args()

    groups = tables.TABLES[arguments.table]
    chosen = arguments.only or list(groups)
    if unknown := set(chosen) - set(groups):
        parser.error(f"expected groups from {', '.join(groups)}, got {', '.join(sorted(unknown))}")

    # All stores are in shared memory, so that a peer waits for a disk only in the table `durable`.
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="undercroft-bench-", dir="/dev/shm") as scratch:
        bench = tables.Bench(
            scratch=Path(scratch), binaries=arguments.binaries.resolve(), quick=arguments.quick
        )
        started = time.monotonic()
        result = report.Result(
            table=arguments.table,
            quick=arguments.quick,
            groups=chosen,
            machine=machine.describe(),
            versions=machine.versions(bench.binaries),
        )
        for name in chosen:
            since = time.monotonic()
            print(f"measuring {name} ...", end=" ", file=sys.stderr, flush=True)
            try:
                result.add(groups[name](bench))
            except Exception:
                # The figures of the other groups took minutes to measure, so keep them.
                failed.append(name)
                traceback.print_exc()
            print(f"{time.monotonic() - since:.0f} s", file=sys.stderr)
        result.seconds = round(time.monotonic() - started)
    print(report.markdown(result))
    partial = "" if set(chosen) - set(failed) == set(groups) else "-partial"
    quick = "-quick" if arguments.quick else ""
    output = arguments.output or RESULTS / f"{result.date[:10]}-{result.table}{quick}{partial}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(report.to_json(result), encoding="utf-8")
    print(f"written to {output}", file=sys.stderr)
    if result.drawn:
        picture = output.with_suffix(".svg")
        plot.write(result.drawn, picture, f"{result.date[:10]}, {result.machine['processor']}")
        print(f"drawn in {picture}", file=sys.stderr)
    if failed:
        print(f"error: could not measure {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
