"""Formats output for a terminal or a log."""

import os
import shutil
import sys
import time

TERMINAL = sys.stdout.isatty()
COLOUR = TERMINAL and "NO_COLOR" not in os.environ


def _styled(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def heading(text: str) -> None:
    """Print the heading of a section."""
    print(f"\n{_styled(text, '1')}", flush=True)


def line(name: str, text: str) -> None:
    """Print a fact with its name, aligned in a column."""
    print(f"  {name:<16} {text}", flush=True)


def verdict(name: str, good: bool, text: str) -> bool:
    """Print a fact and whether it is correct; return whether it is."""
    word = _styled("ok", "32") if good else _styled("WRONG", "31")
    line(name, f"{word}: {text}")
    return good


class Progress:
    """A progress bar that is drawn on a terminal and omitted in a log."""

    def __init__(self, total: int) -> None:
        """Create a bar at zero."""
        self.total = total
        self.shown = 0.0

    def show(self, done: int) -> None:
        """Draw the bar, at most twenty times a second."""
        if not TERMINAL or (done < self.total and time.monotonic() - self.shown < 0.05):
            return
        self.shown = time.monotonic()
        width = max(10, min(50, shutil.get_terminal_size().columns - 20))
        full = width * done // self.total
        bar = "#" * full + "-" * (width - full)
        print(f"\r  [{bar}] {100 * done // self.total:3} %", end="", flush=True)

    def clear(self) -> None:
        """Erase the bar to make room for a line of text."""
        if TERMINAL:
            print("\r\x1b[K", end="", flush=True)


def table(rows: list[list[str]]) -> None:
    """Print rows, the first of which is the heading. Numbers are right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "   ".join(cells).rstrip())
        if number == 0:
            print("  " + "   ".join("-" * width for width in widths))
    sys.stdout.flush()
