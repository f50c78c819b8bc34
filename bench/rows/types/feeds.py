"""Rows of feeds: memory, ranges, insertions, filters, moves, readers, a forum's page."""

import contextlib
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from core import mariadb, peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import Loop, loop

from rows.languages import interface
from rows.servers import served
from rows.types import lists

PLACES = ("first", "middle", "last")
ENDS = ("head", "middle", "tail")
# The maximum user CPU time of a range at each position, relative to Redis.
SHARES = {"first": 0.35, "middle": 0.1, "last": 0.35}
RARE = 10_000


def longest(bench: Bench) -> int:
    """Return the length of the longest feed, as a power of ten."""
    return bench.pick(6, 7)


def powers(bench: Bench) -> list[int]:
    """Return the lengths of all feeds, as powers of ten."""
    return list(range(4, longest(bench) + 1))


def start_of(place: str, power: int, length: int) -> int:
    """Return the index of the first item of a range at the head, middle or tail."""
    return {"first": 0, "middle": 10**power // 2, "last": -length}[place]


def program(bench: Bench) -> Path:
    """Compile the program with the timed loops in C and return its path."""
    return interface.compiled(bench, "feeds")


@contextlib.contextmanager
def filled(bench: Bench, powers: Sequence[int]) -> Iterator[tuple[Loop, Path]]:
    """Run the loops in C on a store with feeds of these lengths."""
    store = bench.directory() / "store"
    with loop(program(bench), store, script=None) as running:
        for power in powers:
            running.run(f"fill-{power}", 1)
        yield running, store


def embedded_rows(bench: Bench) -> list[Row]:
    """Measure calls from C and Python on a store in their own process."""
    store = bench.directory() / "store"
    with loop(program(bench), store, script=None) as c:
        for power in powers(bench)[:-1]:
            c.run(f"fill-{power}", 1)
        found = [_memory(c, store, longest(bench))]
        with loop(sys.executable, "embedded", store, script="feeds.py") as python:
            found += _ranges(bench, c, python)
        found += _insertions(bench, c)
        found += _filters(bench, c)
    return found


def _memory(c: Loop, store: Path, power: int) -> Row:
    def taken() -> int:
        return store.stat().st_blocks * 512

    before = taken()
    c.run(f"fill-{power}", 1)
    each = (taken() - before) / 10**power
    return Row(
        id="feed-memory",
        work=f"file growth per 12-byte item with attributes 4:3:1, {10**power:,} items",
        ours=Figure("growth", each, each, each, "bytes"),
        ratio=each,
        at_most=13.5,
        note="Ratio and target are absolute, in bytes.",
    )


def _rounds(bench: Bench, side: Loop, operation: str, seconds: float) -> list[float]:
    """Return the nanoseconds of an operation in rounds of about this many seconds each."""
    count = max(1, int(seconds * 1e9 / side.run(operation, 3)))
    return [side.run(operation, count) for _ in range(bench.pick(3, 7))]


def _ranges(bench: Bench, c: Loop, python: Loop) -> list[Row]:
    found, most = [], longest(bench)
    for side, name, target in ((c, "C", 1.0), (python, "Python, as an array", 0.5)):
        at = {
            (power, place): _rounds(bench, side, f"range-{power}-100-{place}", 0.05)
            for power in powers(bench)
            for place in (*PLACES, *(["any"] if side is c else []))
        }
        flat = {where: rounds for where, rounds in at.items() if where[1] != "any"}
        slowest = max(flat, key=lambda where: statistics.median(at[where]))
        fastest = min(flat, key=lambda where: statistics.median(at[where]))
        ours, peer = (
            Figure.of(f"{place} of 10^{power}", at[power, place], "ns")
            for power, place in (slowest, fastest)
        )
        row = Row(
            id=f"feed-range-flat-{name.split(',')[0].lower()}",
            work=f"{name}: range of 100 at the slowest place and feed size, compared with the "
            "fastest",
            ours=ours,
            peer=peer,
            ratio=ours.median / peer.median,
            at_most=2,
            note=f"Slowest: {ours.name}.",
        )
        if side is c:
            by_chance = Figure.of("any", at[most, "any"], "ns")
            row.note += f" At random places of the longest feed: {by_chance}."
        rates = [1e3 / rounds for rounds in at[slowest]]
        rate = Figure.of(ours.name, rates, "M/s")
        found += [
            row,
            Row(
                id=f"feed-range-rate-{name.split(',')[0].lower()}",
                work=f"{name}: million ranges of 100 per second at the slowest place and size",
                ours=rate,
                ratio=rate.median,
                at_least=target,
            ),
        ]
    for side, name in ((c, "C"), (python, "Python")):
        rounds = _rounds(bench, side, f"attrs-{most}-100-middle", 0.05)
        found.append(
            Row(
                id=f"feed-range-attributes-{name.lower()}",
                work=f"{name}: range of 100 with attributes, middle of the longest feed",
                ours=Figure.of("attrs", rounds, "ns"),
            )
        )
    return found


def _insertions(bench: Bench, c: Loop) -> list[Row]:
    power = longest(bench)
    at = {place: [c.run(f"insert-{power}-{place}", 20_000)] for place in ENDS}
    for place in list(ENDS) * bench.pick(2, 6):
        at[place].append(c.run(f"insert-{power}-{place}", 20_000))
    figures = [Figure.of(place, at[place][1:], "ns") for place in ENDS]
    fastest = min(figures, key=lambda figure: figure.median)
    slowest = max(figures, key=lambda figure: figure.median)
    rate = Figure.of(slowest.name, [1e3 / one for one in at[slowest.name][1:]], "M/s")
    by_chance = c.run(f"insert-{power}-any", 5_000)
    return [
        Row(
            id="feed-insert-flat",
            work=f"C: insertion into {10**power:,} items at the slowest of head, middle and tail, "
            "compared with the fastest",
            ours=slowest,
            peer=fastest,
            ratio=slowest.median / fastest.median,
            at_most=2,
            note="; ".join(f"{figure.name} {figure}" for figure in figures)
            + f"; at random places {by_chance:,.0f} ns.",
        ),
        Row(
            id="feed-insert-rate",
            work="C: million insertions per second at the slowest of head, middle and tail",
            ours=rate,
            ratio=rate.median,
            at_least=1.5,
        ),
    ]


def _filters(bench: Bench, c: Loop) -> list[Row]:
    found, power = [], longest(bench)
    for operation, words, items in (
        ("rare", "range of 50 with a filter that 1 item in 10,000 passes", 50 * RARE),
        ("count", "count of items with one of 8 values of an attribute", 10**power),
        ("both", "count by two attributes, which examines every item", 10**power),
    ):
        rounds = _rounds(bench, c, f"{operation}-{power}", 0.1)
        rate = Figure.of(operation, [items * 1e3 / one for one in rounds], "M/s")
        found.append(
            Row(
                id=f"feed-{operation}",
                work=f"C: {words}, of {10**power:,}: million items covered per second, on one core",
                ours=rate,
                ratio=rate.median,
                at_least=1_000,
                note=f"{statistics.median(rounds) / 1e6:.3g} ms per call over {items:,} items.",
            )
        )
    row = Row(
        id="feed-move",
        work=f"C: thousand moves to the front by value per second, {10**power:,} items with INDEX",
        at_least=400,
    )
    try:
        c.run(f"fill-{power}-INDEX", 1)
        rounds = _rounds(bench, c, f"move-{power}", 0.1)
        row.ours = Figure.of("move", [1e6 / one for one in rounds], "k/s")
        row.ratio = row.ours.median
    except RuntimeError as error:
        row.note = f"not measured: {error}"
    return [*found, row]


def reader_rows(bench: Bench) -> list[Row]:
    """Measure readers concurrent with a writer, all in separate processes on any core."""
    milliseconds, rates = bench.pick(400, 1_000), dict[int, list[float]]()
    power, writes = 6, list[float]()
    with filled(bench, [power]) as (c, store), contextlib.ExitStack() as stack:
        writer, *readers = (
            stack.enter_context(loop(c.command, store, script=None, pinned=False)) for _ in range(3)
        )
        for turn in range(2 * bench.pick(3, 7)):
            some = readers[: 1 + turn % 2]
            for side, what in ((writer, "writes"), *((side, "reads") for side in some)):
                side.begin(f"{what}-{power}", milliseconds)
            writes.append(1e9 / float(writer.end()))
            each = statistics.mean(1e3 / float(side.end()) for side in some)
            rates.setdefault(len(some), []).append(each)
    two, one = (
        Figure.of(name, rates[count], "M/s")
        for count, name in ((2, "two readers"), (1, "one reader"))
    )
    return [
        Row(
            id="feed-readers",
            work="2 readers of ranges of 100 next to a writer: million ranges per CPU second of "
            "each",
            ours=two,
            peer=one,
            ratio=two.median / one.median,
            at_least=0.9,
            note="A feed of 1,000,000 items. The writer sleeps between writes: "
            f"{Figure.of('writes', writes, 'a second')}. Processes are not pinned.",
        )
    ]


def served_rows(bench: Bench) -> list[Row]:
    """Measure ranges through the server, compared with ranges of Redis lists."""
    power = longest(bench)
    found = [
        row
        for place, share in SHARES.items()
        for row in (
            Row(
                id=f"server-feed-range-{place}-throughput",
                work=f"server FEED.RANGE of 100 of {10**power:,}, {place}, 10 connections: "
                "requests per second, compared with LRANGE",
                at_least=1.0,
            ),
            Row(
                id=f"server-feed-range-{place}-cpu",
                work=f"server FEED.RANGE of 100 of {10**power:,}, {place}: user CPU time per "
                "request",
                at_most=share,
            ),
        )
    ]
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        for row in found:
            row.note = missing
        return found
    with contextlib.ExitStack() as stack:
        # `undercroft_server` serves the store `served` of this directory.
        directory = bench.directory()
        with loop(program(bench), directory / "served", script=None) as c:
            c.run(f"fill-{power}", 1)
        ours = stack.enter_context(peers.undercroft_server(directory, bench.binaries))
        theirs = stack.enter_context(peers.redis_server(bench.directory()))
        fill_list(theirs, power)
        for number, place in enumerate(SHARES):
            start = start_of(place, power, 100)
            requests = bench.pick(20_000, 50_000)
            loads = served.take_turns_with(
                [
                    (ours, ["FEED.RANGE", f"feed{power}", str(start), "100"]),
                    (theirs, lrange(power, start, 100)),
                ],
                bench.pick(2, 5),
                requests,
                ["-c", "10", "-P", "1"],
            )
            throughput, cpu = found[number * 2 : number * 2 + 2]
            served.fill_in(throughput, cpu, loads)
            cpu.ours, cpu.peer = (
                Figure.of("redis-server", [load.user for load in side], "us user") for side in loads
            )
            cpu.ratio = cpu.ours.median / cpu.peer.median if cpu.peer.median else None
    return found


def lrange(power: int, start: int, length: int) -> list[str]:
    """Return the command that reads a range of a Redis list."""
    stop = -1 if start < 0 else start + length - 1
    return ["LRANGE", f"list{power}", str(start), str(stop)]


def fill_list(server: peers.Server, power: int) -> None:
    """Fill a list in Redis with as many items as the feed of this length has."""
    for some in peers.batched(lists.texts(10**power), 100_000):
        name = f"list{power}".encode()
        pushes = (peers.command(b"RPUSH", name, *part) for part in peers.batched(some, 1_000))
        server.run(pushes)


def page_rows(bench: Bench, c: Loop, server: mariadb.MariaDB | None, note: str) -> list[Row]:
    """Measure a page of a forum's board, compared with MariaDB's best query for it."""
    number, power = bench.pick(9_000, 90_000), longest(bench)
    found = []
    for operation, words, where in (
        ("visible", "visible threads", ""),
        ("page", "visible threads with an attribute that half of them have", " AND a2=1"),
    ):
        ours = _rounds(bench, c, f"{operation}-{power}-{number}", 0.1)
        row = Row(
            id=f"feed-forum-{operation}",
            work=f"page {number:,} of a board of {10**power:,} threads, {words}, from C",
            ours=Figure.of(operation, [one / 1e3 for one in ours], "us"),
            at_least=1_000,
            note=note,
        )
        found.append(row)
        if server is None:
            continue
        query = mariadb.page(power, number * 25, 25, where)
        theirs = [server.seconds(query, 1) * 1e6 for _ in range(bench.pick(2, 5))]
        row.peer = Figure.of("MariaDB", theirs, "us")
        row.ratio = row.peer.median / statistics.median(one / 1e3 for one in ours)
        row.note = "MariaDB has an index on all columns of the query, in the query's order."
    return found
