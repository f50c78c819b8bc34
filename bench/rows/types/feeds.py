"""Rows of feeds: memory, ranges, insertions, filters, moves, readers, a page of a forum."""

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
# Which share of Redis' user CPU a range at a place may take.
SHARES = {"first": 0.35, "middle": 0.1, "last": 0.35}
RARE = 10_000


def longest(bench: Bench) -> int:
    """Return the power of ten of the items of the longest feed."""
    return bench.pick(6, 7)


def powers(bench: Bench) -> list[int]:
    """Return those of all feeds."""
    return list(range(4, longest(bench) + 1))


def start_of(place: str, power: int, length: int) -> int:
    """Return where a range begins."""
    return {"first": 0, "middle": 10**power // 2, "last": -length}[place]


def program(bench: Bench) -> Path:
    """Return the program of loops in C."""
    return interface.compiled(bench, "feeds")


@contextlib.contextmanager
def filled(bench: Bench, powers: Sequence[int]) -> Iterator[tuple[Loop, Path]]:
    """Run the loops in C on a store with feeds of so many items."""
    store = bench.directory() / "store"
    with loop(program(bench), store, script=None) as running:
        for power in powers:
            running.run(f"fill-{power}", 1)
        yield running, store


def embedded_rows(bench: Bench) -> list[Row]:
    """Measure what C and Python do with a store in their own process."""
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
        work="memory of an item of 12 bytes with attributes 4:3:1, by the growth of the file: "
        f"{10**power:,} of them",
        ours=Figure("growth", each, each, each, "bytes"),
        ratio=each,
        at_most=13.5,
        note="The target is in bytes.",
    )


def _rounds(bench: Bench, side: Loop, operation: str, seconds: float) -> list[float]:
    """Return the nanoseconds an operation took in some rounds, each of about so long."""
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
            work=f"{name}: a range of 100 at the slowest of all places and sizes, beside the "
            "fastest",
            ours=ours,
            peer=peer,
            ratio=ours.median / peer.median,
            at_most=2,
            note=f"The slowest is the {ours.name}.",
        )
        if side is c:
            by_chance = Figure.of("any", at[most, "any"], "ns")
            row.note += f" At places by chance of the longest: {by_chance}."
        rates = [1e3 / rounds for rounds in at[slowest]]
        rate = Figure.of(ours.name, rates, "M/s")
        found += [
            row,
            Row(
                id=f"feed-range-rate-{name.split(',')[0].lower()}",
                work=f"{name}: ranges of 100 a second at the slowest of them, in millions",
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
                work=f"{name}: a range of 100 with attributes, the middle of the longest",
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
            work=f"C: an insertion into {10**power:,} items at the slowest of head, middle and "
            "tail, beside the fastest",
            ours=slowest,
            peer=fastest,
            ratio=slowest.median / fastest.median,
            at_most=2,
            note="; ".join(f"{figure.name} {figure}" for figure in figures)
            + f"; each at a place by chance {by_chance:,.0f} ns.",
        ),
        Row(
            id="feed-insert-rate",
            work="C: insertions a second at the slowest of them, in millions",
            ours=rate,
            ratio=rate.median,
            at_least=1.5,
        ),
    ]


def _filters(bench: Bench, c: Loop) -> list[Row]:
    found, power = [], longest(bench)
    for operation, words, items in (
        ("rare", "a range of 50 where 1 item in 10,000 passes", 50 * RARE),
        ("count", "a count of the items with one of 8 values of an attribute", 10**power),
        ("both", "a count by two attributes, which looks at all items", 10**power),
    ):
        rounds = _rounds(bench, c, f"{operation}-{power}", 0.1)
        rate = Figure.of(operation, [items * 1e3 / one for one in rounds], "M/s")
        found.append(
            Row(
                id=f"feed-{operation}",
                work=f"C: {words}, of {10**power:,}: million items passed a second, on one core",
                ours=rate,
                ratio=rate.median,
                at_least=1_000,
                note=f"{statistics.median(rounds) / 1e6:.3g} ms each, of {items:,} items.",
            )
        )
    row = Row(
        id="feed-move",
        work=f"C: moves to the front by value, of {10**power:,} with INDEX: thousands a second",
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
    """Measure readers beside a writer, each a process of its own on any core."""
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
    two, one = (Figure.of(name, rates[count], "M/s") for count, name in ((2, "two"), (1, "one")))
    return [
        Row(
            id="feed-readers",
            work="2 processes that read ranges of 100 beside a writer: million ranges per CPU "
            "second of a reader",
            ours=two,
            peer=one,
            ratio=two.median / one.median,
            at_least=0.9,
            note=f"A feed of a million items. The writer, which sleeps between its writes, made "
            f"{Figure.of('writes', writes, 'a second')}. Processes are not pinned.",
        )
    ]


def served_rows(bench: Bench) -> list[Row]:
    """Measure ranges through the server, beside ranges of Redis' lists."""
    power = longest(bench)
    found = [
        row
        for place, share in SHARES.items()
        for row in (
            Row(
                id=f"server-feed-range-{place}-throughput",
                work=f"server `FEED.RANGE` of 100 of {10**power:,}, {place}, 10 connections: "
                "requests, beside LRANGE",
                at_least=1.0,
            ),
            Row(
                id=f"server-feed-range-{place}-cpu",
                work=f"server `FEED.RANGE` of 100 of {10**power:,}, {place}: user CPU a request",
                at_most=share,
            ),
        )
    ]
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        for row in found:
            row.note = missing
        return found
    with contextlib.ExitStack() as stack:
        # The file that `undercroft_server` will serve.
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
    """Return the words of a range of one of Redis' lists."""
    stop = -1 if start < 0 else start + length - 1
    return ["LRANGE", f"list{power}", str(start), str(stop)]


def fill_list(server: peers.Server, power: int) -> None:
    """Make a list of as many items in Redis."""
    for some in peers.batched(lists.texts(10**power), 100_000):
        name = f"list{power}".encode()
        pushes = (peers.command(b"RPUSH", name, *part) for part in peers.batched(some, 1_000))
        server.run(pushes)


def page_rows(bench: Bench, c: Loop, server: mariadb.MariaDB | None, note: str) -> list[Row]:
    """Measure a page of a board as a forum shows it, beside MariaDB's best query for it."""
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
        row.note = "MariaDB has an index of all columns of the query, in their order."
    return found
