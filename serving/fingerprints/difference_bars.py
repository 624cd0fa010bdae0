"""Two profiles side by side, with what the test says of each stressor: figures 11, 13 and 14 of seed 003."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from serving.pages.charts import counted
from training.fingerprints.differences import Difference

#: Stressors that are open to be seen: the ones that changed most.
SHOWN = 8


@dataclass(frozen=True)
class Changes:
    """The difference of two profiles as a page shows it; ``top``: the stressors that changed most."""

    anchor: str
    number: str
    title: str
    difference: Difference
    top: list[dict[str, Any]]

    @property
    def seed_verdict(self) -> str:
        """What the algorithm of section 5.3 says."""
        stops, tolerance = self.difference.stops_at, self.difference.tolerance
        if stops is None:
            return f"walks to the end with a tolerance of {tolerance:g}: equivalent"
        return f"stops at {stops} with a tolerance of {tolerance:g}: not equivalent"


def changes(anchor: str, difference: Difference, number: str = "") -> Changes:
    """Prepare `difference` for the page."""
    top = difference.features.head(SHOWN).to_dict("records")
    return Changes(anchor, number, title(difference), difference, top)


def title(difference: Difference) -> str:
    """Say what really moved, or that nothing did, or that it cannot be told."""
    pair = f"{difference.a} against {difference.b}"
    if difference.reasons:
        return f"{pair}: what moved cannot be told from these machines"
    moved = difference.moved
    if not moved:
        return f"{pair}: no stressor really moved"
    named = ", ".join(moved[:3])
    more = f" and {counted(len(moved) - 3, 'more', 'more')}" if len(moved) > 3 else ""  # noqa: PLR2004 - as named
    return f"{pair}: {named}{more} really moved"
