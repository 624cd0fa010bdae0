"""What stands between a model's word and the verdict: the same in evaluation, promotion and serving."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from training.comparisons.examples import FeatureTable

Floats = NDArray[np.float64]

#: Shares that differ by less than this are the same: 30.15 is 0.5 % above 30.
_SAME = 1e-9


def below_floor(worst_change: Floats, floor: float) -> NDArray[np.bool_]:
    """Return where no median got worse by as much as may be called a regression.

    Parameters
    ----------
    worst_change : ndarray of shape (n_comparisons,)
        As `features.comparisons.asked.Asked` has it: negative is worse.
    floor : float
        As a share of the baseline's median; 0 = there is no floor.
    """
    if floor == 0:
        return np.zeros(len(worst_change), bool)
    return np.asarray(worst_change > -floor + _SAME)


def decided(probability: Floats, worst_change: Floats, floor: float) -> Floats:
    """Return the probability of ``fail`` that counts: 0 below the floor, else the model's."""
    return np.where(below_floor(worst_change, floor), 0.0, probability)


@dataclass(frozen=True)
class AskedTable:
    """What models are asked about the comparisons of a `FeatureTable`, a row each and in its order.

    Attributes
    ----------
    frame : DataFrame
        All features, computed without wild samples.
    worst_change : ndarray of shape (n_comparisons,)
    """

    frame: pd.DataFrame
    worst_change: Floats

    @classmethod
    def read(cls, path: Path, table: FeatureTable) -> AskedTable:
        """Read what the stage featurize wrote beside the features.

        Raises
        ------
        InputError
            If the file is missing, or holds other comparisons or features than `table`.
        """
        if not path.is_file():
            raise InputError("no such file; run featurize first", file=path)
        frame = pd.read_parquet(path)
        if missing := {"comparison_id", "worst_change", *table.columns} - set(frame.columns):
            raise InputError(f"lacks the column {min(missing)!r}", file=path)
        if frame["comparison_id"].tolist() != table.frame["comparison_id"].tolist():
            raise InputError("holds other comparisons than the features; run featurize again", file=path)
        return cls(frame, frame["worst_change"].to_numpy(np.float64))
