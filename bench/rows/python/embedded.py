"""Rows of the embedded Python client, compared with dict, redis-py and py-lmdb."""

import contextlib
import sys
from collections.abc import Callable

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import Loop, interleaved, loop

KEYS = 100_000
# The orders of lookups and the suffixes of their rows' IDs. Targets apply to the first order; the
# second order shows the cost of cold processor caches.
ORDERS = (("", "in order of insertion"), ("-random", "in random order"))


def _side(running: Loop, operation: str, count: int) -> Callable[[], float]:
    return lambda: running.run(operation, count)


def calls_beside_redis(bench: Bench, script: str, works: list[tuple[Row, int, int]]) -> list[Row]:
    """Measure rows with a script in loops/; the end of a row's ID names its operation.

    Each row comes with the number of Undercroft's calls and of redis-py's calls per round.
    """
    rows = [row for row, *_ in works]
    if missing := peers.has("redis-server"):
        for row in rows:
            row.note = missing
        return rows
    place = bench.directory() / "store"
    with (
        peers.redis_server(bench.directory()) as server,
        loop(sys.executable, "embedded", place, script=script) as ours,
        loop(peers.environment("redis-5.2"), "redis", server.path, script=script) as theirs,
    ):
        for row, mine, other in works:
            name = row.id.split("-python-")[-1]
            sides = {"ours": _side(ours, name, mine), "redis": _side(theirs, name, other)}
            rounds = interleaved(bench.pick(3, 9), sides)
            row.ours = Figure.of(name, rounds["ours"], "ns")
            row.peer = Figure.of("redis-py", rounds["redis"], "ns")
            row.ratio = row.peer.median / row.ours.median
    return rows


def python_rows(bench: Bench) -> list[Row]:
    """Measure `get` and `set` from Python, compared with dict, redis-py and py-lmdb."""
    with loop(sys.executable, "embedded", bench.directory() / "store") as ours:
        return [
            *_against_dict(bench, ours),
            *_against_redis(bench, ours),
            *_against_lmdb(bench, ours),
        ]


def redis_rows(bench: Bench) -> list[Row]:
    """Measure `get` from Python, compared with redis-py only."""
    with loop(sys.executable, "embedded", bench.directory() / "store") as ours:
        return _against_redis(bench, ours)


def _against_dict(bench: Bench, ours: Loop) -> list[Row]:
    names = ["get", "dict", "get-random", "dict-random", "loop"]
    sides = {name: _side(ours, name, KEYS) for name in names}
    found = interleaved(bench.pick(5, 15), sides)
    empty = Figure.of("loop", found["loop"], "ns")
    rows = []
    for suffix, order in ORDERS:
        mine = Figure.of("get", found[f"get{suffix}"], "ns")
        dict_get = Figure.of("dict.get", found[f"dict{suffix}"], "ns")
        rows.append(
            Row(
                id=f"python-get-dict{suffix}",
                work=f"Python `get`, embedded, compared with `dict.get`, {order}",
                ours=mine,
                peer=dict_get,
                ratio=mine.median / dict_get.median,
                at_most=None if suffix else 2.5,
            )
        )
    rows[0].note = (
        f"{KEYS:,} keys of 16 bytes, values of 64 bytes; each round reads all of them. The keys "
        "looked up equal the stored ones but are other objects. Both sides include the empty "
        f"loop, {empty}."
    )
    return rows


def _against_redis(bench: Bench, ours: Loop) -> list[Row]:
    rows = [
        Row(
            id=f"python-get-redis-{version}{suffix}",
            work=f"Python `get`, embedded, compared with {peer} on a unix socket, {order}",
            at_least=None if suffix else target,
        )
        for version, peer, target in (
            ("5.2", "redis-py 5.2 with hiredis", 120),
            ("newest", "the newest redis-py without hiredis", 200),
        )
        for suffix, order in ORDERS
    ]
    if missing := peers.has("redis-server"):
        for row in rows:
            row.note = missing
        return rows
    count = bench.pick(4_000, 20_000)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(peers.redis_server(bench.directory()))
        server.fill(KEYS, b"v" * 64)
        sockets = {
            version: stack.enter_context(
                loop(peers.environment(f"redis-{version}"), "redis", server.path)
            )
            for version in ("5.2", "newest")
        }
        sides = {suffix: _side(ours, f"get{suffix}", KEYS) for suffix, _ in ORDERS}
        sides |= {version: _side(peer, "get", count) for version, peer in sockets.items()}
        found = interleaved(bench.pick(3, 7), sides)
        sources = [(version, suffix) for version in sockets for suffix, _ in ORDERS]
        for row, (version, suffix) in zip(rows, sources, strict=True):
            peer = sockets[version]
            row.ours = Figure.of("get", found[suffix], "ns")
            row.peer = Figure.of("GET", found[version], "ns")
            row.ratio = row.peer.median / row.ours.median
            row.note = (
                f"{peer.about}; client on core {peers.CLIENT_CORE}, server on core "
                f"{peers.SERVER_CORE}, {count:,} calls per round."
            )
    return rows


def _against_lmdb(bench: Bench, ours: Loop) -> list[Row]:
    rows = [
        Row(
            id=f"python-set-lmdb{suffix}",
            work="Python `set`, embedded, compared with py-lmdb `put`, one transaction each, no "
            f"sync, {order}",
            at_least=None if suffix else 8,
        )
        for suffix, order in ORDERS
    ]
    count = bench.pick(10_000, 25_000)
    try:
        with loop(sys.executable, "lmdb", bench.directory() / "lmdb") as theirs:
            sides = {
                f"{name}{suffix}": _side(side, f"{name}{suffix}", count)
                for side, name in ((ours, "set"), (theirs, "put"))
                for suffix, _ in ORDERS
            }
            found = interleaved(bench.pick(3, 9), sides)
    except RuntimeError as error:
        for row in rows:
            row.note = f"not measured: {error}"
        return rows
    for row, (suffix, _) in zip(rows, ORDERS, strict=True):
        row.ours = Figure.of("set", found[f"set{suffix}"], "ns")
        row.peer = Figure.of("put", found[f"put{suffix}"], "ns")
        row.ratio = row.peer.median / row.ours.median
    rows[0].note = (
        f"Both overwrite the values of {KEYS:,} keys in /dev/shm; lmdb with writemap=True, "
        "sync=False, metasync=False, map_async=True."
    )
    return rows
