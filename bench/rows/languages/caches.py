"""Rows of the table `cache`: the Rust crate's caches and other clients on one redis-server."""

import contextlib
import functools
import json
import random
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core import peers
from core.bench import Bench
from core.report import Figure, Grid, Row

CALLERS = (1, 4, 8, 16, 32, 64, 128, 256, 1024)
PERCENTILES = ("50", "75", "87.5", "93.75", "96.88", "98.44", "99.22", "99.9")
LATE, LATEST = PERCENTILES.index("99.22"), PERCENTILES.index("99.9")
OURS, POOLED, STORE = "PipelinedCache", "PooledCache", "StoreCache"
POOLS = ("deadpool-redis", "bb8-redis", "r2d2")
MULTIPLEXED, FRED = "redis-rs multiplexed", "fred"
SEED = 23
LARGE, SMALL = 23_000, 64
SOCKETS = {"unix": "a unix socket", "tcp": "TCP"}
# The pause between timed messages, in microseconds.
PAUSE = 200
Rounds = dict[str, list[dict[str, Any]]]


def json_value(length: int) -> bytes:
    """Return a fixed JSON text of about this length, like one that a service would cache."""
    chance = random.Random(SEED)
    users: list[dict[str, Any]] = []
    while len(text := json.dumps({"users": users})) < length:
        users.append(
            {
                "id": chance.getrandbits(40),
                "name": "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=18)),
                "score": round(chance.random() * 1000, 3),
                "tags": chance.choices(("new", "paid", "trial", "staff", "closed"), k=3),
                "active": chance.random() < 0.8,
            }
        )
    return text.encode()


def _run(bench: Bench, program: str, *arguments: str | Path | int) -> Any:
    """Return the output of a program of bench/cache, run on the client's core."""
    command = ["taskset", "--cpu-list", str(peers.CLIENT_CORE), bench.binaries / program]
    run = subprocess.run(
        list(map(str, [*command, *arguments])), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(run.stdout)


@contextlib.contextmanager
def _server(bench: Bench) -> Iterator[dict[str, list[str | Path | int]]]:
    """Run redis-server and yield its address as arguments, for each kind of socket."""
    with peers.redis_server(bench.directory(), tcp=True) as server:
        with server.connect() as connection:
            connection.sendall(b'CONFIG SET client-output-buffer-limit "pubsub 0 0 0"\r\n')
            connection.recv(64)
        unix: list[str | Path | int] = ["--unix", server.path]
        yield {"unix": unix, "tcp": [*unix, "--port", server.port]}


def _value(bench: Bench, length: int) -> list[str | Path | int]:
    """Return the command-line arguments for a value of this length and for a new store."""
    directory = bench.directory()
    value = directory / "value"
    value.write_bytes(json_value(length) if length > SMALL else b"v" * length)
    return ["--value", value, "--store", directory / "store"]


def _figure(found: Rounds, name: str, at: int | None = None) -> Figure:
    """Return a client's thousands of requests per second, or its latency at a percentile."""
    if at is None:
        return Figure.of(name, [each["rate"] / 1e3 for each in found[name]], "k/s")
    return Figure.of(name, [each["microseconds"][at] for each in found[name]], "us")


def _best(found: Rounds, names: tuple[str, ...] | None = None) -> str:
    """Return the name of the peer with the most requests per second."""
    ours = (OURS, f"{OURS}, 4", POOLED, STORE)
    others = names or tuple(name for name in found if name not in ours)
    return max(others, key=lambda name: _figure(found, name).median)


def _rate(id: str, work: str, found: Rounds, ours: str, peer: str, at_least: float) -> Row:
    """Return a row of requests per second."""
    row = Row(id=id, work=f"{work}: requests per second", at_least=at_least)
    row.ours, row.peer = _figure(found, ours), _figure(found, peer)
    row.ratio = row.ours.median / row.peer.median
    return row


def _time(id: str, work: str, found: Rounds, sides: tuple[str, str], at: int, most: float) -> Row:
    """Return a row of the latency at one percentile."""
    row = Row(id=id, work=f"{work}: {PERCENTILES[at]}th percentile latency", at_most=most)
    row.ours, row.peer = (_figure(found, side, at) for side in sides)
    row.ratio = row.ours.median / row.peer.median
    return row


def large_rows(bench: Bench) -> list[Row | Grid]:
    """Measure a value of 23 KB with increasing numbers of callers, over both kinds of sockets."""
    rows: list[Row | Grid] = []
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="cache", work="caches compared with other clients", note=missing)]
    value = _value(bench, LARGE)
    rounds = ["--rounds", bench.pick(3, 7), "--milliseconds", bench.pick(100, 300)]
    with _server(bench) as places:
        for socket in SOCKETS:
            throughput: dict[int, Rounds] = {}
            for callers in CALLERS:
                words = [*places[socket], *value, *rounds, "--callers", callers]
                found: Rounds = _run(bench, "undercroft-bench-cache", "get", *words)
                throughput[callers] = found
                rows += _rows_of(socket, callers, found)
            rows += _grids(socket, throughput)
    return rows


def _rows_of(socket: str, callers: int, found: Rounds) -> list[Row]:
    """Return the rows with targets for one kind of socket and one number of callers."""
    best, pool = _best(found), _best(found, POOLS)
    id = f"cache-{socket}-{callers}"
    work = f"23 KB over {SOCKETS[socket]}, {callers} caller{'s' if callers > 1 else ''}"
    pipelined, store = f"{work}, {OURS}", f"{work}, {STORE}"
    rows = [
        _rate(f"{id}-pipelined", pipelined, found, OURS, best, 1.2),
        _time(f"{id}-pipelined-late", pipelined, found, (OURS, best), LATE, 1.0),
        _rate(f"{id}-store", store, found, STORE, best, 50),
        _time(f"{id}-store-late", store, found, (STORE, best), LATEST, 0.02),
    ]
    if callers >= 64:
        row = _rate(f"{id}-pooled", f"{work}, {POOLED}", found, POOLED, pool, 1.0)
        failed = {name: sum(each["failed"] for each in found[name]) for name in (POOLED, *POOLS)}
        row.note = "Failed calls: " + ", ".join(f"{n} {c}" for n, c in failed.items()) + "."
        row.failed = failed[POOLED] > 0
        rows.append(row)
    return rows


def _grids(socket: str, found: dict[int, Rounds]) -> list[Grid]:
    """Return two grids of all clients: throughput, and the latency at every percentile."""
    names = list(next(iter(found.values())))
    grid = Grid(
        f"23 KB over {SOCKETS[socket]}: thousands of requests a second",
        "callers",
        names,
        note="Medians.",
    )
    late = Grid(
        f"23 KB over {SOCKETS[socket]}: response times in microseconds",
        "callers, client",
        list(PERCENTILES),
    )
    for callers, rounds in found.items():
        rates: list[float | None] = [_figure(rounds, name).median for name in names]
        grid.rows.append((str(callers), rates))
        for name in names:
            times = zip(*(each["microseconds"] for each in rounds[name]), strict=True)
            late.rows.append((f"{callers}, {name}", [statistics.median(each) for each in times]))
    return [grid, late]


def small_rows(bench: Bench) -> list[Row]:
    """Measure a value of 64 bytes with a thousand callers on one connection."""
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="cache-small", work="small values", note=missing)]
    rows = []
    value = _value(bench, SMALL)
    rounds = ["--rounds", bench.pick(3, 9), "--milliseconds", bench.pick(100, 500)]
    clients = [word for name in (OURS, MULTIPLEXED, FRED) for word in ("--client", name)]
    with _server(bench) as places:
        for socket in SOCKETS:
            words = [*places[socket], *value, *rounds, "--callers", 1000, *clients]
            found: Rounds = _run(bench, "undercroft-bench-cache", "get", *words)
            work = f"64 bytes over {SOCKETS[socket]}, 1,000 callers, {OURS}"
            row = _rate(f"cache-small-{socket}", work, found, OURS, MULTIPLEXED, 1.5)
            row.note = f"fred: {_figure(found, FRED)}."
            rows.append(row)
    return rows


def message_rows(bench: Bench) -> list[Row]:
    """Measure the rate and latency of messages to one subscriber."""
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="cache-messages", work="messages", note=missing)]
    rows = []
    many = ["--messages", bench.pick(50_000, 300_000), "--together", 100]
    few = ["--messages", bench.pick(500, 3000), "--together", 1, "--pause", PAUSE]
    with _server(bench) as places:
        for socket in SOCKETS:
            run = functools.partial(_run, bench, "undercroft-bench-cache", "messages")
            words = [*places[socket], "--rounds", bench.pick(3, 9)]
            fast, slow = run(*words, *many), run(*words, *few)
            for peer in ("redis-rs", "fred"):
                row = Row(
                    id=f"cache-messages-rate-{socket}-{peer}",
                    work=f"throughput of 64-byte messages to one subscriber over {SOCKETS[socket]}",
                    at_least=1.0,
                )
                row.ours, row.peer = (
                    Figure.of(name, [each["rate"] / 1e3 for each in fast[name]], "k/s")
                    for name in (OURS, peer)
                )
                row.ratio = row.ours.median / row.peer.median
                lost = sum(each["lost"] for each in fast[peer])
                row.note = f"{peer} lost {lost:,} messages." if lost else ""
                rows.append(row)
                row = Row(
                    id=f"cache-messages-time-{socket}-{peer}",
                    work=f"latency from publisher to receiver, one message every {PAUSE} us over "
                    f"{SOCKETS[socket]}",
                    at_most=1.0,
                )
                row.ours, row.peer = (
                    Figure.of(name, [each["median"] for each in slow[name]], "us")
                    for name in (OURS, peer)
                )
                row.ratio = row.ours.median / row.peer.median
                rows.append(row)
    return rows


def waiting_rows(bench: Bench) -> list[Row]:
    """Count the bytes that a connection with a thousand waiting callers uses."""
    row = Row(
        id="cache-waiting",
        work="memory of a connection with 1,000 callers waiting for 23 KB each",
        at_most=1.0,
    )
    if missing := peers.has("redis-server", "taskset"):
        row.note = missing
        return [row]
    names = (OURS, MULTIPLEXED, FRED, "redis-async")
    clients = [word for name in names for word in ("--client", name)]
    with _server(bench) as places:
        words = [*places["tcp"], *_value(bench, LARGE), *clients]
        found = _run(bench, "undercroft-bench-waiting", *words)
    sizes = {name: Figure(name, *[found[name] / 1024] * 3, "KiB") for name in names}
    best = min(names[1:], key=lambda name: found[name])
    row.ours, row.peer = sizes[OURS], sizes[best]
    row.ratio = found[OURS] / found[best]
    sizes_in_words = ", ".join(f"{name} {figure}" for name, figure in sizes.items())
    row.note = f"Includes the callers' tasks. {sizes_in_words}."
    return [row]
