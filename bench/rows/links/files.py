"""Rows of RDB files: import compared with the servers' own load, export compared with BGSAVE."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.peers import CLIENT_CORE, ROOT, SERVER_CORE, Server
from core.report import Figure, Row

MISSING = ("redis-server", "taskset")
# The number of keys of the file. Three fifths are strings of 80 bytes; the rest are integers,
# strings that expire, and small hashes, lists, sets and sorted sets.
KEYS = 10_000_000
QUICK_KEYS = 1_000_000
# The number of keys that one call of the script makes.
AT_ONCE = 10_000
# A script that makes keys ARGV[1] to ARGV[1] + ARGV[2] - 1.
FILL = b"""
for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do
    local name, kind = string.format('%010d', i), i % 20
    local text = redis.sha1hex(name)
    if kind < 12 then redis.call('SET', 'string:' .. name, text .. text)
    elseif kind < 13 then redis.call('SET', 'number:' .. name, i)
    elseif kind < 14 then redis.call('SET', 'short:' .. name, text, 'EX', 1000000)
    elseif kind < 16 then
        redis.call('HSET', 'hash:' .. name, 'name', text, 'age', i % 100, 'id', i, 'x', 'y')
    elseif kind < 17 then
        redis.call('RPUSH', 'list:' .. name, text, i, i + 1, 'a', 'b', 'c', text, 'd', 'e')
    elseif kind < 18 then redis.call('SADD', 'set:' .. name, i, i + 1, i + 2, i + 3)
    elseif kind < 19 then
        redis.call('SADD', 'tags:' .. name, string.sub(text, 1, 6), 'red', 'green')
    else redis.call('ZADD', 'zset:' .. name, 1, 'a', 2.5, 'b', i, 'c', i + 0.5, text) end
end
"""


def _server(program: str | Path, directory: Path, *options: str) -> tuple[str, Path, list[str]]:
    """Return the name, the socket and the command of a server with files in a directory."""
    path = directory / "peer.sock"
    command = [str(program), "--port", "0", "--unixsocket", str(path), "--dir", str(directory)]
    return Path(program).name, path, [*command, "--save", "", *options]


@contextlib.contextmanager
def _filled(bench: Bench) -> Iterator[tuple[Server, Path]]:
    """Run a redis-server with the keys, and yield it with its directory."""
    directory = bench.directory()
    name, path, command = _server("redis-server", directory)
    with peers.serving(name, command, path) as server:
        for start in range(0, bench.pick(QUICK_KEYS, KEYS), AT_ONCE):
            _call(server, b"EVAL", FILL, b"0", b"%d" % start, b"%d" % AT_ONCE)
        yield server, directory


def _call(server: Server, *words: bytes) -> None:
    with server.connect() as connection, connection.makefile("rb") as reply:
        connection.sendall(peers.command(*words))
        if (line := reply.readline()).startswith(b"-"):
            raise RuntimeError(f"{server.name}: {line!r}")


def _loading(program: str | Path, file: Path, directory: Path) -> float:
    """Return the seconds in which a server loads a file at its start, as its log reports them."""
    (directory / "dump.rdb").unlink(missing_ok=True)
    os.link(file, directory / "dump.rdb")
    _, _, command = _server(program, directory)
    pinned = ["taskset", "--cpu-list", str(SERVER_CORE), *command]
    with subprocess.Popen(pinned, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "DB loaded from disk" in line:
                    return float(line.rpartition(": ")[2].split()[0])
        finally:
            process.terminate()
    raise RuntimeError(f"{program} did not load {file}")


def _importing(bench: Bench, file: Path, cores: str) -> float:
    """Return the seconds in which a new store is filled from a file."""
    store = bench.directory() / "store"
    program = str(bench.binaries / "undercroft")
    command = [program, "import", str(file), str(store), "--maxmemory", "0"]
    begun = time.perf_counter()
    subprocess.run(["taskset", "--cpu-list", cores, *command], check=True, capture_output=True)
    seconds = time.perf_counter() - begun
    store.unlink()
    return seconds


def import_rows(bench: Bench) -> list[Row]:
    """Measure the import of an RDB file on one core and on two, compared with two servers."""
    work = "keys a second imported from an RDB file"
    if missing := peers.has(*MISSING):
        return [Row(id="links-import", work=work, note=missing)]
    count = bench.pick(QUICK_KEYS, KEYS)
    with _filled(bench) as (server, directory):
        _call(server, b"SAVE")
    file = directory / "dump.rdb"
    rates: dict[str, list[float]] = {}
    cores = {1: str(SERVER_CORE), 2: f"{CLIENT_CORE},{SERVER_CORE}"}
    programs: list[str | Path] = ["redis-server", peers.unpacked("valkey-server")]
    for _ in range(bench.pick(2, 3)):
        for number, names in cores.items():
            seconds = _importing(bench, file, names)
            rates.setdefault(str(number), []).append(count / seconds)
        for program in programs:
            seconds = _loading(program, file, bench.directory())
            rates.setdefault(Path(program).name, []).append(count / seconds)
    figures = {name: Figure.of(name, rounds, "keys/s") for name, rounds in rates.items()}
    rows = []
    for number, least in ((1, 1.5), (2, 2.5)):
        for program in programs:
            peer = figures[Path(program).name]
            ours = figures[str(number)]
            on = "on one core" if number == 1 else "on two cores"
            rows.append(
                Row(
                    id=f"links-import-{number}-{Path(program).name.partition('-')[0]}",
                    work=f"{work} of {count:,} mixed keys {on}, compared with the load of "
                    f"{Path(program).name}",
                    ours=ours,
                    peer=peer,
                    ratio=ours.median / peer.median,
                    at_least=least,
                )
            )
    return rows


@contextlib.contextmanager
def _writing(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that sets keys of a store until its standard input ends."""
    program = [sys.executable, str(ROOT / "bench/loops/links.py"), str(store)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        yield process


def export_rows(bench: Bench) -> list[Row]:
    """Measure an export and the longest SET during it, compared with BGSAVE."""
    work = "seconds to export an RDB file"
    if missing := peers.has(*MISSING):
        return [Row(id="links-export", work=work, note=missing)]
    count = bench.pick(QUICK_KEYS, KEYS)
    ours, theirs, pauses, their_pauses = [], [], [], []
    with _filled(bench) as (server, directory):
        _call(server, b"SAVE")
        store = bench.directory() / "store"
        program = str(bench.binaries / "undercroft")
        imported = [program, "import", str(directory / "dump.rdb"), str(store), "--maxmemory", "0"]
        subprocess.run(imported, check=True, capture_output=True)
        for _ in range(bench.pick(2, 3)):
            seconds, longest = _saving(server)
            theirs.append(seconds)
            their_pauses.append(longest)
            with _writing(store) as writer:
                file = bench.directory() / "exported.rdb"
                begun = time.perf_counter()
                exported = [program, "export", str(store), str(file), "--format", "rdb"]
                subprocess.run(exported, check=True, capture_output=True)
                ours.append(time.perf_counter() - begun)
                assert writer.stdin is not None
                assert writer.stdout is not None
                writer.stdin.close()
                pauses.append(json.loads(writer.stdout.readline())["longest_ms"])
    mine, peer = Figure.of("export", ours, "s"), Figure.of("BGSAVE", theirs, "s")
    pause = Figure.of("export", pauses, "ms")
    return [
        Row(
            id="links-export",
            work=f"{work} of {count:,} mixed keys while a process writes, compared with BGSAVE of "
            "redis-server; the ratio is Redis' time divided by ours",
            ours=mine,
            peer=peer,
            ratio=peer.median / mine.median,
            at_least=1.5,
        ),
        Row(
            id="links-export-pause",
            work="longest SET during the export, in ms of its thread's CPU time, compared with the "
            "longest SET over a unix socket during BGSAVE",
            ours=pause,
            peer=Figure.of("BGSAVE", their_pauses, "ms"),
            ratio=pause.median,
            at_most=1,
            note="The ratio is absolute, in ms.",
        ),
    ]


def _saving(server: Server) -> tuple[float, float]:
    """Return the seconds that a BGSAVE takes, and the longest SET during it in ms."""
    longest, at = 0.0, 0
    with server.connect() as connection, connection.makefile("rb") as replies:
        begun = time.perf_counter()
        connection.sendall(peers.command(b"BGSAVE"))
        replies.readline()
        while True:
            at += 1
            start = time.perf_counter()
            connection.sendall(peers.set_command(b"string:%010d" % (at * 20), b"v" * 80))
            replies.readline()
            longest = max(longest, time.perf_counter() - start)
            if at % 100 == 0 and server.info("persistence")["rdb_bgsave_in_progress"] == "0":
                return time.perf_counter() - begun, longest * 1e3
            if time.perf_counter() - begun > 300:
                raise RuntimeError("BGSAVE took longer than 300 s")
