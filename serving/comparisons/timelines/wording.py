"""Numbers and changes as the pages of timelines write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from serving.comparisons.timelines.timeline import Change, TimelineVersion
from serving.pages.charts import percent

_SIGNIFICANT = 4


def amount(value: float) -> str:
    """Write a value with four significant digits, or all before the point; NaN as a dash."""
    if not math.isfinite(value):
        return "\N{EN DASH}"
    whole = math.floor(math.log10(abs(value))) if value else 0
    digits = max(0, _SIGNIFICANT - 1 - whole)
    return f"{value:,.{digits}f}".replace("-", "\u2212")


def moved(share: float) -> str:
    """Write a change whose sign says whether it is for the better: ``12.3 % worse``."""
    return f"{percent(abs(share))} {'worse' if share < 0 else 'better'}"


def told(change: Change, versions: Sequence[TimelineVersion], configurations: int) -> str:
    """Say what changed, when, and at how many threads if there are several configurations."""
    first, last = versions[change.first].name, versions[change.last].name
    crept = "crept " if change.kind == "creep" else ""
    when = f"with {first}" if first == last else f"from {first} to {last}"
    where = f" (threads:\N{NO-BREAK SPACE}{change.threads})" if configurations > 1 else ""
    return f"{crept}{moved(change.share)} {when}{where}"


def some(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """Name the first few, and say how many there are beside them."""
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
