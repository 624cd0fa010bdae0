"""A trained model of comparisons as it lies on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.comparisons.params import FeatureSet
from data.comparisons.sides import Sides
from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from features.comparisons.history import ORDINARY
from features.comparisons.outliers import NOTHING, without_copies, without_wild
from features.comparisons.vectors import PreparedComparisons, computed, described, set_of, vectors
from training.estimators import compiled_pipeline, out_of_distribution
from training.estimators.answering import (
    Answering,
    CalibrationMap,
    Fitted,
    Floats,
    Unit,
    model_answering,
    require_finite,
)
from training.estimators.boosted_trees import boosted
from training.estimators.compiled_pipeline import belongs, write_arrays
from training.estimators.out_of_distribution import Familiar, OutOfDistributionScore
from training.evaluation.thresholds import (
    DecisionPolicy,
    DecisionThresholds,
    RiskGuarantee,
    below_floor,
    cuts_for,
    decided,
    discounted,
    verdicts,
)
from training.registry.stored import (
    MODEL,
    Deciles,
    StoredCard,
    StoredModel,
    beside_model,
    require_width,
    store,
)

Texts = NDArray[np.str_]
#: The file beside ``model.skops``, and the version of its content; another one is not read.
FILE, VERSION = "examples.npz", 2
#: Features that together carry this share of the model's importance make two comparisons alike.
_CARRIED = 0.95
#: The two labels, in the order in which `Precedents.nearest` has them.
LABELS = ("pass", "fail")
_TEXTS = ("identifiers", "benchmarks", "operations", "statuses", "labelled_by", "labelled_at")
_SPECS = {
    **dict.fromkeys(_TEXTS, ArraySpec("U", ("examples",))),
    "rows": ArraySpec("f", ("examples", "features"), finite=False),
    "weights": ArraySpec("f", ("features",)),
    "prior": ArraySpec("f", (2,)),
}


@dataclass(frozen=True)
class Precedents:
    """Labelled comparisons, those that passed before those that failed."""

    #: identifiers, benchmarks, operations, statuses: shape (n_examples,)
    identifiers: Texts
    benchmarks: Texts
    operations: Texts
    statuses: Texts
    #: labelled_by, labelled_at: shape (n_examples,): Who labelled it, and when (ISO 8601); empty where that
    #: is not known.
    labelled_by: Texts
    labelled_at: Texts
    rows: Floats  # shape (n_examples, n_features): Their features, in the order of the model's card
    weights: Floats  # shape (n_features,): The model's own importance of every feature; they sum to 1
    #: Shape (2,): How far medians differ in training comparisons that passed, as shares: the middle one, and
    #: what 19 of 20 stay below.
    prior: Floats
    familiar: Familiar  # what the training comparisons look like

    def write(self, directory: Path) -> None:
        """Write ``examples.npz`` beside the ``model.skops`` of `directory`."""
        own = {name: getattr(self, name) for name in _SPECS}
        known = {name: getattr(self.familiar, name) for name in out_of_distribution.SPECS}
        write_arrays(directory / FILE, VERSION, directory / MODEL, own | known)

    @classmethod
    def read(cls, directory: Path, features: tuple[str, ...]) -> Self | None:
        """Read what `write` wrote, without pickle.

        Returns
        -------
        Precedents or None
            None if there is no such file, or it is of another version or another model.

        Raises
        ------
        InputError
            If the file holds anything else; names the array.
        """
        path = beside_model(directory, FILE)
        if not path.is_file() or not belongs(path, VERSION, directory / MODEL):
            return None
        found = arrays.read(path, _SPECS | out_of_distribution.SPECS)
        require_width(directory, features, len(found["weights"]))
        if sorted(found["statuses"].tolist(), key=LABELS.index) != found["statuses"].tolist():
            raise InputError("holds fail before pass", file=path, place='array "statuses"')
        known = Familiar(**{field.name: found.pop(field.name) for field in fields(Familiar)})
        return cls(**found, familiar=known)

    def nearest(self, asked: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Find the example of each label that is most like each row.

        Parameters
        ----------
        asked : ndarray of shape (n_rows, n_features)

        Returns
        -------
        index : ndarray of int, shape (n_rows, 2)
            Of `LABELS`, in their order; -1 where no example has the label.
        distance : ndarray of shape (n_rows, 2)
            In standard deviations of squashed features, weighted by the model's importance.
        """
        own = self._placed(asked)
        index, distance = np.full((len(own), 2), -1), np.full((len(own), 2), np.nan)
        # (a - b)^2 without a^2, which is the same for all examples of a row
        far = np.column_stack((own, np.ones(len(own)))) @ self._product
        for label, part in enumerate(self._labels):
            if part.stop > part.start and len(own):
                index[:, label] = far[:, part].argmin(axis=1) + part.start
                distance[:, label] = np.sqrt(((own - self._places[index[:, label]]) ** 2).sum(axis=1))
        return index, distance

    @cached_property
    def named(self) -> list[tuple[str, str, str, str, str, str]]:
        """What is said of every example: its id, benchmark, operation and label, by whom and when."""
        texts = [getattr(self, name).tolist() for name in _TEXTS]
        return [*zip(*texts, strict=True)]

    @cached_property
    def _labels(self) -> tuple[slice, slice]:
        passed = int((self.statuses == LABELS[0]).sum())
        return slice(0, passed), slice(passed, len(self.statuses))

    @cached_property
    def _carrying(self) -> NDArray[np.intp]:
        order = np.argsort(-self.weights, kind="stable")
        return order[: int(np.searchsorted(self.weights[order].cumsum(), _CARRIED)) + 1]

    @cached_property
    def _places(self) -> Floats:
        return self._placed(self.rows.astype(np.float64))

    @cached_property
    def _product(self) -> Floats:
        """What a row, and 1 behind it, is multiplied with: -2 b, and b^2 below it."""
        return np.vstack((-2 * self._places.T, (self._places**2).sum(axis=1)))

    def _placed(self, rows: Floats) -> Floats:
        carrying = self._carrying
        return np.asarray(self.familiar.squashed(rows[:, carrying], carrying) * self._roots)

    @cached_property
    def _roots(self) -> Floats:
        return np.sqrt(self.weights[self._carrying])


@dataclass(frozen=True)
class Card(StoredCard):
    """What must be known beside the pipeline to use it, and to judge what it is worth."""

    model: str  # its name in the catalogue, for example ``random-forest``
    features: tuple[str, ...]  # the columns that the pipeline takes, in this order
    threshold: FiniteFloat  # ``fail`` from this probability on; chosen inside the training data
    params: dict[str, Any]  # what the search chose
    #: The median of every feature over the training comparisons that passed: what a reason is measured from.
    reference: dict[str, FiniteFloat]
    data_digest: str  # SHA-256 of the training table
    seed: int  # the seed of search and fit
    #: Cards of before there was one have that of `data.params.Decide`, too.
    #: The smallest change of a median that may be called a regression, as a share of the baseline's.
    floor: float = 0.005
    #: What every feature held in the training rows that are not below the floor; empty in older cards.
    usual: dict[str, Deciles] = field(default_factory=dict)
    #: From the model's own probability to the one that is told, which thresholds are about; None: they are
    #: the same, as in older cards.
    calibration: CalibrationMap | None = None
    #: How much of that counts below the floor, from where models don't learn; 1 in older cards.
    beneath: FiniteFloat = 1.0
    promise: RiskGuarantee | None = None  # what may be missed, and the cuts that keep it; None in older cards
    #: Between which verdicts are ``unsure``; None: ``fail`` from the threshold on, else ``pass``.
    cuts: DecisionThresholds | None = None
    wish: DecisionPolicy = field(default_factory=DecisionPolicy)  # what these cuts were chosen for
    #: What two runs of one build differ by, as a share, where a comparison has no versions that tell.
    run_spread: FiniteFloat = ORDINARY
    #: How many comparisons like the training data are said to be unlike it.
    strangeness: OutOfDistributionScore | None = None

    @property
    def deciding(self) -> DecisionThresholds:
        """Between which probabilities verdicts are ``unsure``."""
        return self.cuts or DecisionThresholds(self.threshold, self.threshold)

    def told(self, probability: Floats) -> Floats:
        """Return what is told where the model says `probability`."""
        return probability if self.calibration is None else self.calibration.of(probability)

    def wishing(self, wish: DecisionPolicy) -> Card:
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
        stored, arrays = store(directory, self.model, self.card), compiled_pipeline.freeze(self.model)
        if arrays is not None:
            compiled_pipeline.write(directory / compiled_pipeline.FILE, arrays, stored)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what `write` wrote; errors as of `training.registry.stored.StoredModel.read`."""
        read = super().read(directory)
        require_width(directory, read.card.features, getattr(read.model, "n_features_in_", None))
        return read


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
        return cls(compiled_pipeline.freeze(pipeline) or boosted(pipeline) or Fitted(pipeline), model.card)

    @classmethod
    def read(cls, directory: Path) -> ReadyModel:
        """Read what `TrainedModel.write` wrote; the pipeline itself only if ``model.npz`` does not serve.

        Raises
        ------
        InputError
            As `TrainedModel.read`.
        """
        arrays = compiled_pipeline.read(beside_model(directory, compiled_pipeline.FILE), directory / MODEL)
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
        asked = PreparedComparisons.compared(sides, NOTHING, self.card.run_spread)
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
