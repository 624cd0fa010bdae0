"""What happens to features before a classifier sees them, and to its answer before anybody does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.tables.arrays import ArraySpec
from training.estimators.answering import Floats, raised

_FEATURES = ArraySpec("f", ("features",))
SPECS = {
    **dict.fromkeys(("fill", "slope", "mean", "scale"), _FEATURES),
    "evidence": ArraySpec("i", ()),
    "sure": ArraySpec("f", ()),
}
#: Steps of a pipeline that prepare, as `training.estimators.pipelines` builds them.
_PLAIN, _GUIDED = ["SimpleImputer", "StandardScaler"], ["Gaps", "Scaled"]


@dataclass(frozen=True)
class Preparation:
    """Gaps are filled, then all is standardised; the answer is raised where the evidence leaves no doubt.

    Attributes
    ----------
    fill, slope : ndarray of shape (n_features,)
        As of `training.estimators.evident.Gaps`.
    mean, scale : ndarray of shape (n_features,)
    evidence : ndarray of shape ()
        The column of the evidence, -1 where there is none.
    sure : ndarray of shape ()
        See `training.estimators.answering.raised`.
    """

    fill: Floats
    slope: Floats
    mean: Floats
    scale: Floats
    evidence: NDArray[np.intp]
    sure: Floats

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

    def told(self, probability: Floats, contributions: Floats, prepared: Floats) -> tuple[Floats, Floats]:
        """Raise a classifier's answer where the evidence leaves no doubt, in units of probability."""
        risen = self.risen(probability, prepared)
        if self.evidence >= 0:
            contributions[:, self.evidence] += risen - probability
        return risen, contributions

    def told_in_odds(
        self, probability: Floats, contributions: Floats, prepared: Floats
    ) -> tuple[Floats, Floats]:
        """Raise a classifier's answer where the evidence leaves no doubt, in units of log-odds."""
        risen = self.risen(probability, prepared)
        if self.evidence >= 0:
            contributions[:, self.evidence] += _odds(risen) - _odds(probability)
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
