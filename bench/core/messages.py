"""Rows of messages: latency and rate to embedded subscribers, beside Redis."""

from core import peers
from core.bench import Bench
from core.native import measure
from core.report import Figure, Row


def rows(bench: Bench) -> list[Row]:
    """Measure messages to one and to ten subscribers."""
    missing = peers.has("redis-server")
    found = []
    for subscribers in (1, 10):
        named = f"{subscribers} embedded subscriber{'s' if subscribers > 1 else ''}"
        latency = Row(
            id=f"messages-latency-{subscribers}",
            work=f"one message to {named}, from publish to receipt",
            at_least=10,
        )
        rate = Row(
            id=f"messages-rate-{subscribers}",
            work=f"messages of 64 bytes to {named}, as fast as all of them receive",
            at_least=10,
        )
        found += [latency, rate]
        if missing:
            latency.note = rate.note = missing
            continue
        _measure(bench, subscribers, latency, rate)
    return found


def _measure(bench: Bench, subscribers: int, latency: Row, rate: Row) -> None:
    options = [
        "messages",
        f"--subscribers={subscribers}",
        f"--single={bench.pick(500, 3000)}",
        f"--messages={bench.pick(50_000, 400_000)}",
    ]
    with peers.redis_server(bench.directory()) as server:
        with server.connect() as connection:
            limit = b'CONFIG SET client-output-buffer-limit "pubsub 0 0 0"\r\n'
            connection.sendall(limit)
            connection.recv(64)
        ours, theirs = [], []
        for _ in range(bench.pick(3, 7)):
            ours.append(measure(bench, *options))
            theirs.append(measure(bench, *options, f"--redis={server.path}"))
    latency.ours = Figure.of("publish", [_median(run["latency_ns"]) for run in ours], "ns")
    latency.peer = Figure.of("PUBLISH", [_median(run["latency_ns"]) for run in theirs], "ns")
    latency.ratio = latency.peer.median / latency.ours.median
    latency.note = (
        "A message every 300 microseconds; each subscriber is a thread with a handle or a "
        "connection of its own, and waits as it does by default: at this pace it looks again "
        "and again, offering its core to others in between. The median of all."
    )
    rate.ours = Figure.of("publish", [run["messages_per_second"] / 1e6 for run in ours], "M/s")
    rate.peer = Figure.of("PUBLISH", [run["messages_per_second"] / 1e6 for run in theirs], "M/s")
    rate.ratio = rate.ours.median / rate.peer.median
    rate.note = (
        "One publisher, 100 messages at once: publish_all, and Redis in pipelines of 100 with "
        "subscribers that parse nothing."
    )


def _median(values: list[int]) -> float:
    return float(sorted(values)[len(values) // 2])
