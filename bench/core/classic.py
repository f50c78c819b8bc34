"""The classic comparison: KEYS * on a near-empty database, so many queries by each client."""

import statistics
import sys

from core import peers
from core.bench import Bench
from core.clients import Side, clients
from core.report import Grid, Row
from core.turns import interleaved, loop

QUERIES = (100, 1_000, 10_000, 100_000)
# The longest rows are measured in so many turns.
TURN, TURNS = 10_000, 10


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure how many milliseconds each client takes for so many queries over TCP."""
    if missing := peers.has("redis-server"):
        return [Row(id="classic", work="the classic comparison", note=missing)]
    turn = bench.pick(TURN // 100, TURN)
    with clients(bench) as running:
        sides = running.sides(["sync"], "tcp") + running.sides(["uvloop"], "tcp")
        sides.append(Side("undercroft", "asyncio", "tcp"))
        short = {count: running.measure(sides, "keys", count, 5) for count in QUERIES[:2]}
        # All take turns of 10,000 queries: the median is one row, the sum of all another.
        found = running.measure(sides, "keys", turn, TURNS)
        grid = Grid(
            "The classic comparison: KEYS * on a near-empty database, over TCP",
            "queries, milliseconds",
            [running.label(side) for side in found],
            note=running.remarks(),
            plot=True,
        )
        values = [
            [statistics.median(some) * count / 1e6 for some in short[count].values()]
            for count in QUERIES[:2]
        ]
        values.append([statistics.median(some) * TURN / 1e6 for some in found.values()])
        values.append([sum(some) / len(some) * TURN * TURNS / 1e6 for some in found.values()])
        _add_embedded(bench, grid, values)
    grid.rows = [(f"{count:,}", [*line]) for count, line in zip(QUERIES, values, strict=True)]
    return [grid]


def _add_embedded(bench: Bench, grid: Grid, values: list[list[float]]) -> None:
    """Add the column of a store in the client's own process."""
    store = bench.directory() / "store"
    with loop(sys.executable, "embedded", store, "0", script="remote.py") as running:
        for line, count in zip(values, QUERIES, strict=True):
            side = {"": lambda count=count: running.run("sync unix keys", count)}
            line.append(statistics.median(interleaved(3, side)[""]) * count / 1e6)
        grid.columns.append(running.about)
