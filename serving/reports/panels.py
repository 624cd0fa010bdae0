"""Chart panels with axes, title and legend, in the style of all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from markupsafe import Markup

from serving.reports.chart_marks import HoverArea, hover_shapes
from serving.reports.charts import NARROW, Chart, Words, inline_svg, percent, plain_number, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Maximal number of names on an axis; from `_MANY` names on they are small.
_NAMED, _MANY = 50, 25
#: Letters of a name up to which it is written horizontally; names up to which each may have several lines.
_SHORT, _FEW = 4, 12
#: Minimal number of numbers below axes, and pixels between them.
_FEWEST, _GAP = 2, 6.0
#: Narrow charts: letters in a line of a label and of a name, and inches for a legend.
_LABEL, _NAME, _LEGEND = 40, 24, 1.8
#: Maximal number of hover areas in a narrow chart: a finger does not hit one of more.
_TAPPED = 300
#: Letters of a legend per inch, and those that fit into the room of a mark beside its name.
_LETTERS, _HANDLE = 15, 8


class Mark(Protocol):
    """A chart element that can be drawn on axes."""

    def draw(self, axes: Axes) -> None:
        """Draw the mark."""

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield the hover areas of the mark."""


@dataclass(frozen=True)
class Axis:
    """One axis of a panel: its label with the unit, and its range.

    `names` label the positions 0, 1, ... of a categorical axis, from the top or left. `ticks` map positions
    to labels that replace round numbers. `percent`: the values are shares.
    """

    label: str
    names: Sequence[str] = ()
    ticks: Mapping[float, str] = field(default_factory=dict)
    percent: bool = False
    log: bool = False
    low: float | None = None
    high: float | None = None
    backwards: bool = False

    def narrow_copy(self) -> Axis:
        """Return a copy with long labels and names broken into several lines."""
        names = [_wrap_lines(name, _NAME) for name in self.names] if len(self.names) <= _FEW else self.names
        return replace(self, label=_wrap_lines(self.label, _LABEL), names=names)

    @property
    def short_label(self) -> str:
        """The label without units and remarks."""
        return re.split(r" \(|\n|; ", self.label)[0]

    def value_text(self, value: float) -> str:
        """Return a value of the axis as text: in percent if the axis shows shares, else with four digits."""
        return percent(value) if self.percent else plain_number(value)

    def name_at(self, value: float) -> str:
        """Return the name at the position nearest to `value`; empty without one or for axes without names."""
        place = round(value) if self.names and np.isfinite(value) else -1
        return self.names[place].replace("\n", ", ") if 0 <= place < len(self.names) else ""


def _wrap_lines(text: str, width: int) -> str:
    return "\n".join(chain.from_iterable(wrap(line, width) for line in text.split("\n")))


@dataclass(frozen=True)
class Panel:
    """Marks on the same axes; axes are drawn if `x` and `y` are given."""

    marks: Sequence[Mark]
    x: Axis | None = None
    y: Axis | None = None
    heading: str = ""
    square: bool = False


def draw_chart(
    words: Words,
    panels: Sequence[Panel],
    size: tuple[float, float],
    *,
    across: int = 1,
    legend_title: str = "",
    narrows: bool = True,
) -> Chart:
    """Return a chart of panels as inline SVG, with tooltips.

    `panels`: row by row, in one sequence; ValueError if their number is not a multiple of `across`. The
    legend names the marks of the first panel.
    `size`: width and height of the chart in inches; 8.4 is the width of the page.
    `legend_title`: title of a legend at the right; if empty, the legend is above.
    `narrows`: add a layout for narrow screens (``narrow``): panels one below the other, long names wrapped,
    tooltips only if there are at most 300. A chart at most 4.6 inches wide ``fits``, and has no such layout.
    """
    fits = size[0] <= NARROW
    svg = _render_svg(words, panels, size, across, legend_title, narrow=False)
    if fits or not narrows:
        return Chart(**vars(words), svg=svg, fits=fits)
    height = size[1] / -(-len(panels) // across) * len(panels) + (_LEGEND if legend_title else 0)
    narrow = _render_svg(words, panels, (NARROW, height), 1, legend_title, narrow=True)
    return Chart(**vars(words), svg=svg, narrow=narrow)


def _render_svg(
    words: Words,
    panels: Sequence[Panel],
    size: tuple[float, float],
    across: int,
    legend: str,
    *,
    narrow: bool,
) -> Markup:
    with styled_figure(*size) as figure:
        grid = list(np.atleast_1d(figure.subplots(-(-len(panels) // across), across)).flat)
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel, narrow=narrow)
        _add_legend(figure, legend, narrow=narrow)
        _lay_out_figure(figure, grid)
        # saving would lay it out once more, and draw it for that
        figure.set_layout_engine(None)

        def hover_overlay() -> Markup:
            shapes: list[tuple[float, Markup]] = []
            for axes, panel in zip(grid, panels, strict=True):
                if (x := panel.x) is not None and (y := panel.y) is not None:
                    areas = chain.from_iterable(mark.hover_areas() for mark in panel.marks)
                    hover_areas = [(area, _tooltip_text(area, x, y)) for area in areas]
                    shapes += hover_shapes(figure, axes, hover_areas)
            if not shapes or (narrow and len(shapes) > _TAPPED):
                return Markup()
            # equal sizes differ in their last digits
            ordered = sorted(shapes, key=lambda shape: -round(shape[0], 2))
            return Markup('<g class="spots">{}</g>').format(Markup().join(svg for _, svg in ordered))

        name = f"{words.name}-narrow" if narrow else words.name
        return inline_svg(figure, name, words.alt_text, hover_overlay)


def _tooltip_text(spot: HoverArea, x: Axis, y: Axis) -> str:
    names = (spot.name, x.name_at(spot.x), y.name_at(spot.y))
    # a mark that spans an axis has no single position on it
    positions = [
        f"{axis.short_label} {axis.value_text(value)}"
        for axis, value, which, extent in ((x, spot.x, "x", spot.wide), (y, spot.y, "y", spot.high))
        if not axis.names and which != spot.along and (spot.along or not spot.values) and not extent
    ]
    along = {"x": x, "y": y}.get(spot.along)
    label, shown = (along.short_label, along.value_text) if along else ("", plain_number)
    values = [f"{word or label} {shown(value)}" for word, value in spot.values]
    return ": ".join(filter(None, (", ".join(filter(None, names)), ", ".join([*positions, *values]))))


def _draw_panel(axes: Axes, panel: Panel, *, narrow: bool) -> None:
    for mark in panel.marks:
        mark.draw(axes)
    if panel.x is None or panel.y is None:
        axes.axis("off")
        return
    for axis, which in ((panel.x, "x"), (panel.y, "y")):
        _label_axis(axes, axis.narrow_copy() if narrow else axis, which)
    axes.set_title(panel.heading, loc="left", fontsize=9)
    if panel.square:
        axes.set_aspect("equal")


def _label_axis(axes: Axes, axis: Axis, which: str) -> None:
    def set_property(attribute: str, *values: Any) -> None:
        getattr(axes, f"set_{which}{attribute}")(*values)

    side = axes.xaxis if which == "x" else axes.yaxis
    one_in = _name_step(axis.names)
    set_property("label", axis.label if one_in < 2 else f"{axis.label} (one in {one_in} is named)")  # noqa: PLR2004 - each
    if axis.log:
        set_property("scale", "log")
        _round_numbers(side)
    if axis.ticks:
        set_property("ticks", list(axis.ticks), list(axis.ticks.values()))
        axes.minorticks_off()
    if axis.names:
        _write_names(axes, axis.names, which)
    if axis.percent:
        side.set_major_formatter(lambda share, _: f"{plain_number(100 * share, 6)} %")
    elif not (axis.log or axis.ticks or axis.names):
        _plain_numbers(side)
    if axis.low is not None or axis.high is not None:
        set_property("lim", axis.low, axis.high)
    if axis.backwards:
        side.set_inverted(True)


def _name_step(names: Sequence[str]) -> int:
    """Return 1 if an axis has room for all names, 2 for every second, and so on."""
    return 1 + (len(names) - 1) // _NAMED


def _round_numbers(side: Any) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = side.get_view_interval()
    steps = [1.0, 2.0, 5.0] if high < 100 * low else [1.0, 3.0]
    if high < 10 * low:
        steps = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
    side.set_major_locator(LogLocator(subs=steps))
    side.set_major_formatter(lambda value, _: plain_number(value))
    side.set_minor_locator(NullLocator())


def _lay_out_figure(figure: Figure, grid: Sequence[Axes]) -> None:
    """Lay out the figure, with so few numbers on its x axes that they do not touch."""
    from matplotlib.ticker import AutoLocator

    close = [axes for axes in grid if axes.axison and isinstance(axes.xaxis.get_major_locator(), AutoLocator)]
    layout: Any = figure.get_layout_engine()
    for numbers in range(_FEWEST + 5, _FEWEST - 1, -1):
        # positions need the layout, not a drawing
        layout.execute(figure)
        close = [axes for axes in close if _numbers_touch(axes)]
        if not close:
            return
        for axes in close:
            axes.locator_params(axis="x", nbins=numbers)
    layout.execute(figure)


def _numbers_touch(axes: Axes) -> bool:
    low, high = sorted(axes.get_xlim())
    shown = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = sorted((label.get_window_extent() for label in shown if label.get_text()), key=lambda box: box.x0)
    return any(box.x1 + _GAP > other.x0 for box, other in pairwise(boxes))


def _plain_numbers(side: Any) -> None:
    def format_number(value: float, _: object) -> str:
        step = float(np.min(np.diff(side.get_majorticklocs()), initial=np.inf))
        decimals = max(0, -int(np.floor(np.log10(step) + 1e-9))) if np.isfinite(step) else 0
        # a step of 0.25 has one decimal more than its magnitude
        decimals += round(step, decimals) != float(f"{step:.6g}")
        return f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")

    side.set_major_formatter(format_number)


def _write_names(axes: Axes, names: Sequence[str], which: str) -> None:
    positions = range(0, len(names), _name_step(names))
    labels = [str(names[place]) for place in positions]
    size = 7.5 if len(names) > (_MANY if which == "x" else _NAMED - 5) else 8.5
    if which == "x":
        turned = max(map(len, labels)) > _SHORT and not any("\n" in label for label in labels)
        axes.set_xticks(positions, labels, fontsize=size, rotation=90 if turned else 0)
    else:
        axes.set_yticks(positions, labels, fontsize=size)
        axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="x" if which == "x" else "y")


def _add_legend(figure: Figure, title: str, *, narrow: bool) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if title and not narrow:
        figure.legend(handles, labels, loc="outside right upper", title=title, fontsize=8.5)
    elif handles:
        room = int(_LETTERS * figure.get_figwidth() / (max(map(len, labels)) + _HANDLE))
        above: Any = {"loc": "outside upper center", "ncols": max(1, room), "title": title or None}
        figure.legend(handles, labels, **above, fontsize=8.5)
