"""Rows that native code measures: Rust, readers, memory, opening, instructions."""

import json
import subprocess
from typing import Any

from core import peers
from core.bench import Bench
from core.callgrind import instructions
from core.report import Figure, Row

PAGE = 4096
# Bytes that describe a page of the heap, kept beside it in the store.
PAGE_DESCRIPTOR = 64


def measure(bench: Bench, *arguments: str) -> Any:
    """Return what undercroft-bench prints."""
    run = subprocess.run(
        [str(bench.binaries / "undercroft-bench"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def hot_rows(bench: Bench) -> list[Row]:
    """Measure get and set from Rust beside a HashMap."""
    rows = []
    for operation, work, at_most in (
        ("get", "Rust `get` into a caller's buffer, beside `HashMap` get and copy", 2),
        ("set", "Rust `set` that overwrites, beside `HashMap` insert", 3),
    ):
        rounds = str(bench.pick(7, 31))
        found = measure(bench, operation, "--rounds", rounds)
        # The first round warms up.
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
                note=f"100,000 keys in random order; the empty loop, included in both, costs "
                f"{found['loop_ns']:.2f} ns.",
            )
        )
    return rows


def reader_rows(bench: Bench) -> list[Row]:
    """Measure what a second reading process costs the first."""
    options = ["--rounds", str(bench.pick(3, 9)), "--seconds", "0.4" if bench.quick else "1"]
    found = measure(bench, "readers", *options)
    two = Figure.of("two", [rate / 1e6 for rate in found["two_reads_per_cpu_second"]], "M/s")
    one = Figure.of("one reader", [rate / 1e6 for rate in found["one_reads_per_cpu_second"]], "M/s")
    writes = Figure.of("writes", found["writes_per_second"], "a second")
    return [
        Row(
            id="readers",
            work="2 reading processes beside a writer: reads per CPU second of a reader",
            ours=two,
            peer=one,
            ratio=two.median / one.median,
            at_least=0.9,
            note=f"The writer, a process of its own that sleeps between writes, made {writes}. "
            "Processes are not pinned; with two cores three of them share.",
        )
    ]


def memory_rows(bench: Bench) -> list[Row]:
    """Measure memory per key beside Redis' used_memory."""
    keys = 1_000_000
    found = measure(bench, "memory", "--keys", str(keys))
    granted = found["granted"] * (1 + PAGE_DESCRIPTOR / PAGE) / keys
    blocks = (found["file"] - found["empty"]) / keys
    row = Row(
        id="memory",
        work=f"memory per key, all in, {keys:,} keys of 16 bytes with values of 64",
        ours=Figure("granted", granted, granted, granted, "bytes"),
        at_most=0.65,
    )
    note = (
        f"Ours: pages granted to shards with {PAGE_DESCRIPTOR} bytes of description a page. The "
        f"entries and tables in them are {found['used'] / keys:.1f} bytes a key; the file grew by "
        f"{blocks:.1f} bytes a key"
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
        f"(ours by the file to that: {blocks / resident:.3f})."
    )
    return [row]


def copy_rows(bench: Bench) -> list[Row]:
    """Measure the longest write of a process while another one copies the store."""
    size = bench.pick(128, 1024)
    options = ["--mib", str(size), "--rounds", str(bench.pick(3, 9))]
    found = measure(bench, "copies", *options)
    ours = Figure.of("copying", found["longest_copying_ms"], "ms")
    alone = Figure.of("nobody", found["longest_ms"], "ms")
    computing = Figure.of("computing", found["longest_computing_ms"], "ms")
    seconds = Figure.of("copy", found["seconds"], "s")
    writes = Figure.of("writes", found["writes_copying"], "a second")
    usual = Figure.of("writes alone", found["writes"], "a second")
    return [
        Row(
            id="copies",
            work=f"longest write while another process copies a store of {size:,} MiB, as an "
            "export does, beside the longest when it does not, in milliseconds",
            ours=ours,
            peer=alone,
            ratio=ours.median,
            at_most=5,
            note=f"Beside a process that only computes the longest takes {computing}. {writes} "
            f"beside the copy, {usual} without; a walk over the whole copy took {seconds}.",
        )
    ]


def open_rows(bench: Bench) -> list[Row]:
    """Measure opening a store, with a first GET and SET, from a new process."""
    found = measure(bench, "open", "--rounds", str(bench.pick(5, 15)))
    sizes = {size["megabytes"]: Figure.of("open", size["ms"], "ms") for size in found}
    smallest, largest = sizes[min(sizes)], sizes[max(sizes)]
    rest = "; ".join(f"{megabytes} MiB {figure}" for megabytes, figure in sizes.items())
    return [
        Row(
            id="open",
            work="open a store of 1 GiB from a new process, with a first GET and SET: ms",
            ours=largest,
            ratio=largest.median,
            at_most=5,
            note=rest,
        ),
        Row(
            id="open-growth",
            work="the same, beside a store of 1 MiB: it must not grow with the data",
            ours=largest,
            peer=Figure("1 MiB", smallest.median, smallest.least, smallest.most, "ms"),
            ratio=largest.median / smallest.median,
            at_most=1.5,
            note="1.5 allows for noise: the data is 1,024 times as much.",
        ),
    ]


def instruction_rows(bench: Bench) -> list[Row]:
    """Count the instructions of an operation, as the difference of two runs."""
    rows = [
        Row(id=f"instructions-{operation}", work=f"instructions of an embedded {name}, hot")
        for operation, name in (
            ("get", "GET"),
            ("set", "SET (overwrite)"),
            ("execute", "GET by its words"),
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
