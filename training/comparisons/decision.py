"""What stands between a model's word and the verdict: the same in evaluation, promotion and serving."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.specs import read_table
from training.comparisons.examples import Examples, FeatureTable
from training.comparisons.family import Family
from training.evaluation.thresholds import Cuts

Floats = NDArray[np.float64]

#: Shares that differ by less than this are the same: 30.15 is 0.5 % above 30.
SAME = 1e-9


def below_floor(worst_change: Floats, floor: float) -> NDArray[np.bool_]:
    """Return where no median got worse by as much as may be called a regression.

    Parameters
    ----------
    worst_change : ndarray of shape (n_comparisons,)
        As `features.comparisons.prepared.Asked` has it: negative is worse.
    floor : float
        As a share of the baseline's median; 0 = there is no floor.
    """
    if floor == 0:
        return np.zeros(len(worst_change), bool)
    return np.asarray(worst_change > -floor + SAME)


def decided(probability: Floats, worst_change: Floats, floor: float) -> Floats:
    """Return the probability of ``fail`` that counts: 0 below the floor, else the model's."""
    return np.where(below_floor(worst_change, floor), 0.0, probability)


def discounted(told: Floats, below: NDArray[np.bool_], beneath: float) -> Floats:
    """Return calibrated probabilities, and so much of those below the floor, from where no model learns."""
    return np.where(below, beneath * told, told)


def examples_of(family: Family, table: FeatureTable) -> Examples:
    """Return the labelled rows of `table`, where a model is asked, and what they are without versions.

    Raises
    ------
    InputError
        If a file beside the features is missing, or holds other comparisons.
    """
    floor, bare = family.section.decide.floor or 0.0, FeatureTable.read(family.bare, table.columns)
    without = replace(bare.examples, below=below_floor(read_changes(family.bare, table), floor))
    below = below_floor(read_changes(family.changes, table), floor)
    return replace(table.examples, below=below, bare=without)


def verdicts(cuts: Cuts, told: Floats, below: NDArray[np.bool_], *, beneath: bool) -> NDArray[np.str_]:
    """Return the verdicts; nothing fails below the floor.

    Parameters
    ----------
    cuts : Cuts
    told : ndarray of shape (n_comparisons,)
        Calibrated probabilities.
    below : ndarray of bool, shape (n_comparisons,)
        Which lie below the floor.
    beneath : bool
        Whether these may be ``unsure``; see `training.evaluation.thresholds.Wish`.
    """
    said = cuts.answers(told)
    doubted = (said != "pass") & beneath
    return np.where(below, np.where(doubted, "unsure", "pass"), said)


def read_changes(path: Path, table: FeatureTable) -> Floats:
    """Read what the stage featurize wrote beside the features: the ``worst_change`` of its comparisons.

    Returns
    -------
    ndarray of shape (n_comparisons,)
        In the order of `table`.

    Raises
    ------
    InputError
        If the file is missing, or holds other comparisons than `table`.
    """
    frame = read_table(path, {"comparison_id": "str", "worst_change": "float64"})
    if frame["comparison_id"].tolist() != table.frame["comparison_id"].tolist():
        raise InputError("holds other comparisons than the features; run featurize again", file=path)
    return frame["worst_change"].to_numpy(np.float64)
