"""Storage of a trained comparison model, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from features.comparisons.outliers import NO_OUTLIERS, without_duplicates, without_outliers
from features.comparisons.vectors import (
    PreparedComparisons,
    feature_vectors,
    smallest_set_with,
    vector_columns,
)
from training.comparisons.base_rate import TrainingScores, odds, shift_odds
from training.estimators import compiled_pipeline, out_of_distribution
from training.estimators.answering import (
    Answering,
    CalibrationMap,
    FittedPipeline,
    Floats,
    Unit,
    model_answering,
    require_finite,
)
from training.estimators.boosted_trees import compile_boosted
from training.estimators.compiled_pipeline import belongs_to_model, write_arrays
from training.estimators.out_of_distribution import OutOfDistributionScore, TrainingDistribution
from training.evaluation.thresholds import (
    DecisionPolicy,
    DecisionThresholds,
    GuaranteedRate,
    OrdinaryCases,
    RiskGuarantee,
    below_min_effect,
    discount_below,
    thresholds_for,
    verdicts_with_minimum,
    zero_below_min_effect,
)
from training.registry.stored import (
    MODEL,
    Deciles,
    StoredCard,
    StoredModel,
    beside_model,
    require_width,
    store_model,
)

Texts = NDArray[np.str_]
#: The file next to ``model.skops``, and the version of its content; other versions are not read.
FILE, VERSION = "examples.npz", 2
#: Nearest examples are found by the features that together have this share of the importance.
_CARRIED = 0.95
#: The two labels, in the order of the results of `Precedents.nearest`.
LABELS = ("pass", "fail")
TEXTS = ("identifiers", "benchmarks", "operations", "statuses", "labelled_by", "labelled_at")
_SPECS = {
    **dict.fromkeys(TEXTS, ArraySpec("U", ("examples",))),
    "rows": ArraySpec("f", ("examples", "features"), finite=False),
    "weights": ArraySpec("f", ("features",)),
    "prior": ArraySpec("f", (2,)),
}


@dataclass(frozen=True)
class StoredExamples:
    """Labelled comparisons for nearest examples, those that passed before those that failed."""

    #: identifiers, benchmarks, operations, statuses: shape (n_examples,)
    identifiers: Texts
    benchmarks: Texts
    operations: Texts
    statuses: Texts
    #: labelled_by, labelled_at: shape (n_examples,): Annotators and time of the label (ISO 8601); empty where
    #: unknown.
    labelled_by: Texts
    labelled_at: Texts
    rows: Floats  # shape (n_examples, n_features): Their features, in the order of the model's card
    weights: Floats  # shape (n_features,): The model's importance of every feature; they sum to 1
    #: Shape (2,): Median and 95 % quantile of how much medians worsened in training comparisons that passed,
    #: as shares.
    prior: Floats
    distribution: TrainingDistribution  # the distribution of the training comparisons

    def write(self, directory: Path) -> None:
        """Write ``examples.npz`` next to the ``model.skops`` of `directory`."""
        arrays_here = {name: getattr(self, name) for name in _SPECS}
        distribution = {name: getattr(self.distribution, name) for name in out_of_distribution.SPECS}
        write_arrays(directory / FILE, VERSION, directory / MODEL, arrays_here | distribution)

    @classmethod
    def read(cls, directory: Path, features: tuple[str, ...]) -> Self | None:
        """Return the examples stored with the model of `directory`, read without pickle.

        None if the file does not exist, or is of another version or another model; InputError, naming the
        array, if it has other content or another number of features than `features`.
        """
        path = beside_model(directory, FILE)
        if not path.is_file() or not belongs_to_model(path, VERSION, directory / MODEL):
            return None
        content = arrays.read_arrays(path, _SPECS | out_of_distribution.SPECS)
        require_width(directory, features, len(content["weights"]))
        if sorted(content["statuses"].tolist(), key=LABELS.index) != content["statuses"].tolist():
            raise InputError("holds fail before pass", file=path, place='array "statuses"')
        distribution = TrainingDistribution(**{name: content.pop(name) for name in out_of_distribution.SPECS})
        return cls(**content, distribution=distribution)

    def find_nearest(self, vectors: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Return the index of the most similar example of each label for each row, and its distance.

        Both have shape (n_rows, 2), with columns as in `LABELS`; the index is -1 where no example has the
        label. Distances are in standard deviations of squashed features, weighted by importance.
        """
        positions = self._scaled_positions(vectors)
        index, distance = np.full((len(positions), 2), -1), np.full((len(positions), 2), np.nan)
        # (a - b)^2 without a^2, which is equal for all examples of a row
        squared = np.column_stack((positions, np.ones(len(positions)))) @ self._distance_terms
        for label, part in enumerate(self._label_slices):
            if part.stop > part.start and len(positions):
                index[:, label] = squared[:, part].argmin(axis=1) + part.start
                offset = positions - self._example_positions[index[:, label]]
                distance[:, label] = np.sqrt((offset**2).sum(axis=1))
        return index, distance

    @cached_property
    def example_records(self) -> list[tuple[str, str, str, str, str, str]]:
        """The id, benchmark, operation and label of every example, its annotators and its time."""
        texts = [getattr(self, name).tolist() for name in TEXTS]
        return [*zip(*texts, strict=True)]

    @cached_property
    def _label_slices(self) -> tuple[slice, slice]:
        passed = int((self.statuses == LABELS[0]).sum())
        return slice(0, passed), slice(passed, len(self.statuses))

    @cached_property
    def _main_features(self) -> NDArray[np.intp]:
        order = np.argsort(-self.weights, kind="stable")
        return order[: int(np.searchsorted(self.weights[order].cumsum(), _CARRIED)) + 1]

    @cached_property
    def _example_positions(self) -> Floats:
        return self._scaled_positions(self.rows.astype(np.float64))

    @cached_property
    def _distance_terms(self) -> Floats:
        """The matrix that a row, followed by 1, is multiplied with: -2 b, and b^2 below it."""
        return np.vstack((-2 * self._example_positions.T, (self._example_positions**2).sum(axis=1)))

    def _scaled_positions(self, rows: Floats) -> Floats:
        carrying = self._main_features
        deviations = self.distribution.squashed_deviations(rows[:, carrying], carrying)
        return np.asarray(deviations * np.sqrt(self.weights[carrying]))


@dataclass(frozen=True)
class Card(StoredCard):
    """The metadata of a pipeline: how to use it, and how good it is."""

    model: str  # its name in the catalogue, for example ``random-forest``
    features: tuple[str, ...]  # the columns that the pipeline takes, in this order
    threshold: FiniteFloat  # ``fail`` from this probability on; chosen inside the training data
    params: dict[str, Any]  # chosen by the search
    #: The median of every feature over the training comparisons that passed: the reference of contributions.
    reference: dict[str, FiniteFloat]
    data_digest: str  # SHA-256 of the training table
    seed: int  # the seed of search and fit
    #: The minimum effect size: a share of the baseline's median.
    min_effect_size: float = 0.005
    #: The values of every feature in the training rows not below the minimum effect size.
    usual: dict[str, Deciles] = field(default_factory=dict)
    #: Map from the model's probability to the calibrated one, to which thresholds apply; None: the identity.
    calibration: CalibrationMap | None = None
    #: Factor of calibrated probabilities below the minimum effect size, where models don't learn.
    beneath: FiniteFloat = 1.0
    risk_guarantee: RiskGuarantee | None = None  # with the thresholds that keep it; None: no guarantee
    #: Between these thresholds verdicts are ``unsure``; None: ``fail`` from `threshold` on, else ``pass``.
    cuts: DecisionThresholds | None = None
    policy: DecisionPolicy = field(default_factory=DecisionPolicy)  # the policy that `cuts` were chosen for
    #: Between-run variation, as a share, for comparisons without earlier versions.
    run_spread: FiniteFloat = ORDINARY
    #: Share of ordinary comparisons that are called out of distribution.
    out_of_distribution: OutOfDistributionScore | None = None
    #: Out-of-fold probabilities of the training rows; None: base rates cannot be changed.
    training_scores: TrainingScores | None = None
    #: Factor of the odds of calibrated probabilities, for data with another share of fails.
    odds_factor: FiniteFloat = 1.0

    @property
    def decision_thresholds(self) -> DecisionThresholds:
        """The thresholds between which verdicts are ``unsure``."""
        return self.cuts or DecisionThresholds(self.threshold, self.threshold)

    def with_policy(self, policy: DecisionPolicy) -> Card:
        """Return a copy with the policy `policy`; InputError if the guarantee does not cover it."""
        return replace(self, cuts=thresholds_for(self.risk_guarantee, self.threshold, policy), policy=policy)

    def require_scores(self) -> TrainingScores:
        """Return the out-of-fold probabilities of the training rows; InputError if the card has none."""
        if self.training_scores is None:
            problem = "the model was trained without the scores for another base rate; train it again"
            raise InputError(f"base_rate: {problem}")
        return self.training_scores

    def at_base_rate(self, rate: float, usual: Floats | None = None) -> Card:
        """Return a copy for data of which the share `rate` (above 0, below 1) are fails.

        Thresholds move with the probabilities, since balanced accuracy and guaranteed rates are shares of one
        label; but costs keep theirs, and with `usual` a limit on reviews is kept among these comparisons:
        their probabilities at the base rate of the training data, shape (n_comparisons,). InputError if the
        card has no training scores.
        """
        return self._with_odds_factor(odds(rate) / odds(self.require_scores().rate), usual)

    def at_training_rate(self) -> Card:
        """Return a copy that decides as in training, with one threshold; InputError without scores."""
        min_effect_size = self.require_scores().min_effect_size
        plain = self._with_odds_factor(1.0, None)
        return replace(plain, policy=DecisionPolicy(), cuts=None, min_effect_size=min_effect_size)

    def _with_odds_factor(self, factor: float, usual: Floats | None) -> Card:
        def moved(cut: float) -> float:
            return float(shift_odds(np.array(cut), factor / self.odds_factor))

        def moved_level(level: GuaranteedRate) -> GuaranteedRate:
            return level if level.cut is None else replace(level, cut=moved(level.cut))

        guarantee, threshold, cuts = self.risk_guarantee, moved(self.threshold), self.decision_thresholds
        if guarantee is not None:
            misses = tuple(map(moved_level, guarantee.max_false_negative_rate))
            alarms = tuple(map(moved_level, guarantee.max_false_positive_rate))
            guarantee = replace(guarantee, max_false_negative_rate=misses, max_false_positive_rate=alarms)
        if self.policy.max_review_rate is not None and usual is not None:
            each = np.arange(len(usual)).astype(np.str_)
            cases = OrdinaryCases(shift_odds(usual, factor), each)
            cuts = thresholds_for(guarantee, threshold, self.policy, cases)
        elif self.policy.costs is None:
            cuts = DecisionThresholds(moved(cuts.low), moved(cuts.high))
        return replace(self, odds_factor=factor, threshold=threshold, risk_guarantee=guarantee, cuts=cuts)

    def discount(self, probability: Floats, below: NDArray[np.bool_]) -> Floats:
        """Return probabilities, multiplied by `beneath` at the training's base rate where flagged `below`."""
        learned = discount_below(shift_odds(probability, 1 / self.odds_factor), below, self.beneath)
        return np.where(below, shift_odds(learned, self.odds_factor), probability)

    @cached_property
    def feature_set(self) -> FeatureSet:
        """The smallest set of features that has all features of the model."""
        return smallest_set_with(self.features)

    def __post_init__(self) -> None:
        lost = [name for name in self.features if name not in self.reference]
        if lost:
            raise ValueError(f'reference has no "{lost[0]}"')


@dataclass(frozen=True)
class TrainedModel(StoredModel[Card]):
    """A fitted pipeline and its card."""

    CARD = Card

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json``, and ``model.npz`` if the pipeline can be compiled."""
        stored = store_model(directory, self.model, self.card)
        arrays = compiled_pipeline.compile_pipeline(self.model)
        if arrays is not None:
            compiled_pipeline.write(directory / compiled_pipeline.FILE, arrays, stored)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Return the model that `write` wrote to `directory`.

        InputError if a file is missing, a type in it is not trusted, or card and pipeline differ in features.
        """
        read = super().read(directory)
        require_width(directory, read.card.features, getattr(read.model, "n_features_in_", None))
        return read


@dataclass(frozen=True)
class ReadyModel:
    """A model in its fastest form, its card, and its labelled comparisons (None if it has none)."""

    answering: Answering
    card: Card
    examples: StoredExamples | None = None

    @classmethod
    def from_trained(cls, model: TrainedModel) -> ReadyModel:
        """Return a trained model in its fastest form, without labelled comparisons."""
        pipeline = model.model
        compiled = compiled_pipeline.compile_pipeline(pipeline) or compile_boosted(pipeline)
        return cls(compiled or FittedPipeline(pipeline), model.card)

    @classmethod
    def read(cls, directory: Path) -> ReadyModel:
        """Return the model of `directory` in its fastest form, with its labelled comparisons if any.

        The pipeline itself is read only without a usable ``model.npz``. InputError as in `TrainedModel.read`,
        or if ``model.npz`` or the examples have other content.
        """
        arrays = compiled_pipeline.read(beside_model(directory, compiled_pipeline.FILE), directory / MODEL)
        if arrays is None:
            ready = cls.from_trained(TrainedModel.read(directory))
        else:
            ready = cls(arrays, Card.read(directory))
            require_width(directory, ready.card.features, len(arrays.fill))
        return replace(ready, examples=StoredExamples.read(directory, ready.card.features))

    def predict_uncleaned(self, sides: Sides) -> Floats:
        """Return the probability of ``fail`` of each comparison, after removing duplicates and outliers.

        Shape (n_comparisons,), 0 below the minimum effect size. ModelError if a probability is not finite.
        """
        cleaned, _ = without_outliers(without_duplicates(sides))
        probability, change = self._predict_and_compare(cleaned)
        return zero_below_min_effect(probability, change, self.card.min_effect_size)

    def decide_verdicts(self, sides: Sides) -> NDArray[np.str_]:
        """Return ``pass``, ``fail`` or ``unsure`` for each comparison, shape (n_comparisons,).

        The samples must have no duplicates and outliers. ModelError if a probability is not finite.
        """
        probability, change = self._predict_and_compare(sides)
        below = below_min_effect(change, self.card.min_effect_size)
        adjusted = self.card.discount(probability, below)
        return verdicts_with_minimum(
            self.card.decision_thresholds, adjusted, below, unsure_below=self.card.policy.allows_unsure_below
        )

    def _predict_and_compare(self, sides: Sides) -> tuple[Floats, Floats]:
        prepared = PreparedComparisons.from_clean_sides(sides, NO_OUTLIERS, self.card.run_spread)
        features = feature_vectors(prepared.sides, self.card.feature_set, steps=prepared.steps)
        return self.predict_probability(self.select_features(features)), prepared.worst_change

    @property
    def unit(self) -> Unit:
        """The unit of the contributions: "log-odds" or "probability"."""
        return self.answering.unit

    def select_features(self, vectors: Floats) -> Floats:
        """Return the model's features, in the order of the card, from the vectors of its `feature_set`.

        `vectors`: shape (n_comparisons, n_computed); result: (n_comparisons, n_features). InputError if a
        feature of the card is no longer computed.
        """
        return vectors[:, self._column_indices]

    def predict_and_explain(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return the calibrated probability of ``fail``, and the features' contributions to the raw one.

        `columns`, shape (n_comparisons, n_features), are as in the card; the results have the shape
        (n_comparisons,) and that of `columns`. A positive contribution is one towards fail. Linear models:
        coefficient x deviation from the card's reference (log-odds). XGBoost: exact Shapley values
        (log-odds). Trees and forests: the change of probability along the path that the comparison takes. Any
        other model: how much the probability falls when that one feature is replaced by its reference. Raises
        ModelError if a number is not finite.
        """
        with model_answering(self.card.model):
            raw, contributions = self.answering.predict_and_explain(columns, self.reference_features)
            probability = self.calibrate_and_raise(raw, columns)
        require_finite(self.card.model, "probability", probability)
        require_finite(self.card.model, "contribution", contributions)
        return probability, contributions

    def predict_probability(self, columns: Floats) -> Floats:
        """Return the calibrated probability of ``fail``; ModelError if a number is not finite.

        `columns`: shape (n_comparisons, n_features), as in the card; the result has shape (n_comparisons,).
        """
        with model_answering(self.card.model):
            probability = self.calibrate_and_raise(self.answering.predict_probability(columns), columns)
        require_finite(self.card.model, "probability", probability)
        return probability

    def calibrate_and_raise(self, raw: Floats, columns: Floats) -> Floats:
        """Return the calibrated values of the model's probabilities for the base rate of the card.

        `raw` and the result have shape (n_comparisons,), `columns` (n_comparisons, n_features).
        """
        calibrated, calibration = raw, self.card.calibration
        if calibration is not None:
            # calibration is dominated by common rows; clear evidence must count in rare ones, too
            calibrated = self.answering.raise_calibrated(calibration.map_probability(raw), columns)
        return shift_odds(calibrated, self.card.odds_factor)

    @cached_property
    def reference_features(self) -> Floats:
        """The features of an ordinary comparison, from the card, shape (n_features,)."""
        return np.array([self.card.reference[name] for name in self.card.features], np.float64)

    @cached_property
    def _column_indices(self) -> NDArray[np.intp]:
        names = vector_columns(self.card.feature_set)
        for name in self.card.features:
            if name not in names:
                raise InputError(f"the feature {name!r} is no longer computed")
        return np.array([names.index(name) for name in self.card.features], np.intp)
