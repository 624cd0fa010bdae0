"""Vectors beside those of labelled comparisons: of what nobody has labelled, and of what a champion knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from data.comparisons.stages import validate
from data.comparisons.tables import ComparisonTables

#: What the shipped champion has learnt from.
SHIPPED = Path("data/raw/measured")
Featurize = Callable[[ComparisonTables, pd.DataFrame], dict[str, pd.DataFrame]]


def unlabelled(tables: ComparisonTables, valid: pd.DataFrame, featurize: Featurize) -> pd.DataFrame:
    """Return the vectors of valid comparisons without a status."""
    named = valid.assign(status=valid["status"].isna().map({True: "unlabelled", False: None}))
    return featurize(tables, named)["features"]


def shipped(own: pd.DataFrame, featurize: Featurize, directory: Path = SHIPPED) -> pd.DataFrame:
    """Return the labelled vectors that the shipped champion has learnt from.

    Parameters
    ----------
    own : DataFrame
        The features of the comparisons that are learned from anyway; what shares an operation with them is
        left out, so that no fold tests what it was trained on.
    featurize : callable
        As `features.comparisons.vectors.featurize`.
    directory : Path
        Of its tables.

    Raises
    ------
    InputError
        If the tables are missing.
    """
    tables = ComparisonTables.read(directory)
    found = featurize(tables, validate(tables).comparisons)["features"]
    return found[~found["fold_group"].isin(own["fold_group"])].reset_index(drop=True)
