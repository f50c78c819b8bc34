"""Rows of the server, under redis-benchmark, beside redis-server."""

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
# No more rounds of one operation after this long, if three are done.
SECONDS = 20
# For each pipeline: how much faster, and how much of the CPU, and requests a round (quick, full).
Targets = dict[int, tuple[float, float, int, int]]
TARGETS: Targets = {
    1: (1.0, 0.95, 30_000, 100_000),
    16: (2.0, 0.5, 200_000, 800_000),
    64: (2.5, 0.4, 300_000, 1_500_000),
}


@dataclasses.dataclass
class Load:
    """What one run of the load tool showed, per request where it is time."""

    throughput: float
    user: float
    kernel: float
    tool_busy: float
    # Of one request, in milliseconds.
    slowest: float


def _load(server: Server, operation: str, pipeline: int, requests: int) -> Load:
    """Run one of redis-benchmark's own tests once."""
    options = ["-t", operation, "-c", str(CLIENTS), "-P", str(pipeline), "-d", "64"]
    return load(server, requests, *options, "-r", str(KEYS))


def load(server: Server, requests: int, *options: str, limit: float = 120) -> Load:
    """Run redis-benchmark once, on the client's core."""
    command = [
        *("taskset", "--cpu-list", str(peers.CLIENT_CORE), "redis-benchmark"),
        *("-s", str(server.path), "-n", str(requests), "--csv", *options),
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
    """Return the CPU seconds of the children that ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def rows(bench: Bench, targets: Targets = TARGETS) -> list[Row]:
    """Measure throughput and CPU for each pipeline length, GET and SET."""
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        return [Row(id="server", work="server, beside redis-server", note=missing)]
    found = []
    with both(bench) as servers:
        for server in servers:
            server.fill(KEYS, b"v" * 64)
        for pipeline, (faster, share, quick, full) in targets.items():
            for operation in ("get", "set"):
                loads: dict[str, list[Load]] = {server.name: [] for server in servers}
                # Turn 0 is for warming up.
                started = time.monotonic()
                for turn in range(bench.pick(2, 7) + 1):
                    # On a busy machine fewer rounds must do; the spread tells.
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
        work=f"{name}: requests",
        at_least=targets[0],
    )
    cpu = Row(
        id=f"server-{operation}-{pipeline}-cpu",
        work=f"{name}: CPU a request",
        at_most=targets[1],
    )
    fill_in(throughput, cpu, [ours, theirs])
    return [throughput, cpu]


@contextlib.contextmanager
def both(bench: Bench) -> Iterator[list[Server]]:
    """Run our server and redis-server until the block ends."""
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
    """Send commands, so many at a time from each client; replies each have a mark so often."""
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
    """Let the servers take turns under one load; the first round is not counted."""
    return take_turns_with([(server, []) for server in servers], rounds, requests, options)


def take_turns_with(
    servers: list[tuple[Server, list[str]]], rounds: int, requests: int, options: list[str]
) -> list[list[Load]]:
    """Let the servers take turns, each with words of its own behind the options."""
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
    """Write what ours and theirs showed into a row for each."""
    ours, theirs = loads
    if throughput:
        throughput.ours, throughput.peer = (
            Figure.of("redis-server", [load.throughput / 1e3 for load in side], "k/s")
            for side in loads
        )
        throughput.ratio = throughput.ours.median / throughput.peer.median
        throughput.note = (
            f"redis-benchmark was busy {busy(ours)} with ours, {busy(theirs)} with Redis."
        )
    cpu.ours, cpu.peer = (
        Figure.of("redis-server", [load.user + load.kernel for load in side], "us")
        for side in loads
    )
    cpu.ratio = cpu.ours.median / cpu.peer.median
    cpu.note = f"ours {parts(ours)}; Redis {parts(theirs)}."


def busy(loads: list[Load]) -> str:
    """Return how busy the load tool was at most."""
    return f"{100 * max(load.tool_busy for load in loads):.0f} %"


def parts(loads: list[Load]) -> str:
    """Return user and kernel time a request, apart."""
    user = Figure.of("user", [load.user for load in loads], "us user")
    kernel = Figure.of("kernel", [load.kernel for load in loads], "us kernel")
    return f"{user} and {kernel}"
