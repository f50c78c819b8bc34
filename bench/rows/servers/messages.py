"""Rows of messages: latency and rate to embedded subscribers, beside Redis."""

import functools
from typing import Any

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import interleaved

from rows.languages.native import measure

# Microseconds between two messages: within the time that a subscriber of ours looks for the
# next one before it sleeps, and beyond it.
SOON, LATE = 300, 2000
# Messages that are sent at once, by one call or in one pipeline.
AT_ONCE = 100


def rows(bench: Bench) -> list[Row]:
    """Measure messages to one and to ten subscribers."""
    missing = peers.has("redis-server")
    found = []
    for subscribers in (1, 10):
        named = f"{subscribers} embedded subscriber{'s' if subscribers > 1 else ''}"
        way = f"one message to {named}, from publish to receipt"
        many = f"messages of 64 bytes to {named}, as fast as all of them receive"
        latency = Row(
            id=f"messages-latency-{subscribers}",
            work=f"{way}, one every {SOON} us: ours look for it, Redis' sleep",
            at_least=10,
        )
        asleep = Row(
            id=f"messages-latency-asleep-{subscribers}",
            work=f"{way}, one every {LATE // 1000} ms: all sleep",
        )
        rate = Row(
            id=f"messages-rate-{subscribers}",
            work=f"{many}, `publish_all` of {AT_ONCE} beside pipelines of {AT_ONCE}",
            at_least=10,
        )
        single = Row(
            id=f"messages-rate-single-{subscribers}",
            work=f"{many}, `publish` of one at a time beside pipelines of {AT_ONCE}",
        )
        found += [latency, asleep, rate, single]
        if missing:
            for row in found[-4:]:
                row.note = missing
            continue
        _measure(bench, subscribers, (latency, asleep), (rate, single))
    return found


def _measure(
    bench: Bench, subscribers: int, latencies: tuple[Row, Row], rates: tuple[Row, Row]
) -> None:
    """Fill in the rows of so many subscribers."""
    latency, asleep = latencies
    rate, single = rates
    with peers.redis_server(bench.directory()) as server:
        with server.connect() as connection:
            limit = b'CONFIG SET client-output-buffer-limit "pubsub 0 0 0"\r\n'
            connection.sendall(limit)
            connection.recv(64)
        run = functools.partial(measure, bench, "messages", f"--subscribers={subscribers}")
        redis = f"--redis={server.path}"
        timed, many = f"--single={bench.pick(500, 3000)}", bench.pick(50_000, 400_000)
        soon = [f"--pause={SOON}", timed, f"--messages={many}", f"--at-once={AT_ONCE}"]
        late = [f"--pause={LATE}", f"--single={bench.pick(100, 1000)}", "--messages=0"]
        alone = ["--single=0", f"--messages={many}", "--at-once=1"]
        found: dict[str, list[Any]] = interleaved(
            bench.pick(3, 7),
            {
                "soon": lambda: run(*soon),
                "redis soon": lambda: run(*soon, redis),
                "late": lambda: run(*late),
                "redis late": lambda: run(*late, redis),
                "alone": lambda: run(*alone),
            },
        )
    for row, ours in ((latency, "soon"), (asleep, "late")):
        row.ours, row.peer = (
            Figure.of(name, [_median(each["latency_ns"]) for each in found[side]], "ns")
            for name, side in (("publish", ours), ("PUBLISH", f"redis {ours}"))
        )
        row.ratio = row.peer.median / row.ours.median
    for row, ours in ((rate, "soon"), (single, "alone")):
        row.ours, row.peer = (
            Figure.of(name, [each["messages_per_second"] / 1e6 for each in found[side]], "M/s")
            for name, side in (("publish", ours), ("PUBLISH", "redis soon"))
        )
        row.ratio = row.ours.median / row.peer.median
    latency.note = (
        "Each subscriber is a thread with a handle or a connection of its own, and waits as it "
        "does by default. At this pace ours look again and again, offering their core to others "
        "in between, and Redis' sleep in read(): two kinds of wait. The median of all."
    )
    asleep.note = (
        "At this pace ours have gone to sleep, too, and each message wakes them. The median of all."
    )
    rate.note = (
        f"One publisher, {AT_ONCE} messages at once: publish_all, which takes the lock and wakes "
        f"once for all of them, and Redis in pipelines of {AT_ONCE} with subscribers that parse "
        "nothing."
    )
    single.note = (
        "One publisher, a call of publish for each message, beside the same pipelines of Redis."
    )


def _median(values: list[int]) -> float:
    return float(sorted(values)[len(values) // 2])
