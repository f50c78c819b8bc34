"""Starts the demo's processes, waits for them, and always stops them."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def running(*command: str | Path, log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a process during the block, and store its output for ``result``."""
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(log.open("w")) if log else None
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the JSON that a process prints before it exits."""
    output, _ = process.communicate(timeout=20)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with status {process.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


def wait_for(happened: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out after {seconds:g} s waiting for {what}")
        time.sleep(0.01)


def output_of(*command: str | Path) -> str:
    """Return a command's output; raise an error if the command fails."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if run.returncode:
        raise RuntimeError(f"{command[0]} ended with {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout.strip()
