"""Loops in processes of their own that take turns."""

import contextlib
import os
import select
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from core.peers import CLIENT_CORE

LOOPS = Path(__file__).parents[1] / "loops"
# Whatever a loop is told to do, it is ended after so many seconds: no table runs for ever.
LIMIT = 600.0
Name = TypeVar("Name")
Found = TypeVar("Found")


class CutOffError(RuntimeError):
    """A loop did not answer in the time that it had, and was killed."""


class Loop:
    """A process that runs timed loops with one client, on the client's core."""

    def __init__(
        self,
        python: Path | str,
        *arguments: Path | str,
        script: str | None = "loop.py",
        environment: dict[str, str] | None = None,
        pinned: bool = True,
    ) -> None:
        """Start a script of loops/ with arguments and wait until its client is ready.

        Without a script it is a program by itself; not ``pinned``, it runs on any core.
        """
        # What it is called when it fails, which is printed with the table.
        self.name = f"{script or Path(python).name} {arguments[0]}"
        command = ["taskset", "--cpu-list", str(CLIENT_CORE)] if pinned else []
        self.command = python
        command += [str(python), *([str(LOOPS / script)] if script else [])]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.about = ""
        self.unread = b""
        try:
            while (line := self._line()) != "ready":
                self.about = line
        except RuntimeError:
            self.close()
            raise

    def _line(self, limit: float = LIMIT) -> str:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        # Read without the file object, whose buffer a select() does not see.
        while b"\n" not in self.unread:
            if not select.select([descriptor], [], [], limit)[0]:
                self.process.kill()
                raise CutOffError(f"{self.name} was cut off after {limit:g} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                status = self.process.wait()
                raise RuntimeError(f"{self.name} ended early, with status {status}")
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode().strip()

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # Where it has ended by itself nobody reads what was not sent yet.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def run(self, operation: str, count: int, limit: float = LIMIT) -> float:
        """Return the nanoseconds an operation took."""
        return float(self.ask(operation, count, limit))

    def ask(self, operation: str, count: int, limit: float = LIMIT) -> str:
        """Return what a loop says of an operation, as it says it."""
        self.begin(operation, count)
        return self.end(limit)

    def begin(self, operation: str, count: int) -> None:
        """Let an operation begin; its figure is that of ``end``."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {count}\n")
        self.process.stdin.flush()

    def end(self, limit: float = LIMIT) -> str:
        """Return what a loop says of the operation that it was told to begin."""
        answer = self._line(limit)
        if answer.startswith("error "):
            raise RuntimeError(answer.removeprefix("error "))
        return answer


@contextlib.contextmanager
def loop(
    python: Path | str,
    *arguments: Path | str,
    script: str | None = "loop.py",
    environment: dict[str, str] | None = None,
    pinned: bool = True,
) -> Iterator[Loop]:
    """Run a loop's process until the block ends."""
    running = Loop(python, *arguments, script=script, environment=environment, pinned=pinned)
    try:
        yield running
    finally:
        running.close()


class Renewable:
    """A loop with what it needs around it, which is made anew where it was cut off."""

    def __init__(self, make: Callable[[], contextlib.AbstractContextManager[Loop]]) -> None:
        """Take what opens it; nothing is opened yet."""
        self.make = make
        self.stack = contextlib.ExitStack()
        self.loop: Loop | None = None

    def __enter__(self) -> "Renewable":
        """Return it, open."""
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def open(self) -> Loop:
        """Return the loop, opened where it is not."""
        if self.loop is None:
            self.loop = self.stack.enter_context(self.make())
        return self.loop

    def close(self) -> None:
        """Close the loop, and what was opened for it."""
        self.loop = None
        self.stack.close()

    def run(self, operation: str, count: int, limit: float) -> float:
        """Return the nanoseconds an operation took; behind a failure stands a new loop."""
        try:
            return self.open().run(operation, count, limit)
        except (RuntimeError, BrokenPipeError):
            self.close()
            raise


def interleaved(rounds: int, sides: Mapping[Name, Callable[[], Found]]) -> dict[Name, list[Found]]:
    """Let the sides take turns, each round in another order; the first round is not counted."""
    found: dict[Name, list[Found]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            value = sides[name]()
            if turn:
                found[name].append(value)
    return found
