"""What lies beside the table of labelled vectors: what a champion has learnt from, and unlabelled rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from data.tables.digest import digest_of
from data.tables.specs import read_table
from training.comparisons.examples import Examples, FeatureTable
from training.comparisons.labels.few import Learnable

#: By the file that featurize writes.
START, UNLABELLED = "start.parquet", "unlabelled.parquet"


def known_of(features: Path, table: FeatureTable, own: Examples, *, unlabelled: bool = False) -> Learnable:
    """Return all that there is to learn from.

    Parameters
    ----------
    features : Path
        The file of `table`; the others lie beside it, or not.
    table : FeatureTable
    own : Examples
        Of `table`.
    unlabelled : bool
        Whether what nobody has labelled counts.

    Raises
    ------
    InputError
        If one of them lacks a feature.
    """
    start, others = features.with_name(START), features.with_name(UNLABELLED)
    first = FeatureTable.read(start, table.columns).examples if start.is_file() else None
    wanted = dict.fromkeys(table.columns, "float64")
    counted = unlabelled and others.is_file()
    rest = read_table(others, wanted)[[*wanted]].to_numpy(np.float64) if counted else None
    return Learnable(own, first if first is not None and len(first.y) else None, rest)


def digest_beside(features: Path, table: FeatureTable) -> str:
    """Return what searches depend on: the digest of `table`, and of what models start from, if they do."""
    start = features.with_name(START)
    return f"{digest_of(start)[:6]}{table.digest}" if start.is_file() else table.digest
