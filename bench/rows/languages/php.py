"""Rows of the PHP client, compared with Predis, phpredis and APCu."""

import concurrent.futures
import contextlib
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from core import fpm, peers, turns
from core.bench import Bench
from core.report import Figure, Grid, Row

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "bench/loops/loop.php"
EXTENSION = ROOT / "target/php/undercroft.so"
# The number of calls of each operation in a round, in a quick and in a full run.
OPERATIONS = {
    "get": ("GET, 12-byte keys and values", 1_000, 5_000),
    "set": ("SET, 12-byte keys and values", 1_000, 5_000),
    "keys": ("KEYS of 30,000 keys", 2, 5),
    "lrange": ("LRANGE of 10,000 items", 5, 20),
    "pipeline-get": ("pipeline of 100 GETs", 30, 100),
    "pipeline-set": ("pipeline of 100 SETs", 30, 100),
    "mget": ("MGET of 100", 100, 400),
    "session-get": ("GET of a session of 10 KB", 500, 2_000),
    "session-set": ("SET of a session of 10 KB", 500, 2_000),
}
NAMES = {
    "predis": "Predis",
    "phpredis": "phpredis",
    "pure": "pure PHP",
    "spinning": "pure PHP with spin",
    "extension": "PHP with the extension",
    "store": "PHP, store through the extension",
    "client": "PHP, store through the client",
    "apcu": "APCu",
}
# The targets: speedups of pure PHP over Predis, and of the extension over phpredis.
PURE = {"get": 1.5, "set": 1.5, "pipeline-get": 1.5, "pipeline-set": 1.5, "keys": 2.0}
NATIVE = {"get": 1.1, "set": 1.1, "keys": 1.0, "lrange": 1.0}

Found = dict[str, dict[str, list[float]]]


def _missing(*names: str) -> str | None:
    if missing := peers.has("php", "redis-server"):
        return missing
    files = {
        "predis": Path("/usr/share/php/Predis/Autoloader.php"),
        "extension": EXTENSION,
        "store": EXTENSION,
    }
    for name in names:
        if name in files and not files[name].exists():
            return f"not measured: {NAMES[name]} is missing"
        if name in ("phpredis", "apcu"):
            module = {"phpredis": "redis", "apcu": "apcu"}[name]
            listed = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True)
            if module not in listed.stdout.split():
                return f"not measured: PHP's extension {module} is not installed"
    return None


@contextlib.contextmanager
def _loop(name: str, place: str) -> Iterator[turns.Loop]:
    """Run a PHP process with one client, and with opcache as on a web server."""
    options = ["-d", "opcache.enable_cli=1", "-d", "apc.enable_cli=1"]
    if name in ("extension", "store", "client"):
        options += ["-d", f"extension={EXTENSION}"]
    client = "extension" if name == "client" else name
    with turns.loop("php", *options, SCRIPT, client, place, script=None) as running:
        yield running


def _measured(bench: Bench, places: dict[str, str], operations: list[str]) -> Found:
    """Run the clients alternately and return the microseconds of each round."""
    found: Found = {}
    with contextlib.ExitStack() as stack:
        loops = {each: stack.enter_context(_loop(each, at)) for each, at in places.items()}
        for operation in operations:
            _, quick, full = OPERATIONS[operation]
            count = bench.pick(quick, full)
            if "apcu" in places:
                # Calls in shared memory take a fraction of a microsecond, so a round needs more
                # calls.
                count *= 20

            def run(name: str, operation: str = operation, count: int = count) -> float:
                return loops[name].run(operation, count) / count / 1000

            sides = {name: (lambda name=name: run(name)) for name in places}
            found[operation] = turns.interleaved(bench.pick(3, 11), sides)
    return found


def _beside(
    found: Found, operation: str, ours: str, theirs: str, place: str, target: float | None
) -> Row:
    """Return a row of two clients whose ratio is the speedup of Undercroft's client."""
    rounds = found[operation]
    row = Row(
        id=f"php-{place}-{ours}-{operation}",
        work=f"{OPERATIONS[operation][0]}, {place}: {NAMES[ours]} compared with {NAMES[theirs]}",
        at_least=target,
    )
    row.ours = Figure.of(NAMES[ours], rounds[ours], "us")
    row.peer = Figure.of(NAMES[theirs], rounds[theirs], "us")
    row.ratio = row.peer.median / row.ours.median
    return row


def _grid(found: Found, title: str, clients: list[str]) -> Grid:
    grid = Grid(title, "microseconds", [NAMES[name] for name in clients])
    for operation, rounds in found.items():
        medians = [Figure.of(name, rounds[name], "us").median for name in clients]
        grid.rows.append((OPERATIONS[operation][0], list(medians)))
    return grid


def remote_rows(bench: Bench) -> list[Row | Grid]:
    """Compare clients of a Redis server, over a unix socket and over local TCP."""
    if missing := _missing("predis", "phpredis"):
        return [Row(id="php-remote", work="PHP clients of a server", note=missing)]
    clients = ["predis", "phpredis", "pure", "spinning"]
    if EXTENSION.exists():
        clients.append("extension")
    rows: list[Row | Grid] = []
    with peers.redis_server(bench.directory(), tcp=True) as server:
        some = [b"key:%08d" % at for at in range(30_000)]
        server.run(peers.command(b"APPEND", key, b"value:000001") for key in some)
        items = (b"item:%07d" % at for at in range(10_000))
        server.run(peers.command(b"RPUSH", b"list", item) for item in items)
        places = {"unix socket": f"unix://{server.path}", "TCP": f"tcp://127.0.0.1:{server.port}"}
        for place, url in places.items():
            found = _measured(bench, dict.fromkeys(clients, url), list(OPERATIONS))
            for operation in OPERATIONS:
                target = PURE.get(operation)
                rows.append(_beside(found, operation, "pure", "predis", place, target))
                if operation in ("get", "set"):
                    # Without spin, most of a call's time is spent in the kernel, which puts the
                    # client to sleep.
                    rows.append(_beside(found, operation, "spinning", "predis", place, target))
                if "extension" in clients:
                    target = NATIVE.get(operation)
                    rows.append(_beside(found, operation, "extension", "phpredis", place, target))
            rows.append(_grid(found, f"PHP clients of a Redis server, {place}", clients))
    return rows


def embedded_rows(bench: Bench) -> list[Row | Grid]:
    """Compare a store in shared memory with APCu, and with phpredis on a unix socket."""
    if missing := _missing("store", "apcu", "phpredis"):
        return [Row(id="php-embedded", work="PHP on a store", note=missing)]
    store = f"undercroft://{bench.directory() / 'store'}"
    places = {"apcu": "", "store": store, "client": store}
    found = _measured(bench, places, ["get", "set"])
    rows: list[Row | Grid] = []
    for operation in ("get", "set"):
        for ours in ("store", "client"):
            row = _beside(found, operation, ours, "apcu", "embedded", None)
            assert row.ratio is not None
            # Replace the speedup with Undercroft's time divided by the peer's, which the target
            # limits.
            row.ratio = 1 / row.ratio
            row.at_most = 1.3 if ours == "store" else None
            rows.append(row)
    with peers.redis_server(bench.directory()) as server:
        served = _measured(bench, {"phpredis": f"unix://{server.path}"}, ["get"])
    both = {"get": {**found["get"], **served["get"]}}
    rows.append(_beside(both, "get", "store", "phpredis", "unix socket", 50.0))
    rows.append(_grid(found, "PHP in shared memory", list(places)))
    return rows


def network_rows(bench: Bench) -> list[Row | Grid]:
    """Compare clients across a simulated network: two namespaces with a round trip of 1 ms."""
    work = "PHP clients across a network with a 1 ms round trip"
    if missing := _missing("predis", "phpredis") or peers.has("ip", "tc"):
        return [Row(id="php-network", work=work, note=missing)]
    inner, outer = "undercroft-bench", "undercroft-b0"
    with contextlib.ExitStack() as stack:
        remove = ["ip", "netns", "delete", inner]
        try:
            for words in (
                ["ip", "netns", "add", inner],
                ["ip", "link", "add", outer, "type", "veth", "peer", "eth0", "netns", inner],
                ["ip", "address", "add", "10.213.7.1/24", "dev", outer],
                ["ip", "link", "set", outer, "up"],
                ["ip", "-n", inner, "address", "add", "10.213.7.2/24", "dev", "eth0"],
                ["ip", "-n", inner, "link", "set", "eth0", "up"],
                ["tc", "qdisc", "add", "dev", outer, "root", "netem", "delay", "1ms"],
            ):
                subprocess.run(words, check=True, capture_output=True, text=True)
                if words[1:3] == ["netns", "add"]:
                    stack.callback(subprocess.run, remove, check=False)
        except subprocess.CalledProcessError as error:
            note = f"not measured: {' '.join(error.cmd[:3])}: {(error.stderr or '').strip()}"
            return [Row(id="php-network", work=work, note=note)]
        directory = bench.directory()
        path, port = directory / "redis.sock", peers.free_port()
        options = ["--bind", "10.213.7.2", "--protected-mode", "no", "--save", ""]
        command = ["ip", "netns", "exec", inner, "redis-server", "--port", str(port), *options]
        command += ["--unixsocket", str(path), "--dir", str(directory)]
        server = stack.enter_context(peers.serving("redis-server", command, path, port))
        some = (b"key:%08d" % at for at in range(30_000))
        server.run(peers.command(b"APPEND", key, b"value:000001") for key in some)
        clients = ["predis", "phpredis", "pure"]
        url = f"tcp://10.213.7.2:{port}"
        operations = ["get", "pipeline-get", "mget", "session-get"]
        found = _measured(bench, dict.fromkeys(clients, url), operations)
    return [_grid(found, "PHP clients across a network, 1 ms per round trip", clients)]


# The number of PHP-FPM workers that read one store.
READERS = 8


def _first_calls(bench: Bench, store: str, by: str) -> list[Row]:
    """Time the first call of a request, in a new worker and in a worker with earlier requests."""
    rows = []
    # `fresh`: four workers that serve one request each. `open`: one worker that serves all
    # requests. The first requests fill opcache.
    cases = {"fresh": (4, 1, 300.0), "open": (1, 0, 2.0)}
    for case, (children, requests, target) in cases.items():
        with fpm.serving(bench.directory(), EXTENSION, store, children, requests) as pool:
            query = f"do=first&by={by}"
            for _ in range(5):
                pool.ask(query)
            count = bench.pick(20, 100) if requests else bench.pick(100, 1_000)
            found = [int(pool.ask(query)) / 1_000 for _ in range(count)]
        where = "a fresh worker" if requests else "a worker that has the store open"
        what = "a store through the client, loaded by opcache" if by == "client" else "a store"
        work = f"first GET of a request on {what}, in {where}"
        row = Row(id=f"php-first-{by}-{case}", work=work)
        row.ours = Figure.of(NAMES[by], found, "us")
        if by == "store":
            # The target is a time; the ratio is our time divided by the target.
            row.ratio, row.at_most = row.ours.median / target, 1.0
            row.note = f"A ratio of 1 is the target, {target:g} us."
        rows.append(row)
    return rows


def _served(pool: fpm.Pool, askers: int, seconds: float) -> tuple[int, float]:
    """Send requests from several threads; return their number and the workers' CPU seconds."""
    end = time.monotonic() + seconds

    def ask() -> int:
        count = 0
        while time.monotonic() < end:
            if pool.ask("do=read") != "read":
                raise RuntimeError("expected a request that reads all keys")
            count += 1
        return count

    began = pool.cpu_seconds()
    with concurrent.futures.ThreadPoolExecutor(askers) as threads:
        counts = [each.result() for each in [threads.submit(ask) for _ in range(askers)]]
    return sum(counts), pool.cpu_seconds() - began


def _waits(pool: fpm.Pool) -> str:
    """Return a note with the number of the workers' lock waits, counted with strace."""
    if peers.has("strace"):
        return "waits for locks not counted: no strace"
    command = ["strace", "--follow-forks", "--trace=futex", "--quiet=all"]
    for worker in pool.workers():
        command += ["--attach", str(worker)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        time.sleep(0.5)
        requests, _ = _served(pool, READERS, 2.0)
        tracer.send_signal(signal.SIGINT)
        _, seen = tracer.communicate(timeout=fpm.PATIENCE)
    if "attach: ptrace" in seen:
        return "waits for locks not counted: strace may not attach"
    waits = len(re.findall("FUTEX_WAIT", seen))
    return f"In {requests} more requests under strace, the workers waited for a lock {waits} times."


def fpm_rows(bench: Bench) -> list[Row | Grid]:
    """Measure PHP-FPM requests whose workers read a store in shared memory."""
    work = "requests to PHP-FPM on a store"
    if missing := _missing("store") or (None if fpm.program() else "not measured: no php-fpm"):
        return [Row(id="php-fpm", work=work, note=missing)]
    store = f"undercroft://{bench.directory() / 'store'}"
    rows: list[Row | Grid] = []
    with _loop("store", store) as writer:
        writer.run("fill", 300)
        for by in ("store", "client"):
            rows += _first_calls(bench, store, by)
        found: dict[int, list[float]] = {1: [], READERS: []}
        with contextlib.ExitStack() as stack:
            pools = {
                count: stack.enter_context(fpm.serving(bench.directory(), EXTENSION, store, count))
                for count in found
            }
            for pool in pools.values():
                _served(pool, READERS, 0.5)
            for _ in range(bench.pick(2, 7)):
                for count, pool in pools.items():
                    writer.begin("busy", bench.pick(1_000, 3_000))
                    requests, spent = _served(pool, count, bench.pick(1_000, 3_000) / 1_000)
                    writer.end()
                    found[count].append(requests / spent)
            writer.begin("busy", 4_000)
            note = _waits(pools[READERS])
            writer.end()
    row = Row(
        id="php-fpm-readers",
        work=f"requests of 300 GETs per CPU second: {READERS} workers compared with 1, while a "
        "process makes 10,000 writes a second",
        note=note,
        at_least=0.9,
    )
    row.ours = Figure.of(f"{READERS} workers", found[READERS], "requests")
    row.peer = Figure.of("1 worker", found[1], "requests")
    row.ratio = statistics.median(
        ours / theirs for ours, theirs in zip(found[READERS], found[1], strict=True)
    )
    rows.append(row)
    return rows
