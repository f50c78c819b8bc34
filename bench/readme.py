"""Write the measured tables into the pages that show them, or check them.

The pages are README.md, docs/benchmarks.md, docs/rust.md and clients/php/README.md.

Each is made from the newest whole result of its table in ``bench/results/``, between two
comments, so that no figure is ever typed by hand. ``--check`` changes nothing and fails
where a page says something else than the result file.
"""

import argparse
import sys
from pathlib import Path

from core import report
from core.report import Figure, Result, Row
from core.tables import TABLES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
NOT_YET = "No figures are committed yet; `make bench TABLE={}` measures them."
END = "<!-- bench: end -->"

# The rows of the README: their id, what was done, and what the peer is called there.
ESSENTIAL = (
    ("python-get-redis-5.2", "Python `get`", "redis-py 5.2 with hiredis, unix socket"),
    ("python-get-redis-newest", "Python `get`", "redis-py as it comes, unix socket"),
    ("python-get-redis-5.2-random", "the same in random order", "redis-py 5.2 with hiredis"),
    ("python-get-dict", "Python `get`", "`dict.get`"),
    ("python-get-dict-random", "the same in random order", "`dict.get`"),
    ("python-set-lmdb", "Python `set`", "py-lmdb `put`, nothing synced"),
    ("python-set-lmdb-random", "the same in random order", "py-lmdb `put`"),
    ("rust-get", "Rust `get`", "`HashMap` get and copy"),
    ("rust-set", "Rust `set`", "`HashMap` insert"),
    ("server-get-1-throughput", "server, GET", "redis-server"),
    ("server-get-16-throughput", "server, GET, 16 in a pipeline", "redis-server"),
    ("server-set-16-throughput", "server, SET, 16 in a pipeline", "redis-server"),
    ("server-get-64-throughput", "server, GET, 64 in a pipeline", "redis-server"),
    ("server-get-16-cpu", "server, CPU of a GET of those 16", "redis-server"),
    ("memory", "memory of a key of 16 bytes, value of 64", "redis-server"),
)


def newest(table: str) -> tuple[Path, Result] | None:
    """Return the newest result of a table that is neither quick nor a part, and its file."""
    found = [path for path in RESULTS.glob(f"*-{table}.json") if path.name[:4].isdecimal()]
    if not found:
        return None
    path = max(found)
    return path, report.from_json(path.read_text(encoding="utf-8"))


def comparison(row: Row) -> str:
    """Return ours beside the peer's in words, as a time, a rate or a size has them."""
    if not row.ours or not row.peer:
        return "-"
    more = row.ours.median / row.peer.median
    if row.ours.unit == "k/s":
        return f"{report.number(more)} times its requests"
    if row.ours.unit == "ns" and more < 1:
        return f"{report.number(1 / more)} times faster"
    kind = {"ns": "time", "us": "CPU"}.get(row.ours.unit, "memory")
    return f"{report.number(more)} of its {kind}"


def value(figure: Figure | None) -> str:
    """Return the median with its unit, long times in microseconds."""
    if not figure:
        return "not measured"
    if figure.unit == "ns" and figure.median >= 10_000:
        return f"{report.number(figure.median / 1000)} us"
    return f"{report.number(figure.median)} {figure.unit}"


def short_table() -> str:
    """Return the README's table."""
    result = newest("core")
    if result is None:
        return NOT_YET.format("core")
    path, found = result
    rows = {row.id: row for row in found.rows}
    lines = ["| | Undercroft | beside it | |", "| --- | --- | --- | --- |"]
    for name, work, peer in ESSENTIAL:
        if row := rows.get(name):
            lines.append(
                f"| {work} | {value(row.ours)} | {peer}: {value(row.peer)} | {comparison(row)} |"
            )
    missed = sum(row.met is False for row in found.rows)
    targets = sum(row.met is not None for row in found.rows)
    lines += [
        "",
        f"Measured on {found.date[:10]} with {found.machine['cores']} cores of an "
        f"{found.machine['processor']}: medians of interleaved rounds, 100,000 keys of 16 bytes, "
        f"values of 64. {targets - missed} of {targets} targets were met.",
        f"[How, on what, and every row with its spread](docs/benchmarks.md), from "
        f"[{path.name}]({path.relative_to(ROOT)}).",
    ]
    return "\n".join(lines)


def grids(table: str, words: str, up: str) -> str:
    """Return the grids of a table with these words in their titles, for a page below the root."""
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
    """Return a whole table for docs/benchmarks.md."""
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
    """Return a page with the text between a table's two comments, where it has them."""
    begin = f"<!-- bench: {table} -->"
    before, found, rest = page.partition(begin)
    if not found:
        # A result may be there before the page has a place for it.
        print(f"{where.relative_to(ROOT)}: has no line {begin}, and gets no table {table}")
        return page
    _, ended, after = rest.partition(END)
    if not ended:
        raise SystemExit(f"{where}: expected a line {begin} and after it a line {END}")
    return f"{before}{begin}\n{text}\n{END}{after}"


def main() -> int:
    """Write the pages, or check them; return the exit status."""
    parser = argparse.ArgumentParser(description="Put the measured tables into the pages.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a difference")
    check = parser.parse_args().check
    stale = 0
    for name, table, text in (
        ("README.md", "core", short_table()),
        ("docs/rust.md", "cache", grids("cache", "requests a second", "..")),
        ("clients/php/README.md", "php", grids("php", "PHP", "../..")),
        *(("docs/benchmarks.md", table, whole_table(table)) for table in TABLES),
    ):
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        new = filled(page, table, text, path)
        if check and new != page:
            print(f"{name}: its table is not the newest result's; type: python bench/readme.py")
            stale += 1
        elif new != page:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: table {table} written")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
