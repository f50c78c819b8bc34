"""Rows and a picture of the slowest calls: while a store grows and ends, and in a crowd."""

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

# What lines of the picture are called.
OURS, THEIRS = "undercroft, embedded", "redis-server, through a socket"
PROCESSOR = "undercroft, of its thread's processor time"
CORES = {peers.CLIENT_CORE, peers.SERVER_CORE}
# Seconds that a phase may take: ten million calls through a socket take some minutes.
LIMIT = 1800.0
# The most milliseconds that one insertion may take.
MOST = 1.0
# What is seen of the processes that write at once, and its name in what loops/crowd.py tells.
SEEN = (("late_us", "the 99.9th percentile"), ("slowest_us", "the slowest call"))
WORKS = {"set": "SET", "mset": "MSET of 10"}


def rows(bench: Bench) -> list[Row | Course]:
    """Measure a store that grows, expires, is copied and is flushed, beside Redis."""
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="growth", work="the slowest calls while a store grows", note=missing)]
    count = bench.pick(1_000_000, 10_000_000)
    expiring = bench.pick(100_000, 200_000)
    phases = {
        "grow": (count, f"it grows to {count:,} keys", "million keys"),
        "expire": (expiring, f"{expiring:,} keys expire at once", "seconds"),
        "copy": (0, "it is copied: `undercroft export`, BGSAVE", "seconds"),
        "flush": (0, "another process flushes it", "seconds"),
    }
    with contextlib.ExitStack() as stack:
        sides = _sides(bench, stack)
        # Each phase stands on the one before, so the sides take turns phase by phase.
        found = {
            phase: {name: json.loads(side.ask(phase, much, LIMIT)) for name, side in sides.items()}
            for phase, (much, _, _) in phases.items()
        }
    course = Course(
        f"The slowest SET of each moment in the life of a store of {count:,} keys",
        [
            Panel(
                title.replace("`", ""),
                axis,
                _lines(found[phase]),
                [PROCESSOR],
            )
            for phase, (_, title, axis) in phases.items()
        ],
        caption="Behind the first panel existing keys are overwritten; points are 50 ms apart.",
    )
    return [*_growing(found["grow"], count), *_others(found, phases), course]


def _sides(bench: Bench, stack: contextlib.ExitStack) -> dict[str, Loop]:
    """Run a loop on a store and one beside a server, each with what copies it."""
    directory = bench.directory()
    other = ["taskset", "--cpu-list", str(peers.SERVER_CORE)]
    export = [str(bench.binaries / "undercroft"), "export", str(directory / "store")]
    copying = json.dumps([*other, *export, str(directory / "copy")])
    ours = loop(sys.executable, "embedded", directory / "store", copying, script="growth.py")
    server = stack.enter_context(peers.redis_server(bench.directory()))
    # Its copy is made by a child, which would share a core with it for no reason of Redis'.
    os.sched_setaffinity(server.process.pid, CORES)
    saving = json.dumps(
        [*other, sys.executable, str(LOOPS / "growth.py"), "save", "redis", str(server.path)]
    )
    theirs = loop(sys.executable, "redis", server.path, saving, script="growth.py")
    return {OURS: stack.enter_context(ours), THEIRS: stack.enter_context(theirs)}


def _lines(found: dict[str, dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Return what is drawn of a phase: both by the clock, ours by the processor's time as well."""
    lines = {name: [(at, clock) for at, clock, _ in side["points"]] for name, side in found.items()}
    lines[PROCESSOR] = [(at, processor) for at, _, processor in found[OURS]["points"]]
    return lines


def _once(name: str, value: float, unit: str) -> Figure:
    """Return the figure of a single round."""
    return Figure(name, value, value, value, unit)


def _growing(found: dict[str, dict[str, Any]], count: int) -> list[Row]:
    """Return the slowest insertion, by the processor's time and by the clock."""
    ours, theirs = found[OURS], found[THEIRS]
    work = f"the slowest `set` while a store grows to {count:,} keys, embedded, milliseconds"
    processor = Row(
        id="growth-slowest-processor",
        work=f"{work} of its thread's processor time",
        ours=_once("set", ours["processor_ms"], "ms"),
        ratio=ours["processor_ms"],
        at_most=MOST,
        note="The target is in ms. What else the machine does is not in it.",
    )
    clock = Row(
        id="growth-slowest-clock",
        work=f"{work} by the clock, beside Redis through a unix socket",
        ours=_once("set", ours["clock_ms"], "ms"),
        peer=_once("SET", theirs["clock_ms"], "ms"),
        ratio=ours["clock_ms"],
        at_most=MOST,
        note=f"The target is in ms. Longer than 1 ms: {ours['slow']} of {ours['calls']:,} calls, "
        f"Redis {theirs['slow']} of {theirs['calls']:,}. The socket has no client around it, one "
        f"call after another; growing took {ours['seconds']:.1f} s and {theirs['seconds']:.1f} s.",
    )
    return [processor, clock]


def _others(
    found: dict[str, dict[str, dict[str, Any]]], phases: dict[str, tuple[int, str, str]]
) -> list[Row]:
    """Return the slowest overwriting call of the other phases, which have no targets."""
    rows = []
    for phase in list(phases)[1:]:
        ours, theirs = found[phase][OURS], found[phase][THEIRS]
        rows.append(
            Row(
                id=f"growth-{phase}",
                work=f"the slowest `set` of a store while {phases[phase][1]}, embedded, beside "
                "Redis through a unix socket",
                ours=_once("set", ours["clock_ms"], "ms"),
                peer=_once("SET", theirs["clock_ms"], "ms"),
                ratio=ours["clock_ms"] / theirs["clock_ms"],
                note=f"Longer than 1 ms: {ours['slow']} of {ours['calls']:,} calls in "
                f"{ours['seconds']:.1f} s, Redis {theirs['slow']} of {theirs['calls']:,} in "
                f"{theirs['seconds']:.1f} s. Of processor time ours took "
                f"{ours['processor_ms']:.3f} ms at most.",
            )
        )
    return rows


def crowd_rows(bench: Bench) -> list[Row]:
    """Measure the slowest calls of eight processes on two cores."""
    rows = {
        (work, name): Row(
            id=f"crowd-{work}-{name.partition('_')[0]}",
            work=f"8 processes on {len(CORES)} cores that do nothing but {command}, embedded: "
            f"{seen}, beside redis-py 5.2 with hiredis on a unix socket",
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
        # The server is one more that wants a core; the kernel is to choose which.
        os.sched_setaffinity(server.process.pid, CORES)
        python = peers.environment("redis-5.2")
        theirs = stack.enter_context(loop(python, "redis", server.path, cores, script="crowd.py"))
        for work in WORKS:
            sides = {"ours": ours, "theirs": theirs, "apart": apart}
            _fill_in(bench, {name: rows[work, name] for name, _ in SEEN}, work, sides)
    return [*rows.values()]


def _fill_in(bench: Bench, rows: dict[str, Row], work: str, sides: dict[str, Loop]) -> None:
    """Let all sides take turns at one work, and write what was seen into its rows."""
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
            f"All together made {rates[0]} calls, with Redis {rates[1]}. With a store of its own "
            f"for each, so that they wait for nothing but a core: {apart}, {rates[2]} calls."
        )


def _seen(side: Loop, work: str, milliseconds: int) -> dict[str, float]:
    """Let one side write for so long; return what it tells."""
    seen: dict[str, float] = json.loads(side.ask(work, milliseconds))
    return seen
