"""Rows of replication: writes to a store that has a replica, and the lag of a follower."""

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.peers import CLIENT_CORE, ROOT, SERVER_CORE, Server
from core.report import Figure, Row

from rows.languages.native import measure

MISSING = ("redis-server", "taskset")
# The number of SETs that a batch sends, and the time between two batches in seconds: 100,000 SETs a
# second.
BATCH, PERIOD = 500, 0.005
KEYS = 100_000
# The longest wait for a state of a server in seconds.
PATIENCE = 60


def _wait(what: str, holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not happen within {PATIENCE} s")
        time.sleep(0.02)


@contextlib.contextmanager
def _replicated(bench: Bench) -> Iterator[tuple[Path, Path]]:
    """Serve two stores, the second with a redis-server as its replica, and yield their paths."""
    with contextlib.ExitStack() as stack:
        places = []
        for options in ([], ["--bind", "127.0.0.1"]):
            directory = bench.directory()
            port = peers.free_port() if options else 0
            path = directory / "undercroft.sock"
            command = [str(bench.binaries / "undercroft"), "serve"]
            command += ["--store", str(directory / "served"), "--port", str(port), *options]
            command += ["--unixsocket", str(path), "--threads", "1", "--maxmemory", "0"]
            server = stack.enter_context(peers.serving("undercroft serve", command, path, port))
            places.append((directory / "served", server))
        source = places[1][1]
        directory = bench.directory()
        path = directory / "redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir"]
        command += [str(directory), "--save", "", "--replicaof", "127.0.0.1", str(source.port)]
        stack.enter_context(peers.serving("redis-server", command, path))
        _wait(
            "the replica's first acknowledgement",
            lambda: "state=online" in source.info("replication").get("slave0", ""),
        )
        yield places[0][0], places[1][0]


def source_rows(bench: Bench) -> list[Row]:
    """Measure SETs from Rust in a store with a replica, compared with a store without one."""
    work = "Rust `set` of 64 bytes in a store with a redis-server as its replica"
    if missing := peers.has(*MISSING):
        return [Row(id="links-source", work=work, note=missing)]
    with _replicated(bench) as stores:
        rounds = str(bench.pick(7, 31))
        found = measure(bench, "replicated", *map(str, stores), "--rounds", rounds)
    # The first round is a warm-up.
    ours = Figure.of("with a replica", found["replicated_ns"][1:], "ns")
    alone = Figure.of("without", found["alone_ns"][1:], "ns")
    return [
        Row(
            id="links-source",
            work=f"{work}, compared with a store without a replica",
            ours=ours,
            peer=alone,
            ratio=ours.median / alone.median,
            at_most=1.3,
            note="SETs without a pause, in interleaved rounds of 100,000 keys.",
        )
    ]


def _write(source: Server, seconds: float) -> int:
    """Set keys at a constant rate; every batch ends with a key that contains the time."""
    batches = []
    for number in range(KEYS // BATCH):
        some = range(number * BATCH, (number + 1) * BATCH - 1)
        batches.append(b"".join(peers.set_command(b"key:%012d" % at, b"v" * 64) for at in some))
    sent = 0
    with source.connect() as connection, connection.makefile("rb") as replies:
        begun = time.monotonic()
        while (due := begun + sent * PERIOD) < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            stamp = peers.set_command(b"stamp", b"%d" % time.monotonic_ns())
            connection.sendall(batches[sent % len(batches)] + stamp)
            for _ in range(BATCH):
                replies.readline()
            sent += 1
    return sent * BATCH


def following_rows(bench: Bench) -> list[Row]:
    """Measure the lag and the processor time of a follower of a Redis that takes 100,000 SETs/s."""
    work = "following a redis-server that takes 100,000 SETs a second"
    if missing := peers.has(*MISSING):
        return [Row(id="links-following", work=work, note=missing)]
    seconds = bench.pick(5, 20)
    lags: list[float] = []
    shares: list[float] = []
    rates: list[float] = []
    with peers.redis_server(bench.directory()) as source:
        source.fill(KEYS, b"v" * 64)
        store = bench.directory() / "store"
        program = [str(bench.binaries / "undercroft"), "follow", f"unix://{source.path}"]
        pinned = ["taskset", "--cpu-list", str(CLIENT_CORE), *program, "--store", str(store)]
        with subprocess.Popen(pinned, stdout=subprocess.PIPE, text=True) as process:
            follower = Server("undercroft follow", source.path, process)  # type: ignore[arg-type]
            try:
                assert process.stdout is not None
                while "up to date" not in process.stdout.readline():
                    pass
                watching = [sys.executable, str(ROOT / "bench/loops/links.py"), str(store)]
                for _ in range(bench.pick(1, 3)):
                    on_core = ["taskset", "--cpu-list", str(CLIENT_CORE), *watching]
                    with subprocess.Popen(
                        [*on_core, str(seconds)], stdout=subprocess.PIPE, text=True
                    ) as watcher:
                        assert watcher.stdout is not None
                        watcher.stdout.readline()
                        before, begun = sum(follower.cpu()), time.monotonic()
                        count = _write(source, seconds)
                        spent = time.monotonic() - begun
                        shares.append((sum(follower.cpu()) - before) / spent)
                        rates.append(count / spent)
                        found = [float(lag) for lag in watcher.stdout.readline().split()]
                    lags.append(statistics.quantiles(found, n=100)[98])
            finally:
                process.terminate()
    rate = Figure.of("SETs", rates, "a second")
    lag = Figure.of("lag", lags, "ms")
    share = Figure.of("processor", shares, "cores")
    return [
        Row(
            id="links-following-lag",
            work=f"{work}: lag until a local reader sees a change, p99 in ms",
            ours=lag,
            ratio=lag.median,
            at_most=5,
            note=f"The ratio is absolute, in ms. The source took {rate}; the reader and the "
            f"follower share one core, the writer and the source the other ({SERVER_CORE}).",
        ),
        Row(
            id="links-following-processor",
            work=f"{work}: processor time of the follower, in cores",
            ours=share,
            ratio=share.median,
            at_most=0.6,
            note="The ratio is absolute, in cores.",
        ),
    ]
