"""The style of all charts, charts as inline SVG, and numbers as text."""

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

#: Colours by role. Pages replace each by a CSS variable, so that dark and print styles apply.
INK, MUTED, GRID, PAPER = "#20262d", "#66707b", "#dfe3e7", "#fefefe"
PASS, FAIL = "#6ba3d0", "#a3310f"
#: From dark to light, so that they differ on grey-scale prints.
SERIES = ("#2f1e5e", "#8a1f5c", "#1f6f8b", "#c4501b", "#3f9a6d", "#d99a1c", "#97a3ae")
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", PASS: "pass", FAIL: "fail"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)
}
#: Pixels of a page per point of a chart, and the width in inches of a chart for narrow screens.
SCALE, NARROW = 1.4, 4.6
_STYLE = Path(__file__).with_name("charts.mplstyle")


@dataclass(frozen=True)
class Words:
    """The texts of a chart: its anchor, the finding in one sentence, kind and content, and remarks."""

    name: str
    title: str
    shows: str
    note: str = ""

    @property
    def alt_text(self) -> str:
        """The alternative text of the image."""
        return f"{self.shows}. {self.title}."


@dataclass(frozen=True)
class Chart(Words):
    """A chart as inline SVG, without scripts and external references.

    `narrow` is the layout for narrow screens; empty if `svg` fits them (`fits`) or the chart needs the width.
    """

    svg: Markup = field(default=Markup(), kw_only=True)
    narrow: Markup = field(default=Markup(), kw_only=True)
    fits: bool = field(default=False, kw_only=True)


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure of this size in inches; the shared style applies inside the context."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def inline_svg(figure: Figure, name: str, alt: str, over: Callable[[], Markup] = Markup) -> Markup:
    """Return `figure` as an ``svg`` element; inside `styled_figure`, equal figures give equal bytes.

    `name`: prefix of all ids in it. `alt`: the alternative text. `over`: called after drawing, returns
    elements to put on top. Colours become CSS variables such as ``var(--ink)``, which the page must define.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.DOTALL)
    # they contain a hash of coordinates, whose last bits differ between processes
    hashed = dict.fromkeys(re.findall(r'\bid="([A-Za-z]+[0-9a-f]{10})"', text))
    numbers = {one: f"part-{number}" for number, one in enumerate(hashed, start=1)}
    text = re.sub(r"\b[A-Za-z]+[0-9a-f]{10}\b", lambda match: numbers.get(match[0], match[0]), text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    view = re.search(r'viewBox="[^"]*"', text)
    body = text[text.index(">") + 1 :]
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    size = f'width="{72 * SCALE * figure.get_figwidth():.0f}" {view.group() if view else ""}'
    opening = f'<svg {size} role="img" aria-label="{Markup.escape(alt)}" class="chart">'
    # matplotlib escapes its text
    return Markup(opening + body.rstrip().removesuffix("</svg>")) + over() + Markup("</svg>\n")  # noqa: S704


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in percent with `digits` decimals: ``0.936`` as ``93.6 %``; a dash for None and NaN.

    The space is a no-break space, and the minus sign U+2212.
    """
    if share is None or math.isnan(share):
        return "\N{EN DASH}"
    return f"{share:.{digits}%}".replace("%", "\N{NO-BREAK SPACE}%").replace("-", "\u2212")


def two_decimals(number: float) -> str:
    """Return a number with two decimals and U+2212 as minus sign: ``1234.50``; a dash for NaN."""
    return "\N{EN DASH}" if math.isnan(number) else f"{number:.2f}".replace("-", "\u2212")


def with_noun(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 regression``, ``12,000 regressions``; default plural: with s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def whole_number(number: float) -> str:
    """Return a number rounded half to even, with commas and an ASCII minus: ``-12,000``; a dash for NaN."""
    return "\N{EN DASH}" if math.isnan(number) else f"{number:,.0f}"


def plain_number(number: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, commas and no exponent; a dash for NaN.

    Integer digits are never rounded, and zeros at the end of decimals are dropped: ``1,063,080``, ``0.0613``.
    The minus sign is U+2212. ValueError for infinity.
    """
    if math.isnan(number):
        return "\N{EN DASH}"
    rounded = float(f"{number:.{digits}g}") if abs(number) < 10**digits else number
    integer_digits = int(f"{abs(rounded):e}".partition("e")[2]) + 1 if rounded else digits
    shown = f"{rounded:,.{max(0, digits - integer_digits)}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace("-", "\N{MINUS SIGN}")
