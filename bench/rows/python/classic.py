"""The classic comparison: KEYS * on a near-empty database, so many queries by each client."""

import statistics
import sys

from core import peers
from core.bench import Bench
from core.clients import Clients, Side, clients
from core.report import Grid, Row
from core.turns import loop

QUERIES = (100, 1_000, 10_000, 100_000)
# The longest rows are measured in so many turns.
TURN, TURNS = 10_000, 10


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure how many milliseconds each client takes for so many queries over TCP."""
    if missing := peers.has("redis-server"):
        return [Row(id="classic", work="the classic comparison", note=missing)]
    turn = bench.pick(TURN // 100, TURN)
    store = bench.directory() / "store"
    with (
        clients(bench) as running,
        loop(sys.executable, "embedded", store, "0", script="remote.py") as embedded,
    ):
        # A store in the client's own process takes its turns among them.
        running.running["embedded"] = embedded
        sides = _sides(running)
        short = {count: running.measure(sides, "keys", count, 5) for count in QUERIES[:2]}
        # All take turns of 10,000 queries: the median is one row, the sum of all another.
        turns = running.measure(sides, "keys", turn, TURNS)
        # A client that failed in one of them has no column, and stands in the note.
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
    """Return a column each: ours with the slower event loop, too, and embedded."""
    ours = [side for side in running.sides(["asyncio"], "tcp") if side.client == "undercroft"]
    embedded = Side("embedded", "sync", "unix")
    return [*running.sides(["sync", "uvloop"], "tcp"), *ours, embedded]
