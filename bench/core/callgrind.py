"""Count instructions with callgrind; the count does not depend on the machine's load."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from core.bench import Bench


def instructions(bench: Bench, command: Sequence[str | Path], told: str = "") -> int:
    """Return how many instructions a command takes when it reads ``told`` from standard input."""
    out = bench.directory() / "out"
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *map(str, command)],
        input=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        # With a fixed hash seed, Python's dictionaries have the same layout in every run.
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    collected = re.search(r"Collected\s*:\s*(\d+)", run.stderr)
    if run.returncode or not collected:
        raise RuntimeError(f"callgrind ended with {run.returncode}: {run.stderr[-200:].strip()}")
    return int(collected[1])
