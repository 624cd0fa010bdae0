"""Forms: what of a pair of matrices a classifier sees (seed 001, section 4.5, and one beyond it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrix_tables import MatrixTables

Floats = NDArray[np.float64]

ABOUT = ("run_id", "pair_id", "workload", "group", "side")


@dataclass(frozen=True)
class Rows:
    """What a classifier sees.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_columns)
        Finite.
    columns : tuple of str
    about : DataFrame
        ``run_id, pair_id, workload, group, side``, row by row; a form of one row per pair has the first
        target run's.
    y : ndarray of shape (n_rows,)
        1 is abnormal, 0 normal; NaN where nobody has said.
    beside : int
        So many columns at the end are no metrics, and are not projected.
    """

    x: Floats
    columns: tuple[str, ...]
    about: pd.DataFrame
    y: Floats
    beside: int = 0


@dataclass(frozen=True)
class Known:
    """What forms know from the training tables, and from nothing else: see `known`."""

    metrics: tuple[str, ...]
    middles: Floats


Form = Callable[[MatrixTables, Known], Rows]


def known(tables: MatrixTables, metrics: list[str]) -> Known:
    """Learn what the forms need from training tables."""
    raise NotImplementedError


def flattened(tables: MatrixTables, known: Known) -> Rows:
    """Make a row of each run; baselines are normal."""
    raise NotImplementedError


def concatenated(tables: MatrixTables, known: Known) -> Rows:
    """Put each target run beside the baseline run of the same number; columns: baseline's, then target's."""
    raise NotImplementedError


def subtracted(tables: MatrixTables, known: Known) -> Rows:
    """Make a row of each target run: its deviation from the baseline run of the same number, in per cent."""
    raise NotImplementedError


def contrasted(tables: MatrixTables, known: Known) -> Rows:
    """Make a row of each pair: how the middles of its matrices differ, in units of the metrics' noise."""
    raise NotImplementedError


FORMS: dict[str, Form] = {
    "flattened": flattened,
    "concatenated": concatenated,
    "subtracted": subtracted,
    "contrasted": contrasted,
}
