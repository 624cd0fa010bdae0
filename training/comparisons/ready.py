"""A model that is ready to answer: from plain arrays where that is possible, else from its pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import FeatureSet
from data.comparisons.sides import Sides
from data.errors import InputError
from features.comparisons.asked import Asked
from features.comparisons.copies import without_copies
from features.comparisons.vectors import computed, described, vectors
from features.comparisons.wild import NOTHING, without_wild
from training.comparisons.decision import below_floor, decided, discounted, verdicts
from training.comparisons.precedents import Precedents
from training.comparisons.stored import Card, TrainedModel
from training.estimators import frozen
from training.estimators.answering import Answering, Fitted, Floats, Unit, model_answering, require_finite
from training.estimators.boosted import boosted
from training.registry.stored import MODEL, beside_model, require_width


@dataclass(frozen=True)
class ReadyModel:
    """What answers, its card, and the labelled comparisons beside it; None beside models that have none."""

    answering: Answering
    card: Card
    precedents: Precedents | None = None

    @classmethod
    def of(cls, model: TrainedModel) -> ReadyModel:
        """Make a trained model ready."""
        pipeline = model.model
        return cls(frozen.freeze(pipeline) or boosted(pipeline) or Fitted(pipeline), model.card)

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
            found = cls.of(TrainedModel.read(directory))
        else:
            found = cls(arrays, Card.read(directory))
            require_width(directory, found.card.features, len(arrays.fill))
        return replace(found, precedents=Precedents.read(directory, found.card.features))

    def judged(self, sides: Sides) -> Floats:
        """Return the probability of ``fail`` that counts of every comparison, shape (n_comparisons,)."""
        return self.decided(without_wild(without_copies(sides))[0])

    def decided(self, sides: Sides) -> Floats:
        """Return the same of comparisons without copies and wild samples."""
        probability, change = self._compared(sides)
        return decided(probability, change, self.card.floor)

    def verdicts(self, sides: Sides) -> NDArray[np.str_]:
        """Return the verdicts on such comparisons."""
        probability, change = self._compared(sides)
        below = below_floor(change, self.card.floor)
        told = discounted(probability, below, self.card.beneath)
        return verdicts(self.card.deciding, told, below, beneath=self.card.wish.beneath)

    def _compared(self, sides: Sides) -> tuple[Floats, Floats]:
        """Return what the model says, and the worst change of the medians."""
        asked = Asked.compared(sides, NOTHING, self.card.run_spread)
        found = vectors(asked.sides, self.computed, steps=asked.steps)
        return self.probability(self.asked(found)), asked.worst_change

    @property
    def unit(self) -> Unit:
        """The unit of `contributions`."""
        return self.answering.unit

    def asked(self, vectors: Floats) -> Floats:
        """Return what the model is asked.

        Parameters
        ----------
        vectors : ndarray of shape (n_comparisons, n_all_features)
            As `features.comparisons.vectors` gives those of the set `computed`.

        Returns
        -------
        ndarray of shape (n_comparisons, n_features)
            Columns as in the card.

        Raises
        ------
        InputError
            If a feature of the card is no longer computed.
        """
        return vectors[:, self._places]

    def answers(self, asked: Floats) -> tuple[Floats, Floats]:
        """Give the calibrated probability of ``fail``, and say what each feature contributes to the raw one.

        A positive contribution is one towards fail. Linear models: coefficient x deviation from the card's
        reference (log-odds). XGBoost: exact Shapley values (log-odds). Trees and forests: the change
        of probability along the path that the comparison takes. Any other model: how much the probability
        falls when that one feature is replaced by its reference.

        Parameters
        ----------
        asked : ndarray of shape (n_comparisons, n_features)
            Columns as in the card.

        Returns
        -------
        probability : ndarray of shape (n_comparisons,)
        contributions : ndarray of shape (n_comparisons, n_features)

        Raises
        ------
        ModelError
            If a number of them is not finite.
        """
        with model_answering(self.card.model):
            raw, contributions = self.answering.answers(asked, self.reference)
            probability = self._told(raw, asked)
        require_finite(self.card.model, "probability", probability)
        require_finite(self.card.model, "contribution", contributions)
        return probability, contributions

    def probability(self, asked: Floats) -> Floats:
        """Give the first of `answers` alone; ModelError if a number is not finite."""
        with model_answering(self.card.model):
            probability = self._told(self.answering.probability(asked), asked)
        require_finite(self.card.model, "probability", probability)
        return probability

    def _told(self, raw: Floats, asked: Floats) -> Floats:
        # what is scarce among the training rows is calibrated by what is not: evidence counts again
        if self.card.calibration is None:
            return raw
        return self.answering.assured(self.card.told(raw), asked)

    @cached_property
    def computed(self) -> FeatureSet:
        """The set of features that it takes to ask it."""
        return computed(self.card.set)

    @cached_property
    def reference(self) -> Floats:
        """What the card says of an ordinary comparison, shape (n_features,)."""
        return np.array([self.card.reference[name] for name in self.card.features], np.float64)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        known = described(self.computed)
        for name in self.card.features:
            if name not in known:
                raise InputError(f"the feature {name!r} is no longer computed")
        return np.array([known.index(name) for name in self.card.features], np.intp)
