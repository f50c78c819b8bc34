"""The classic comparison as a picture: time over queries, a line for each client."""

from pathlib import Path
from typing import Any

from core.report import Grid

OURS, THEIRS = "#c0392b", "#5d6d7e"
# The least distance between two names, as a part of the axis' height.
APART = 0.034


def write(grid: Grid, path: Path, caption: str) -> None:
    """Draw a grid whose lines are counts of queries and whose figures are milliseconds."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures give the same file, with its text as text.
    mpl.rcParams.update({"svg.hashsalt": "undercroft", "svg.fonttype": "none"})
    from matplotlib import pyplot

    queries = [int(label.replace(",", "")) for label, _ in grid.rows]
    figure, axes = pyplot.subplots(figsize=(11, 7))
    # The longest first, so that names can be moved down and never up.
    ends: list[tuple[float, str]] = []
    for at, name in enumerate(grid.columns):
        points = [
            (count, values[at] / 1000)
            for count, (_, values) in zip(queries, grid.rows, strict=True)
            if values[at] is not None
        ]
        if not points:
            continue
        style = "-" if " on " in name else "--"
        width = 2.2 if name.startswith("undercroft") else 1.2
        axes.plot(*zip(*points, strict=True), style, color=_colour(name), linewidth=width)
        ends.append((points[-1][1], name))
    axes.set_xlim(0, queries[-1])
    axes.set_ylim(0, max(end for end, _ in ends) * 1.05)
    _name(axes, sorted(ends, reverse=True), queries[-1])
    axes.set_xlabel("queries")
    axes.set_ylabel("seconds")
    axes.set_title(grid.title)
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.text(0.01, 0.01, f"{caption}. Dashed: blocking calls.", fontsize=8, color="0.4")
    figure.subplots_adjust(left=0.07, right=0.68, top=0.94, bottom=0.11)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _colour(name: str) -> str:
    return OURS if name.startswith("undercroft") else THEIRS


def _name(axes: Any, ends: list[tuple[float, str]], right: float) -> None:
    """Write the clients' names beside their lines' ends, none over another."""
    height = axes.get_ylim()[1]
    # From below: each name stands at its line's end, or above the name under it.
    places: list[float] = []
    for end, _ in reversed(ends):
        least = places[-1] + APART * height if places else 0
        places.append(max(end, least))
    # Those that were pushed out at the top move down again, together.
    for index in range(len(places) - 1, -1, -1):
        most = places[index + 1] - APART * height if index + 1 < len(places) else height
        places[index] = min(places[index], most)
    for (end, name), place in zip(reversed(ends), places, strict=True):
        axes.annotate(
            f"{name}  {end:.2f} s",
            xy=(right, end),
            xytext=(right * 1.04, place),
            color=_colour(name),
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.7, "relpos": (0, 0.5)},
        )
