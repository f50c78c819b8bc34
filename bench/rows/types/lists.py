"""Rows of lists: memory, ranges, both ends, the middle."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import Loop, interleaved, loop

from rows.languages.native import PAGE, PAGE_DESCRIPTOR, measure
from rows.servers import served

# The number of items in the long list; a range is 100 of them.
ITEMS = 10_000_000
# The number of items in the list whose middle is changed.
MIDDLE = 1_000_000
LIST = b"list"
# The name and start of each range, and its maximum CPU time relative to Redis.
PLACES = (("head", 0, 0.5), ("middle", ITEMS // 2, 0.12), ("tail", -100, 0.5))


def texts(count: int) -> Iterator[bytes]:
    """Yield texts of 12 bytes, unordered and distinct."""
    return (b"%011dz" % (number * 7_919 % 99_999_999_977) for number in range(count))


def integers(count: int) -> Iterator[bytes]:
    """Yield integers of 12 digits, unordered and distinct."""
    spread = 899_999_999_981
    return (
        b"%d" % (100_000_000_000 + number * 611_953_011_287 % spread) for number in range(count)
    )


def pushes(name: bytes, items: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the commands that fill a list with these items."""
    for some in peers.batched(items, 100):
        yield peers.command(b"RPUSH", name, *some)


def rows(bench: Bench) -> list[Row]:
    """Measure memory and ranges of long lists from Rust, and readers concurrent with a writer."""
    found = []
    options = [f"--rounds={bench.pick(3, 9)}", f"--count={bench.pick(10_000, 50_000)}"]
    for kind, bytes_each, make in (("texts", 12.4, texts), ("integers", 6.5, integers)):
        named = "12-byte strings" if kind == "texts" else "12-digit integers"
        native = measure(bench, "lists", f"--kind={kind}", f"--items={ITEMS}", *options)
        found += [_memory(bench, native, kind, named, bytes_each, make)]
        found += _ranges(native, kind, named)
    return [*found, _readers(bench)]


def _memory(
    bench: Bench,
    native: dict[str, Any],
    kind: str,
    named: str,
    target: float,
    make: Callable[[int], Iterator[bytes]],
) -> Row:
    each = native["granted"] * (1 + PAGE_DESCRIPTOR / PAGE) / native["items"]
    row = Row(
        id=f"list-memory-{kind}",
        work=f"total memory per item, list of {ITEMS:,} {named}",
        ours=Figure("granted", each, each, each, "bytes"),
        ratio=each,
        at_most=target,
        note="Ratio and target are absolute, in bytes.",
    )
    if missing := peers.has("redis-server"):
        row.note += f" Redis {missing}."
        return row
    with peers.redis_server(bench.directory()) as server:
        before = int(server.info("memory")["used_memory"])
        server.run(pushes(LIST, make(ITEMS)))
        theirs = (int(server.info("memory")["used_memory"]) - before) / ITEMS
    row.peer = Figure("redis-server used_memory", theirs, theirs, theirs, "bytes")
    return row


def _ranges(native: dict[str, Any], kind: str, named: str) -> list[Row]:
    figures = {
        place: Figure.of(place, native[f"{place}_ns"], "ns")
        for place in ("head", "middle", "random", "tail")
    }
    best = min((figures[place] for place, _, _ in PLACES), key=lambda figure: figure.median)
    found = []
    for place, figure in figures.items():
        at = "random positions" if place == "random" else f"the {place}"
        row = Row(
            id=f"list-range-{kind}-{place}",
            work=f"Rust `LRANGE` of 100 of {ITEMS:,} {named} into a caller's buffer, from {at}",
            ours=figure,
            peer=best,
            ratio=figure.median / best.median,
        )
        if place != "random":
            row.at_most = 1.5
        row.note = f"{1e3 / figure.median:.2f} million ranges per second."
        found.append(row)
    slowest = max((figures[place] for place, _, _ in PLACES), key=lambda figure: figure.median)
    rate = 1e3 / slowest.median
    found.append(
        Row(
            id=f"list-range-{kind}-rate",
            work=f"Rust `LRANGE` of 100, slowest of head, middle and tail, {named}: million ranges "
            "per second",
            ours=Figure(slowest.name, rate, rate, rate, "M/s"),
            ratio=rate,
            at_least=1.0 if kind == "texts" else None,
        )
    )
    return found


def _readers(bench: Bench) -> Row:
    options = [f"--rounds={bench.pick(3, 7)}", f"--seconds={'0.4' if bench.quick else '1'}"]
    found = measure(bench, "readers", f"--list={MIDDLE}", *options)
    two = Figure.of(
        "two readers", [rate / 1e6 for rate in found["two_reads_per_cpu_second"]], "M/s"
    )
    one = Figure.of("one reader", [rate / 1e6 for rate in found["one_reads_per_cpu_second"]], "M/s")
    writes = Figure.of("writes", found["writes_per_second"], "a second")
    return Row(
        id="list-readers",
        work="2 readers of ranges next to a writer that pushes: ranges per CPU second of each",
        ours=two,
        peer=one,
        ratio=two.median / one.median,
        at_least=0.9,
        note=f"A list of {MIDDLE:,} strings. The writer, a separate process, sleeps between "
        f"pushes: {writes}. Processes are not pinned.",
    )


@contextlib.contextmanager
def _sides(bench: Bench, items: int) -> Iterator[tuple[Loop, Loop]]:
    """Run loops of the embedded client and of redis-py on lists with this number of texts."""
    with contextlib.ExitStack() as stack:
        store = bench.directory() / "store"
        ours = stack.enter_context(loop(sys.executable, "embedded-types", store))
        ours.run("fill", items)
        server = stack.enter_context(peers.redis_server(bench.directory()))
        server.run(pushes(LIST, texts(items)))
        python = peers.environment("redis-5.2")
        yield ours, stack.enter_context(loop(python, "redis-types", server.path))


def python_rows(bench: Bench) -> list[Row]:
    """Measure ranges and both ends from Python."""
    work = {
        f"lrange-{place}": (f"Python `lrange` of 100 of {ITEMS:,} strings, embedded, {place}", 20)
        for place, _, _ in PLACES
    } | {
        name: (f"Python `{name}` of one item, embedded", 80)
        for name in ("lpush", "rpush", "lpop", "rpop")
    }
    found = [
        Row(
            id=f"python-{name}",
            work=f"{words}, compared with redis-py 5.2 with hiredis on a unix socket",
            at_least=target,
        )
        for name, (words, target) in work.items()
    ]
    if missing := peers.has("redis-server"):
        for row in found:
            row.note = missing
        return found
    with _sides(bench, ITEMS) as (ours, theirs):
        _compare(found, list(work), ours, theirs, rounds=bench.pick(3, 7), seconds=0.2)
    return found


def middle_rows(bench: Bench) -> list[Row]:
    """Measure changes in the middle of a list."""
    names = ("linsert", "lset", "lrem")
    found = [
        Row(
            id=f"python-{name}",
            work=f"Python `{name}` in the middle of {MIDDLE:,} strings, embedded, compared with "
            "redis-py 5.2 with hiredis on a unix socket",
            at_least=10,
        )
        for name in names
    ]
    if missing := peers.has("redis-server"):
        for row in found:
            row.note = missing
        return found
    with _sides(bench, MIDDLE) as (ours, theirs):
        _compare(found, list(names), ours, theirs, rounds=bench.pick(3, 7), seconds=0.2)
    return found


def _compare(
    found: list[Row], names: list[str], ours: Loop, theirs: Loop, rounds: int, seconds: float
) -> None:
    for row, name in zip(found, names, strict=True):
        # Choose the counts so that both sides measure for about the same time.
        counts = {side: max(3, int(seconds * 1e9 / side.run(name, 3))) for side in (ours, theirs)}
        sides: dict[str, Callable[[], float]] = {
            "ours": functools.partial(ours.run, name, counts[ours]),
            "theirs": functools.partial(theirs.run, name, counts[theirs]),
        }
        times = interleaved(rounds, sides)
        row.ours = Figure.of(name, times["ours"], "ns")
        row.peer = Figure.of(name.upper(), times["theirs"], "ns")
        row.ratio = row.peer.median / row.ours.median
        row.note = (
            f"{theirs.about}; calls per round: ours {counts[ours]:,}, theirs {counts[theirs]:,}."
        )


def served_rows(bench: Bench) -> list[Row]:
    """Measure ranges through the server, compared with redis-server."""
    found = [
        row
        for place, _, share in PLACES
        for row in (
            Row(
                id=f"server-lrange-{place}-throughput",
                work=f"server LRANGE of 100 of {ITEMS:,} strings, {place}: requests per second",
                at_least=1.0,
            ),
            Row(
                id=f"server-lrange-{place}-cpu",
                work=f"server LRANGE of 100 of {ITEMS:,} strings, {place}: CPU time per request",
                at_most=share,
            ),
        )
    ]
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        for row in found:
            row.note = missing
        return found
    with served.both(bench) as servers:
        for server in servers:
            server.run(pushes(LIST, texts(ITEMS)))
        for number, (_, start, _) in enumerate(PLACES):
            stop = -1 if start < 0 else start + 99
            words = ["LRANGE", LIST.decode(), str(start), str(stop)]
            options = ["-c", "10", "-P", "1", *words]
            requests = bench.pick(5_000, 30_000)
            loads = served.take_turns(servers, bench.pick(2, 5), requests, options)
            served.fill_in(found[number * 2], found[number * 2 + 1], loads)
    return found
