"""Rows of embedded writes with a journal, compared with LMDB, SQLite and no journal."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from core.bench import Bench
from core.peers import ROOT
from core.report import Figure, Row
from core.turns import Loop, interleaved, loop

from rows.languages.native import measure

# The largest number of bytes in the journal for a SET of 64 bytes.
BYTES = 250


@contextlib.contextmanager
def disk() -> Iterator[Path]:
    """Provide a directory on the disk of this repository; /dev/shm is none."""
    parent = ROOT / "target"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-durable-", dir=parent) as directory:
        yield Path(directory)


def native(bench: Bench, work: str, *options: object) -> dict[str, Any]:
    """Run one measurement of ``undercroft-bench durable``."""
    with disk() as directory:
        words = [work, "--disk", str(directory), *map(str, options)]
        found: dict[str, Any] = measure(bench, "durable", *words)
        return found


def set_rows(bench: Bench) -> list[Row]:
    """Measure SETs with `everysec`, compared with no journal, from Rust and from Python."""
    options = ["--rounds", bench.pick(5, 15), "--count", bench.pick(200_000, 1_000_000)]
    found = native(bench, "set", *options)
    # The first round is a warm-up.
    ours = Figure.of("everysec", found["everysec_ns"][1:], "ns")
    none = Figure.of("none", found["none_ns"][1:], "ns")
    size = float(found["bytes"])
    rust = Row(
        id="durable-set-rust",
        work="Rust `set` of 64 bytes with `everysec`, compared with no journal",
        ours=ours,
        peer=none,
        ratio=ours.median / none.median,
        at_most=1.4,
        note="SETs without a pause, in interleaved rounds.",
    )
    journal = Row(
        id="durable-set-bytes",
        work="bytes in the journal per SET of 64 bytes",
        ours=Figure("journal", size, size, size, "bytes"),
        ratio=size,
        at_most=BYTES,
        note="The ratio is absolute, in bytes.",
    )
    return [rust, journal, *_python_rows(bench)]


def _python_rows(bench: Bench) -> list[Row]:
    sides = {
        "none": ("undercroft", "none"),
        "everysec": ("undercroft", "everysec"),
        "LMDB, nosync": ("lmdb", "nosync"),
        "SQLite, WAL, NORMAL": ("sqlite", "NORMAL"),
    }
    found = _turns(bench, sides, bench.pick(20_000, 200_000))
    ours, none = found["everysec"], found["none"]
    rows = [
        Row(
            id="durable-set-python",
            work="Python `set` of 64 bytes with `everysec`, compared with no journal",
            ours=ours,
            peer=none,
            ratio=ours.median / none.median,
            at_most=1.25,
        )
    ]
    for name in list(sides)[2:]:
        rows.append(
            Row(
                id=f"durable-set-{sides[name][0]}",
                work=f"Python `set` with `everysec`, compared with {name}",
                ours=ours,
                peer=found[name],
                ratio=ours.median / found[name].median,
                at_most=1.0,
            )
        )
    return rows


def _turns(bench: Bench, sides: dict[str, tuple[str, str]], count: int) -> dict[str, Figure]:
    """Run the sides alternately and return the nanoseconds per write of each."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(disk())
        running: dict[str, Loop] = {}
        for name, (engine, mode) in sides.items():
            folder = directory / f"{engine}-{mode}"
            folder.mkdir()
            store = bench.directory() / "store"
            side = loop(sys.executable, engine, mode, store, folder, script="durable.py")
            running[name] = stack.enter_context(side)
        rounds = interleaved(
            bench.pick(3, 9),
            {name: partial(side.run, "set", count) for name, side in running.items()},
        )
    return {name: Figure.of(name, times, "ns") for name, times in rounds.items()}


def always_rows(bench: Bench) -> list[Row]:
    """Measure writes that wait for the disk, by 1, 16 and 64 threads and in Python."""
    seconds = ["--seconds", "1" if bench.quick else "3"]
    found = native(bench, "always", "--rounds", bench.pick(2, 5), *seconds)
    rates = {
        int(writers): Figure.of(f"{writers} threads", rounds, "SET/s")
        for writers, rounds in zip(found["writers"], found["sets_per_second"], strict=True)
    }
    one, most = rates[1], rates[64]
    rows = [
        Row(
            id="durable-always-threads",
            work="`always`, embedded: SETs a second of 64 threads, compared with 1",
            ours=most,
            peer=one,
            ratio=most.median / one.median,
            at_least=20,
            note=f"16 threads: {rates[16]}.",
        )
    ]
    sides = {
        "always": ("undercroft", "always"),
        "LMDB, sync": ("lmdb", "sync"),
        "SQLite, WAL, FULL": ("sqlite", "FULL"),
    }
    times = _turns(bench, sides, bench.pick(500, 3_000))
    for name in list(sides)[1:]:
        ours, theirs = times["always"], times[name]
        rows.append(
            Row(
                id=f"durable-always-{sides[name][0]}",
                work=f"Python `set` with `always`, compared with {name}",
                ours=ours,
                peer=theirs,
                ratio=ours.median / theirs.median,
                at_most=1.0,
            )
        )
    return rows


def reader_rows(bench: Bench) -> list[Row]:
    """Measure a reader next to a writer with each durability mode."""
    seconds = ["--seconds", "0.5" if bench.quick else "2"]
    found = native(bench, "readers", "--rounds", bench.pick(3, 9), *seconds)
    names = ("none", "everysec", "always")
    gets: list[Figure] = []
    for name, rounds in zip(names, found["gets_per_second"], strict=True):
        millions = [rate / 1e6 for rate in rounds]
        gets.append(Figure.of(name, millions, "M/s"))
    writes = [
        Figure.of(name, rounds, "a second")
        for name, rounds in zip(names, found["writes_per_second"], strict=True)
    ]
    return [
        Row(
            id=f"durable-readers-{name}",
            work=f"GETs of a thread next to a writer with `{name}`, compared with no journal",
            ours=figure,
            peer=gets[0],
            ratio=figure.median / gets[0].median,
            at_least=0.95,
            note=f"The writer sets 1,000 keys a second: {wrote}.",
        )
        for name, figure, wrote in zip(names[1:], gets[1:], writes[1:], strict=True)
    ]


def bulk_rows(bench: Bench) -> list[Row]:
    """Measure large changes with `everysec`, compared with the disk's sequential rate."""
    options = ["--rounds", bench.pick(2, 5), "--mib", bench.pick(64, 512)]
    items = bench.pick(100_000, 2_000_000)
    found = native(bench, "bulk", *options, "--items", items)
    file = Figure.of("a file", found["file_mb"], "MB/s")
    works = {
        "values": "SETs of 8 MB",
        "hashes": "HSETs of 100,000 fields",
        "feeds": f"FEED.ADD of {items:,} items",
    }
    rows = []
    for name, work in works.items():
        ours = Figure.of(name, found[f"{name}_mb"], "MB/s")
        rows.append(
            Row(
                id=f"durable-bulk-{name}",
                work=f"{work} with `everysec`: journal written, compared with a file written "
                "sequentially, both synced",
                ours=ours,
                peer=file,
                ratio=ours.median / file.median,
                at_least=1 / 1.3,
                note="One thread makes the changes, whose own time counts.",
            )
        )
    return rows
