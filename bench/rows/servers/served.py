"""Rows of the server measured by redis-benchmark, compared with redis-server."""

import contextlib
import csv
import dataclasses
import io
import itertools
import resource
import subprocess
import time
from collections.abc import Iterable, Iterator

from core import peers
from core.bench import Bench
from core.peers import Server
from core.report import Figure, Row

KEYS = 100_000
CLIENTS = 50
# After this number of seconds and three rounds, an operation is not measured again.
SECONDS = 20
# For each pipeline length, the targets for speedup and CPU share, and the requests per round
# (quick, full).
Targets = dict[int, tuple[float, float, int, int]]
TARGETS: Targets = {
    1: (1.0, 0.95, 30_000, 100_000),
    16: (2.0, 0.5, 200_000, 800_000),
    64: (2.5, 0.4, 300_000, 1_500_000),
}


@dataclasses.dataclass
class Load:
    """The figures of one run of redis-benchmark; CPU times are in microseconds per request."""

    throughput: float
    user: float
    kernel: float
    tool_busy: float
    # The slowest request in milliseconds.
    slowest: float


def _load(server: Server, operation: str, pipeline: int, requests: int) -> Load:
    """Run one of redis-benchmark's built-in tests once."""
    options = ["-t", operation, "-c", str(CLIENTS), "-P", str(pipeline), "-d", "64"]
    return load(server, requests, *options, "-r", str(KEYS))


def load(
    server: Server, requests: int, *options: str, limit: float = 120, socket: bool = True
) -> Load:
    """Run redis-benchmark once, on the client's core, by default on the server's unix socket."""
    command = [
        *("taskset", "--cpu-list", str(peers.CLIENT_CORE), "redis-benchmark"),
        *(("-s", str(server.path)) if socket else ()),
        *("-n", str(requests), "--csv", *options),
    ]
    before, tool, start = server.cpu(), _children(), time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
    elapsed, after = time.monotonic() - start, server.cpu()
    (row,) = csv.DictReader(io.StringIO(run.stdout))
    return Load(
        throughput=float(row["rps"]),
        user=(after[0] - before[0]) / requests * 1e6,
        kernel=(after[1] - before[1]) / requests * 1e6,
        tool_busy=(_children() - tool) / elapsed,
        slowest=float(row["max_latency_ms"]),
    )


def _children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def rows(bench: Bench, targets: Targets = TARGETS) -> list[Row]:
    """Measure the throughput and CPU time of GET and SET for each pipeline length."""
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        return [Row(id="server", work="server, compared with redis-server", note=missing)]
    found = []
    with both(bench) as servers:
        for server in servers:
            server.fill(KEYS, b"v" * 64)
        for pipeline, (faster, share, quick, full) in targets.items():
            for operation in ("get", "set"):
                loads: dict[str, list[Load]] = {server.name: [] for server in servers}
                # Turn 0 is a warm-up.
                started = time.monotonic()
                for turn in range(bench.pick(2, 7) + 1):
                    # On a busy machine three rounds are enough; their range shows the noise.
                    if turn > 3 and time.monotonic() - started > SECONDS:
                        break
                    requests = bench.pick(quick, full) if turn else 10_000
                    for server in servers if turn % 2 else servers[::-1]:
                        load = _load(server, operation, pipeline, requests)
                        if turn:
                            loads[server.name].append(load)
                ours, theirs = (loads[server.name] for server in servers)
                found += _rows(operation, pipeline, ours, theirs, (faster, share))
    return found


def _rows(
    operation: str,
    pipeline: int,
    ours: list[Load],
    theirs: list[Load],
    targets: tuple[float, float],
) -> list[Row]:
    name = f"server {operation.upper()}, -P {pipeline}"
    throughput = Row(
        id=f"server-{operation}-{pipeline}-throughput",
        work=f"{name}: requests per second",
        at_least=targets[0],
    )
    cpu = Row(
        id=f"server-{operation}-{pipeline}-cpu",
        work=f"{name}: CPU time per request",
        at_most=targets[1],
    )
    fill_in(throughput, cpu, [ours, theirs])
    return [throughput, cpu]


@contextlib.contextmanager
def both(bench: Bench) -> Iterator[list[Server]]:
    """Run Undercroft's server and redis-server until the block ends."""
    with contextlib.ExitStack() as stack:
        ours = peers.undercroft_server(bench.directory(), bench.binaries)
        theirs = peers.redis_server(bench.directory())
        yield [stack.enter_context(ours), stack.enter_context(theirs)]


def send(
    server: Server,
    commands: Iterable[bytes],
    mark: bytes,
    marks: int,
    many: int = 100,
    clients: int = 1,
) -> None:
    """Send commands in batches from each client and wait for ``marks`` marks in each reply."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(clients)]
        batches = peers.batched(commands, many)
        while some := list(itertools.islice(batches, clients)):
            turns = list(zip(connections, some, strict=False))
            for connection, batch in turns:
                connection.sendall(b"".join(batch))
            for connection, batch in turns:
                reply, wanted = b"", marks * len(batch)
                while reply.count(mark) < wanted or not reply.endswith(b"\r\n"):
                    part = connection.recv(1 << 20)
                    if not part or reply.startswith(b"-"):
                        raise RuntimeError(f"{server.name}: expected {mark!r}, got {reply[:100]!r}")
                    reply += part


def take_turns(
    servers: list[Server], rounds: int, requests: int, options: list[str]
) -> list[list[Load]]:
    """Run redis-benchmark on the servers alternately; the first round is not counted."""
    return take_turns_with([(server, []) for server in servers], rounds, requests, options)


def take_turns_with(
    servers: list[tuple[Server, list[str]]], rounds: int, requests: int, options: list[str]
) -> list[list[Load]]:
    """Run redis-benchmark on the servers alternately, with different arguments for each server."""
    loads: list[list[Load]] = [[] for _ in servers]
    for turn in range(rounds + 1):
        sides = list(zip(servers, loads, strict=True))
        for (server, words), side in sides if turn % 2 else sides[::-1]:
            count = requests if turn else max(requests // 10, 100)
            found = load(server, count, *options, *words)
            if turn:
                side.append(found)
    return loads


def fill_in(throughput: Row | None, cpu: Row, loads: list[list[Load]]) -> None:
    """Fill in a row of throughput and a row of CPU time with the figures of both servers."""
    ours, theirs = loads
    if throughput:
        throughput.ours, throughput.peer = (
            Figure.of("redis-server", [load.throughput / 1e3 for load in side], "k/s")
            for side in loads
        )
        throughput.ratio = throughput.ours.median / throughput.peer.median
        throughput.note = (
            f"redis-benchmark: {busy(ours)} busy with ours, {busy(theirs)} with Redis."
        )
    cpu.ours, cpu.peer = (
        Figure.of("redis-server", [load.user + load.kernel for load in side], "us")
        for side in loads
    )
    cpu.ratio = cpu.ours.median / cpu.peer.median
    cpu.note = f"Microseconds: ours, {parts(ours)}; Redis, {parts(theirs)}."


def busy(loads: list[Load]) -> str:
    """Return the highest CPU usage of redis-benchmark in any round, as a percentage."""
    return f"{100 * max(load.tool_busy for load in loads):.0f}%"


def parts(loads: list[Load]) -> str:
    """Return the user and kernel time per request as text for a note."""
    user = Figure.of("user", [load.user for load in loads], "us")
    kernel = Figure.of("kernel", [load.kernel for load in loads], "us")
    return f"user {user}, kernel {kernel}".replace(" us", "")
