"""Rows of the server under two more loads: large values, and a store that grows."""

from core import peers
from core.bench import Bench
from core.peers import Server
from core.report import Figure, Row

from rows.servers import served
from rows.servers.served import Load

# The targets for short requests, in the form of `served.TARGETS`.
TARGETS: served.Targets = {
    1: (1.05, 0.95, 30_000, 100_000),
    16: (2.2, 0.5, 200_000, 800_000),
    64: (3.0, 0.4, 300_000, 1_500_000),
}
# The number of connections that request large values, and the number of keys with such values.
CLIENTS, KEYS = 8, 32
# The large requests: command, bytes, name of the size, and requests per round (quick, full).
LARGE = (
    ("get", 100 << 10, "100 KiB", 10_000, 40_000),
    ("set", 1 << 20, "1 MiB", 800, 3_000),
    ("get", 1 << 20, "1 MiB", 800, 3_000),
)
# The number of connections that insert new keys, and the maximum time of one insertion, in
# milliseconds.
MANY, MOST = 50, 5.0
# The range of random keys, so large that few keys occur twice.
RANGE = 2 * 10**9
MISSING = ("redis-server", "redis-benchmark", "taskset")


def short_rows(bench: Bench) -> list[Row]:
    """Measure short requests like those of the table `core`, with other targets."""
    return served.rows(bench, TARGETS)


def large_rows(bench: Bench) -> list[Row]:
    """Measure requests that read and write large values."""
    missing = peers.has(*MISSING)
    found = []
    for command, size, name, quick, full in LARGE:
        id = f"server-{command}-{size >> 10}k"
        work = f"server {command.upper()} of {name}, {CLIENTS} connections"
        throughput = Row(id=f"{id}-throughput", work=f"{work}: requests per second", at_least=1.1)
        cpu = Row(id=f"{id}-cpu", work=f"{work}: CPU time per request", at_most=1.0)
        found += [throughput, cpu]
        if missing:
            throughput.note = cpu.note = missing
            continue
        options = ["-t", command, "-c", str(CLIENTS), "-d", str(size), "-r", str(KEYS)]
        with served.both(bench) as servers:
            for server in servers:
                server.fill(KEYS, bytes([ord("v")]) * size)
            requests = bench.pick(quick, full)
            loads = served.take_turns(servers, bench.pick(3, 7), requests, options)
        served.fill_in(throughput, cpu, loads)
    return found


def slowest_rows(bench: Bench) -> list[Row]:
    """Measure the slowest insertion while a store grows through the server."""
    count = bench.pick(1_000_000, 10_000_000)
    row = Row(
        id="server-slowest-insertion",
        work=f"server, {MANY} connections: slowest SET while a store grows to {count:,} keys, in "
        "milliseconds",
        at_most=MOST,
    )
    if missing := peers.has(*MISSING):
        row.note = missing
        return [row]
    loads: list[list[Load]] = [[], []]
    for turn in range(2):
        # Each round starts with empty servers, and the servers alternate in going first.
        with served.both(bench) as servers:
            sides = list(zip(servers, loads, strict=True))
            for server, side in sides if turn % 2 else sides[::-1]:
                side.append(_grown(server, count))
    row.ours, row.peer = (
        Figure.of(name, [load.slowest for load in side], "ms")
        for name, side in zip(("SET", "redis-server"), loads, strict=True)
    )
    row.ratio = row.ours.median
    rates = [Figure.of("rate", [load.throughput / 1e3 for load in side], "k/s") for side in loads]
    row.note = (
        f"Ratio and target are absolute, in ms. redis-benchmark reached {rates[0]} with ours and "
        f"{rates[1]} with Redis. Both servers start empty each round."
    )
    return [row]


def _grown(server: Server, count: int) -> Load:
    """Insert ``count`` new keys into a server and return the figures of redis-benchmark."""
    words = ["SET", "key:__rand_int__", "v" * 64]
    load = served.load(
        server, count, "-c", str(MANY), "-P", "1", "-r", str(RANGE), *words, limit=600
    )
    with server.connect() as connection:
        connection.sendall(b"DBSIZE\r\n")
        keys = int(connection.recv(64)[1:])
    if keys < count * 0.99:
        raise RuntimeError(f"{server.name}: expected about {count} keys, got {keys}")
    return load
