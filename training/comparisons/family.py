"""A family of models: where its files lie, and which of its table's columns are features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data.params import Comparisons, Params

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Family:
    """What the stages need to know of a family.

    Attributes
    ----------
    name : str
    params : Params
        All of params.yaml.
    section : Comparisons
        The family's own section.
    columns : callable
        Returns the features that the models see.
    rules : callable
        Returns the fixed rules' verdicts: a boolean column per rule (True is fail), indexed by
        ``comparison_id``.
    root : Path
        The project's directory.
    """

    name: str
    params: Params
    section: Comparisons
    columns: Callable[[], tuple[str, ...]]
    rules: Callable[[], pd.DataFrame]
    root: Path = Path()

    @property
    def features(self) -> Path:
        """The table of labelled vectors."""
        return self.root / "data" / "processed" / self.name / "features.parquet"

    @property
    def asked(self) -> Path:
        """The table of what models are asked about the same comparisons."""
        return self.features.with_name("asked.parquet")

    @property
    def interim(self) -> Path:
        """The directory of results, comparisons and labels."""
        return self.root / "data" / "interim" / self.name

    @property
    def tuned(self) -> Path:
        """The directory of what the searches tried and chose."""
        return self.root / "models" / "tuned" / self.name

    @property
    def models(self) -> Path:
        """The directory of trained models, a directory each."""
        return self.root / "models" / self.name

    @property
    def reports(self) -> Path:
        """The directory of metrics and verdicts."""
        return self.root / "reports" / self.name

    @property
    def studies(self) -> Path:
        """Where searches keep their trials."""
        return self.root / ".studies" / self.name
