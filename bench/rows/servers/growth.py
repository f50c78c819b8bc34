"""Rows and a plot of the slowest calls over the life of a store, and of eight processes."""

import contextlib
import json
import os
import sys
from functools import partial
from typing import Any

from core import peers
from core.bench import Bench
from core.report import Course, Figure, Panel, Row
from core.turns import LOOPS, Loop, interleaved, loop

# The names of the plot's lines.
OURS, THEIRS = "undercroft, embedded", "redis-server, over a socket"
PROCESSOR = "undercroft, CPU time of its thread"
CORES = {peers.CLIENT_CORE, peers.SERVER_CORE}
# The timeout of a phase in seconds; ten million calls over a socket take several minutes.
LIMIT = 1800.0
# The maximum time of one insertion, in milliseconds.
MOST = 1.0
# The figures of the writing processes: their names in the output of loops/crowd.py, and in the
# table.
SEEN = (("late_us", "99.9th percentile"), ("slowest_us", "slowest call"))
WORKS = {"set": "SET", "mset": "MSET of 10"}


def rows(bench: Bench) -> list[Row | Course]:
    """Measure a store that grows, expires keys, is copied and is flushed, compared with Redis."""
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="growth", work="slowest calls while a store grows", note=missing)]
    count = bench.pick(1_000_000, 10_000_000)
    expiring = bench.pick(100_000, 200_000)
    phases = {
        "grow": (count, f"the store grows to {count:,} keys", "million keys"),
        "expire": (expiring, f"{expiring:,} keys expire at once", "seconds"),
        "copy": (0, "the store is copied by `export` or BGSAVE", "seconds"),
        "flush": (0, "another process flushes the store", "seconds"),
    }
    with contextlib.ExitStack() as stack:
        sides = _sides(bench, stack)
        # Each phase builds on the previous one, so the sides alternate phase by phase.
        found = {
            phase: {name: json.loads(side.ask(phase, much, LIMIT)) for name, side in sides.items()}
            for phase, (much, _, _) in phases.items()
        }
    course = Course(
        f"The slowest SET over the life of a store of {count:,} keys",
        [
            Panel(
                title.replace("`", ""),
                axis,
                _lines(found[phase]),
                [PROCESSOR],
            )
            for phase, (_, title, axis) in phases.items()
        ],
        caption="After the first panel, existing keys are overwritten; points are 50 ms apart.",
    )
    return [*_growing(found["grow"], count), *_others(found, phases), course]


def _sides(bench: Bench, stack: contextlib.ExitStack) -> dict[str, Loop]:
    """Run a loop on a store and a loop on a server, each with the command that copies its data."""
    directory = bench.directory()
    other = ["taskset", "--cpu-list", str(peers.SERVER_CORE)]
    export = [str(bench.binaries / "undercroft"), "export", str(directory / "store")]
    copying = json.dumps([*other, *export, str(directory / "copy")])
    ours = loop(sys.executable, "embedded", directory / "store", copying, script="growth.py")
    server = stack.enter_context(peers.redis_server(bench.directory()))
    # Redis copies in a child process, which must not share a core with the server.
    os.sched_setaffinity(server.process.pid, CORES)
    saving = json.dumps(
        [*other, sys.executable, str(LOOPS / "growth.py"), "save", "redis", str(server.path)]
    )
    theirs = loop(sys.executable, "redis", server.path, saving, script="growth.py")
    return {OURS: stack.enter_context(ours), THEIRS: stack.enter_context(theirs)}


def _lines(found: dict[str, dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Return the lines of a phase: both sides by the clock, and Undercroft also by CPU time."""
    lines = {name: [(at, clock) for at, clock, _ in side["points"]] for name, side in found.items()}
    lines[PROCESSOR] = [(at, processor) for at, _, processor in found[OURS]["points"]]
    return lines


def _once(name: str, value: float, unit: str) -> Figure:
    """Return a figure that was measured in a single round."""
    return Figure(name, value, value, value, unit)


def _growing(found: dict[str, dict[str, Any]], count: int) -> list[Row]:
    """Return two rows for the slowest insertion: one by CPU time and one by the clock."""
    ours, theirs = found[OURS], found[THEIRS]
    work = f"slowest `set` while a store grows to {count:,} keys, embedded, in ms"
    processor = Row(
        id="growth-slowest-processor",
        work=f"{work} of its thread's CPU time",
        ours=_once("set", ours["processor_ms"], "ms"),
        ratio=ours["processor_ms"],
        at_most=MOST,
        note="Ratio and target are absolute, in ms. CPU time excludes other work of the machine.",
    )
    clock = Row(
        id="growth-slowest-clock",
        work=f"{work} by the clock, compared with Redis over a unix socket",
        ours=_once("set", ours["clock_ms"], "ms"),
        peer=_once("SET", theirs["clock_ms"], "ms"),
        ratio=ours["clock_ms"],
        at_most=MOST,
        note="Ratio and target are absolute, in ms. Longer than 1 ms: "
        f"{ours['slow']} of {ours['calls']:,} calls; Redis: {theirs['slow']} of "
        f"{theirs['calls']:,}. Redis is called over a bare socket, one call at a time. Growing "
        f"took {ours['seconds']:.1f} s and {theirs['seconds']:.1f} s.",
    )
    return [processor, clock]


def _others(
    found: dict[str, dict[str, dict[str, Any]]], phases: dict[str, tuple[int, str, str]]
) -> list[Row]:
    """Return a row without a target for the slowest call of each later phase."""
    rows = []
    for phase in list(phases)[1:]:
        ours, theirs = found[phase][OURS], found[phase][THEIRS]
        rows.append(
            Row(
                id=f"growth-{phase}",
                work=f"slowest `set` while {phases[phase][1]}, embedded, compared with Redis over "
                "a unix socket",
                ours=_once("set", ours["clock_ms"], "ms"),
                peer=_once("SET", theirs["clock_ms"], "ms"),
                ratio=ours["clock_ms"] / theirs["clock_ms"],
                note=f"Longer than 1 ms: {ours['slow']} of {ours['calls']:,} calls in "
                f"{ours['seconds']:.1f} s; Redis: {theirs['slow']} of {theirs['calls']:,} in "
                f"{theirs['seconds']:.1f} s. Ours took at most {ours['processor_ms']:.3f} ms of "
                "CPU time.",
            )
        )
    return rows


def crowd_rows(bench: Bench) -> list[Row]:
    """Measure the slowest calls of eight processes on two cores."""
    rows = {
        (work, name): Row(
            id=f"crowd-{work}-{name.partition('_')[0]}",
            work=f"8 processes on {len(CORES)} cores that only call {command}, embedded: "
            f"{seen}, compared with redis-py 5.2 with hiredis on a unix socket",
            at_most=1.0,
        )
        for work, command in WORKS.items()
        for name, seen in SEEN
    }
    if missing := peers.has("redis-server"):
        for row in rows.values():
            row.note = missing
        return [*rows.values()]
    cores = ",".join(map(str, sorted(CORES)))
    with contextlib.ExitStack() as stack:
        store = bench.directory() / "store"
        ours = stack.enter_context(
            loop(sys.executable, "embedded", store, cores, script="crowd.py")
        )
        store = bench.directory() / "apart"
        apart = stack.enter_context(loop(sys.executable, "apart", store, cores, script="crowd.py"))
        server = stack.enter_context(peers.redis_server(bench.directory()))
        # The server is a ninth process that needs a core; the kernel chooses which.
        os.sched_setaffinity(server.process.pid, CORES)
        python = peers.environment("redis-5.2")
        theirs = stack.enter_context(loop(python, "redis", server.path, cores, script="crowd.py"))
        for work in WORKS:
            sides = {"ours": ours, "theirs": theirs, "apart": apart}
            _fill_in(bench, {name: rows[work, name] for name, _ in SEEN}, work, sides)
    return [*rows.values()]


def _fill_in(bench: Bench, rows: dict[str, Row], work: str, sides: dict[str, Loop]) -> None:
    """Run all sides alternately with one kind of work and fill in its rows."""
    milliseconds = bench.pick(2_000, 3_000)
    found = interleaved(
        bench.pick(2, 5),
        {side: partial(_seen, asked, work, milliseconds) for side, asked in sides.items()},
    )
    rates = [
        Figure.of(side, [each["calls"] / milliseconds for each in found[side]], "k/s")
        for side in sides
    ]
    for name, row in rows.items():
        row.ours, row.peer = (
            Figure.of(work.upper(), [each[name] for each in found[side]], "us")
            for side in ("ours", "theirs")
        )
        row.ratio = row.ours.median / row.peer.median
        apart = Figure.of(work.upper(), [each[name] for each in found["apart"]], "us")
        row.note = (
            f"All processes: {rates[0]}, Redis {rates[1]}. With separate stores, where calls wait "
            f"only for a core: {apart} at {rates[2]}."
        )


def _seen(side: Loop, work: str, milliseconds: int) -> dict[str, float]:
    """Run one side's writers for this long and return their report."""
    seen: dict[str, float] = json.loads(side.ask(work, milliseconds))
    return seen
