"""Loops in processes of their own that take turns."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from core.peers import CLIENT_CORE

LOOPS = Path(__file__).parents[1] / "loops"
Name = TypeVar("Name")
Found = TypeVar("Found")


class Loop:
    """A process that runs timed loops with one client, on the client's core."""

    def __init__(
        self,
        python: Path | str,
        *arguments: Path | str,
        script: str = "loop.py",
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start a script of loops/ with arguments and wait until its client is ready."""
        # What it is called when it fails, which is printed with the table.
        self.name = f"{script} {arguments[0]}"
        command = ["taskset", "--cpu-list", str(CLIENT_CORE), str(python), str(LOOPS / script)]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.about = ""
        try:
            while (line := self._line()) != "ready":
                self.about = line
        except RuntimeError:
            self.close()
            raise

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            raise RuntimeError(f"{self.name} ended early, with status {status}")
        return line.strip()

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # Where it has ended by itself nobody reads what was not sent yet.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def run(self, operation: str, count: int) -> float:
        """Return the nanoseconds an operation took."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {count}\n")
        self.process.stdin.flush()
        answer = self._line()
        if answer.startswith("error "):
            raise RuntimeError(answer.removeprefix("error "))
        return float(answer)


@contextlib.contextmanager
def loop(
    python: Path | str,
    *arguments: Path | str,
    script: str = "loop.py",
    environment: dict[str, str] | None = None,
) -> Iterator[Loop]:
    """Run a loop's process until the block ends."""
    running = Loop(python, *arguments, script=script, environment=environment)
    try:
        yield running
    finally:
        running.close()


def interleaved(rounds: int, sides: dict[Name, Callable[[], Found]]) -> dict[Name, list[Found]]:
    """Let the sides take turns, each round in another order; the first round is not counted."""
    found: dict[Name, list[Found]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            value = sides[name]()
            if turn:
                found[name].append(value)
    return found
