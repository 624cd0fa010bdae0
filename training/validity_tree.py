"""The learned validation of seed 001, section 4.1: a decision tree that tells invalid runs, and its path."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from data.matrix_tables import MatrixTables


@dataclass(frozen=True)
class ValidityTree:
    """A fitted tree."""

    @classmethod
    def fit(cls, tables: MatrixTables, seed: int) -> ValidityTree:
        """Learn from the flags ``valid``; runs without one are left out."""
        raise NotImplementedError

    def judged(self, tables: MatrixTables) -> pd.DataFrame:
        """Judge every run.

        Returns
        -------
        DataFrame
            ``run_id, pair_id, side, probability, invalid, path``, row by row as the table of runs; ``path``
            is the way through the tree in words, empty where the run is valid.
        """
        raise NotImplementedError
