"""Rows of servers that face a network: TLS, and what client-side caching costs writers."""

import subprocess
from pathlib import Path

from core import peers
from core.bench import Bench
from core.callgrind import instructions
from core.report import Figure, Row

from rows.servers.served import Load, busy, fill_in, load

KEYS = 10_000
PIPELINE = 16


def tls_rows(bench: Bench) -> list[Row]:
    """Measure GET over TLS, compared with redis-server with the same certificates."""
    rows = [
        Row(id="tls-get-cpu", work=f"GET over TLS, -P {PIPELINE}: CPU time per request"),
        Row(id="tls-get-throughput", work=f"GET over TLS, -P {PIPELINE}: requests per second"),
    ]
    cpu, throughput = rows
    cpu.at_most = 1 / 1.3
    if missing := peers.has("redis-server", "redis-benchmark", "taskset"):
        cpu.note = throughput.note = missing
        return rows
    directory = bench.directory()
    subprocess.run(
        [bench.binaries / "undercroft", "tls", "init", directory / "tls"],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    ports = [peers.free_port() for _ in range(2)]
    sides = [_with_tls(directory / "tls", port) for port in ports]
    with (
        peers.undercroft_server(bench.directory(), bench.binaries, sides[0]) as ours,
        peers.redis_server(bench.directory(), extra=sides[1]) as theirs,
    ):
        servers = [ours, theirs]
        for server in servers:
            server.fill(KEYS, b"v" * 64)
        options = ["-t", "get", "-c", "50", "-P", str(PIPELINE), "-r", str(KEYS)]
        sides = [[*options, *_over_tls(directory / "tls", port)] for port in ports]
        loads: list[list[Load]] = [[], []]
        for turn in range(bench.pick(3, 7) + 1):
            for server, words, side in zip(servers, sides, loads, strict=True):
                requests = bench.pick(200_000, 1_000_000) if turn else 20_000
                found = load(server, requests, *words, socket=False)
                # Turn 0 is a warm-up.
                side += [found] if turn else []
    fill_in(throughput, cpu, loads)
    throughput.note = (
        f"redis-benchmark, which encrypts too, is {busy(loads[0])} busy with ours and "
        f"{busy(loads[1])} with Redis, so it limits the faster server."
    )
    return rows


def _with_tls(certificates: Path, port: int) -> list[str]:
    files = [
        *("--tls-cert-file", str(certificates / "server.pem")),
        *("--tls-key-file", str(certificates / "server.key")),
        *("--tls-ca-cert-file", str(certificates / "ca.pem")),
    ]
    return ["--tls-port", str(port), "--tls-auth-clients", "no", *files]


def _over_tls(certificates: Path, port: int) -> list[str]:
    ca = str(certificates / "ca.pem")
    return ["-h", "localhost", "-p", str(port), "--tls", "--cacert", ca]


def tracking_rows(bench: Bench) -> list[Row]:
    """Count the instructions of an embedded SET while a server's clients track keys."""
    cases = {
        "none": "no client tracks keys",
        "other": "a client has read other keys",
        "each": "a client has read each key since it last changed",
        "all": "a client is in BCAST mode",
    }
    rows = [
        Row(id=f"tracked-{tracked}", work=f"instructions of an embedded SET while {case}")
        for tracked, case in cases.items()
    ]
    if missing := peers.has("valgrind"):
        for row in rows:
            row.note = missing
        return rows
    keys, rounds = 1_000, bench.pick(20, 50)
    for row, tracked in zip(rows, cases, strict=True):
        command = [
            *(bench.binaries / "undercroft-bench", "loop", "set", "--tracked", tracked),
            *("--keys", str(keys), "--rounds"),
        ]
        none, some = (instructions(bench, [*command, str(count)]) for count in (0, rounds))
        each = (some - none) / (keys * rounds)
        row.ours = Figure(tracked, each, each, each, "instructions")
        row.note = f"callgrind, {keys:,} keys: ({some:,} - {none:,}) / {keys * rounds:,}."
    base = rows[0].ours
    for row in rows[1:]:
        if row.ours and base:
            row.peer, row.ratio = base, row.ours.median / base.median
    rows[1].at_most = 1.05
    return rows
