"""A model that is ready to answer: from plain arrays where that is possible, else from its pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from training.comparisons.stored import Card, TrainedModel
from training.estimators import frozen
from training.estimators.answering import Answering, Fitted, Floats, Unit
from training.registry.stored import MODEL, beside_model, require_width


@dataclass(frozen=True)
class ReadyModel:
    """What answers, and its card."""

    answering: Answering
    card: Card

    @classmethod
    def of(cls, model: TrainedModel) -> ReadyModel:
        """Make a trained model ready."""
        return cls(frozen.freeze(model.model) or Fitted(model.model), model.card)

    @classmethod
    def read(cls, directory: Path) -> ReadyModel:
        """Read what `TrainedModel.write` wrote; the pipeline itself only if ``model.npz`` does not serve.

        Raises
        ------
        InputError
            As `TrainedModel.read`.
        """
        arrays = frozen.read(beside_model(directory, frozen.FILE), directory / MODEL)
        if arrays is None:
            return cls.of(TrainedModel.read(directory))
        card = Card.read(directory)
        require_width(directory, card.features, len(arrays.fill))
        return cls(arrays, card)

    @property
    def unit(self) -> Unit:
        """The unit of `contributions`."""
        return self.answering.unit

    def probability(self, features: pd.DataFrame) -> Floats:
        """Return the probability of ``fail``, shape (n_comparisons,).

        Parameters
        ----------
        features : DataFrame
            At least the card's columns, one row per comparison.
        """
        return self.answering.probability(self._columns(features))

    def contributions(self, features: pd.DataFrame) -> Floats:
        """Say what each feature contributes to the probability of ``fail``: positive = towards fail.

        Linear models: coefficient x deviation from the card's reference (log-odds). XGBoost: its own
        exact contributions (log-odds). Trees and forests: the change of probability along the path
        that the comparison takes. Any other model: how much the probability falls when that one feature
        is replaced by its reference.

        Parameters
        ----------
        features : DataFrame
            At least the card's columns, one row per comparison.

        Returns
        -------
        ndarray of shape (n_comparisons, n_features)
            Columns as in the card.
        """
        reference = np.array([self.card.reference[name] for name in self.card.features], np.float64)
        return self.answering.contributions(self._columns(features), reference)

    def _columns(self, features: pd.DataFrame) -> Floats:
        return features[list(self.card.features)].to_numpy(np.float64)
