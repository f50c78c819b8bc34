"""Run timed loops in separate processes that alternate."""

import contextlib
import os
import select
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from core.peers import CLIENT_CORE

LOOPS = Path(__file__).parents[1] / "loops"
# The timeout in seconds for one operation, so that every table finishes.
LIMIT = 600.0
Name = TypeVar("Name")
Found = TypeVar("Found")


class CutOffError(RuntimeError):
    """Raised when a loop did not answer in time and was killed."""


class Loop:
    """A process that runs timed loops for one client, pinned to the core for clients."""

    def __init__(
        self,
        python: Path | str,
        *arguments: Path | str,
        script: str | None = "loop.py",
        environment: dict[str, str] | None = None,
        pinned: bool = True,
    ) -> None:
        """Start a script of loops/ with arguments and wait until its client is ready.

        Without a script, ``python`` is the program itself. Unless ``pinned``, it runs on any core.
        """
        # The name of the loop in error messages, which the table prints as notes.
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
        # Read the descriptor directly: select() does not see the file object's buffer.
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
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # Closing flushes the input, which fails if the process has already ended.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def run(self, operation: str, count: int, limit: float = LIMIT) -> float:
        """Run an operation ``count`` times and return the nanoseconds that the loop reports."""
        return float(self.ask(operation, count, limit))

    def ask(self, operation: str, count: int, limit: float = LIMIT) -> str:
        """Run an operation ``count`` times and return the loop's answer as text."""
        self.begin(operation, count)
        return self.end(limit)

    def begin(self, operation: str, count: int) -> None:
        """Start an operation; ``end`` returns its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {count}\n")
        self.process.stdin.flush()

    def end(self, limit: float = LIMIT) -> str:
        """Return the answer to the operation that ``begin`` started."""
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
    """A loop with its store or server, which is restarted after a failure."""

    def __init__(self, make: Callable[[], contextlib.AbstractContextManager[Loop]]) -> None:
        """Store the function that starts the loop, without starting it."""
        self.make = make
        self.stack = contextlib.ExitStack()
        self.loop: Loop | None = None

    def __enter__(self) -> "Renewable":
        """Start the loop and return this object."""
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        """End the loop and its store or server."""
        self.close()

    def open(self) -> Loop:
        """Return the running loop, starting it if needed."""
        if self.loop is None:
            self.loop = self.stack.enter_context(self.make())
        return self.loop

    def close(self) -> None:
        """End the loop and its store or server."""
        self.loop = None
        self.stack.close()

    def run(self, operation: str, count: int, limit: float) -> float:
        """Return an operation's nanoseconds; after a failure, the next call starts a new loop."""
        try:
            return self.open().run(operation, count, limit)
        except (RuntimeError, BrokenPipeError):
            self.close()
            raise


def interleaved(rounds: int, sides: Mapping[Name, Callable[[], Found]]) -> dict[Name, list[Found]]:
    """Run all sides in every round, in varying order; the first round is not counted."""
    found: dict[Name, list[Found]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            value = sides[name]()
            if turn:
                found[name].append(value)
    return found
