"""Rows of the Python client: beside dict, redis-py and py-lmdb."""

import contextlib
import sys
from collections.abc import Callable

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import Loop, interleaved, loop

KEYS = 100_000


def _side(running: Loop, operation: str, count: int) -> Callable[[], float]:
    return lambda: running.run(operation, count)


def python_rows(bench: Bench) -> list[Row]:
    """Measure get and set from Python."""
    with loop(sys.executable, "embedded", bench.directory() / "store") as ours:
        return [
            *_against_dict(bench, ours),
            *_against_redis(bench, ours),
            _against_lmdb(bench, ours),
        ]


def _against_dict(bench: Bench, ours: Loop) -> list[Row]:
    names = ["get", "dict", "get-same", "dict-same", "get-fresh", "dict-fresh", "loop"]
    sides = {name: _side(ours, name, KEYS) for name in names}
    found = interleaved(bench.pick(5, 15), sides)
    empty = Figure.of("loop", found["loop"], "ns")
    rows = []
    for suffix, keys, judged in (
        ("", "keys equal to the stored ones, but other objects", True),
        ("-same", "keys the very objects that the dict holds", False),
        ("-fresh", "keys made just before, whose hash Python has not computed yet", False),
    ):
        mine = Figure.of("get", found[f"get{suffix}"], "ns")
        dict_get = Figure.of("dict.get", found[f"dict{suffix}"], "ns")
        rows.append(
            Row(
                id=f"python-get-dict{suffix}",
                work=f"Python `get`, embedded, beside `dict.get`: {keys}",
                ours=mine,
                peer=dict_get,
                ratio=mine.median / dict_get.median,
                at_most=2.5 if judged else None,
            )
        )
    rows[0].note = (
        f"{KEYS:,} keys of 16 bytes in random order, values of 64 bytes, each round over all of "
        f"them. The empty loop, included in both, costs {empty}."
    )
    return rows


def _against_redis(bench: Bench, ours: Loop) -> list[Row]:
    rows = [
        Row(
            id=f"python-get-redis-{version}",
            work=f"Python `get`, embedded, beside {peer} on a unix socket",
            at_least=target,
        )
        for version, peer, target in (
            ("5.2", "redis-py 5.2 with hiredis", 120),
            ("newest", "the newest redis-py as it comes", 200),
        )
    ]
    if missing := peers.has("redis-server"):
        for row in rows:
            row.note = missing
        return rows
    count = bench.pick(4_000, 20_000)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(peers.redis_server(bench.directory()))
        server.fill(KEYS, b"v" * 64)
        sockets = [
            stack.enter_context(loop(peers.environment(f"redis-{version}"), "redis", server.path))
            for version in ("5.2", "newest")
        ]
        sides = {"ours": _side(ours, "get", KEYS)}
        sides |= {
            row.id: _side(peer, "get", count) for row, peer in zip(rows, sockets, strict=True)
        }
        found = interleaved(bench.pick(3, 7), sides)
        for row, peer in zip(rows, sockets, strict=True):
            row.ours = Figure.of("get", found["ours"], "ns")
            row.peer = Figure.of("GET", found[row.id], "ns")
            row.ratio = row.peer.median / row.ours.median
            row.note = (
                f"{peer.about}; client on core {peers.CLIENT_CORE}, server on core "
                f"{peers.SERVER_CORE}, {count:,} calls a round."
            )
    return rows


def _against_lmdb(bench: Bench, ours: Loop) -> Row:
    row = Row(
        id="python-set-lmdb",
        work="Python `set`, embedded, beside py-lmdb `put`, a transaction each, nothing synced",
        at_least=8,
    )
    count = bench.pick(10_000, 25_000)
    try:
        with loop(sys.executable, "lmdb", bench.directory() / "lmdb") as theirs:
            found = interleaved(
                bench.pick(3, 9),
                {"set": _side(ours, "set", count), "put": _side(theirs, "put", count)},
            )
    except RuntimeError as error:
        row.note = f"not measured: {error}"
        return row
    row.ours = Figure.of("set", found["set"], "ns")
    row.peer = Figure.of("put", found["put"], "ns")
    row.ratio = row.peer.median / row.ours.median
    row.note = (
        f"Both overwrite values of {KEYS:,} keys in /dev/shm; lmdb with writemap=True, sync=False, "
        "metasync=False, map_async=True."
    )
    return row
