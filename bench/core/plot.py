"""Draw plots: time by number of queries for each client, and the slowest calls over time."""

from pathlib import Path
from typing import Any

from core.report import Course, Grid

OURS, THEIRS = "#c0392b", "#5d6d7e"
STYLE = {"linewidth": 1.4, "marker": "."}
# The minimum distance between two names, as a fraction of the axis' height.
APART = 0.034


def write(drawn: Grid | Course, path: Path, caption: str) -> None:
    """Draw a grid or a course as an SVG file with a caption."""
    import matplotlib as mpl

    mpl.use("svg")
    # A fixed salt makes the SVG file reproducible, and the font type `none` keeps text as text.
    mpl.rcParams.update({"svg.hashsalt": "undercroft", "svg.fonttype": "none"})
    from matplotlib import pyplot

    if isinstance(drawn, Grid):
        figure = _queries(pyplot, drawn)
        more = "Dashed: blocking calls."
    else:
        figure = _course(pyplot, drawn)
        more = drawn.caption
    figure.text(0.01, 0.01, f"{caption}. {more}", fontsize=8, color="0.4")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _queries(pyplot: Any, grid: Grid) -> Any:
    """Draw a grid with a line for each client: seconds by number of queries."""
    queries = [int(label.replace(",", "")) for label, _ in grid.rows]
    figure, axes = pyplot.subplots(figsize=(11, 7))
    # Collect the height and name of each line's end; `_name` places the names without overlap.
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
    _plain(axes)
    figure.subplots_adjust(left=0.07, right=0.68, top=0.94, bottom=0.11)
    return figure


def _course(pyplot: Any, course: Course) -> Any:
    """Draw the slowest calls over time, with one panel for each phase."""
    figure, row = pyplot.subplots(
        1, len(course.panels), figsize=(13, 6), sharey=True, squeeze=False
    )
    for axes, panel in zip(row[0], course.panels, strict=True):
        # Draw Undercroft's line last, so that it is on top of the other lines.
        for name, points in sorted(panel.lines.items(), key=lambda line: _is_ours(line[0])):
            style = {"linewidth": 0.8, "linestyle": ":"} if name in panel.thin else STYLE
            axes.plot(*zip(*points, strict=True), color=_colour(name), label=name, **style)
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.set_xlabel(panel.axis)
        axes.set_title(panel.title, fontsize=9.5)
        _plain(axes)
    first = row[0][0]
    first.yaxis.set_major_formatter("{x:g}")
    first.set_ylabel("slowest call, milliseconds")
    lines, names = first.get_legend_handles_labels()
    # Put the legend below the title, which can be as wide as the plot.
    place = {"loc": "upper left", "bbox_to_anchor": (0.045, 0.95)}
    figure.legend(lines, names, fontsize=9, frameon=False, ncols=len(names), **place)
    figure.suptitle(course.title, x=0.05, ha="left", fontsize=12)
    figure.subplots_adjust(left=0.05, right=0.99, top=0.84, bottom=0.14, wspace=0.06)
    return figure


def _plain(axes: Any) -> None:
    """Remove the top and right border of a plot, and make its grid lines faint."""
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _is_ours(name: str) -> bool:
    return name.startswith("undercroft")


def _colour(name: str) -> str:
    return OURS if _is_ours(name) else THEIRS


def _name(axes: Any, ends: list[tuple[float, str]], right: float) -> None:
    """Write the clients' names next to the ends of their lines without overlap."""
    height = axes.get_ylim()[1]
    # From the bottom up, place each name at the end of its line, or above the name below it.
    places: list[float] = []
    for end, _ in reversed(ends):
        least = places[-1] + APART * height if places else 0
        places.append(max(end, least))
    # Move names that are above the top back down, together with the names below them.
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
