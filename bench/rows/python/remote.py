"""Rows of the table `python`: Undercroft's client of a server, other clients, and a raw socket."""

import sys
from collections.abc import Iterable
from importlib import metadata

from core import peers
from core.bench import Bench
from core.callgrind import instructions
from core.clients import ALL, LOOPS, Clients, Side, clients, fill
from core.report import Figure, Grid, Row
from core.turns import LOOPS as SCRIPTS
from core.turns import interleaved, loop

from rows.python import embedded

WORKS = {"get": "GET", "keys": "KEYS * of one key"}
SOCKETS = {"unix": "unix socket", "tcp": "TCP"}
OVER = {"unix": "a unix socket", "tcp": "TCP"}
REDIS = ("redis-5.2", "redis-newest-hiredis", "redis-newest")
Rounds = dict[Side, list[float]]


def _us(running: Clients, side: Side, rounds: list[float]) -> Figure:
    return Figure.of(running.label(side), [value / 1e3 for value in rounds], "us")


def _beside(
    running: Clients,
    found: Rounds,
    work: tuple[str, str],
    sides: tuple[Side, Side],
    at_least: float | None = None,
    at_most: float | None = None,
    suffix: str = "",
) -> Row:
    """Return a row of two sides; ``at_most`` limits Undercroft's time divided by the peer's."""
    ours, theirs = (_us(running, side, found[side]) for side in sides)
    of_time = at_most is not None
    name, text = work
    mine, other = sides
    return Row(
        id=f"{name}-{mine.client}-{mine.flavour}-{other.client}-{other.flavour}{suffix}",
        work=f"{text}, {mine.flavour}{', pure Python' if 'pure' in mine.client else ''}: "
        + ("our time compared with" if of_time else "speedup over")
        + f" {theirs.name}"
        + (", the fastest peer" if suffix else ""),
        ours=ours,
        peer=theirs,
        ratio=ours.median / theirs.median if of_time else theirs.median / ours.median,
        at_least=at_least,
        at_most=at_most,
    )


def _fastest(found: Rounds, sides: Iterable[Side]) -> Side:
    """Return the fastest side that is not Undercroft's."""
    others = [side for side in sides if not side.client.startswith("undercroft")]
    return min(others, key=lambda side: Figure.of("", found[side], "").median)


def _missing(name: str) -> list[Row] | None:
    missing = peers.has("redis-server")
    return [Row(id=name, work=name, note=missing)] if missing else None


def counted(bench: Bench) -> list[Row]:
    """Count the instructions of a GET by Undercroft and by redis-py in the same environment."""
    rows = [
        Row(
            id=f"instructions-{flavour}",
            work=f"instructions of a GET over a unix socket, {flavour}",
        )
        for flavour in ALL
    ]
    if missing := peers.has("redis-server") or peers.has("valgrind"):
        rows[0].note = missing
        return rows
    few, many = 200, bench.pick(1_200, 2_200)
    with peers.redis_server(bench.directory()) as server:
        fill(server)
        for row, flavour in zip(rows, ALL, strict=True):

            def each(client: str, flavour: str = flavour) -> float:
                command = [sys.executable, SCRIPTS / "remote.py", client, server.path, "0"]
                less, more = (
                    instructions(bench, command, f"{flavour} unix get {count}\n")
                    for count in (few, many)
                )
                return (more - less) / (many - few)

            try:
                ours, theirs = each("undercroft"), each("redis")
            except (OSError, RuntimeError) as error:
                row.note = bench.without_places(f"not measured: {error}")
                continue
            row.ours = Figure("undercroft", ours, ours, ours, "instructions")
            peer = f"redis-py {metadata.version('redis')} with hiredis"
            row.peer = Figure(peer, theirs, theirs, theirs, "instructions")
            row.ratio = theirs / ours
    rows[0].note = f"callgrind, client process only: {many:,} calls minus {few:,}."
    return rows


def _grid(running: Clients, title: str, lines: dict[str, Rounds]) -> Grid:
    """Return a grid of the medians of all clients, with a row for each kind of work."""
    columns: dict[str, str] = {
        side.client: running.running[side.client].about
        for found in lines.values()
        for side in found
        if side.client in running.running
    }
    grid = Grid(title, "microseconds", list(columns.values()), note=running.remarks())
    for label, found in lines.items():
        by_client = {
            side.client: Figure.of("", values, "").median / 1e3 for side, values in found.items()
        }
        grid.rows.append((label, [by_client.get(client) for client in columns]))
    return grid


def sequential(bench: Bench) -> list[Row | Grid]:
    """Measure sequential calls over both kinds of sockets, without and with event loops."""
    if missing := _missing("sequential"):
        return [*missing]
    rows: list[Row | Grid] = []
    lines: dict[str, Rounds] = {}
    with clients(bench) as running:
        for work, text in WORKS.items():
            for transport, named in SOCKETS.items():
                found = running.measure(
                    running.sides(ALL, transport), work, bench.pick(300, 1000), bench.pick(3, 7)
                )
                rows += _sequential_rows(
                    running,
                    found,
                    (f"{work}-{transport}", f"{text} over {OVER[transport]}"),
                    transport,
                )
                for flavour in ALL:
                    some = {side: found[side] for side in found if side.flavour == flavour}
                    lines[f"{text}, {named}, {flavour}"] = some
        rows.append(_grid(running, "Sequential calls", lines))
    rows[0].note = (
        f"Clients on core {peers.CLIENT_CORE}, the server on core {peers.SERVER_CORE}; "
        f"{bench.pick(300, 1000)} calls per round."
    )
    return rows


def _sequential_rows(
    running: Clients, found: Rounds, work: tuple[str, str], transport: str
) -> list[Row]:
    def side(client: str, flavour: str) -> Side:
        return Side(client, flavour, transport)

    rows = []

    def row(ours: Side, other: Side, *targets: float | None, suffix: str = "") -> None:
        if ours in found and other in found:
            rows.append(_beside(running, found, work, (ours, other), *targets, suffix=suffix))

    blocking = side("undercroft", "sync")
    row(blocking, side("redis-5.2", "sync"), 1.6)
    row(blocking, side("redis-newest-hiredis", "sync"), 2)
    row(blocking, side("redis-newest", "sync"), 2)
    row(blocking, side("raw", "sync"), None, 1.25)
    row(side("undercroft-pure", "sync"), side("redis-newest", "sync"))
    for flavour in LOOPS:
        ours = side("undercroft", flavour)
        for client in REDIS:
            row(ours, side(client, flavour), 2)
        same = [each for each in found if each.flavour == flavour]
        row(ours, _fastest(found, same), 1.25, suffix="-fastest")
        row(ours, side("redis-5.2", "sync"), None, 1)
    return rows


def concurrent(bench: Bench) -> list[Row | Grid]:
    """Measure concurrent GETs over both kinds of sockets."""
    if missing := _missing("concurrent"):
        return [*missing]
    rows: list[Row | Grid] = []
    lines: dict[str, Rounds] = {}
    with clients(bench) as running:
        for many in (50, 1000):
            for transport, named in SOCKETS.items():
                sides = running.sides(["uvloop"], transport)
                # A round has at least ten groups of concurrent GETs.
                count = max(2000, 10 * many)
                found = running.measure(sides, f"get-{many}", count, bench.pick(3, 5))
                work = f"get-{many}-{transport}", f"{many:,} concurrent GETs over {OVER[transport]}"
                ours = Side("undercroft", "uvloop", transport)
                others = [Side(client, "uvloop", transport) for client in REDIS]
                rows += [
                    _beside(running, found, work, (ours, other), 5)
                    for other in others
                    if other in found
                ]
                fastest = _fastest(found, found)
                rows.append(_beside(running, found, work, (ours, fastest), 1.5, suffix="-fastest"))
                lines[f"{many:,} concurrent GETs, {named}, uvloop, per GET"] = found
        rows.append(_grid(running, "Concurrent calls", lines))
    return rows


def pipelines(bench: Bench) -> list[Row | Grid]:
    """Measure pipelines of 100 GETs."""
    if missing := _missing("pipelines"):
        return [*missing]
    rows: list[Row | Grid] = []
    lines: dict[str, Rounds] = {}
    flavours = ("sync", "uvloop")
    with clients(bench) as running:
        for transport, named in SOCKETS.items():
            sides = running.sides(flavours, transport, pipelines=True)
            found = running.measure(sides, "get-pipeline", bench.pick(2000, 10_000), 5)
            work = f"pipeline-{transport}", f"GET in a pipeline of 100 over {OVER[transport]}"
            for flavour in flavours:
                ours = Side("undercroft", flavour, transport)
                rows += [
                    _beside(running, found, work, (ours, other), 3)
                    for other in (Side(client, flavour, transport) for client in REDIS[:2])
                    if other in found
                ]
                some = {side: found[side] for side in found if side.flavour == flavour}
                lines[f"GET in a pipeline of 100, {named}, {flavour}"] = some
            ours, raw = (Side(name, "sync", transport) for name in ("undercroft", "raw"))
            # This row has no target, because a raw socket creates no objects for commands and
            # replies.
            rows.append(_beside(running, found, work, (ours, raw)))
        rows.append(_grid(running, "Pipelines", lines))
    return rows


def replies(bench: Bench) -> list[Row | Grid]:
    """Measure large replies, with parsers alone and in complete calls."""
    rows: list[Row | Grid] = [*_parsers(bench)]
    lines: dict[str, Rounds] = {}
    if peers.has("redis-server"):
        return rows
    with clients(bench) as running:
        sides = running.sides(["sync"], "unix")
        sides = [side for side in sides if side.client != "raw"]
        for work, text, count in (
            ("many-keys", "KEYS * of 30,000 keys", 5),
            ("many-items", "LRANGE of 10,000 items", 20),
            ("long-value", "GET of 10 MB", 3),
        ):
            found = running.measure(sides, work, count, bench.pick(3, 5))
            ours = Side("undercroft", "sync", "unix")
            rows += [
                _beside(running, found, (work, f"{text}, complete call"), (ours, other))
                for other in (Side(client, "sync", "unix") for client in REDIS)
                if other in found
            ]
            lines[f"{text}, unix socket, sync"] = found
        rows.append(_grid(running, "Large replies, complete calls", lines))
    return rows


def _parsers(bench: Bench) -> list[Row]:
    rows = []
    names = ("native", "hiredis", "pure", "redis-py")
    with loop(sys.executable, *names, script="parsers.py") as running:
        for work, text, count in (
            ("many-keys", "KEYS * of 30,000 keys", 10),
            ("many-items", "LRANGE of 10,000 items", 30),
            ("long-value", "GET of 10 MB", 5),
        ):
            found = interleaved(
                bench.pick(3, 7),
                {
                    name: lambda name=name, work=work, count=count: running.run(
                        f"{name} {work}", count
                    )
                    for name in names
                },
            )
            for name, other, called in (
                ("native", "hiredis", "hiredis"),
                ("pure", "redis-py", "redis-py's own parser"),
            ):
                ours, theirs = (
                    Figure.of(title, [value / 1e3 for value in found[key]], "us")
                    for key, title in ((name, "undercroft"), (other, called))
                )
                rows.append(
                    Row(
                        id=f"parser-{name}-{work}",
                        work=f"{text}, {name} parser alone: speedup over {called}",
                        ours=ours,
                        peer=theirs,
                        ratio=theirs.median / ours.median,
                        at_least=1,
                    )
                )
    rows[0].note = "Replies in memory, fed in pieces of 64 KiB and parsed into lists of bytes."
    return rows


def embedded_gets(bench: Bench) -> list[Row | Grid]:
    """Measure a GET of 100,000 keys from an embedded store, compared with a unix socket."""
    return [*embedded.redis_rows(bench)]
