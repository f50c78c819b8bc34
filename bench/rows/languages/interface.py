"""Rows of the C interface, compared with the engine's calls from Rust."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from core import peers
from core.bench import Bench
from core.callgrind import instructions
from core.report import Figure, Row

ROOT = Path(__file__).parents[3]
KEYS = 1_000


def compiled(bench: Bench, name: str = "loop") -> Path:
    """Compile a program of bench/native, link it with the shared library, and return its path."""
    place = bench.directory()
    (place / "libundercroft.so.0").symlink_to(bench.binaries / "libundercroft_c.so")
    (place / "libundercroft.so").symlink_to("libundercroft.so.0")
    program = place / name
    source = ROOT / f"bench/native/{name}.c"
    linked = [f"-L{place}", "-lundercroft", f"-Wl,-rpath,{place}"]
    command = ["cc", "-O2", f"-I{ROOT / 'clients/c'}", "-o", program, source, *linked]
    subprocess.run(command, check=True)
    return program


def rows(bench: Bench) -> list[Row]:
    """Count the instructions of GET and SET through C and from Rust, as differences of two runs."""
    found = []
    for operation, name in (("get", "GET"), ("set", "SET (overwrite)")):
        row = Row(
            id=f"c-{operation}",
            work=f"instructions of a {name} through the C library, compared with Rust's",
            at_most=1.15,
        )
        found.append(row)
        if missing := peers.has("valgrind", "cc"):
            row.note = missing
            continue
        rounds = bench.pick(20, 50)
        try:
            ours = twice(bench, rounds, [compiled(bench), operation, KEYS], ["{rounds}", "{store}"])
            loop = [bench.binaries / "undercroft-bench", "loop", operation, "--keys", KEYS]
            theirs = twice(bench, rounds, loop, ["--rounds", "{rounds}"])
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            row.note = bench.without_places(f"not measured: {error}")
            continue
        calls = KEYS * rounds
        each, beside = ((some - none) / calls for none, some in (ours, theirs))
        row.ours = Figure("C", each, each, each, "instructions")
        row.peer = Figure("Rust", beside, beside, beside, "instructions")
        row.ratio = each / beside
        row.note = (
            f"callgrind, {KEYS:,} keys: C ({ours[1]:,} - {ours[0]:,}) / {calls:,}, "
            f"Rust ({theirs[1]:,} - {theirs[0]:,}) / {calls:,}."
        )
    return found


def twice(
    bench: Bench, rounds: int, command: Sequence[object], behind: Sequence[str]
) -> tuple[int, int]:
    """Return the instruction counts of a command that runs no rounds, and this many rounds."""
    counted = []
    for count in (0, rounds):
        store = bench.directory() / "store"
        words = [word.format(rounds=count, store=store) for word in behind]
        counted.append(instructions(bench, [*map(str, command), *words]))
    return counted[0], counted[1]
