"""What answers: arrays of features in, the probability of ``fail`` and its reasons out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import FiniteFloat

from data.errors import ModelError
from data.tables.arrays import ArraySpec

Floats = NDArray[np.float64]
#: What a calibration was learned as.
CalibrationKind = Literal["none", "sigmoid", "beta", "isotonic"]
Unit = Literal["log-odds", "probability"]
#: By how much the log-odds of a sure fail rise with every unit of its step.
STEEPNESS = 3.0


#: What helps where a model answers with no number.
_REMEDY = "the model's files are damaged, train or promote another one"


@contextmanager
def model_answering(model: str) -> Iterator[None]:
    """Run what a model computes: its failure becomes a ModelError, its overflow shows in the answer.

    Parameters
    ----------
    model : str
        Its name in the catalogue.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ModelError:
        raise
    except (ValueError, ArithmeticError, LookupError) as exc:
        # estimators refuse what overflowed on the way to them, or look it up where nothing is
        raise ModelError(f"the model ({model}) cannot answer ({exc}); {_REMEDY}") from exc


def require_finite(model: str, answer: str, *numbers: ArrayLike) -> None:
    """Refuse to answer with numbers that are not finite.

    Parameters
    ----------
    model : str
        Its name in the catalogue.
    answer : str
        What the numbers are, such as "probability".
    numbers : array_like
        All that the model says.

    Raises
    ------
    ModelError
        If one of them is NaN or infinite.
    """
    for given in numbers:
        known = np.asarray(given, np.float64)
        if not np.isfinite(known).all():
            value = known[~np.isfinite(known)].flat[0]
            told = f"the model ({model}) answers with {answer}={value}; expected a finite number"
            raise ModelError(f"{told}; {_REMEDY}")


def raised(probability: Floats, evidence: Floats, sure: float) -> Floats:
    """Leave only the doubt that the step leaves, too.

    Parameters
    ----------
    probability : ndarray of shape (n_rows,)
        Of ``fail``, as a classifier learned it.
    evidence : ndarray of shape (n_rows,)
        The signed root of the step in its own error; negative is worse.
    """
    beyond = STEEPNESS * (-evidence * np.abs(evidence) - sure)
    return np.asarray(1 - (1 - probability) * np.exp(-np.logaddexp(0.0, beyond)))


class Answering(Protocol):
    """A fitted model. Its features are columns, in the order of its card."""

    @property
    def unit(self) -> Unit:
        """The unit of its contributions."""

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Give the probability of ``fail``, and say what each feature contributes; positive = towards fail.

        What is answered of a row does not depend on the others.

        Parameters
        ----------
        columns : ndarray of shape (n_rows, n_features)
            NaN where a feature cannot be known.
        reference : ndarray of shape (n_features,)
            An ordinary comparison.

        Returns
        -------
        probability : ndarray of shape (n_rows,)
        contributions : ndarray of shape (n_rows, n_features)
        """

    def probability(self, columns: Floats) -> Floats:
        """Give the first of `answers` alone, which takes less time."""

    def assured(self, told: Floats, columns: Floats) -> Floats:
        """Raise what is told of rows, calibrated, where the evidence leaves no doubt; see `raised`."""


@dataclass(frozen=True)
class Fitted:
    """A pipeline of scikit-learn that answers itself, whatever its classifier.

    Contributions: how much the probability falls when that one feature is replaced by its reference.
    """

    pipeline: Any

    unit: ClassVar[Unit] = "probability"

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Answer; see `Answering`."""
        full = self.probability(columns)
        contributions = np.empty_like(columns)
        for feature in range(columns.shape[1]):
            without = columns.copy()
            without[:, feature] = reference[feature]
            contributions[:, feature] = full - self.probability(without)
        return full, contributions

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        return np.asarray(self.pipeline.predict_proba(columns)[:, 1], np.float64)

    def assured(self, told: Floats, columns: Floats) -> Floats:
        """Leave it as it is: the pipeline raised it."""
        del columns
        return told


@dataclass(frozen=True)
class Guide:
    """What an estimator must know of its columns."""

    directions: tuple[int, ...]  # -1: the larger the less probable is ``fail``; 1: the more; 0: no promise
    #: The column that holds the signed root of the step in its own error; negative is worse.
    evidence: int | None = None


_FEATURES = ArraySpec("f", ("features",))
SPECS = {
    **dict.fromkeys(("fill", "slope", "mean", "scale"), _FEATURES),
    "evidence": ArraySpec("i", ()),
    "sure": ArraySpec("f", ()),
}
#: Steps of a pipeline that prepare, as `training.estimators.catalogue` builds them.
_PLAIN, _GUIDED = ["SimpleImputer", "StandardScaler"], ["Gaps", "Scaled"]


@dataclass(frozen=True)
class Preparation:
    """Gaps are filled, then all is standardised; the answer is raised where the evidence leaves no doubt."""

    #: fill, slope: shape (n_features,): As of `training.estimators.preparation.Gaps`.
    fill: Floats
    slope: Floats
    #: mean, scale: shape (n_features,)
    mean: Floats
    scale: Floats
    evidence: NDArray[np.intp]  # shape (): The column of the evidence, -1 where there is none
    sure: Floats  # shape (): see `raised`

    unit: ClassVar[Unit] = "probability"

    def __post_init__(self) -> None:
        """Refuse to divide by nothing, and to look at a column that isn't there."""
        if (self.scale <= 0).any():
            raise ValueError("scale holds what is not above 0")
        if not -1 <= self.evidence < len(self.fill):
            raise ValueError(f"evidence={self.evidence} is none of the {len(self.fill)} features")

    @classmethod
    def of(cls, pipeline: Any) -> tuple[Preparation, Any] | None:
        """Divide a fitted pipeline into its preparation and its classifier; None if it does anything else."""
        *before, classifier = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
        filled = _filling(before)
        if filled is None:
            return None
        sure = getattr(classifier, "sure_", None)
        column, inner = (-1, classifier) if sure is None else (classifier.column, classifier.classifier_)
        scaled = before[1].mean_, before[1].scale_
        return cls(*filled, *scaled, np.array(column), np.array(sure or 0.0)), inner

    def prepared(self, columns: Floats) -> Floats:
        """Return what the classifier takes, shape (n_rows, n_features)."""
        return np.asarray(
            (filled(columns, self.fill, self.slope, int(self.evidence)) - self.mean) / self.scale
        )

    def risen(self, probability: Floats, prepared: Floats) -> Floats:
        """Raise a classifier's answer where the evidence leaves no doubt."""
        if self.evidence < 0:
            return probability
        return raised(probability, prepared[:, self.evidence], float(self.sure))

    def assured(self, told: Floats, columns: Floats) -> Floats:
        """Raise what is told of rows, calibrated, where the evidence leaves no doubt."""
        return told if self.evidence < 0 else self.risen(told, self.prepared(columns))

    def probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``, shape (n_rows,)."""
        prepared = self.prepared(columns)
        return self.risen(self.plain(prepared), prepared)

    def plain(self, prepared: Floats) -> Floats:
        """Return the classifier's own probability of ``fail`` of prepared rows, shape (n_rows,)."""
        raise NotImplementedError

    def told(self, probability: Floats, contributions: Floats, prepared: Floats) -> tuple[Floats, Floats]:
        """Raise a classifier's probability where the evidence leaves no doubt.

        What that adds, in the unit of the contributions, is a contribution of the evidence.
        """
        risen = self.risen(probability, prepared)
        if self.evidence >= 0:
            in_odds = self.unit == "log-odds"
            added = _odds(risen) - _odds(probability) if in_odds else risen - probability
            contributions[:, self.evidence] += added
        return risen, contributions


def filled(x: Floats, fill: Floats, slope: Floats, evidence: int) -> Floats:
    """Fill gaps with ``fill + slope * evidence``; `evidence` is -1 where no column says it."""
    gaps = np.isnan(x)
    if not gaps.any():
        return x
    if evidence < 0 or not slope.any():
        return np.where(gaps, fill, x)
    anchor = np.where(gaps[..., evidence], fill[evidence], x[..., evidence])
    return np.where(gaps, fill + slope * anchor[..., None], x)


def _odds(probability: Floats) -> Floats:
    inside = np.clip(probability, 1e-15, 1 - 1e-15)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _filling(steps: Sequence[Any]) -> tuple[Floats, Floats] | None:
    """Return fill and slope of fitted steps; None if they do anything else."""
    kinds = [type(step).__name__ for step in steps]
    if kinds == _GUIDED:
        return steps[0].fill_, steps[0].slope_
    if kinds != _PLAIN or np.isnan(steps[0].statistics_).any():
        return None
    return steps[0].statistics_, np.zeros(len(steps[0].statistics_))


@dataclass(frozen=True)
class CalibrationMap:
    """A strictly increasing map of probabilities that leaves 0 and 1 where they are; rankings stay."""

    kind: CalibrationKind  # what it was learned as
    #: raw, told: its knots: what the model says, and what is told; straight between them.
    raw: tuple[FiniteFloat, ...]
    told: tuple[FiniteFloat, ...]

    def __post_init__(self) -> None:
        """Refuse what is no such map."""
        if len(self.raw) != len(self.told) or not {*self.raw[:1], *self.told[:1]} == {0.0}:
            raise ValueError("calibration: expected as many knots on both sides, from 0 on")
        if self.raw[-1] != 1 or self.told[-1] != 1 or np.diff([self.raw, self.told]).min() <= 0:
            raise ValueError("calibration: expected knots that increase up to 1")

    def of(self, probability: Floats) -> Floats:
        """Return what is told for raw probabilities, of any shape."""
        return np.asarray(np.interp(probability, self.raw, self.told), np.float64)

    def at(self, probability: float) -> float:
        """Return what is told for one."""
        return float(np.interp(probability, self.raw, self.told))
