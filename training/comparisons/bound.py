"""The family ``comparisons``: vectors of the features package, and fixed rules as opponents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from data.comparisons.params import Comparisons
from data.params import load
from training.comparisons.family import Family

if TYPE_CHECKING:
    import pandas as pd


def bound(root: Path = Path()) -> Family:
    """Bind the family to the params.yaml of the working directory and to its files under `root`."""
    params = load(Comparisons)
    section = params.section

    def columns() -> tuple[str, ...]:
        from features.comparisons.vectors import columns

        return columns(section.featurize.set)

    def rules() -> pd.DataFrame:
        import pandas as pd

        from data.comparisons.sides import Sides
        from data.comparisons.tables import ComparisonTables
        from training.comparisons.rules import RULES

        tables = ComparisonTables.read(made.places.interim)
        sides = Sides.of(tables)
        index = pd.Index(tables.comparisons["comparison_id"])
        return pd.DataFrame({rule.name: rule.decide(sides) for rule in RULES}, index=index)

    made = Family("comparisons", params, columns, rules, root)
    return made
