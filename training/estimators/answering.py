"""What answers: arrays of features in, the probability of ``fail`` and its reasons out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Unit = Literal["log-odds", "probability"]


class Answering(Protocol):
    """A fitted model. Its features are columns, in the order of its card."""

    @property
    def unit(self) -> Unit:
        """The unit of its contributions."""

    def probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``, shape (n_rows,).

        Parameters
        ----------
        columns : ndarray of shape (n_rows, n_features)
            NaN where a feature cannot be known.
        """

    def contributions(self, columns: Floats, reference: Floats) -> Floats:
        """Say what each feature contributes; positive = towards fail.

        Parameters
        ----------
        columns : ndarray of shape (n_rows, n_features)
            NaN where a feature cannot be known.
        reference : ndarray of shape (n_features,)
            An ordinary comparison.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
        """


@dataclass(frozen=True)
class Fitted:
    """A pipeline of scikit-learn that answers itself, whatever its classifier.

    Contributions: XGBoost gives its own exact ones, in log-odds. Of any other model it is how much the
    probability falls when that one feature is replaced by its reference.
    """

    pipeline: Any

    @property
    def unit(self) -> Unit:
        """The unit of its contributions."""
        return "log-odds" if self._boosting() else "probability"

    def probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``; see `Answering`."""
        return np.asarray(self.pipeline.predict_proba(columns)[:, 1], np.float64)

    def contributions(self, columns: Floats, reference: Floats) -> Floats:
        """Say what each feature contributes; see `Answering`."""
        return self._of_boosting(columns) if self._boosting() else self._occlusion(columns, reference)

    def _boosting(self) -> bool:
        return hasattr(self.pipeline[-1], "get_booster")

    def _of_boosting(self, columns: Floats) -> Floats:
        import xgboost

        prepared = xgboost.DMatrix(self.pipeline[:-1].transform(columns))
        found = self.pipeline[-1].get_booster().predict(prepared, pred_contribs=True)
        return np.asarray(found, np.float64)[:, :-1]

    def _occlusion(self, columns: Floats, reference: Floats) -> Floats:
        full = self.probability(columns)
        values = np.empty_like(columns)
        for feature in range(columns.shape[1]):
            without = columns.copy()
            without[:, feature] = reference[feature]
            values[:, feature] = full - self.probability(without)
        return values
