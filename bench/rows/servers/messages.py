"""Rows of latency and rate of messages to embedded subscribers, compared with Redis."""

import functools
from typing import Any

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import interleaved

from rows.languages.native import measure

# The pauses between two messages, in microseconds. Undercroft's subscribers poll for longer than
# the first pause, and sleep during the second.
SOON, LATE = 300, 2000
# The number of messages sent together, by one call or in one pipeline.
AT_ONCE = 100


def rows(bench: Bench) -> list[Row]:
    """Measure messages to one and to ten subscribers."""
    missing = peers.has("redis-server")
    found = []
    for subscribers in (1, 10):
        named = f"{subscribers} embedded subscriber{'s' if subscribers > 1 else ''}"
        way = f"latency from publish to receipt, {named}"
        many = f"throughput of 64-byte messages, {named}, all received"
        latency = Row(
            id=f"messages-latency-{subscribers}",
            work=f"{way}, one message every {SOON} us: ours poll, Redis' sleep",
            at_least=10,
        )
        asleep = Row(
            id=f"messages-latency-asleep-{subscribers}",
            work=f"{way}, one message every {LATE // 1000} ms: all sleep",
        )
        rate = Row(
            id=f"messages-rate-{subscribers}",
            work=f"{many}, `publish_all` of {AT_ONCE} compared with pipelines of {AT_ONCE}",
            at_least=10,
        )
        single = Row(
            id=f"messages-rate-single-{subscribers}",
            work=f"{many}, `publish` of one at a time compared with pipelines of {AT_ONCE}",
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
    """Fill in the rows of messages to this number of subscribers."""
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
        "Each subscriber is a thread with its own handle or connection and the default way of "
        "waiting. At this pace our subscribers poll and yield the core, while Redis' sleep in "
        "read(). Median of all messages."
    )
    asleep.note = (
        "At this pace our subscribers sleep too, and each message wakes them. Median of all "
        "messages."
    )
    rate.note = (
        f"One publisher, {AT_ONCE} messages at a time. `publish_all` takes the lock and wakes "
        "subscribers once for all messages; Redis' subscribers parse nothing."
    )
    single.note = (
        f"One publisher and one call per message, compared with Redis' pipelines of {AT_ONCE}."
    )


def _median(values: list[int]) -> float:
    return float(sorted(values)[len(values) // 2])
