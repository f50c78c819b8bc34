"""Rows measured by native code: Rust calls, readers, memory, opening, instructions."""

import json
import subprocess
from typing import Any

from core import peers
from core.bench import Bench
from core.callgrind import instructions
from core.report import Figure, Row

PAGE = 4096
# The size in bytes of a page descriptor, which the store keeps outside the heap.
PAGE_DESCRIPTOR = 64


def measure(bench: Bench, *arguments: str) -> Any:
    """Run undercroft-bench with these arguments and return its parsed output."""
    run = subprocess.run(
        [str(bench.binaries / "undercroft-bench"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def hot_rows(bench: Bench) -> list[Row]:
    """Measure get and set from Rust, compared with a HashMap."""
    rows = []
    for operation, work, at_most in (
        ("get", "Rust `get` into a caller's buffer, compared with a `HashMap` look-up and copy", 2),
        ("set", "Rust `set` of existing keys, compared with a `HashMap` insertion", 3),
    ):
        rounds = str(bench.pick(7, 31))
        found = measure(bench, operation, "--rounds", rounds)
        # Drop the first round, which is a warm-up.
        ours = Figure.of(operation, found["ours_ns"][1:], "ns")
        theirs = Figure.of("HashMap", found["theirs_ns"][1:], "ns")
        rows.append(
            Row(
                id=f"rust-{operation}",
                work=work,
                ours=ours,
                peer=theirs,
                ratio=ours.median / theirs.median,
                at_most=at_most,
                note="100,000 keys in random order. Both sides include the empty loop, "
                f"{found['loop_ns']:.2f} ns.",
            )
        )
    return rows


def reader_rows(bench: Bench) -> list[Row]:
    """Measure how much a second reading process slows down the first."""
    options = ["--rounds", str(bench.pick(3, 9)), "--seconds", "0.4" if bench.quick else "1"]
    found = measure(bench, "readers", *options)
    two = Figure.of(
        "two readers", [rate / 1e6 for rate in found["two_reads_per_cpu_second"]], "M/s"
    )
    one = Figure.of("one reader", [rate / 1e6 for rate in found["one_reads_per_cpu_second"]], "M/s")
    writes = Figure.of("writes", found["writes_per_second"], "a second")
    return [
        Row(
            id="readers",
            work="2 readers next to a writer: reads per CPU second of each",
            ours=two,
            peer=one,
            ratio=two.median / one.median,
            at_least=0.9,
            note=f"The writer, a separate process, sleeps between writes: {writes}. Processes are "
            f"not pinned, and the three share {len(peers.CORES)} cores.",
        )
    ]


def memory_rows(bench: Bench) -> list[Row]:
    """Measure memory per key, compared with Redis' used_memory."""
    keys = 1_000_000
    found = measure(bench, "memory", "--keys", str(keys))
    granted = found["granted"] * (1 + PAGE_DESCRIPTOR / PAGE) / keys
    blocks = (found["file"] - found["empty"]) / keys
    row = Row(
        id="memory",
        work=f"total memory per key, {keys:,} keys of 16 bytes with values of 64 bytes",
        ours=Figure("granted", granted, granted, granted, "bytes"),
        at_most=0.65,
    )
    note = (
        f"Ours counts the pages granted to shards, each with its {PAGE_DESCRIPTOR}-byte "
        f"descriptor. Entries and tables in them take {found['used'] / keys:.1f} bytes per key. "
        f"The file grew by {blocks:.1f} bytes per key"
    )
    if missing := peers.has("redis-server"):
        row.note = f"{note}. Redis {missing}"
        return [row]
    with peers.redis_server(bench.directory()) as server:
        before = server.info("memory")
        server.fill(keys, b"v" * 64)
        after = server.info("memory")
    theirs, resident = (
        (int(after[name]) - int(before[name])) / keys for name in ("used_memory", "used_memory_rss")
    )
    row.peer = Figure("redis-server used_memory", theirs, theirs, theirs, "bytes")
    row.ratio = granted / theirs
    row.note = (
        f"{note} (ratio {blocks / theirs:.3f}), Redis' resident memory by {resident:.1f} "
        f"(ratio of file to resident memory: {blocks / resident:.3f})."
    )
    return [row]


def copy_rows(bench: Bench) -> list[Row]:
    """Measure the longest write of a process while another one copies the store."""
    size = bench.pick(128, 1024)
    options = ["--mib", str(size), "--rounds", str(bench.pick(3, 9))]
    found = measure(bench, "copies", *options)
    ours = Figure.of("copying", found["longest_copying_ms"], "ms")
    alone = Figure.of("no copy", found["longest_ms"], "ms")
    computing = Figure.of("computing", found["longest_computing_ms"], "ms")
    seconds = Figure.of("copy", found["seconds"], "s")
    writes = Figure.of("writes", found["writes_copying"], "a second")
    usual = Figure.of("writes alone", found["writes"], "a second")
    return [
        Row(
            id="copies",
            work=f"longest write while another process copies a store of {size:,} MiB, as an "
            "export does, in ms, compared with no copy",
            ours=ours,
            peer=alone,
            ratio=ours.median,
            at_most=5,
            note="Next to a process that only computes, the longest write takes "
            f"{computing}. Writes: {writes} during the copy, {usual} without. One complete copy "
            f"took {seconds}.",
        )
    ]


def open_rows(bench: Bench) -> list[Row]:
    """Measure opening a store from a new process, including a first GET and SET."""
    found = measure(bench, "open", "--rounds", str(bench.pick(5, 15)))
    sizes = {size["megabytes"]: Figure.of("open", size["ms"], "ms") for size in found}
    smallest, largest = sizes[min(sizes)], sizes[max(sizes)]
    rest = "; ".join(f"{megabytes} MiB {figure}" for megabytes, figure in sizes.items())
    return [
        Row(
            id="open",
            work="a new process opens a 1 GiB store, first GET and SET included, in ms",
            ours=largest,
            ratio=largest.median,
            at_most=5,
            note=rest,
        ),
        Row(
            id="open-growth",
            work="a new process opens a 1 GiB store, compared with a 1 MiB store: the time must "
            "not grow with the data",
            ours=largest,
            peer=Figure("1 MiB", smallest.median, smallest.least, smallest.most, "ms"),
            ratio=largest.median / smallest.median,
            at_most=1.5,
            note="The data is 1,024 times as large; the target allows for noise.",
        ),
    ]


def instruction_rows(bench: Bench) -> list[Row]:
    """Count the instructions of an operation, as the difference of two runs."""
    rows = [
        Row(id=f"instructions-{operation}", work=f"instructions of an embedded {name}, hot")
        for operation, name in (
            ("get", "GET"),
            ("set", "SET (overwrite)"),
            ("execute", "GET through `execute`"),
        )
    ]
    for row in rows:
        if missing := peers.has("valgrind"):
            row.note = missing
            continue
        operation = row.id.rpartition("-")[2]
        keys, rounds = 1_000, bench.pick(20, 50)
        try:
            command = [bench.binaries / "undercroft-bench", "loop", operation, "--keys", str(keys)]
            none, some = (
                instructions(bench, [*command, "--rounds", str(count)]) for count in (0, rounds)
            )
        except (OSError, RuntimeError) as error:
            row.note = bench.without_places(f"not measured: {error}")
            continue
        each = (some - none) / (keys * rounds)
        row.ours = Figure(operation, each, each, each, "instructions")
        row.note = f"callgrind, {keys:,} keys: ({some:,} - {none:,}) / {keys * rounds:,}."
    return rows
