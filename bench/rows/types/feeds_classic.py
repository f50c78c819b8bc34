"""The classic table of feeds, at every scale, compared with lists and a MariaDB table."""

import contextlib
import sys
import time
from pathlib import Path

from core import mariadb, peers
from core.bench import Bench
from core.report import Grid, Row
from core.turns import Loop, loop

from rows.servers.served import load
from rows.types import feeds

LENGTHS = (100, 200, 1_000)
COLUMNS = ("C", "Python, arrays", "Redis, C", "Redis, Python", "MariaDB, C")
CLIENTS = 10
# How long to measure for a figure, in seconds, and for a MariaDB figure, whose first query alone
# can take that long.
SECONDS, PATIENCE = 0.25, 0.5
# The length, as a power of ten, of the board on which clients and connections are compared.
POWER = 6


class Sides:
    """All clients and servers of the comparison, each filled with the same numbers of items."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack) -> None:
        """Start and fill all sides."""
        self.bench = bench
        self.powers = feeds.powers(bench)
        directory = bench.directory()
        # ``undercroft_server`` serves the store ``served`` of this directory.
        self.store = directory / "served"
        self.program = feeds.program(bench)
        self.c = stack.enter_context(loop(self.program, self.store, script=None))
        for power in self.powers:
            self.c.run(f"fill-{power}", 1)
        python = loop(sys.executable, "embedded", self.store, script="feeds.py")
        self.python = stack.enter_context(python)
        self.served = stack.enter_context(peers.undercroft_server(directory, bench.binaries))
        self.redis = stack.enter_context(peers.redis_server(bench.directory()))
        for power in self.powers:
            feeds.fill_list(self.redis, power)
        lists = loop(peers.environment("redis-5.2"), "redis", self.redis.path, script="feeds.py")
        self.lists = stack.enter_context(lists)
        self.mariadb: mariadb.MariaDB | None = None
        self.note = peers.has("mariadbd", "mariadb-slap") or ""
        if not self.note:
            try:
                self.mariadb = stack.enter_context(mariadb.server(bench.directory()))
                for power in self.powers:
                    self.mariadb.fill(power)
            except (OSError, RuntimeError) as error:
                self.note = bench.without_places(f"not measured: {error}")

    def of_loop(self, side: Loop, operation: str) -> float:
        """Return the microseconds per operation that a loop reports."""
        seconds = SECONDS / self.bench.pick(4, 1)
        count = max(1, min(100_000, int(seconds * 1e9 / side.run(operation, 2))))
        return side.run(operation, count) / 1e3

    def of_redis(self, words: list[str]) -> float:
        """Return the microseconds of a Redis command on one connection."""
        options = ["-c", "1", *words]
        # redis-benchmark's clock has a resolution of a millisecond: 20 fast commands can take 0 ms,
        # which has no rate.
        rate = load(self.redis, 20, *options).throughput or 10_000.0
        count = max(20, int(SECONDS / self.bench.pick(4, 1) * min(rate, 100_000.0)))
        return 1e6 / load(self.redis, count, *options).throughput

    def of_mariadb(self, query: str) -> float | None:
        """Return the microseconds of a MariaDB statement on one connection."""
        if self.mariadb is None:
            return None
        first = self.mariadb.seconds(query, 1)
        count = int(PATIENCE / self.bench.pick(4, 1) / max(first, 1e-4))
        return 1e6 * (self.mariadb.seconds(query, count) if count > 1 else first)


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure all grids and rows, with every side filled once."""
    if missing := peers.has("redis-server", "redis-benchmark", "taskset", "cc"):
        return [Row(id="feeds-classic", work="the classic table of feeds", note=missing)]
    with contextlib.ExitStack() as stack:
        sides = Sides(bench, stack)
        grids = [_ranges(sides), _crowds(sides), _insertions(sides)]
        if sides.mariadb is not None:
            sides.mariadb.index(sides.powers[-1])
        return [*grids, *feeds.page_rows(bench, sides.c, sides.mariadb, sides.note)]


def _ranges(sides: Sides) -> Grid:
    grid = Grid(
        "Ranges of feeds, lists and a table: one client, one persistent connection",
        "items, microseconds",
        list(COLUMNS),
        note="Redis' C client is redis-benchmark and MariaDB's is mariadb-slap, both on a unix "
        f"socket. Redis' Python client is redis-py 5.2 with hiredis. {sides.note}".strip(),
    )
    for power in sides.powers:
        for place in feeds.PLACES:
            for length in LENGTHS:
                operation = f"range-{power}-{length}-{place}"
                start = feeds.start_of(place, power, length)
                figures = [
                    sides.of_loop(sides.c, operation),
                    sides.of_loop(sides.python, operation),
                    sides.of_redis(feeds.lrange(power, start, length)),
                    sides.of_loop(sides.lists, operation),
                    sides.of_mariadb(mariadb.page(power, start, length)),
                ]
                grid.rows.append((f"{place} {length} of {10**power:,}", figures))
    return grid


def _insertions(sides: Sides) -> Grid:
    grid = Grid(
        "Insertions into feeds, lists and a table, one item at a time",
        "items, microseconds",
        list(COLUMNS[:3] + COLUMNS[4:]),
        note="Redis: LPUSH, LINSERT before the middle item, RPUSH. MariaDB finds the ends by its "
        "index; the statement contains the place in the middle. "
        f"{sides.note}".strip(),
    )
    for power in sides.powers:
        for place in feeds.ENDS:
            words = {
                "head": ["LPUSH", f"list{power}", "inserted now"],
                "tail": ["RPUSH", f"list{power}", "inserted now"],
                "middle": ["LINSERT", f"list{power}", "BEFORE", "", "inserted now"],
            }[place]
            if place == "middle":
                words[3] = f"{10**power // 2 * 7_919 % 99_999_999_977:011d}z"
            count = 1_000 if power == 4 else 10_000
            figures: list[float | None] = [
                sides.c.run(f"insert-{power}-{place}", count) / 1e3,
                sides.python.run(f"insert-{power}-{place}", count) / 1e3,
                sides.of_redis(words),
                sides.of_mariadb(mariadb.insertion(power, place)),
            ]
            grid.rows.append((f"{place} of {10**power:,}", figures))
    return grid


def _crowds(sides: Sides) -> Grid:
    columns = ["C", "Python, arrays", "undercroft serve", "Redis, C", "Redis, Python", "MariaDB, C"]
    grid = Grid(
        f"First 100 of {10**POWER:,}: number of clients, persistent and short connections",
        "clients, thousand ranges per second in total",
        columns,
        note="A short connection of C or of Python arrays opens and closes the store. Ten clients "
        "of C or Python are ten processes on any core; the other columns have one load tool with "
        f"ten connections. {sides.note}".strip(),
    )
    for clients in (1, CLIENTS):
        for short in (False, True):
            figures = [
                _together(sides, [sides.program, sides.store], clients, short),
                _together(sides, [Path(sys.executable), "embedded", sides.store], clients, short),
                _served(
                    sides, sides.served, ["FEED.RANGE", f"feed{POWER}", "0", "100"], clients, short
                ),
                _served(sides, sides.redis, feeds.lrange(POWER, 0, 100), clients, short),
                _together(
                    sides,
                    [peers.environment("redis-5.2"), "redis", sides.redis.path],
                    clients,
                    short,
                ),
                _slapped(sides, clients, short),
            ]
            words = f"{clients}, {'short' if short else 'persistent'} connections"
            grid.rows.append((words, figures))
    return grid


def _together(sides: Sides, command: list[Path | str], clients: int, short: bool) -> float:
    """Return the ranges per second, in thousands, of several processes together."""
    operation = f"short-{POWER}" if short else f"range-{POWER}-100-first"
    script = "feeds.py" if command[0] != sides.program else None
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(loop(*command, script=script, pinned=False)) for _ in range(clients)
        ]
        # Do one-time work, such as importing numpy, before the clock starts.
        each = [side.run(operation, 10) for side in running * 2][-1]
        count = max(10, int(SECONDS * 1e9 / each / min(clients, len(peers.CORES))))
        since = time.monotonic()
        for side in running:
            side.begin(operation, count)
        for side in running:
            side.end()
        return clients * count / (time.monotonic() - since) / 1e3


def _served(
    sides: Sides, server: peers.Server, words: list[str], clients: int, short: bool
) -> float:
    options = ["-c", str(clients), "-k", "0" if short else "1", *words]
    count = sides.bench.pick(2_000, 20_000) // (4 if short else 1)
    return load(server, count, *options).throughput / 1e3


def _slapped(sides: Sides, clients: int, short: bool) -> float | None:
    if sides.mariadb is None:
        return None
    count = sides.bench.pick(500, 4_000)
    query = mariadb.page(POWER, 0, 100)
    return 1e-3 / sides.mariadb.seconds(query, count, clients, short)
