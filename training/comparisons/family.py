"""A family of models: where its files lie, and which of its table's columns are features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data.comparisons.params import Comparisons
from data.params import Params
from data.places import Places

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Family:
    """What the stages need to know of a family.

    Attributes
    ----------
    name : str
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

    name: str
    params: Params[Comparisons]
    columns: Callable[[], tuple[str, ...]]
    rules: Callable[[], pd.DataFrame]
    root: Path = Path()

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
