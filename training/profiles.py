"""Inferred resource utilisation profiles: which stressors explain an application's performance (seed 003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.trust import Trust


@dataclass(frozen=True)
class Profile:
    """An inferred resource utilisation profile (IRUP).

    Attributes
    ----------
    application, metric, better : str
    method : str
        How the importances were computed.
    features : DataFrame
        One row per stressor, most important first: ``stressor, importance`` (most important = 100), ``low,
        high`` (interval over the bootstrap), ``permutation`` (growth of the error on held-out CPU models when
        the stressor is shuffled, most important = 100), ``cluster`` (int, of correlated stressors),
        ``categories`` (of table 1, comma-separated).
    clusters : DataFrame
        One row per cluster of correlated stressors: ``cluster, stressors`` (comma-separated), ``importance,
        low, high`` (most important = 100).
    categories : DataFrame
        One row per category of table 1: ``category, importance, low, high`` (most important = 100).
    trust : Trust
    columns : tuple of str
        The stressors in the order of ``shares`` and ``resamples``.
    machines : tuple of str
        The machines that were learned from, sorted.
    shares : ndarray of shape (n_columns,)
        The importances before scaling; they add up to 1.
    resamples : ndarray of shape (n_resamples, n_columns)
        The shares in each bootstrap resample. A machine has the same weight in resample i of every profile
        with the same seed, so that profiles which share machines are compared in pairs.
    """

    application: str
    metric: str
    better: str
    method: str
    features: pd.DataFrame
    clusters: pd.DataFrame
    categories: pd.DataFrame
    trust: Trust
    columns: tuple[str, ...]
    machines: tuple[str, ...]
    shares: NDArray[np.float64]
    resamples: NDArray[np.float64]

    @property
    def top(self) -> tuple[str, ...]:
        """The five most important stressors."""
        return tuple(self.features["stressor"].head(5))
