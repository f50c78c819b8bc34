"""Rows of single commands with short replies, from Python on a store."""

import contextlib
import functools
import statistics
import sys

from core import peers
from core.bench import Bench
from core.report import Figure, Grid, Row
from core.turns import Loop, interleaved, loop

# The operations of loops/calls.py that have rows in addition to the grid, and their names.
NAMED = {
    "get": "`get`",
    "hget": "`hget`",
    "incr": "`incr`",
    "sismember": "`sismember`",
    "zscore": "`zscore`",
    "zadd": "`zadd` of an existing member",
    "setex": "`setex`",
    "hgetall-5": "`hgetall` of 5 fields",
    "lpush+rpop": "`lpush` and `rpop`, per call",
}
KINDS = {"bytes": "bytes", "text": "text (`decode_responses`)"}
# The maximum time per call, in microseconds.
MOST = 1.0
SECONDS = 0.02


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure each command with bytes and with text, compared with redis-py."""
    if missing := peers.has("redis-server"):
        return [Row(id="calls", work="single commands", note=missing)]
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
    """Return the nanoseconds of a call in each round and on each side, without failed sides."""
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
    """Return a row for each operation in `NAMED`, with bytes and with text."""
    rows = []
    for name, words in NAMED.items():
        for kind, given in KINDS.items():
            row = Row(
                id=f"call-{name}-{kind}",
                work=f"Python {words}, embedded, {given}, in microseconds, compared with redis-py "
                "5.2 with hiredis on a unix socket",
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
    rows[0].note = (
        "Ratios and targets of single commands are absolute, in us, and include the loop itself, "
        "about 40 ns."
    )
    return rows


def _slowest(found: dict[str, Times]) -> list[Row]:
    """Return a row for each kind's slowest command; its note counts commands over the target."""
    rows = []
    for kind, given in KINDS.items():
        ours = {
            name: statistics.median(times["ours", kind]) / 1e3
            for name, times in found.items()
            if ("ours", kind) in times
        }
        row = Row(
            id=f"calls-slowest-{kind}",
            work=f"Python, embedded, {given}: slowest of {len(ours)} commands with short replies "
            "on strings, keys, hashes, sets, lists and sorted sets, in microseconds",
            at_most=MOST,
        )
        name = max(ours, key=lambda name: ours[name])
        row.ours = Figure.of(name, [value / 1e3 for value in found[name]["ours", kind]], "us")
        row.ratio = row.ours.median
        over = sum(each > MOST for each in ours.values())
        row.note = (
            f"The slowest is `{name}`; {over} commands take more than {MOST:g} us (see the grid of "
            "single commands)."
        )
        rows.append(row)
    return rows


def _grid(found: dict[str, Times], peer: str) -> Grid:
    """Return the grid of all commands, with bytes and with text."""
    columns = [*((side, kind) for kind in KINDS for side in ("ours", "redis"))]
    grid = Grid(
        "Single commands",
        "microseconds per call",
        [f"{'undercroft' if side == 'ours' else peer}, {kind}" for side, kind in columns],
        note="A plus sign joins two calls, of which the second undoes the first; the figure is "
        "half of their total.",
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
