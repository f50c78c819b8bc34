"""The rows of a table, and their output as JSON and Markdown."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Any


@dataclasses.dataclass
class Figure:
    """The median and the range of one quantity over all rounds."""

    name: str
    median: float
    least: float
    most: float
    unit: str

    @classmethod
    def of(cls, name: str, rounds: Sequence[float], unit: str) -> "Figure":
        """Return the figure that summarizes the values of all rounds."""
        return cls(name, statistics.median(rounds), min(rounds), max(rounds), unit)

    def __str__(self) -> str:
        """Return the median with its unit, and the range if the rounds differ."""
        text = f"{number(self.median)} {self.unit}"
        if self.least != self.most:
            text += f" ({number(self.least)}..{number(self.most)})"
        return text


@dataclasses.dataclass
class Row:
    """A row of the table: Undercroft's figure, the peer's, their ratio, and the target.

    ``target`` applies to ``ratio``; a row without a target is only printed. A row that could not be
    measured has no figures, and its ``note`` gives the reason. ``failed`` marks a row for which
    Undercroft's operation failed or was killed: the row misses its target and has no ratio.
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
        """Whether the target is met; None without a target or a measurement."""
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
    """Figures for many clients, with a row for each kind of work and a column for each client.

    ``plot`` marks a grid whose rows are numbers of queries, to be drawn as a plot.
    """

    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[float | None]]] = dataclasses.field(default_factory=list)
    note: str = ""
    plot: bool = False

    def markdown(self) -> list[str]:
        """Return the lines of the title, the Markdown table and the note."""
        lines = [f"#### {self.title}", ""]
        lines += [f"| {' | '.join([self.corner, *self.columns])} |"]
        lines += ["|" + " --- |" * (len(self.columns) + 1)]
        for label, values in self.rows:
            cells = ["-" if value is None else number(value) for value in values]
            lines.append(f"| {' | '.join([label, *cells])} |")
        return [*lines, "", *([self.note, ""] if self.note else [])]


@dataclasses.dataclass
class Panel:
    """One panel of a plot, with the lines of Undercroft and of its peers.

    ``thin`` names auxiliary lines that only explain another line.
    """

    title: str
    axis: str
    lines: dict[str, list[tuple[float, float]]]
    thin: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Course:
    """A plot without a table: the duration of the slowest call over time, in milliseconds."""

    title: str
    panels: list[Panel]
    caption: str = ""


@dataclasses.dataclass
class Result:
    """A measured table, with the machine and the versions that its figures depend on."""

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
        """Add the rows, grids and courses of a group."""
        self.rows += [each for each in found if isinstance(each, Row)]
        self.grids += [each for each in found if isinstance(each, Grid)]
        self.courses += [each for each in found if isinstance(each, Course)]

    @property
    def drawn(self) -> Grid | Course | None:
        """The grid or course to draw; a table has at most one."""
        for grid in self.grids:
            if grid.plot:
                return grid
        return self.courses[0] if self.courses else None


def number(value: float) -> str:
    """Return a number with three significant digits and grouped thousands."""
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
    """Return the result that ``to_json`` wrote as this text."""
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
    """Return the result as a Markdown table with its notes, machine and versions."""
    mets = [row.met for row in result.rows if row.met is not None]
    lines = [
        "| work | ours | peer | ratio | target | met |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    notes: dict[str, int] = {}
    for row in result.rows:
        mark = f" [{notes.setdefault(row.note, len(notes) + 1)}]" if row.note else ""
        peer = f"{row.peer.name}: {row.peer}" if row.peer else "-"
        ratio = number(row.ratio) if row.ratio is not None else "-"
        met = {True: "yes", False: "**no**", None: "-"}[row.met]
        ours = str(row.ours) if row.ours else "failed" if row.failed else "not measured"
        lines.append(f"| {row.work}{mark} | {ours} | {peer} | {ratio} | {row.target} | {met} |")
    lines += ["", f"Targets met: {sum(mets)} of {len(mets)}.", ""]
    # Rows with the same note share its number.
    lines += [*(f"{at}. {note}" for note, at in notes.items()), ""]
    for grid in result.grids:
        lines += grid.markdown()
    lines += [
        f"| measured | {result.date}, in {result.seconds} s; minimum and maximum are in brackets |",
        "| --- | --- |",
    ]
    for title, facts in (("machine", result.machine), ("versions", result.versions)):
        lines.append(f"| {title} | {'; '.join(f'{name} {fact}' for name, fact in facts.items())} |")
    return "\n".join(lines)
