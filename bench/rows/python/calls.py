"""Rows of commands with short replies, one call after another, by Python on a store."""

import contextlib
import functools
import statistics
import sys

from core import peers
from core.bench import Bench
from core.report import Figure, Grid, Row
from core.turns import Loop, interleaved, loop

# Those that have a row of their own, by their names in loops/calls.py.
NAMED = {
    "get": "`get`",
    "hget": "`hget`",
    "incr": "`incr`",
    "sismember": "`sismember`",
    "zscore": "`zscore`",
    "zadd": "`zadd` of a member that is there",
    "setex": "`setex`",
    "hgetall-5": "`hgetall` of 5 fields",
    "lpush+rpop": "`lpush` and `rpop`, each",
}
KINDS = {"bytes": "bytes", "text": "text, `decode_responses`"}
# The most microseconds that a call may take.
MOST = 1.0
SECONDS = 0.02


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure each command with bytes and with text, beside redis-py."""
    if missing := peers.has("redis-server"):
        return [Row(id="calls", work="commands one after another", note=missing)]
    with contextlib.ExitStack() as stack:
        store = bench.directory() / "store"
        server = stack.enter_context(peers.redis_server(bench.directory()))
        python = peers.environment("redis-5.2")
        sides: dict[tuple[str, str], Loop] = {}
        for kind in KINDS:
            sides["ours", kind] = stack.enter_context(
                loop(sys.executable, "embedded", kind, store, script="calls.py")
            )
            sides["redis", kind] = stack.enter_context(
                loop(python, "redis", kind, server.path, script="calls.py")
            )
        peer = sides["redis", "bytes"].about
        names = sides["ours", "bytes"].ask("names", 0).split()
        found = {name: _measured(bench, sides, name) for name in names}
    return [*_rows(found), *_slowest(found), _grid(found, peer)]


Times = dict[tuple[str, str], list[float]]


def _measured(bench: Bench, sides: dict[tuple[str, str], Loop], name: str) -> Times:
    """Return the nanoseconds of a call on each side; a side that fails has none."""
    turns = {}
    for key, side in sides.items():
        try:
            once = side.run(name, 20)
        except RuntimeError as error:
            print(f"{side.about or 'undercroft'}, {name}: {error}", file=sys.stderr)
            continue
        turns[key] = functools.partial(side.run, name, max(10, int(SECONDS * 1e9 / once)))
    return interleaved(bench.pick(3, 9), turns)


def _rows(found: dict[str, Times]) -> list[Row]:
    """Return a row for each of the named ones, with bytes and with text."""
    rows = []
    for name, words in NAMED.items():
        for kind, given in KINDS.items():
            row = Row(
                id=f"call-{name}-{kind}",
                work=f"Python {words}, embedded, {given}: microseconds, beside redis-py 5.2 with "
                "hiredis on a unix socket",
                at_most=MOST,
            )
            rows.append(row)
            times = found[name]
            if ("ours", kind) not in times or ("redis", kind) not in times:
                row.note = "not measured: it failed"
                continue
            row.ours, row.peer = (
                Figure.of(name, [value / 1e3 for value in times[side, kind]], "us")
                for side in ("ours", "redis")
            )
            row.ratio = row.ours.median
    rows[0].note = "The targets of these rows are in us; the loop's own cost, some 40 ns, included."
    return rows


def _slowest(found: dict[str, Times]) -> list[Row]:
    """Return the slowest of all, and which are slower than they may be."""
    rows = []
    for kind, given in KINDS.items():
        ours = {
            name: statistics.median(times["ours", kind]) / 1e3
            for name, times in found.items()
            if ("ours", kind) in times
        }
        row = Row(
            id=f"calls-slowest-{kind}",
            work=f"Python, embedded, {given}: the slowest of {len(ours)} commands of strings, "
            "keys, hashes, sets, lists and sorted sets with short replies, microseconds",
            at_most=MOST,
        )
        name = max(ours, key=lambda name: ours[name])
        row.ours = Figure.of(name, [value / 1e3 for value in found[name]["ours", kind]], "us")
        row.ratio = row.ours.median
        over = sorted((name for name in ours if ours[name] > MOST), key=lambda name: -ours[name])
        row.note = f"It is {name}. {len(over)} take more than {MOST:g} us"
        row.note += f": {', '.join(f'{name} {ours[name]:.2f}' for name in over)}." if over else "."
        rows.append(row)
    return rows


def _grid(found: dict[str, Times], peer: str) -> Grid:
    """Return all of them beside each other."""
    columns = [*((side, kind) for kind in KINDS for side in ("ours", "redis"))]
    grid = Grid(
        "Commands one after another",
        "microseconds a call",
        [f"{'undercroft' if side == 'ours' else peer}, {kind}" for side, kind in columns],
        note="Two names are two calls of which the second takes the first one back: half of both.",
    )
    for name, times in found.items():
        grid.rows.append(
            (
                name,
                [
                    statistics.median(times[column]) / 1e3 if column in times else None
                    for column in columns
                ],
            )
        )
    return grid
