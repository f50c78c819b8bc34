"""Rows of a mosec service whose stages pass on images, by Undercroft's and mosec's own methods."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import LOOPS, interleaved

from rows.python import objects

# The number of concurrent requests.
CALLERS = 4
WORK = f"mosec, two stages that pass on a 3.5 MiB image, {CALLERS} concurrent requests"


def rows(bench: Bench) -> list[Row]:
    """Measure a mosec service with each method of passing an image."""
    rate = Row(id="objects-mosec-rate", work=f"{WORK}: requests per second", at_least=1)
    tail = Row(id="objects-mosec-tail", work=f"{WORK}: 99th percentile", at_most=1)
    if missing := peers.has("redis-server", "taskset", "ab"):
        rate.note = tail.note = missing
        return [rate, tail]
    count = bench.pick(200, 300)
    with contextlib.ExitStack() as stack:
        python = peers.environment("objects")
        redis = stack.enter_context(peers.redis_server(bench.directory(), tcp=True))
        plasma = stack.enter_context(objects.plasma_store(bench, python))
        store = str(bench.directory() / "store")
        ports = {
            name: stack.enter_context(_service(bench, program, name, place))
            for name, program, place in (
                ("undercroft", Path(sys.executable), store),
                ("plasma", python, str(plasma)),
                ("redis", python, f"unix://{redis.path}"),
                ("mosec", python, "-"),
            )
        }
        body = bench.directory() / "body"
        body.write_bytes(b"image")
        found = interleaved(
            bench.pick(2, 5),
            {name: lambda port=port: _load(port, body, count) for name, port in ports.items()},
        )
    rates = {name: Figure.of(name, [each[0] for each in of], "/s") for name, of in found.items()}
    tails = {name: Figure.of(name, [each[1] for each in of], "ms") for name, of in found.items()}
    best = max(("plasma", "redis"), key=lambda name: rates[name].median)
    least = min(("plasma", "redis"), key=lambda name: tails[name].median)
    rate.ours, rate.peer = rates["undercroft"], rates[best]
    tail.ours, tail.peer = tails["undercroft"], tails[least]
    rate.ratio = rate.ours.median / rate.peer.median
    tail.ratio = tail.ours.median / tail.peer.median
    rate.note = "All ways: " + ", ".join(f"{name} {each}" for name, each in rates.items()) + "."
    tail.note = "All ways: " + ", ".join(f"{name} {each}" for name, each in tails.items()) + "."
    return [rate, tail]


@contextlib.contextmanager
def _service(bench: Bench, python: Path, way: str, place: str) -> Iterator[int]:
    """Run a mosec service until the block ends and yield its port."""
    port, log = peers.free_port(), bench.directory() / f"{way}.log"
    command = [str(python), str(LOOPS / "mosec_service.py")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--address", "127.0.0.1", "--log-level", "info"],
            env=os.environ | {"BENCH_WAY": way, "BENCH_PLACE": place},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 60
        while "http service is running" not in log.read_text(encoding="utf-8", errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(bench.without_places(f"{way}: {log.read_text()[-2000:]}"))
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=60)


def _load(port: int, body: Path, count: int) -> tuple[float, float]:
    """Return a service's requests per second and its 99th percentile in milliseconds."""
    options = ["-q", "-n", str(count), "-c", str(CALLERS), "-p", str(body), "-T", "text/plain"]
    url = f"http://127.0.0.1:{port}/inference"
    done = subprocess.run(
        ["ab", *options, url], capture_output=True, text=True, check=True, timeout=600
    )
    failed = re.search(r"Non-2xx responses: +(\d+)", done.stdout)
    rate = re.search(r"Requests per second: +([0-9.]+)", done.stdout)
    tail = re.search(r"^ +99% +(\d+)", done.stdout, re.MULTILINE)
    if failed or not rate or not tail:
        raise RuntimeError(f"ab: {failed and failed[0]} {done.stdout[-500:]} {done.stderr[-500:]}")
    return float(rate[1]), float(tail[1])
