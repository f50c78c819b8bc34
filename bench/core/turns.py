"""Loops in processes of their own that take turns."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from core.peers import CLIENT_CORE

LOOP = Path(__file__).parents[1] / "loops" / "loop.py"


class Loop:
    """A process that runs timed loops with one client, on the client's core."""

    def __init__(self, python: Path | str, client: str, location: Path) -> None:
        """Start it and wait until its client is ready."""
        command = ["taskset", "--cpu-list", str(CLIENT_CORE), str(python), str(LOOP)]
        self.process = subprocess.Popen(
            [*command, client, str(location)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.about = ""
        while (line := self._line()) != "ready":
            self.about = line

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            raise RuntimeError(f"{self.process.args!r} ended early, with status {status}")
        return line.strip()

    def run(self, operation: str, count: int) -> float:
        """Return the nanoseconds an operation took."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {count}\n")
        self.process.stdin.flush()
        return float(self._line())


@contextlib.contextmanager
def loop(python: Path | str, client: str, location: Path) -> Iterator[Loop]:
    """Run a loop's process until the block ends."""
    running = Loop(python, client, location)
    try:
        yield running
    finally:
        assert running.process.stdin is not None
        running.process.stdin.close()
        running.process.wait(timeout=30)


def interleaved(rounds: int, sides: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Let the sides take turns, each round in another order; the first round is not counted."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            value = sides[name]()
            if turn:
                found[name].append(value)
    return found
