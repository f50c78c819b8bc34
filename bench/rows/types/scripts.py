"""Rows of scripts: requests through the server, and calls from Python."""

import functools
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.peers import Server, command
from core.report import Figure, Row
from core.turns import interleaved
from redis.lock import Lock

from rows.python.embedded import calls_beside_redis
from rows.servers import served

RELEASE: str = Lock.LUA_RELEASE_SCRIPT
LUA = Path(__file__).parents[2] / "lua"
REDIS = "redis-py 5.2 with hiredis on a unix socket"
PIPELINE, CLIENTS = 16, 20
# Each script: its ID, its name, requests per round, and the target speedup of embedded calls from
# Python.
SCRIPTS = (
    ("compare", "compare-and-delete", 200_000, 15),
    ("limiter", "a sliding-window limiter", 100_000, 10),
    ("many", "1,000 calls of `redis.call`", 1_000, 1.5),
)
Words = tuple[bytes, ...]


def keys_of(name: str, start: int, count: int) -> Iterator[Words]:
    """Yield a script's key and arguments for this number of requests."""
    for number in range(start, start + count):
        match name:
            case "compare":
                yield b"lock:%d" % number, b"%d" % number
            case "limiter":
                # One request every 5 ms: the limiter admits half of them.
                yield b"limiter", b"%d" % (number * 5), b"%d" % number, b"1000", b"100"
            case _:
                yield b"number", b"1000"


def served_rows(bench: Bench) -> list[Row]:
    """Measure the CPU time per request of each script through the server."""
    found = [
        Row(
            id=f"scripts-served-{name}",
            work=f"server EVALSHA of {what}, -P {PIPELINE}: CPU time per request",
            at_most=0.7,
        )
        for name, what, *_ in SCRIPTS
    ]
    if missing := peers.has("redis-server", "taskset"):
        for row in found:
            row.note = missing
        return found
    known = Row(
        id="scripts-served-known",
        work=f"server EVALSHA of redis-py's lock release, -P {PIPELINE}: CPU time per request",
    )
    with served.both(bench) as servers:
        for row, (name, _, count, _) in zip(found, SCRIPTS, strict=True):
            requests = bench.pick(count // 5, count)
            sides = {
                server.name: functools.partial(_requests, server, name, requests)
                for server in servers
            }
            rounds = interleaved(bench.pick(2, 11), sides)
            row.ours, row.peer = (Figure.of(side, took, "us") for side, took in rounds.items())
            row.ratio = row.ours.median / row.peer.median
            row.note = f"{CLIENTS} connections wait for all replies to a pipeline."
        _known(bench, servers[0], known)
    return [*found, known]


def _known(bench: Bench, server: Server, row: Row) -> None:
    """Measure a script that the server recognizes, and the same script run in Lua.

    An extra newline at the end of the text prevents the server from recognizing the script.
    """
    text, requests = RELEASE.encode(), bench.pick(40_000, 200_000)
    run = functools.partial(_requests, server, "compare", requests)
    sides = {
        "known": functools.partial(run, text),
        "the same script, in Lua": functools.partial(run, text + b"\n"),
    }
    rounds = interleaved(bench.pick(2, 11), sides)
    row.ours, row.peer = (Figure.of(side, took, "us") for side, took in rounds.items())
    row.ratio = row.ours.median / row.peer.median
    row.note = "Recognizing the script by its SHA-1 saves the difference."


def _requests(server: Server, name: str, count: int, text: bytes | None = None) -> float:
    """Run a script ``count`` times and return the CPU microseconds per run."""
    text = text or (LUA / f"{name}.lua").read_bytes()
    with server.connect() as connection:
        connection.sendall(command(b"SCRIPT", b"LOAD", text))
        sha = connection.recv(1024).split(b"\r\n")[1]
    served.send(server, [command(b"FLUSHALL")], b"+OK", 1)
    if name == "compare":
        fill = (command(b"SET", *words) for words in keys_of(name, 1, count))
        served.send(server, fill, b"+OK", 1)
    run = (command(b"EVALSHA", sha, b"1", *words) for words in keys_of(name, 1, count))
    before = sum(server.cpu())
    # An integer reply has one line ending; a bulk string has two, but only one `$`.
    mark = b"\r\n" if name != "many" else b"$"
    served.send(server, run, mark, 1, PIPELINE, CLIENTS)
    return (sum(server.cpu()) - before) / count * 1e6


def python_rows(bench: Bench) -> list[Row]:
    """Measure calls from Python, compared with redis-py."""
    works = []
    for name, what, count, target in SCRIPTS:
        row = Row(
            id=f"scripts-python-{name}",
            work=f"Python `evalsha` of {what}, compared with {REDIS}",
            at_least=target,
        )
        calls = count // 10
        works.append((row, bench.pick(calls // 5, calls), bench.pick(calls // 20, calls // 4)))
    return calls_beside_redis(bench, "scripts.py", works)
