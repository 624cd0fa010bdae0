"""Two profiles side by side, with what the test says of each stressor: figures 11, 13 and 14 of seed 003."""

from __future__ import annotations

from dataclasses import dataclass

from serving.pages.charts import counted
from training.fingerprints.differences import Difference

#: Stressors that are open to be seen: the ones that changed most.
SHOWN = 8


@dataclass(frozen=True)
class Change:
    """One stressor in both profiles; importances have the most important = 100."""

    name: str
    before: float
    after: float
    p_value: float
    moved: bool

    @property
    def change(self) -> float:
        """After - before."""
        return self.after - self.before


@dataclass(frozen=True)
class Changes:
    """The difference of two profiles as a page shows it."""

    anchor: str
    number: str
    title: str
    difference: Difference
    top: list[Change]
    rest: list[Change]

    @property
    def seed_verdict(self) -> str:
        """What the algorithm of section 5.3 says."""
        stops, tolerance = self.difference.stops_at, self.difference.tolerance
        if stops is None:
            return f"walks to the end with a tolerance of {tolerance:g}: equivalent"
        return f"stops at {stops} with a tolerance of {tolerance:g}: not equivalent"


def changes(anchor: str, difference: Difference, number: str = "") -> Changes:
    """Prepare `difference` for the page."""
    every = [
        Change(
            str(row["stressor"]),
            float(row["importance_a"]),
            float(row["importance_b"]),
            float(row["p_value"]),
            bool(row["moved"]),
        )
        for row in difference.features.to_dict("records")
    ]
    return Changes(anchor, number, title(difference), difference, every[:SHOWN], every[SHOWN:])


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
