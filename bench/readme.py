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
from rows.tables import TABLES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
NOT_YET = "No figures are committed yet; `make bench TABLE={}` measures them."
END = "<!-- bench: end -->"

# The eight rows of the README: table and id, what was done, and what the peer is called there.
ESSENTIAL = (
    ("core", "python-get-redis-5.2", "Python `get`", "redis-py 5.2 with hiredis, unix socket"),
    ("core", "python-get-dict", "Python `get`", "`dict.get`"),
    ("core", "python-set-lmdb", "Python `set`", "py-lmdb `put`, not synced to disk"),
    (
        "php",
        "php-unix socket-store-get",
        "PHP, `Undercroft\\Native\\Store::get`",
        "phpredis, unix socket",
    ),
    ("php", "php-embedded-client-get", "PHP, `Undercroft\\Client::get`", "`apcu_fetch`"),
    ("objects", "objects-large-redis", "Python, an array of 24 MiB to another process", "Redis"),
    ("core", "server-get-16-throughput", "server, GETs a second, 16 in a pipeline", "redis-server"),
    ("core", "memory", "memory of a key of 16 bytes with a value of 64", "redis-server"),
)


def newest(table: str) -> tuple[Path, Result] | None:
    """Return the newest result of a table that is neither quick nor a part, and its file."""
    found = [path for path in RESULTS.glob(f"*-{table}.json") if path.name[:4].isdecimal()]
    if not found:
        return None
    path = max(found)
    return path, report.from_json(path.read_text(encoding="utf-8"))


def comparison(row: Row) -> str:
    """Return in words how ours compares with the peer's; "a loss" where the peer's is better."""
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
    """Return the median with its unit, long times in micro- or milliseconds."""
    if not figure:
        return "not measured"
    median, unit = figure.median, figure.unit
    for small, large in (("ns", "us"), ("us", "ms")):
        if unit == small and median >= 1000:
            median, unit = median / 1000, large
    return f"{report.number(median)} {unit}"


def short_table() -> str:
    """Return the README's table."""
    results: dict[str, tuple[Path, Result]] = {}
    lines = ["| | Undercroft | compared with | |", "| --- | --- | --- | --- |"]
    for table, name, work, peer in ESSENTIAL:
        if table not in results:
            found = newest(table)
            if found is None:
                return NOT_YET.format(table)
            results[table] = found
        rows = {row.id: row for row in results[table][1].rows}
        if name not in rows:
            raise SystemExit(f"{results[table][0]}: expected a row {name} for README.md")
        row = rows[name]
        lines.append(
            f"| {work} | {value(row.ours)} | {peer}: {value(row.peer)} | {comparison(row)} |"
        )
    machines = {
        f"{result.machine['cores']} cores of an {result.machine['processor']}"
        for _, result in results.values()
    }
    files = ", ".join(f"[{path.name}]({path.relative_to(ROOT)})" for path, _ in results.values())
    lines += [
        "",
        f"Medians of interleaved rounds on {' and '.join(sorted(machines))}, from {files}. "
        "[All tables with their spread, and how they are measured](docs/benchmarks.md).",
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
        ("README.md", "essential", short_table()),
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
