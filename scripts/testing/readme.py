"""Runs the samples of Markdown files twice and compares their output.

Without arguments, the samples of every page in the repository run; arguments name pages. All
samples of a run share their stores, as they do for a reader who tries one page after another. Each
sample runs twice, because readers do that too, and must print the page's output both times.

A fenced block marked ``python`` is a program. A block marked ``text`` that follows it is its exact
output. A program without such a block prints nothing. A block marked ``python fragment`` is part of
a larger program and does not run. In a block marked ``console``, the lines that begin with ``$``
are commands, each followed by its output. The stores that programs and commands name are files in a
temporary directory.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Only white space may separate a program from its output.
BLOCK = re.compile(
    r"^```python\n(?P<program>.*?)^```\n(?:\s*^```text\n(?P<output>.*?)^```\n)?"
    r"|^```console\n(?P<session>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
STORE = re.compile(r"undercroft://([a-z]+)")
# A container's /tmp is often an overlay file system, which stores do not support.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Sample(NamedTuple):
    """A block of a page that can be run."""

    page: Path
    line: int
    program: str | None
    output: str
    """The output of the program, or the commands with their outputs."""

    def run(self, directory: str) -> list[str]:
        """Run the sample on the stores in a directory, and return its output."""
        environment = os.environ | {
            # Find the `undercroft` command of this interpreter's package first.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "UNDERCROFT_STORE": f"{directory}/default",
        }
        if self.program is not None:
            program = STORE.sub(rf"undercroft://{directory}/\1", self.program)
            return lines_of([sys.executable, "-c", program], directory, environment)
        found = []
        for line in self.output.splitlines():
            if line.startswith("$ "):
                command = ["bash", "-c", line.removeprefix("$ ")]
                found += [line, *lines_of(command, directory, environment)]
        return found


def samples_of(page: Path) -> Iterator[Sample]:
    """Yield the samples of a page."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        yield Sample(page, line, block["program"], block["session"] or block["output"] or "")


def every_page() -> list[Path]:
    """Return all Markdown files of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def lines_of(command: list[str], directory: str, environment: dict[str, str]) -> list[str]:
    """Return the output of a command without input, and its exit status if it fails."""
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
    return run.stdout.splitlines() + [f"exit status {run.returncode}"] * (run.returncode != 0)


def wrong_of(samples: list[Sample]) -> int:
    """Run all samples twice in order; return how many print unexpected output."""
    wrong: set[str] = set()
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        for time in ("first", "second"):
            for sample in samples:
                where = f"{sample.page}:{sample.line}"
                difference = list(
                    difflib.unified_diff(
                        sample.output.splitlines(),
                        sample.run(directory),
                        where,
                        f"{time} run",
                        lineterm="",
                    )
                )
                if difference:
                    wrong.add(where)
                    print(*difference, sep="\n")
    return len(wrong)


def main() -> int:
    """Check the pages named on the command line; return the exit status."""
    named = [Path(page) for page in sys.argv[1:]]
    samples = [sample for page in named or every_page() for sample in samples_of(page)]
    empty = [page for page in named if not any(sample.page == page for sample in samples)]
    for page in empty:
        print(f"{page}: found no sample to check")
    wrong = wrong_of(samples)
    pages = len({sample.page for sample in samples})
    print(f"{len(samples)} samples of {pages} pages run twice, {wrong} differ")
    return int(wrong > 0 or not samples or bool(empty))


if __name__ == "__main__":
    sys.exit(main())
