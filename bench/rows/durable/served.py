"""Rows of durable writes through servers, checkpoints and recovery, compared with Redis."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.peers import Server
from core.report import Figure, Row

from rows.durable.embedded import disk, native
from rows.servers.served import load

MISSING = ("redis-server", "redis-benchmark", "taskset")
# The size of the values in the stores that are copied and recovered, in bytes.
VALUE = 1000


def valkey() -> Path:
    """Return the program of the Valkey server."""
    return peers.unpacked("valkey-server")


@contextlib.contextmanager
def appending(
    program: str | Path, directory: Path, *options: str, name: str = ""
) -> Iterator[Server]:
    """Run a peer whose files are in a directory on the disk."""
    path = directory / "peer.sock"
    command = [str(program), "--port", "0", "--unixsocket", str(path), "--dir", str(directory)]
    with peers.serving(name or Path(program).name, [*command, *options], path) as server:
        yield server


@contextlib.contextmanager
def durable_server(bench: Bench, folder: Path, mode: str) -> Iterator[Server]:
    """Run ``undercroft serve`` on a store in shared memory with a journal on the disk."""
    directory = bench.directory()
    path = directory / "undercroft.sock"
    command = [str(bench.binaries / "undercroft"), "serve", "--store", str(directory / "served")]
    options = ["--port", "0", "--unixsocket", str(path), "--threads", "1", "--maxmemory", "0"]
    journal = ["--durability", mode, "--journal", str(folder / "journal")]
    with peers.serving("undercroft serve", [*command, *options, *journal], path) as server:
        yield server


def always_rows(bench: Bench) -> list[Row]:
    """Measure SETs through servers that sync before they reply."""
    if missing := peers.has(*MISSING):
        return [Row(id="durable-served", work="SETs with `always`", note=missing)]
    rows = []
    append = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(disk())
        folders = [directory / name for name in ("ours", "redis", "valkey")]
        for folder in folders:
            folder.mkdir()
        ours = stack.enter_context(durable_server(bench, folders[0], "always"))
        redis = stack.enter_context(appending("redis-server", folders[1], *append))
        newest = stack.enter_context(appending(valkey(), folders[2], *append))
        for clients, count, least in ((1, 2_000, 1.0), (16, 10_000, 1.0), (64, 30_000, 2.0)):
            rates: dict[str, list[float]] = {}
            for _ in range(bench.pick(2, 5)):
                for server in (ours, redis, newest):
                    options = ["-t", "set", "-c", str(clients), "-d", "64", "-r", "10000"]
                    found = load(server, bench.pick(count // 4, count), *options)
                    rates.setdefault(server.name, []).append(found.throughput)
            figures = {name: Figure.of(name, rounds, "a second") for name, rounds in rates.items()}
            mine = figures.pop(ours.name)
            for name, theirs in figures.items():
                rows.append(
                    Row(
                        id=f"durable-served-{clients}-{name.partition('-')[0]}",
                        work=f"SETs a second through the server with `always`, {clients} "
                        f"connection{'s' if clients > 1 else ''}, compared with {name} with "
                        "`appendfsync always`",
                        ours=mine,
                        peer=theirs,
                        ratio=mine.median / theirs.median,
                        at_least=least,
                    )
                )
    return rows


def checkpoint_rows(bench: Bench) -> list[Row]:
    """Measure the longest SET during a checkpoint, compared with BGSAVE and an AOF rewrite."""
    size = bench.pick(256, 2048)
    rounds = bench.pick(2, 5)
    found = native(bench, "checkpoint", "--mib", size, "--rounds", rounds)
    processor = Figure.of("checkpoint", found["processor_ms"], "ms")
    clock = Figure.of("checkpoint", found["longest_ms"], "ms")
    alone = Figure.of("alone", found["alone_ms"], "ms")
    seconds = Figure.of("checkpoint", found["seconds"], "s")
    share = Figure.of("memory", [part * 100 for part in found["memory"]], "%")
    rows = [
        Row(
            id="durable-checkpoint-processor",
            work=f"longest SET while a checkpoint of {size:,} MiB is written, in ms of processor "
            "time, with a writer of 50,000 SETs a second",
            ours=processor,
            ratio=processor.median,
            at_most=1,
            note=f"The ratio is absolute, in ms. A checkpoint takes {seconds}.",
        ),
        Row(
            id="durable-checkpoint-memory",
            work="memory for the checkpoint, in percent of the store",
            ours=share,
            ratio=share.median,
            at_most=10,
            note="The ratio is absolute, in percent.",
        ),
    ]
    row = Row(
        id="durable-checkpoint-clock",
        work="longest SET while a checkpoint is written, by the clock, compared with the longest "
        "SET of Redis over a unix socket during BGSAVE",
        ours=clock,
        at_most=1.0,
        note=f"Without a checkpoint: {alone}.",
    )
    if missing := peers.has(*MISSING):
        row.note = f"{row.note} Redis {missing}"
        return [*rows, row]
    longest, copied = [], []
    with disk() as directory, appending("redis-server", directory, "--save", "") as server:
        server.fill((size << 20) // VALUE, b"v" * VALUE)
        for _ in range(rounds):
            most, cow = _during_save(server, size)
            longest.append(most)
            copied.append(cow)
    row.peer = Figure.of("redis-server", longest, "ms")
    row.ratio = clock.median / row.peer.median
    share = Figure.of("copied", copied, "%")
    row.note += f" BGSAVE copied {share} of the data on write."
    return [*rows, row]


def _during_save(server: Server, size: int) -> tuple[float, float]:
    """Return the longest SET during a BGSAVE in ms, and the memory it copied in percent."""
    keys, longest, at = (size << 20) // VALUE, 0.0, 0
    with server.connect() as connection, connection.makefile("rb") as replies:
        connection.sendall(peers.command(b"BGSAVE"))
        replies.readline()
        begun = time.perf_counter()
        while True:
            at += 1
            key = b"key:%012d" % (at * 7919 % keys)
            start = time.perf_counter()
            connection.sendall(peers.set_command(key, b"w" * VALUE))
            replies.readline()
            longest = max(longest, time.perf_counter() - start)
            if at % 1000 == 0:
                if server.info("persistence")["rdb_bgsave_in_progress"] == "0":
                    break
                if time.perf_counter() - begun > 120:
                    raise RuntimeError("BGSAVE took longer than 120 s")
    copied = int(server.info("persistence")["rdb_last_cow_size"])
    return longest * 1e3, copied / (size << 20) * 100


def recovery_rows(bench: Bench) -> list[Row]:
    """Measure recovery from a checkpoint and from records, compared with Redis' files."""
    size, records = bench.pick(256, 2048), bench.pick(128, 1024)
    options = ["--mib", size, "--records", records, "--rounds", bench.pick(1, 3)]
    found = native(bench, "recovery", *options)
    sides = {}
    for name in ("checkpoint", "records"):
        rates = [
            bytes_ / seconds / 1e6
            for bytes_, seconds in zip(
                found[f"{name}_bytes"], found[f"{name}_seconds"], strict=True
            )
        ]
        sides[name] = Figure.of(name, rates, "MB/s")
    rows = {
        "rdb": Row(
            id="durable-recovery-checkpoint",
            work=f"recovery of {size:,} MiB from a checkpoint in the page cache, in MB/s, compared "
            "with Redis loading the same values from an RDB file",
            ours=sides["checkpoint"],
            at_least=10,
        ),
        "aof": Row(
            id="durable-recovery-records",
            work=f"repetition of {records:,} MiB of records, in MB/s, compared with Redis loading "
            "an AOF",
            ours=sides["records"],
            at_least=10,
        ),
    }
    if missing := peers.has(*MISSING):
        for row in rows.values():
            row.note = missing
        return [*rows.values()]
    for kind, row in rows.items():
        rates = [_loading(kind, size) for _ in range(bench.pick(1, 3))]
        row.peer = Figure.of("redis-server", rates, "MB/s")
        assert row.ours is not None
        row.ratio = row.ours.median / row.peer.median
    return [*rows.values()]


def _loading(kind: str, size: int) -> float:
    """Return the MB/s at which Redis loads its data from a file, values only."""
    rdb = kind == "rdb"
    options = ["--save", "", "--appendonly", "no" if rdb else "yes"]
    options += ["--aof-use-rdb-preamble", "no", "--auto-aof-rewrite-percentage", "0"]
    keys = (size << 20) // VALUE
    with disk() as directory:
        with appending("redis-server", directory, *options) as server:
            server.fill(keys, b"v" * VALUE)
            if rdb:
                subprocess.run(
                    ["redis-cli", "-s", str(server.path), "SAVE"], check=True, capture_output=True
                )
        start = time.perf_counter()
        with appending("redis-server", directory, *options) as server:
            with server.connect() as connection, connection.makefile("rb") as replies:
                while True:
                    connection.sendall(peers.command(b"DBSIZE"))
                    if (reply := replies.readline()).startswith(b":"):
                        break
                    time.sleep(0.01)
            took = time.perf_counter() - start
            if int(reply[1:]) != keys:
                raise RuntimeError(f"expected {keys} keys, got {reply!r}")
    return (size << 20) / 1e6 / took
