"""The comparative analysis engine (seed 001, section 5): five remedies, each of which can be left out."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from data.matrix_tables import MatrixTables


@dataclass(frozen=True)
class Scheme:
    """Which remedies are taken: a row of the ablation.

    Attributes
    ----------
    metrics : "summary" or "raw"
        Section 4.2.
    form : str
        A name in `features.matrices.FORMS`; section 4.5.
    prune : bool
        Whether invalid runs are left out of training; section 4.1. If not, they carry their matrix's label.
    grouping : "none", "given" or "automatic"
        Section 4.3.
    components : int or None
        The projection has at most so many components, searched; None: no projection. Section 4.2.
    balance : bool
        Whether cost ratio, resampling rate and threshold are searched; section 4.4.
    tuned : bool
        Whether the classifier's own parameters are searched too; beyond the seed.
    """

    metrics: str
    form: str
    prune: bool
    grouping: str
    components: int | None
    balance: bool
    tuned: bool = False


NAIVE = Scheme("summary", "flattened", prune=False, grouping="none", components=None, balance=False)
FULL = Scheme(
    "raw", "contrasted", prune=True, grouping="given", components=100, balance=True, tuned=True
)


@dataclass(frozen=True)
class Engine:
    """An engine to be fitted.

    Attributes
    ----------
    scheme : Scheme
    model : str
        A name in `training.matrix_models.CATALOGUE`.
    trials : int
        Of the search.
    seed : int
    """

    scheme: Scheme
    model: str
    trials: int
    seed: int

    def fit(self, tables: MatrixTables) -> FittedEngine:
        """Learn from `tables`; everything is tuned inside them."""
        raise NotImplementedError


@dataclass(frozen=True)
class FittedEngine:
    """An engine that answers."""

    scheme: Scheme

    def judged(self, tables: MatrixTables) -> pd.DataFrame:
        """Judge every pair that has a baseline and a target.

        Returns
        -------
        DataFrame
            ``pair_id, workload, group, group_used, probability, threshold, abnormal``, in the order of the
            pairs; ``group_used`` is "fallback" where the group is unknown or has too few abnormal cases.
        """
        raise NotImplementedError

    def vectors(self, tables: MatrixTables) -> pd.DataFrame:
        """Judge every vector.

        Returns
        -------
        DataFrame
            ``run_id, pair_id, workload, group, side, probability, threshold, abnormal``: a row per vector
            that the form makes; under ``contrasted`` every target run takes its pair's.
        """
        raise NotImplementedError

    def drivers(self, tables: MatrixTables, pair_id: str, n: int = 5) -> pd.DataFrame:
        """Name the metrics that moved the verdict of one pair most.

        Returns
        -------
        DataFrame
            ``metric, baseline, target, contribution``: medians of both sides, and by how much the log-odds of
            abnormal rise by this metric.
        """
        raise NotImplementedError
