"""Rows of one command with many items, at three sizes, compared with redis-py."""

import contextlib
import statistics
import sys
from collections.abc import Iterator

from core import peers
from core.bench import Bench
from core.report import Figure, Grid, Row
from core.turns import Loop, Renewable, loop

SIZES = (3_000, 30_000, 300_000)
SMALL, MIDDLE, LARGE = SIZES
# The prefixes of sorting commands, whose time per item may grow more than that of other commands.
SORTED = ("z", "geo", "sort", "multi-z", "pipeline-z")
TOGETHER = ("multi-", "pipeline-")
LINEAR, LINEAR_SORTED, FASTER, FASTER_TOGETHER = 1.5, 2.5, 2.0, 4.0
# The timeouts for an operation and for its preparation, in seconds.
LIMIT, PREPARING = 20.0, 60.0
# Operations that take more than this many seconds are measured once, in quick and full runs.
LONG_QUICK, LONG = 0.3, 2.0
SCRIPT = "many.py"
Times = dict[tuple[str, int], list[float]]


@contextlib.contextmanager
def _ours(bench: Bench) -> Iterator[Loop]:
    """Run a loop on a new store until the block ends."""
    store = bench.directory() / "store"
    try:
        with loop(sys.executable, "embedded", store, script=SCRIPT) as running:
            yield running
    finally:
        # Without this, the store of a killed loop would occupy memory for the rest of the run.
        store.unlink(missing_ok=True)


@contextlib.contextmanager
def _theirs(bench: Bench) -> Iterator[Loop]:
    """Run a loop of redis-py on a new server until the block ends."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(peers.redis_server(bench.directory()))
        python = peers.environment("redis-5.2")
        yield stack.enter_context(loop(python, "redis", server.path, script=SCRIPT))


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure each operation on a store at three sizes, and with redis-py at one size."""
    if missing := peers.has("redis-server"):
        return [Row(id="many", work="one command with many items", note=missing)]
    found: list[Row] = []
    with (
        Renewable(lambda: _ours(bench)) as ours,
        Renewable(lambda: _theirs(bench)) as theirs,
    ):
        names = ours.open().ask("names", 0).split()
        peer = theirs.open().about
        grid = Grid(
            "One command with many items",
            "microseconds per item",
            [*(f"{size:,} items" for size in SIZES), f"{peer}, {MIDDLE:,} items"],
            note=f"A call that would take more than {LIMIT:g} s is stopped and has no figure.",
        )
        for name in names:
            times, notes = _measured(bench, name, {"ours": ours, "redis": theirs})
            found += _rows(name, times, notes)
            columns = [*(("ours", size) for size in SIZES), ("redis", MIDDLE)]
            line = [statistics.median(times[key]) if key in times else None for key in columns]
            grid.rows.append((name, line))
            shown = " ".join("-" if each is None else f"{each:.3g}" for each in line)
            print(f"\n  {name}: {shown}", end="", file=sys.stderr, flush=True)
    return [*found, grid]


def baseline_rows(bench: Bench) -> list[Row]:
    """Measure how much slower Python's own objects become with more items on this machine."""
    words = {
        "dict.get": "look-up of each key",
        "dict": "copy of a dictionary",
        "set": "set of all keys",
    }
    found = []
    with loop(sys.executable, "python", bench.directory(), script=SCRIPT) as side:
        for name in side.ask("names", 2).split():
            times: dict[int, list[float]] = {SMALL: [], LARGE: []}
            for turn in range(bench.pick(2, 6)):
                for size in sorted(times, reverse=bool(turn % 2)):
                    side.run(f"prepare:{name}", size, PREPARING)
                    times[size].append(side.run(name, size, LIMIT))
            large, small = (
                Figure.of(f"{size:,} items", times[size][1:], "ns") for size in (LARGE, SMALL)
            )
            row = Row(
                id=f"many-baseline-{name}",
                work=f"Python's own `{name}`, {words[name]}, time per item of {LARGE:,}, compared "
                f"with {SMALL:,}",
                ours=large,
                peer=small,
                ratio=large.median / small.median,
                note="No store is involved: large data does not fit the caches of this machine.",
            )
            found.append(row)
    return found


def _measured(
    bench: Bench, name: str, sides: dict[str, Renewable]
) -> tuple[Times, dict[tuple[str, int], str]]:
    """Return the microseconds per item at each size, and the reasons for missing figures."""
    times: Times = {}
    notes: dict[tuple[str, int], str] = {}
    again: list[tuple[str, int]] = []
    first: dict[tuple[str, int], float] = {}
    long = LONG_QUICK if bench.quick else LONG
    for key in (("ours", SMALL), ("redis", MIDDLE), ("ours", MIDDLE), ("ours", LARGE)):
        side, size = key
        if size == LARGE and (why := _hopeless(first.get((side, MIDDLE)))):
            notes[key] = why
            continue
        try:
            first[key] = _once(sides[side], name, size)
        except RuntimeError as error:
            notes[key] = f"{size:,} items: {bench.without_places(error)}"
            continue
        # The first call is a warm-up, unless it took so long that it is the only call.
        if first[key] * size / 1e6 > long:
            times[key] = [first[key]]
        else:
            times[key] = []
            again.append(key)
    for turn in range(bench.pick(1, 3)):
        for key in again if turn % 2 else again[::-1]:
            if key not in times:
                continue
            try:
                times[key].append(_once(sides[key[0]], name, key[1]))
            except RuntimeError as error:
                del times[key]
                notes[key] = f"{key[1]:,} items: {bench.without_places(error)}"
    return times, notes


def _hopeless(middle: float | None) -> str:
    """Return why the largest size is skipped, given the microseconds per item of the middle one."""
    if middle is None:
        return f"{LARGE:,} items: not begun, because fewer did not finish"
    # Time grows at least in proportion to the number of items.
    if middle * LARGE / 1e6 > LIMIT:
        return f"{LARGE:,} items: not begun, because they would take more than {LIMIT:g} s"
    return ""


def _once(side: Renewable, name: str, size: int) -> float:
    """Prepare an operation, run it once, and return the microseconds per item."""
    side.run(f"prepare:{name}", size, PREPARING)
    return side.run(name, size, LIMIT) / 1e3


def _rows(name: str, times: Times, notes: dict[tuple[str, int], str]) -> list[Row]:
    """Return two rows of an operation: the comparison with redis-py, and the growth."""
    figures = {
        key: Figure.of(
            f"{key[1]:,} items" if key[0] == "ours" else name, [each * 1e3 for each in values], "ns"
        )
        for key, values in times.items()
    }
    beside = Row(
        id=f"many-{name}",
        work=f"Python `{name}` of {MIDDLE:,} items, embedded, time per item, compared with "
        "redis-py 5.2 with hiredis on a unix socket",
        at_least=FASTER_TOGETHER if name.startswith(TOGETHER) else FASTER,
    )
    growth = Row(
        id=f"many-{name}-growth",
        work=f"Python `{name}`, embedded, time per item of {LARGE:,}, compared with {SMALL:,}",
        at_most=LINEAR_SORTED if name.startswith(SORTED) else LINEAR,
    )
    for row, ours, theirs in (
        (beside, ("ours", MIDDLE), ("redis", MIDDLE)),
        (growth, ("ours", LARGE), ("ours", SMALL)),
    ):
        row.ours, row.peer = figures.get(ours), figures.get(theirs)
        if row.ours and row.peer:
            row.ratio = row.ours.median / row.peer.median
            if row is beside:
                row.ratio = 1 / row.ratio
        # A row fails only if Undercroft's figure is missing, not if the peer's is.
        row.failed = row.ours is None or (row is growth and row.peer is None)
        row.note = "; ".join(notes[key] for key in (ours, theirs) if key in notes)
    return [beside, growth]
