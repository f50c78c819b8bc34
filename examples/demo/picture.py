"""Draws the picture and the table at the end of the demo: the kill, the survivors, the speed."""

import sys
from dataclasses import dataclass

from .screen import heading, line

# Block characters for heights from one eighth of a line to a full line.
STEPS = " " + "".join(map(chr, range(0x2581, 0x2589)))
FULL, CROSS = "\u2588", "\u2715"
WIDTH = 40  # the length of the longest bar in columns


@dataclass
class Story:
    """The results of one demo run."""

    before: list[float]
    """Names per second, in equal time steps up to the kill."""
    after: list[float]
    """Names per second, in equal time steps after the kill."""
    step: float
    """The length of a step in seconds."""
    victim: str
    """The killed process, and the locks that it held."""
    survivors: str
    """The processes that continued."""
    checked: str
    """The records that were compared afterwards."""
    get: dict[str, float]
    """Microseconds of a GET with each client."""


def _encodes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _course(values: list[float], most: float) -> str:
    """Return one column for each value, scaled to the largest value."""
    steps = STEPS if _encodes(STEPS) else " .:-=+*%#"
    last = len(steps) - 1
    return "".join(steps[max(1, min(last, round(value / most * last)))] for value in values)


def _bar(value: float, most: float) -> str:
    """Return a bar for a value, scaled to the largest value and never empty."""
    full = FULL if _encodes(FULL) else "#"
    return full * max(1, round(value / most * WIDTH))


def show(story: Story) -> None:
    """Draw the picture, and the table below it."""
    heading("Summary")
    most = max(1.0, *story.before, *story.after)
    mark = CROSS if _encodes(CROSS) else "X"
    course = _course(story.before, most) + mark + _course(story.after, most)
    print(
        f"  names looked up per second by all workers, every {story.step:g} s; maximum {most:,.0f}"
    )
    print(f"    {course}")
    print(f"    {' ' * len(story.before)}^ one worker is killed with kill -9")
    print()
    print("  time of a GET")
    slowest, width = max(story.get.values()), max(map(len, story.get))
    for name, time in sorted(story.get.items(), key=lambda item: item[1]):
        print(f"    {name:<{width}}  {_bar(time, slowest)} {time:.2f} us")
    print()
    ours = story.get["this process"]
    peers = {name: time for name, time in story.get.items() if name != "this process"}
    line("what was killed", story.victim)
    line("what survived", story.survivors)
    line("", story.checked)
    line("how fast", f"a GET takes {ours:.2f} us, without a server or a system call")
    for number, (name, time) in enumerate(peers.items()):
        text = f"{name}: {time:.1f} us, {time / ours:.0f} times as long"
        line("" if number else "compared with", text)
