"""Interface of fitted models: from feature arrays to the probability of ``fail`` and its explanation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import FiniteFloat

from data.errors import ModelError
from data.tables.arrays import ArraySpec

Floats = NDArray[np.float64]
#: How a calibration was learned.
CalibrationKind = Literal["none", "sigmoid", "beta", "isotonic"]
Unit = Literal["log-odds", "probability"]
#: Rise of the log-odds of ``fail`` per standard error of a step that is beyond doubt.
STEEPNESS = 3.0
#: Advice for errors of a model.
_REMEDY = "the model's files are damaged, train or promote another one"


@contextmanager
def model_answering(model: str) -> Iterator[None]:
    """Context manager that converts errors of the model called `model` to ModelError.

    Converted are ValueError, ArithmeticError and LookupError; other exceptions pass unchanged. Within it,
    NumPy does not warn of overflow, division by 0 or invalid operations.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ModelError:
        raise
    except (ValueError, ArithmeticError, LookupError) as exc:
        # estimators reject overflowed input, or use it as an index out of range
        raise ModelError(f"the model ({model}) cannot answer ({exc}); {_REMEDY}") from exc


def require_finite(model: str, answer: str, *numbers: ArrayLike) -> None:
    """Raise ModelError if one of the model's `numbers` is NaN or infinite.

    `numbers` may have any shape. `model` is its name in the catalogue; `answer` names the numbers in the
    message, such as "probability".
    """
    for values in map(np.asarray, numbers):
        infinite = values[~np.isfinite(values)]
        if infinite.size:
            problem = f"answers with {answer}={infinite[0]}; expected a finite number"
            raise ModelError(f"the model ({model}) {problem}; {_REMEDY}")


def raise_by_evidence(probability: Floats, evidence: Floats, sure: float) -> Floats:
    """Return probabilities of ``fail``, raised towards 1 where the step exceeds `sure` standard errors.

    `evidence`, shape (n_rows,), is the signed square root of the step in standard errors; negative is worse.
    The probability of ``pass`` is divided by 1 + exp(3 (step - sure)), with the step positive where worse: by
    2 at `sure`, by about 1 far below.
    """
    beyond = STEEPNESS * (-evidence * np.abs(evidence) - sure)
    return np.asarray(1 - (1 - probability) * np.exp(-np.logaddexp(0.0, beyond)))


class Answering(Protocol):
    """A fitted model. Its features are columns, in the order of its card."""

    @property
    def unit(self) -> Unit:
        """The unit of its contributions."""

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return the probability of ``fail``, and the contribution of each feature (positive: towards fail).

        `columns`, shape (n_rows, n_features), is NaN where a feature is unknown; `reference`, shape
        (n_features,), has the features of an ordinary comparison. The results have the shape (n_rows,) and
        that of `columns`. The result of a row does not depend on the other rows.
        """

    def predict_probability(self, columns: Floats) -> Floats:
        """Return only the probability of `predict_and_explain`, shape (n_rows,), which takes less time."""

    def raise_calibrated(self, calibrated: Floats, columns: Floats) -> Floats:
        """Raise `calibrated` probabilities where the evidence leaves no doubt; see `raise_by_evidence`.

        `calibrated` and the result have shape (n_rows,), `columns` has shape (n_rows, n_features).
        """


@dataclass(frozen=True)
class FittedPipeline:
    """A scikit-learn pipeline that predicts by itself, with any classifier.

    Contribution: how much the probability falls when that one feature is replaced by its reference.
    """

    pipeline: Any

    unit: ClassVar[Unit] = "probability"

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return probabilities, shape (n_rows,), and contributions, shape as `columns`; see `Answering`."""
        full = self.predict_probability(columns)
        contributions = np.empty_like(columns)
        for feature in range(columns.shape[1]):
            without = columns.copy()
            without[:, feature] = reference[feature]
            contributions[:, feature] = full - self.predict_probability(without)
        return full, contributions

    def predict_probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``, shape (n_rows,)."""
        return np.asarray(self.pipeline.predict_proba(columns)[:, 1], np.float64)

    def raise_calibrated(self, calibrated: Floats, columns: Floats) -> Floats:
        """Return `calibrated`, shape (n_rows,), unchanged, because the pipeline has already raised it."""
        del columns
        return calibrated


@dataclass(frozen=True)
class MonotoneConstraints:
    """The constraints that an estimator must keep in its columns."""

    directions: tuple[int, ...]  # -1: a larger value makes ``fail`` less probable; 1: more; 0: unconstrained
    #: The column with the signed square root of the step in standard errors; negative is worse.
    evidence: int | None = None


SPECS = {
    **dict.fromkeys(("fill", "slope", "mean", "scale"), ArraySpec("f", ("features",))),
    "evidence": ArraySpec("i", ()),
    "sure": ArraySpec("f", ()),
}
#: Class names of preparation steps, as `training.estimators.catalogue` builds them.
_PLAIN, _GUIDED = ["SimpleImputer", "StandardScaler"], ["GapFiller", "EvidenceScaler"]


@dataclass(frozen=True)
class Preparation:
    """Fill gaps and standardise features; raise the probability where the evidence leaves no doubt."""

    #: fill, slope: shape (n_features,): As of `training.estimators.preparation.GapFiller`.
    fill: Floats
    slope: Floats
    #: mean, scale: shape (n_features,)
    mean: Floats
    scale: Floats
    evidence: NDArray[np.intp]  # shape (): The column of the evidence, or -1
    sure: Floats  # shape (): see `raise_by_evidence`

    unit: ClassVar[Unit] = "probability"

    def __post_init__(self) -> None:
        if (self.scale <= 0).any():
            raise ValueError(f"scale={self.scale.min()} is not above 0")
        if not -1 <= self.evidence < len(self.fill):
            raise ValueError(f"evidence={self.evidence} is not one of the {len(self.fill)} features")

    @classmethod
    def from_pipeline(cls, pipeline: Any) -> tuple[Preparation, Any] | None:
        """Return preparation and classifier of a fitted pipeline; None if it has other steps.

        Samplers are ignored, as they do nothing in prediction.
        """
        *before, classifier = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
        kinds = [type(step).__name__ for step in before]
        if kinds == _GUIDED:
            filling = before[0].fill_, before[0].slope_
        elif kinds == _PLAIN and not np.isnan(before[0].statistics_).any():
            filling = before[0].statistics_, np.zeros(len(before[0].statistics_))
        else:
            return None
        sure = getattr(classifier, "sure_", None)
        column, inner = (-1, classifier) if sure is None else (classifier.column, classifier.classifier_)
        scaled = before[1].mean_, before[1].scale_
        return cls(*filling, *scaled, np.array(column), np.array(sure or 0.0)), inner

    def prepare_columns(self, columns: Floats) -> Floats:
        """Return the classifier's input, shape (n_rows, n_features): without gaps, and standardised."""
        filled = fill_gaps(columns, self.fill, self.slope, int(self.evidence))
        return np.asarray((filled - self.mean) / self.scale)

    def raise_prepared(self, probability: Floats, prepared: Floats) -> Floats:
        """Return `probability`, shape (n_rows,), raised where the evidence in `prepared` leaves no doubt."""
        if self.evidence < 0:
            return probability
        return raise_by_evidence(probability, prepared[:, self.evidence], float(self.sure))

    def raise_calibrated(self, calibrated: Floats, columns: Floats) -> Floats:
        """Raise `calibrated` probabilities, shape (n_rows,), where the evidence leaves no doubt."""
        if self.evidence < 0:
            return calibrated
        return self.raise_prepared(calibrated, self.prepare_columns(columns))

    def predict_probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``, shape (n_rows,)."""
        prepared = self.prepare_columns(columns)
        return self.raise_prepared(self.classifier_probability(prepared), prepared)

    def classifier_probability(self, prepared: Floats) -> Floats:
        """Return the classifier's unraised probability of ``fail`` for prepared rows, shape (n_rows,)."""
        raise NotImplementedError

    def raise_with_contributions(
        self, probability: Floats, contributions: Floats, prepared: Floats
    ) -> tuple[Floats, Floats]:
        """Return the result of `raise_prepared`, and contributions with the increase added to the evidence's.

        Changes `contributions`, shape (n_rows, n_features), in place.
        """
        risen = self.raise_prepared(probability, prepared)
        if self.evidence >= 0:
            scale = _log_odds if self.unit == "log-odds" else np.asarray
            contributions[:, self.evidence] += scale(risen) - scale(probability)
        return risen, contributions


def fill_gaps(x: Floats, fill: Floats, slope: Floats, evidence: int) -> Floats:
    """Return `x` with gaps (NaN) filled by ``fill + slope * value``, column by column.

    `x` has shape (..., n_features), `fill` and `slope` (n_features,). ``value`` is the row's value in the
    column number `evidence` (the column's `fill`, where missing); with -1, gaps become `fill`. `x` is not
    changed; it is returned itself if it has no gaps.
    """
    gaps = np.isnan(x)
    if not gaps.any():
        return x
    if evidence < 0 or not slope.any():
        return np.where(gaps, fill, x)
    anchor = np.where(gaps[..., evidence], fill[evidence], x[..., evidence])
    return np.where(gaps, fill + slope * anchor[..., None], x)


def _log_odds(probability: Floats) -> Floats:
    inside = np.clip(probability, 1e-15, 1 - 1e-15)
    return np.asarray(np.log(inside) - np.log1p(-inside))


@dataclass(frozen=True)
class CalibrationMap:
    """A strictly increasing map of probabilities that keeps 0, 1 and all rankings."""

    kind: CalibrationKind  # how it was learned
    #: raw, calibrated: its knots, model probabilities and calibrated ones; linear between them.
    raw: tuple[FiniteFloat, ...]
    calibrated: tuple[FiniteFloat, ...]

    def __post_init__(self) -> None:
        if len(self.raw) != len(self.calibrated) or not {*self.raw[:1], *self.calibrated[:1]} == {0.0}:
            raise ValueError("calibration: expected as many knots on both sides, from 0 on")
        if self.raw[-1] != 1 or self.calibrated[-1] != 1 or np.diff([self.raw, self.calibrated]).min() <= 0:
            raise ValueError("calibration: expected knots that increase up to 1")

    def map_probability(self, probability: ArrayLike) -> Floats:
        """Return the calibrated values of raw probabilities, of any shape."""
        return np.asarray(np.interp(np.asarray(probability), self.raw, self.calibrated), np.float64)
