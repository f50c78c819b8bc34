"""Rows of streams: memory, requests, calls from Python, entries to blocked readers."""

import functools
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.peers import Server, command
from core.report import Figure, Row
from core.turns import interleaved

from rows.python.embedded import calls_beside_redis
from rows.servers import served
from rows.types.sets import taken

SCRIPT = "streams.py"
REDIS = "redis-py 5.2 with hiredis on a unix socket"
STREAM, GROUP, CONSUMER = b"stream", b"group", b"consumer"
# The number of entries in the long stream, whose IDs are numbers, and how many are pending.
ENTRIES, PENDING = 1_000_000, 100_000
PIPELINE = 16
# The number of connections that read from groups.
CLIENTS = 20
# redis-benchmark replaces this word with a number of 12 digits below ENTRIES.
CHANCE = "__rand_int__"
# Requests through the server: name, command, and number of requests per round.
SERVED = (
    ("XADD", f"XADD grown * sensor {CHANCE} temperature 21 place cellar", 200_000),
    ("XRANGE of 100", f"XRANGE stream {CHANCE} + COUNT 100", 20_000),
    ("XREAD of 100", f"XREAD COUNT 100 STREAMS stream {CHANCE}", 20_000),
)
# The number of blocked readers, and the pause between two entries in microseconds.
READERS, PAUSE = 10, 3000


def entry(number: int) -> tuple[bytes, ...]:
    """Return the fields of an entry; the names repeat, and most values differ."""
    temperature = b"%d" % (15 + number * 7919 % 20)
    return (b"sensor", b"%d" % number, b"temperature", temperature, b"place", b"cellar")


def entries() -> Iterator[bytes]:
    """Yield the commands that fill the long stream."""
    for number in range(1, ENTRIES + 1):
        yield command(b"XADD", STREAM, b"%d" % number, *entry(number))


def memory_rows(bench: Bench) -> list[Row]:
    """Measure the memory of many entries, and of many pending entries."""
    whole = Row(
        id="streams-memory",
        work=f"memory per entry, {ENTRIES:,} entries of 3 fields with repeating names",
        at_most=0.7,
    )
    pending = Row(
        id="streams-memory-pending",
        work=f"memory per pending entry, {PENDING:,} of them pending",
        at_most=0.7,
    )
    if missing := peers.has("redis-server"):
        whole.note = pending.note = missing
        return [whole, pending]
    found: list[tuple[Figure, Figure]] = []
    with served.both(bench) as servers:
        for server in servers:
            before = taken(server)
            served.send(server, entries(), b"$", 1)
            filled = taken(server)
            served.send(server, [command(b"XGROUP", b"CREATE", STREAM, GROUP, b"0")], b"+OK", 1)
            words = (b"GROUP", GROUP, CONSUMER, b"COUNT", b"100", b"STREAMS", STREAM, b">")
            deliver = command(b"XREADGROUP", *words)
            served.send(server, [deliver] * (PENDING // 100), b"*2\r\n$", 100)
            each = (filled - before) / ENTRIES, (taken(server) - filled) / PENDING
            one, other = (Figure("redis-server used_memory", at, at, at, "bytes") for at in each)
            found.append((one, other))
    for row, (ours, theirs) in zip((whole, pending), zip(*found, strict=True), strict=True):
        row.ours, row.peer = ours, theirs
        row.ratio = ours.median / theirs.median
    return [whole, pending]


def served_rows(bench: Bench) -> list[Row]:
    """Measure the CPU time per request of each stream command through the server."""
    found = [
        Row(
            id=f"streams-served-{name.split()[0].lower()}",
            work=f"server {name}, a stream of {ENTRIES:,} entries, -P {PIPELINE}: CPU time per "
            "request",
            at_most=0.6,
        )
        for name, *_ in SERVED
    ]
    shared = Row(
        id="streams-served-xreadgroup",
        work=f"server XREADGROUP of one entry and its XACK, pipelines of {PIPELINE // 2} pairs: "
        "CPU time per pair",
        at_most=0.6,
    )
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        for row in (*found, shared):
            row.note = missing
        return [*found, shared]
    with served.both(bench) as servers:
        for server in servers:
            served.send(server, entries(), b"$", 1)
        for row, (_, words, count) in zip(found, SERVED, strict=True):
            options = ["-c", "50", "-P", str(PIPELINE), "-r", str(ENTRIES), *words.split()]
            requests = bench.pick(count // 5, count)
            loads = served.take_turns(servers, bench.pick(2, 5), requests, options)
            served.fill_in(None, row, loads)
        pairs = bench.pick(40_000, 200_000)
        sides = {server.name: functools.partial(_handed_on, server, pairs) for server in servers}
        rounds = interleaved(bench.pick(2, 5), sides)
    shared.ours, shared.peer = (Figure.of(name, side, "us") for name, side in rounds.items())
    shared.ratio = shared.ours.median / shared.peer.median
    shared.note = (
        f"{CLIENTS} connections, each with its own group, wait for all replies to a pipeline."
    )
    return [*found, shared]


def _handed_on(server: Server, pairs: int) -> float:
    """Deliver and acknowledge entries one by one; return the CPU microseconds per pair."""
    groups = [b"group:%d" % number for number in range(CLIENTS)]
    for change, mark, more in ((b"DESTROY", b":", ()), (b"CREATE", b"+OK", (b"0",))):
        changes = [command(b"XGROUP", change, STREAM, group, *more) for group in groups]
        served.send(server, changes, mark, 1)
    each, turn = pairs // CLIENTS, PIPELINE // 2

    def pair(group: bytes, number: int) -> bytes:
        words = (b"GROUP", group, CONSUMER, b"COUNT", b"1", b"STREAMS", STREAM, b">")
        return command(b"XREADGROUP", *words) + command(b"XACK", STREAM, group, b"%d-0" % number)

    # Interleave the batches of the connections, in the order in which `send` sends them.
    commands = (
        pair(group, number)
        for first in range(1, each + 1, turn)
        for group in groups
        for number in range(first, first + turn)
    )
    before = sum(server.cpu())
    served.send(server, commands, b"\r\n:1\r\n", 1, turn, CLIENTS)
    return (sum(server.cpu()) - before) / pairs * 1e6


def python_rows(bench: Bench) -> list[Row]:
    """Measure calls from Python, compared with redis-py."""
    works = (
        ("xadd", "`xadd` of 3 fields", 60),
        ("xread", "`xread` of one entry", 60),
        ("xread-100", "`xread` of 100 entries", None),
    )
    rows = [
        Row(
            id=f"streams-python-{name}",
            work=f"Python {work}, compared with {REDIS}",
            at_least=target,
        )
        for name, work, target in works
    ]
    counts = bench.pick(2_000, 20_000), bench.pick(500, 5_000)
    return calls_beside_redis(bench, SCRIPT, [(row, *counts) for row in rows])


def reader_rows(bench: Bench) -> list[Row]:
    """Measure how long an entry takes to reach blocked readers."""
    row = Row(
        id="streams-readers",
        work=f"latency from `xadd` to {READERS} processes blocked in `xread`, one entry every "
        f"{PAUSE // 1000} ms, all readers",
        at_most=0.2,
    )
    floor = Row(
        id="streams-readers-floor",
        work=f"latency without a store: {READERS} processes, each woken through an eventfd",
    )
    if missing := peers.has("redis-server"):
        row.note = floor.note = missing
        return [row, floor]
    with peers.redis_server(bench.directory()) as server:
        places = {
            "embedded": (sys.executable, bench.directory() / "store"),
            "eventfd": (sys.executable, bench.directory()),
            "redis": (peers.environment("redis-5.2"), server.path),
        }
        count = bench.pick(100, 500)
        sides = {
            way: functools.partial(_latency, way, python, place, count)
            for way, (python, place) in places.items()
        }
        rounds = interleaved(bench.pick(2, 5), sides)
    row.ours = Figure.of("xadd", rounds["embedded"], "us")
    floor.ours = Figure.of("eventfd", rounds["eventfd"], "us")
    for each in (row, floor):
        each.peer = Figure.of(REDIS, rounds["redis"], "us")
        each.ratio = each.ours.median / each.peer.median
    row.note = f"Processes are not pinned and run on {len(peers.CORES)} cores."
    floor.note = "The processes wake and read the clock one after another."
    return [row, floor]


def _latency(way: str, python: str | Path, place: Path, count: int) -> float:
    script = Path(__file__).parents[2] / "loops" / SCRIPT
    words = ["readers", way, place, READERS, count, PAUSE]
    command = [str(word) for word in (python, script, *words)]
    run = subprocess.run(command, capture_output=True, check=True, text=True, timeout=300)
    # Skip the version line that a client of a server prints first.
    lines = [line for line in run.stdout.splitlines() if not line.startswith("redis-py")]
    return statistics.median(map(float, lines))
