"""The classic comparison: increasing numbers of KEYS * on a near-empty database, by each client."""

import statistics
import sys

from core import peers
from core.bench import Bench
from core.clients import Clients, Side, clients
from core.report import Grid, Row
from core.turns import loop

QUERIES = (100, 1_000, 10_000, 100_000)
# For the longest rows, the number of queries in a run and the number of runs.
TURN, TURNS = 10_000, 10


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure the milliseconds that each client takes for a number of queries over TCP."""
    if missing := peers.has("redis-server"):
        return [Row(id="classic", work="the classic comparison", note=missing)]
    turn = bench.pick(TURN // 100, TURN)
    store = bench.directory() / "store"
    with (
        clients(bench) as running,
        loop(sys.executable, "embedded", store, "0", script="remote.py") as embedded,
    ):
        # Add a client with an embedded store, which alternates with the other clients.
        running.running["embedded"] = embedded
        sides = _sides(running)
        short = {count: running.measure(sides, "keys", count, 5) for count in QUERIES[:2]}
        # One row is the median of runs of 10,000 queries, another is the sum of all runs.
        turns = running.measure(sides, "keys", turn, TURNS)
        # Omit the column of a client that failed; the note names it.
        found = [side for side in turns if all(side in rounds for rounds in short.values())]
        grid = Grid(
            "The classic comparison: KEYS * on a near-empty database, over TCP and embedded",
            "queries, milliseconds",
            [running.label(side) for side in found],
            note=running.remarks(),
            plot=True,
        )
    values = [
        [statistics.median(rounds[side]) * count / 1e6 for side in found]
        for count, rounds in short.items()
    ]
    values.append([statistics.median(turns[side]) * TURN / 1e6 for side in found])
    values.append([statistics.mean(turns[side]) * TURN * TURNS / 1e6 for side in found])
    grid.rows = [(f"{count:,}", [*line]) for count, line in zip(QUERIES, values, strict=True)]
    return [grid]


def _sides(running: Clients) -> list[Side]:
    """Return the sides of the columns, including Undercroft's on asyncio and an embedded store."""
    ours = [side for side in running.sides(["asyncio"], "tcp") if side.client == "undercroft"]
    embedded = Side("embedded", "sync", "unix")
    return [*running.sides(["sync", "uvloop"], "tcp"), *ours, embedded]
