"""A trained model of comparisons as it lies on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.comparisons.params import FeatureSet
from features.comparisons.runs import ORDINARY
from features.comparisons.vectors import set_of
from training.estimators import frozen
from training.estimators.novelty import Strangeness
from training.evaluation.calibration import CalibrationMap
from training.evaluation.cuts import Cuts, Wish, cuts_for
from training.evaluation.promise import Promise
from training.registry.deciles import Deciles
from training.registry.stored import StoredCard, StoredModel, require_width, store

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Card(StoredCard):
    """What must be known beside the pipeline to use it, and to judge what it is worth.

    Attributes
    ----------
    model : str
        Its name in the catalogue, for example ``random-forest``.
    features : tuple of str
        The columns that the pipeline takes, in this order.
    threshold : float
        ``fail`` from this probability on; chosen inside the training data.
    params : dict
        What the search chose.
    reference : dict of str to float
        The median of every feature over the training comparisons that passed: what a reason is measured from.
    data_digest : str
        SHA-256 of the training table.
    seed : int
        The seed of search and fit.
    floor : float
        The smallest change of a median that may be called a regression, as a share of the baseline's.
    usual : dict of str to Deciles
        What every feature held in the training rows that are not below the floor; empty in older cards.
    calibration : CalibrationMap or None
        From the model's own probability to the one that is told, which thresholds are about; None: they are
        the same, as in older cards.
    beneath : float
        How much of that counts below the floor, from where models don't learn; 1 in older cards.
    promise : Promise or None
        What may be missed, and the cuts that keep it; None in older cards.
    cuts : Cuts or None
        Between which verdicts are ``unsure``; None: ``fail`` from the threshold on, else ``pass``.
    wish : Wish
        What these cuts were chosen for.
    run_spread : float
        What two runs of one build differ by, as a share, where a comparison has no versions that tell.
    strangeness : Strangeness or None
        How many comparisons like the training data are said to be unlike it.
    """

    model: str
    features: tuple[str, ...]
    threshold: FiniteFloat
    params: dict[str, Any]
    reference: dict[str, FiniteFloat]
    data_digest: str
    seed: int
    #: Cards of before there was one have that of `data.params.Decide`, too.
    floor: float = 0.005
    usual: dict[str, Deciles] = field(default_factory=dict)
    calibration: CalibrationMap | None = None
    beneath: FiniteFloat = 1.0
    promise: Promise | None = None
    cuts: Cuts | None = None
    wish: Wish = field(default_factory=Wish)
    run_spread: FiniteFloat = ORDINARY
    strangeness: Strangeness | None = None

    @property
    def deciding(self) -> Cuts:
        """Between which probabilities verdicts are ``unsure``."""
        return self.cuts or Cuts(self.threshold, self.threshold)

    def told(self, probability: Floats) -> Floats:
        """Return what is told where the model says `probability`."""
        return probability if self.calibration is None else self.calibration.of(probability)

    def wishing(self, wish: Wish) -> Card:
        """Return the card that decides as `wish` has it; InputError if the promise says nothing of that."""
        return replace(self, cuts=cuts_for(self.promise, self.threshold, wish), wish=wish)

    @property
    def set(self) -> FeatureSet:
        """Which set of features it sees."""
        return set_of(self.features)

    def __post_init__(self) -> None:
        """Refuse a card whose parts don't belong together."""
        lost = [name for name in self.features if name not in self.reference]
        if lost:
            raise ValueError(f'reference lacks "{lost[0]}"')


@dataclass(frozen=True)
class TrainedModel(StoredModel[Card]):
    """A fitted pipeline and its card."""

    CARD = Card

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`, and ``model.npz`` if arrays can answer."""
        stored, arrays = store(directory, self.model, self.card), frozen.freeze(self.model)
        if arrays is not None:
            frozen.write(directory / frozen.FILE, arrays, stored)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what `write` wrote; errors as of `training.registry.stored.StoredModel.read`."""
        read = super().read(directory)
        require_width(directory, read.card.features, getattr(read.model, "n_features_in_", None))
        return read
