"""Rows of a table, and how they are written down."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Any


@dataclasses.dataclass
class Figure:
    """What was measured over all rounds: the median, and how far the rounds lay apart."""

    name: str
    median: float
    least: float
    most: float
    unit: str

    @classmethod
    def of(cls, name: str, rounds: Sequence[float], unit: str) -> "Figure":
        """Return the figure of the rounds' values."""
        return cls(name, statistics.median(rounds), min(rounds), max(rounds), unit)

    def __str__(self) -> str:
        """Return it as the table shows it."""
        text = f"{number(self.median)} {self.unit}"
        if self.least != self.most:
            text += f" ({number(self.least)}..{number(self.most)})"
        return text


@dataclasses.dataclass
class Row:
    """One line of the table: ours beside a peer's, their ratio, and what it must reach.

    ``ratio`` is what ``target`` speaks of; a row without a target is only printed. A row
    that could not be measured has no figures and says why in ``note``. One of ours that
    was cut off, or ended with an error, has ``failed``: it misses its target without a ratio.
    """

    id: str
    work: str
    ours: Figure | None = None
    peer: Figure | None = None
    ratio: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    failed: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing was measured."""
        if self.failed:
            return False
        if self.ratio is None:
            return None
        if self.at_most is not None:
            return self.ratio <= self.at_most
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return None

    @property
    def target(self) -> str:
        """The target in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "-"


@dataclasses.dataclass
class Grid:
    """Figures of many clients beside each other: a line for each work, a column for each client.

    ``plot`` says that the lines are counts of queries, and worth drawing.
    """

    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[float | None]]] = dataclasses.field(default_factory=list)
    note: str = ""
    plot: bool = False

    def markdown(self) -> list[str]:
        """Return the lines of a Markdown table."""
        lines = [f"#### {self.title}", ""]
        lines += [f"| {' | '.join([self.corner, *self.columns])} |"]
        lines += ["|" + " --- |" * (len(self.columns) + 1)]
        for label, values in self.rows:
            cells = ["-" if value is None else number(value) for value in values]
            lines.append(f"| {' | '.join([label, *cells])} |")
        return [*lines, "", *([self.note, ""] if self.note else [])]


@dataclasses.dataclass
class Panel:
    """A part of a picture: the lines of ours and of peers, over what the axis says.

    A line of ``thin`` only explains another one.
    """

    title: str
    axis: str
    lines: dict[str, list[tuple[float, float]]]
    thin: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Course:
    """How long the slowest call of each moment took, in milliseconds: a picture, and no table."""

    title: str
    panels: list[Panel]
    caption: str = ""


@dataclasses.dataclass
class Result:
    """A whole table with all that is needed to judge it."""

    table: str
    quick: bool
    groups: list[str]
    machine: dict[str, str]
    versions: dict[str, str]
    rows: list[Row] = dataclasses.field(default_factory=list)
    grids: list[Grid] = dataclasses.field(default_factory=list)
    courses: list[Course] = dataclasses.field(default_factory=list)
    seconds: int = 0
    date: str = dataclasses.field(
        default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds")
    )

    def add(self, found: Sequence[Row | Grid | Course]) -> None:
        """Take what a group has measured."""
        self.rows += [each for each in found if isinstance(each, Row)]
        self.grids += [each for each in found if isinstance(each, Grid)]
        self.courses += [each for each in found if isinstance(each, Course)]

    @property
    def drawn(self) -> Grid | Course | None:
        """What of it is a picture; a table has one or none."""
        for grid in self.grids:
            if grid.plot:
                return grid
        return self.courses[0] if self.courses else None


def number(value: float) -> str:
    """Return a number with three significant digits, and thousands grouped."""
    if value == 0:
        return "0"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def to_json(result: Result) -> str:
    """Return the result as JSON text."""
    plain: dict[str, Any] = dataclasses.asdict(result)
    for row, written in zip(result.rows, plain["rows"], strict=True):
        written["target"] = row.target
        written["met"] = row.met
    return json.dumps(plain, indent=1) + "\n"


def from_json(text: str) -> Result:
    """Return the result that ``to_json`` wrote."""
    plain = json.loads(text)
    rows = []
    for written in plain.pop("rows"):
        for derived in ("target", "met"):
            written.pop(derived)
        for side in ("ours", "peer"):
            if written[side]:
                written[side] = Figure(**written[side])
        rows.append(Row(**written))
    grids = [Grid(**written) for written in plain.pop("grids", [])]
    courses = [
        Course(
            written["title"], [Panel(**panel) for panel in written["panels"]], written["caption"]
        )
        for written in plain.pop("courses", [])
    ]
    return Result(rows=rows, grids=grids, courses=courses, **plain)


def markdown(result: Result) -> str:
    """Return the result as a Markdown table with its circumstances."""
    mets = [row.met for row in result.rows if row.met is not None]
    lines = [
        f"### Table {result.table}{' (quick: indicative only)' if result.quick else ''}",
        "",
        "| work | ours | peer | ratio | target | met |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in result.rows:
        peer = f"{row.peer.name}: {row.peer}" if row.peer else "-"
        ratio = number(row.ratio) if row.ratio is not None else "-"
        met = {True: "yes", False: "**no**", None: "-"}[row.met]
        ours = str(row.ours) if row.ours else "failed" if row.failed else "not measured"
        lines.append(f"| {row.work} | {ours} | {peer} | {ratio} | {row.target} | {met} |")
    lines += ["", f"Targets met: {sum(mets)} of {len(mets)}.", ""]
    lines += [f"- {row.work}: {row.note}" for row in result.rows if row.note]
    lines.append("")
    for grid in result.grids:
        lines += grid.markdown()
    lines += [f"Measured {result.date} in {result.seconds} s. Medians of interleaved rounds,"]
    lines[-1] += " with the least and the most in brackets."
    for title, facts in (("Machine", result.machine), ("Versions", result.versions)):
        lines.append(f"{title}: " + "; ".join(f"{name} {fact}" for name, fact in facts.items()))
    return "\n".join(lines)
