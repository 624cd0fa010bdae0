"""The one style that all charts of all reports share, and the way a chart becomes part of a page."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours by role. In the page each becomes a CSS variable, so that dark and print styles apply.
INK, MUTED, GRID, PAPER = "#20262d", "#66707b", "#dfe3e7", "#fefefe"
PASS, FAIL = "#6ba3d0", "#a3310f"
#: From dark to light, so that they differ on a grey-scale print too.
SERIES = ("#2f1e5e", "#8a1f5c", "#1f6f8b", "#c4501b", "#3f9a6d", "#d99a1c", "#97a3ae")
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", PASS: "pass", FAIL: "fail"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)
}
#: Pixels of a page in a point of a chart, and the inches of a chart that fits a telephone.
SCALE, NARROW = 1.4, 4.6
_STYLE = Path(__file__).with_name("charts.mplstyle")


@dataclass(frozen=True)
class Words:
    """The texts of a chart.

    Attributes
    ----------
    name : str
        Its anchor in the page.
    title : str
        The finding, in one sentence.
    shows : str
        Kind and content of the chart; with the title it is the alternative text.
    note : str
        Remarks that are not in the title or the axes.
    """

    name: str
    title: str
    shows: str
    note: str = ""

    @property
    def alt(self) -> str:
        """The text for those who cannot see it."""
        return f"{self.shows}. {self.title}."


@dataclass(frozen=True)
class Chart(Words):
    """A chart as a page shows it; its SVG is inline, without scripts and references to anything outside.

    `narrow` is the same for a telephone, laid out anew: all of it is seen, with letters that can be read. It
    is empty where `svg` is as narrow (`fits`), and where the chart does not get along with less width.
    """

    svg: Markup = field(default=Markup(), kw_only=True)
    narrow: Markup = field(default=Markup(), kw_only=True)
    fits: bool = field(default=False, kw_only=True)


@contextmanager
def sketch(width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure of that size in inches, in the shared style, for as long as the block lasts."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def inline(figure: Figure, name: str, alt: str, over: Callable[[], Markup] = Markup) -> Markup:
    """Return `figure` as an ``svg`` element for a page; equal figures are equal bytes."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    view = re.search(r'viewBox="[^"]*"', text)
    body = text[text.index(">") + 1 :]
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    label = Markup.escape(alt)
    size = f'width="{72 * SCALE * figure.get_figwidth():.0f}" {view.group() if view else ""}'
    opening = f'<svg {size} role="img" aria-label="{label}" class="chart">'
    # matplotlib escapes the text it draws
    return Markup(opening + body.rstrip().removesuffix("</svg>")) + over() + Markup("</svg>\n")  # noqa: S704


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share in percent: ``0.936`` as ``93.6 %``, not to be broken; None and NaN as a dash."""
    if share is None or math.isnan(share):
        return "\N{EN DASH}"
    return f"{share:.{digits}%}".replace("%", "\N{NO-BREAK SPACE}%").replace("-", "\u2212")


def figures(number: float) -> str:
    """Write a number with two digits after the point; NaN as a dash."""
    return "\N{EN DASH}" if math.isnan(number) else f"{number:.2f}".replace("-", "\u2212")


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun: ``1 regression``, ``12,000 regressions``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def whole(number: float) -> str:
    """Write a count with commas; NaN as a dash."""
    return "\N{EN DASH}" if math.isnan(number) else f"{number:,.0f}"


def plain(number: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, commas and no exponent; NaN as a dash.

    Whole digits are never cut: ``1,063,080`` and ``0.0613``.
    """
    if math.isnan(number):
        return "\N{EN DASH}"
    rounded = float(f"{number:.{digits}g}") if abs(number) < 10**digits else number
    shown = f"{rounded:,.{_decimals(rounded, digits)}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace("-", "\N{MINUS SIGN}")


def _decimals(number: float, digits: int) -> int:
    """Return how many digits after the point make so many significant ones."""
    if number == 0:
        return 0
    before = int(f"{abs(number):e}".partition("e")[2]) + 1
    return max(0, digits - before)
