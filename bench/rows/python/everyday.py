"""Rows of typical Python calls: large values, new keys, pipelines, collections."""

import contextlib
import functools
import subprocess
import sys
import time
from collections.abc import Iterator

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import CutOffError, Loop, interleaved, loop

SCRIPT = "everyday.py"
REDIS = "redis-py 5.2 with hiredis on a unix socket"
# The large values: bytes, name, reads per round, and target. The target is a multiple of the time
# of a copy, or, for the smallest value, a time in microseconds.
LARGE = (
    (100 << 10, "100 KiB", 2_000, 4.0),
    (1 << 20, "1 MiB", 400, 1.2),
    (16 << 20, "16 MiB", 20, 1.2),
    (64 << 20, "64 MiB", 5, 1.2),
)
SMALLEST = LARGE[0][0]
# The timeout of one round of insertions or overwrites in seconds, in case a store becomes slower as
# it grows.
PATIENCE = 180.0
# Operations of loops/everyday.py, their names, and their maximum times in milliseconds.
WHOLE = (
    ("hgetall", "`hgetall` of 100,000 fields", 15.0),
    ("smembers", "`smembers` of 100,000", 8.0),
    ("zrange", "`zrange` of 100,000 with scores", 25.0),
    ("keys", "`keys` of a pattern over 100,000 keys, 1,000 of which match", 8.0),
    ("scan", "`scan_iter` of a pattern that 1,000 of 100,000 keys match, 100 keys a step", 8.0),
)


def _scaled(name: str, rounds: list[float], unit: str) -> Figure:
    """Return the figure for rounds in nanoseconds, converted to a longer unit."""
    divisor = {"us": 1e3, "ms": 1e6}[unit]
    return Figure.of(name, [value / divisor for value in rounds], unit)


def _absolute(row: Row, ours: Figure, theirs: Figure | None) -> None:
    """Fill in a row whose target is a time, not a fraction of the peer's."""
    row.ours, row.peer, row.ratio = ours, theirs, ours.median
    row.note = f"Ratio and target are absolute, in {ours.unit}."
    if theirs:
        row.note += f" {theirs.median / ours.median:.3g} times faster than the peer."


def large_rows(bench: Bench) -> list[Row]:
    """Measure GET of large values, compared with one copy of their bytes and with py-lmdb."""
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(
            loop(sys.executable, "large", bench.directory() / "store", script=SCRIPT)
        )
        missing = ""
        theirs: Loop | None = None
        try:
            theirs = stack.enter_context(
                loop(sys.executable, "large-lmdb", bench.directory() / "lmdb", script=SCRIPT)
            )
        except RuntimeError as error:
            missing = f"not measured: {error}"
        return [
            row
            for size, name, count, target in LARGE
            for row in _large(bench, ours, theirs, (size, name, count, target), missing)
        ]


def _large(
    bench: Bench,
    ours: Loop,
    theirs: Loop | None,
    what: tuple[int, str, int, float],
    missing: str,
) -> list[Row]:
    size, name, count, target = what
    count = max(3, count // bench.pick(4, 1))
    sides = {
        "get": functools.partial(ours.run, f"get-{size}", count),
        "copy": functools.partial(ours.run, f"copy-{size}", count),
    }
    if theirs:
        sides["lmdb"] = functools.partial(theirs.run, f"get-{size}", count)
    found = interleaved(bench.pick(5, 11), sides)
    get, copy = (_scaled(side, found[side], "us") for side in ("get", "copy"))
    id, work = f"large-get-{size >> 10}", f"Python `get` of {name}, embedded"
    beside_copy = Row(
        id=f"{id}-copy",
        work=f"{work}, compared with `bytes(memoryview)` of a warm buffer of that length",
        ours=get,
        peer=copy,
        ratio=get.median / copy.median,
        at_most=None if size == SMALLEST else target,
    )
    beside_lmdb = Row(id=f"{id}-lmdb", work=f"{work}, compared with py-lmdb `get`", note=missing)
    if theirs:
        lmdb = _scaled("get", found["lmdb"], "us")
        beside_lmdb.ours, beside_lmdb.peer = get, lmdb
        beside_lmdb.ratio = get.median / lmdb.median
    limited = Row(id=id, work=f"{work}, in microseconds", at_most=target)
    if size == SMALLEST:
        _absolute(limited, get, None)
        return [limited, beside_copy, beside_lmdb]
    return [beside_copy, beside_lmdb]


def insertion_rows(bench: Bench) -> list[Row]:
    """Measure the insertion of new keys, compared with overwriting them in another order."""
    found = []
    for count, rounds in ((1_000_000, bench.pick(1, 3)), (10_000_000, bench.pick(0, 1))):
        if not rounds:
            continue
        row = Row(
            id=f"insertion-{count}",
            work=f"Python `set` of {count:,} new keys, embedded, compared with overwriting all of "
            "them in another order",
            at_most=1.5,
        )
        found.append(row)
        insert: list[float] = []
        overwrite: list[float] = []
        try:
            with loop(
                sys.executable, "insertion", bench.directory() / "store", script=SCRIPT
            ) as ours:
                for _ in range(rounds):
                    insert.append(ours.run("insert", count, PATIENCE))
                    overwrite.append(ours.run("overwrite", count, PATIENCE))
        except CutOffError as error:
            row.failed, row.note = True, bench.without_places(error)
            continue
        row.ours, row.peer = Figure.of("set", insert, "ns"), Figure.of("overwrite", overwrite, "ns")
        row.ratio = row.ours.median / row.peer.median
        row.note = "Each round has a new store; keys of 16 bytes, values of 64 bytes."
    return found


@contextlib.contextmanager
def _beside_redis(bench: Bench, kind: str) -> Iterator[tuple[Loop, Loop]]:
    """Run a loop on a store, and the same loop with redis-py on a Redis server."""
    with contextlib.ExitStack() as stack:
        store = bench.directory() / "store"
        ours = stack.enter_context(loop(sys.executable, kind, store, script=SCRIPT))
        server = stack.enter_context(peers.redis_server(bench.directory()))
        python = peers.environment("redis-5.2")
        theirs = loop(python, f"{kind}-redis", server.path, script=SCRIPT)
        yield ours, stack.enter_context(theirs)


def _turns(
    bench: Bench, ours: Loop, theirs: Loop, operation: str, seconds: float
) -> dict[str, list[float]]:
    """Measure one operation on both sides, for about this many seconds per round and side."""
    counts = {side: max(3, int(seconds * 1e9 / side.run(operation, 3))) for side in (ours, theirs)}
    return interleaved(
        bench.pick(3, 9),
        {
            "ours": functools.partial(ours.run, operation, counts[ours]),
            "theirs": functools.partial(theirs.run, operation, counts[theirs]),
        },
    )


def pipeline_rows(bench: Bench) -> list[Row]:
    """Measure a pipeline of ten GETs and a transaction of ten SETs."""
    work = {"gets": ("pipeline of 10 GETs", 6.0), "sets": ("transaction of 10 SETs", 12.0)}
    rows = [
        Row(
            id=f"pipeline-{name}",
            work=f"Python, embedded, {words}, in microseconds, compared with {REDIS}",
            at_most=target,
        )
        for name, (words, target) in work.items()
    ]
    if missing := peers.has("redis-server"):
        for row in rows:
            row.note = missing
        return rows
    with _beside_redis(bench, "pipelines") as (ours, theirs):
        for row, name in zip(rows, work, strict=True):
            found = _turns(bench, ours, theirs, name, 0.1)
            mine, other = (_scaled(name.upper(), found[side], "us") for side in ("ours", "theirs"))
            _absolute(row, mine, other)
        alone = [ours.run("single-gets", 2_000) for _ in range(3)]
        rows[0].note += f" Ten separate GETs take {_scaled('', alone, 'us')}."
    return rows


def collection_rows(bench: Bench) -> list[Row]:
    """Measure reads of entire collections, and scans of all keys."""
    rows = [
        Row(
            id=f"collection-{name}",
            work=f"Python {words}, embedded, in milliseconds, compared with {REDIS}",
            at_most=target,
        )
        for name, words, target in WHOLE
    ]
    if missing := peers.has("redis-server"):
        for row in rows:
            row.note = missing
        return rows
    with _beside_redis(bench, "collections") as (ours, theirs):
        for row, (name, _, _) in zip(rows, WHOLE, strict=True):
            found = _turns(bench, ours, theirs, name, 0.3)
            mine, other = (_scaled(name.upper(), found[side], "ms") for side in ("ours", "theirs"))
            _absolute(row, mine, other)
            if name in ("hgetall", "smembers", "zrange"):
                own = [ours.run(f"own-{name}", 5) for _ in range(bench.pick(2, 5))]
                row.note += (
                    f" Building the same objects with `marshal.loads` takes "
                    f"{_scaled('', own, 'ms')}."
                )
    return rows


def awaiting_rows(bench: Bench) -> list[Row]:
    """Measure calls that are awaited one by one, compared with the same calls without asyncio."""
    row = Row(
        id="await-get",
        work="Python `await r.get(k)` one at a time, embedded, in microseconds, compared with "
        "`r.get(k)`",
        at_most=1.0,
    )
    store = bench.directory() / "store"
    with loop(sys.executable, "awaiting", store, script=SCRIPT) as ours:
        count = bench.pick(20_000, 100_000)
        sides = {name: functools.partial(ours.run, name, count) for name in ("await", "call")}
        found = interleaved(bench.pick(3, 9), sides)
    figures = [_scaled(name, found[name], "us") for name in ("await", "call")]
    row.ours, row.peer = figures
    row.ratio = row.ours.median
    row.note = (
        "Ratio and target are absolute, in us. asyncio's event loop, keys in order of insertion."
    )
    return [row]


def start_rows(bench: Bench) -> list[Row]:
    """Measure new interpreters: one opens a store and reads, the other does nothing."""
    store, lmdb = bench.directory() / "store", bench.directory() / "lmdb"
    redis = f"import undercroft; undercroft.Redis({str(store)!r}).get('k')"
    native = f"import undercroft; undercroft.Store({str(store)!r}).get(b'k')"
    texts = {
        "undercroft.Redis": redis,
        "undercroft.Store": native,
        "import lmdb": f"import lmdb; lmdb.open({str(lmdb)!r}).begin().get(b'k')",
        "an empty interpreter": "",
    }
    found = {
        name: times
        for name, times in interleaved(
            bench.pick(3, 9),
            {name: functools.partial(_started, text) for name, text in texts.items()},
        ).items()
        if None not in times
    }
    rows = []
    for name, target in (("undercroft.Redis", 200.0), ("undercroft.Store", 60.0)):
        for peer in ("an empty interpreter", "import lmdb"):
            row = Row(
                id=f"start-{name.rpartition('.')[2].lower()}-{peer.rpartition(' ')[2]}",
                work=f"Python, fresh interpreter: import, open, GET by `{name}`, in milliseconds, "
                f"compared with {peer}{', open, get' if 'lmdb' in peer else ''}",
                at_most=target,
            )
            rows.append(row)
            if name not in found or peer not in found:
                row.note = f"not measured: {name if name not in found else peer} is not available"
                continue
            row.ours, row.peer = (
                _scaled(side, [time for time in found[side] if time is not None], "ms")
                for side in (name, peer)
            )
            row.ratio = row.ours.median
            row.note = "Ratio and target are absolute, in ms."
    return rows


def _started(text: str) -> float | None:
    """Return the nanoseconds that an interpreter takes for a program, or None if it fails."""
    command = ["taskset", "--cpu-list", str(peers.CLIENT_CORE), sys.executable, "-c", text]
    start = time.perf_counter_ns()
    run = subprocess.run(command, capture_output=True, check=False, timeout=60, cwd="/")
    return None if run.returncode else float(time.perf_counter_ns() - start)
