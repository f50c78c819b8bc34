"""Run the samples of a Markdown file and compare what they print.

A fenced block marked ``python`` that is followed by one marked ``text`` is a
sample: the second block is its exact output. Stores named in a sample are
replaced by a temporary file, so that nobody's own store is touched. In a block
marked ``console`` the lines that begin with ``$`` are commands, each followed by
its output, with a temporary file as the default store of ``undercroft``.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

SAMPLE = re.compile(r"^```python\n(.*?)^```\n+^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
STORE = re.compile(r"undercroft://[a-z]+")
# A container's /tmp is often an overlay, where a store may not live.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


def lines_of(
    command: list[str], directory: str, environment: dict[str, str] | None = None
) -> list[str]:
    """Return what a command prints, which has no input."""
    run = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
        env=environment,
    )
    return run.stdout.splitlines()


def difference(expected: str, found: list[str]) -> list[str]:
    """Return the lines in which a file and a run differ."""
    return list(difflib.unified_diff(expected.splitlines(), found, "file", "run", lineterm=""))


def differences(code: str, expected: str, directory: str) -> list[str]:
    """Return the lines in which the sample's output differs from the file."""
    code = STORE.sub(f"undercroft://{directory}/store", code)
    return difference(expected, lines_of([sys.executable, "-c", code], directory))


def session_differences(session: str, directory: str) -> list[str]:
    """Return the lines in which the commands' output differs from the file."""
    environment = {
        # The command that belongs to this interpreter's package.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UNDERCROFT_STORE": f"{directory}/store",
    }
    found = []
    for line in session.splitlines():
        if line.startswith("$ "):
            command = ["bash", "-c", line.removeprefix("$ ")]
            found += [line, *lines_of(command, directory, environment)]
    return difference(session, found)


def main() -> int:
    """Check the file named on the command line; the exit status says the result."""
    path = Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    samples = SAMPLE.findall(text)
    if not samples:
        print(f"{path}: no python block followed by a text block was found to check")
        return 1
    checks = [partial(differences, code, expected) for code, expected in samples]
    checks += [partial(session_differences, session) for session in CONSOLE.findall(text)]
    wrong = 0
    for check in checks:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
            lines = check(directory)
        wrong += bool(lines)
        print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{path}: {len(checks)} samples run, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
