"""The page that lists timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.comparisons.timelines.payload import link
from serving.pages.render import render


@dataclass(frozen=True)
class ListedReport:
    """A timeline in the list.

    Attributes
    ----------
    file : str
        Its path beside the list, with slashes.
    fails, changes, unstable : int
        How many operations have a version judged fail, a lasting change, or too much noise.
    """

    file: str
    title: str
    machine: str
    versions: int
    operations: int
    fails: int
    changes: int
    unstable: int

    @property
    def href(self) -> str:
        """Its quoted, relative reference."""
        return link(self.file)


def contents(listed: Sequence[ListedReport]) -> str:
    """Return the list as one HTML text without scripts; where most has to be looked at comes first."""
    ordered = sorted(
        listed, key=lambda one: (-one.fails, -one.changes, -one.unstable, one.title, one.machine)
    )
    return render("timelines/contents.html", listed=ordered)
