"""The family ``comparisons``: where its files lie, its features, and fixed rules as opponents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data.comparisons.params import Comparisons
from data.params import Params, load
from data.places import Places

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Family:
    """What the stages need to know of a family.

    Attributes
    ----------
    params : Params
        What holds for all families, and its own section.
    columns : callable
        Returns the features that the models see.
    rules : callable
        Returns the fixed rules' verdicts: a boolean column per rule (True is fail), indexed by
        ``comparison_id``.
    root : Path
        The project's directory.
    """

    params: Params[Comparisons]
    columns: Callable[[], tuple[str, ...]]
    rules: Callable[[], pd.DataFrame]
    root: Path = Path()
    name = "comparisons"

    @property
    def section(self) -> Comparisons:
        """Its own section of params.yaml."""
        return self.params.section

    @property
    def places(self) -> Places:
        """Where its files lie."""
        return Places(self.name, self.root)

    @property
    def features(self) -> Path:
        """The table of labelled vectors."""
        return self.places.processed / "features.parquet"

    @property
    def changes(self) -> Path:
        """The table of how far the medians of the same comparisons moved."""
        return self.places.processed / "changes.parquet"

    @property
    def bare(self) -> Path:
        """The vectors of the same comparisons as if nothing were known of earlier versions."""
        return self.places.processed / "bare.parquet"

    @property
    def runs(self) -> Path:
        """What runs of one build differ by in these comparisons."""
        return self.places.processed / "runs.parquet"


def bound() -> Family:
    """Bind the family to the params.yaml of the working directory and to its files there."""
    params = load(Comparisons)

    def columns() -> tuple[str, ...]:
        from features.comparisons.vectors import columns

        return columns(params.section.featurize.set)

    return Family(params, columns, lambda: _rules(Places(Family.name)))


def _rules(places: Places) -> pd.DataFrame:
    import pandas as pd

    from data.comparisons.sides import Sides
    from data.comparisons.tables import ComparisonTables
    from training.comparisons.rules import RULES

    tables = ComparisonTables.read(places.interim)
    sides, index = Sides.of(tables).normalized, pd.Index(tables.comparisons["comparison_id"])
    return pd.DataFrame({name: decide(sides) for name, decide in RULES.items()}, index=index)
