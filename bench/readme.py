"""Write the measured figures into the pages that show them, or check these pages.

The pages are README.md, docs/benchmarks.md, docs/c.md, docs/performance.md, docs/rust.md and
clients/php/README.md. Each table is between two comments and is generated from the newest complete
result of its table in ``bench/results/``, so no figure is typed by hand. ``--check`` changes no
file and fails if a page differs from the result files.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from core import report
from core.report import Figure, Result, Row
from rows.tables import TABLES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
NOT_YET = "No figures are committed yet; `make bench TABLE={}` measures them."
END = "<!-- bench: end -->"


class Compared(NamedTuple):
    """A row on a page: a row of a result, and the page's names for its work and its peer."""

    table: str
    row: str
    work: str
    peer: str = ""
    """Empty for a row that has no peer, or whose peer the page does not show."""


REDIS_PY = "redis-py 5.2 with hiredis, unix socket"
HIREDIS = "redis-py 5.2 with hiredis"

ESSENTIAL = (
    Compared("core", "python-get-redis-5.2", "Python `get`", REDIS_PY),
    Compared("core", "python-get-dict", "Python `get`", "`dict.get`"),
    Compared("core", "python-set-lmdb", "Python `set`", "py-lmdb `put`, not synced to disk"),
    Compared(
        "php",
        "php-unix socket-store-get",
        "PHP, `Undercroft\\Native\\Store::get`",
        "phpredis, unix socket",
    ),
    Compared("php", "php-embedded-client-get", "PHP, `Undercroft\\Client::get`", "`apcu_fetch`"),
    Compared("objects", "objects-large-redis", "Python, 24 MiB array to another process", "Redis"),
    Compared("core", "server-get-16-throughput", "server, GETs, pipelines of 16", "redis-server"),
    Compared("core", "memory", "memory of a 16-byte key with a 64-byte value", "redis-server"),
)

CALLS = (
    Compared("core", "rust-get", "Rust `get`", "`HashMap`, get and copy"),
    Compared("core", "instructions-get", "the same, hot"),
    Compared("core", "rust-set", "Rust `set` that overwrites", "`HashMap`, insert"),
    Compared("core", "instructions-set", "the same, hot"),
    Compared("core", "python-get-dict", "Python `get`, in order of insertion", "`dict.get`"),
    Compared("core", "python-get-dict-random", "Python `get`, in random order", "`dict.get`"),
    Compared("core", "python-set-lmdb", "Python `set`, in order of insertion", "py-lmdb `put`"),
    Compared("everyday", "call-incr-bytes", "Python `incr`", HIREDIS),
    Compared("everyday", "call-zadd-bytes", "Python `zadd` of an existing member", HIREDIS),
    Compared("everyday", "call-hgetall-5-bytes", "Python `hgetall` of 5 fields", HIREDIS),
    Compared("everyday", "calls-slowest-bytes", "Python, slowest of 101 short commands"),
    Compared("everyday", "pipeline-gets", "Python, pipeline of 10 GETs", HIREDIS),
    Compared("everyday", "await-get", "Python, `await r.get(key)`", "`r.get(key)`"),
    Compared("everyday", "large-get-1024-copy", "Python `get` of 1 MiB", "one copy in memory"),
    Compared(
        "python",
        "get-unix-undercroft-sync-redis-5.2-sync",
        "GET over a unix socket from Python",
        HIREDIS,
    ),
    Compared("core", "server-get-1-cpu", "CPU time of the server for a GET", "redis-server"),
    Compared("core", "server-get-16-cpu", "the same, pipelines of 16", "redis-server"),
)

START = (
    Compared("core", "open-growth", "open a 1 GiB store, first GET and SET", "a 1 MiB store"),
    Compared(
        "everyday",
        "start-store-interpreter",
        "start Python, first GET by `undercroft.Store`",
        "an empty interpreter",
    ),
    Compared(
        "everyday",
        "start-redis-interpreter",
        "start Python, first GET by `undercroft.Redis`",
        "an empty interpreter",
    ),
)

SIZES = (
    Compared("core", "memory", "16-byte key with a 64-byte value", "redis-server"),
    Compared("types", "list-memory-texts", "12-byte item of a long list", "redis-server"),
    Compared("types", "memory-set", "member of a large set", "redis-server"),
    Compared("types", "memory-hash", "field of a large hash", "redis-server"),
    Compared("types", "memory-zset", "member of a large sorted set", "redis-server"),
    Compared("feeds", "feed-memory", "12-byte item of a feed with attributes 4:3:1"),
)

CROWD = (
    Compared(
        "core", "readers", "reads per CPU second, 2 readers next to a writer", "one reader alone"
    ),
    Compared("growth", "growth-expire", "slowest `set` while 200,000 keys expire", "Redis"),
    Compared("growth", "growth-copy", "slowest `set` during `undercroft export`", "Redis, BGSAVE"),
    Compared("growth", "growth-flush", "slowest `set` during a flush", "Redis"),
    Compared("growth", "crowd-set-late", "SET by 8 processes, 99.9th percentile", "Redis"),
    Compared("growth", "crowd-set-slowest", "SET by 8 processes, slowest call", "Redis"),
)

C_LIBRARY = (
    Compared("core", "c-get", "GET through the C library", "the call from Rust"),
    Compared("core", "c-set", "SET that overwrites through the C library", "the call from Rust"),
)


def newest(table: str) -> tuple[Path, Result] | None:
    """Return the newest complete result of a table, neither quick nor partial, and its file."""
    found = [path for path in RESULTS.glob(f"*-{table}.json") if path.name[:4].isdecimal()]
    if not found:
        return None
    path = max(found)
    return path, report.from_json(path.read_text(encoding="utf-8"))


def comparison(row: Row) -> str:
    """Describe the ratio of Undercroft's figure to the peer's; "a loss" if the peer's is better."""
    if not row.ours or not row.peer:
        return "-"
    more = row.ours.median / row.peer.median
    if row.ours.unit == "k/s":
        return f"{report.number(more)} times as many" + ": a loss" * (more < 1)
    if row.ours.unit in ("ns", "us"):
        faster = f"{report.number(1 / more)} times faster"
        return faster if more < 1 else f"{report.number(more)} times as long: a loss"
    return f"{report.number(more)} times as much" + ": a loss" * (more > 1)


def value(figure: Figure | None) -> str:
    """Return the median with its unit; long times are in microseconds or milliseconds."""
    if not figure:
        return "not measured"
    median, unit = figure.median, figure.unit
    for small, large in (("ns", "us"), ("us", "ms")):
        if unit == small and median >= 1000:
            median, unit = median / 1000, large
    return f"{report.number(median)} {unit}"


def comparisons(rows: Sequence[Compared], head: str, up: str, *, verdict: bool = False) -> str:
    """Return a page's own table of these rows, with its source; ``up`` is the path to the root.

    With ``verdict``, an additional column compares Undercroft's figure with the peer's. Only the
    README's table has it.
    """
    results: dict[str, tuple[Path, Result]] = {}
    lines = [head, "|" + " --- |" * (head.count("|") - 1)]
    for shown in rows:
        if shown.table not in results:
            found = newest(shown.table)
            if found is None:
                return NOT_YET.format(shown.table)
            results[shown.table] = found
        path, result = results[shown.table]
        row = next((row for row in result.rows if row.id == shown.row), None)
        if row is None:
            raise SystemExit(f"{path}: expected a row {shown.row}, which a page shows")
        peer = f"{shown.peer}: {value(row.peer)}" if shown.peer else "-"
        cells = [shown.work, value(row.ours), peer, *([comparison(row)] if verdict else [])]
        lines.append(f"| {' | '.join(cells)} |")
    machines = {
        f"{result.machine['cores']} cores of an {result.machine['processor']}"
        for _, result in results.values()
    }
    files = ", ".join(
        f"[{path.name}]({up}{path.relative_to(ROOT)})" for path, _ in results.values()
    )
    source = f"on {' and '.join(sorted(machines))}, from {files}."
    if verdict:
        source += " [All tables, with their spread and how they are measured](docs/benchmarks.md)."
    lines += ["", f"Medians of interleaved rounds {source}"]
    return "\n".join(lines)


def grids(table: str, words: str, up: str) -> str:
    """Return the grids whose titles contain these words; ``up`` is the path to the root."""
    result = newest(table)
    if result is None:
        return NOT_YET.format(table)
    path, found = result
    lines = []
    for grid in found.grids:
        if words in grid.title:
            lines += grid.markdown()
    lines.append(
        f"Measured on {found.date[:10]} with {found.machine['cores']} cores of an "
        f"{found.machine['processor']}, from [{path.name}]({up}/{path.relative_to(ROOT)})."
    )
    return "\n".join(lines)


def whole_table(table: str) -> str:
    """Return a complete table for docs/benchmarks.md."""
    result = newest(table)
    if result is None:
        return NOT_YET.format(table)
    path, found = result
    text = report.markdown(found)
    picture = path.with_suffix(".svg")
    if picture.exists() and found.drawn:
        text += f"\n\n![{found.drawn.title}](../{picture.relative_to(ROOT)})"
    return text


def filled(page: str, table: str, text: str, where: Path) -> str:
    """Return the page with the text between the table's two comments, if the page has them."""
    begin = f"<!-- bench: {table} -->"
    before, found, rest = page.partition(begin)
    if not found:
        # A result can exist before the page has comments for its table.
        print(f"{where.relative_to(ROOT)}: no line {begin}; table {table} is left out")
        return page
    _, ended, after = rest.partition(END)
    if not ended:
        raise SystemExit(f"{where}: expected a line {END} after the line {begin}")
    return f"{before}{begin}\n{text}\n{END}{after}"


def main() -> int:
    """Write the pages, or check them, and return the exit status."""
    parser = argparse.ArgumentParser(description="Write the measured tables into the pages.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if a page is stale"
    )
    check = parser.parse_args().check
    stale = 0
    for name, table, text in (
        (
            "README.md",
            "essential",
            comparisons(ESSENTIAL, "| | Undercroft | compared with | |", "", verdict=True),
        ),
        *(
            ("docs/performance.md", name, comparisons(rows, head, "../"))
            for name, rows, head in (
                ("calls", CALLS, "| call | takes | compared with |"),
                ("start", START, "| | takes | compared with |"),
                ("sizes", SIZES, "| | takes | compared with |"),
                ("crowd", CROWD, "| | Undercroft | compared with |"),
            )
        ),
        ("docs/c.md", "c", comparisons(C_LIBRARY, "| call | takes | compared with |", "../")),
        ("docs/rust.md", "cache", grids("cache", "requests a second", "..")),
        ("clients/php/README.md", "php", grids("php", "PHP", "../..")),
        *(("docs/benchmarks.md", table, whole_table(table)) for table in TABLES),
    ):
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        new = filled(page, table, text, path)
        if check and new != page:
            print(f"{name}: table {table} is not the newest result's; run: python bench/readme.py")
            stale += 1
        elif new != page:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: table {table} written")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
