"""From a classifier and its parameters to a pipeline that imputes, scales, resamples and classifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.estimators.catalogue import ClassWeights, Model, OneOf, Params, Real, Space, Where
from training.estimators.preparation import Guide

#: How many neighbours SMOTE interpolates between.
SMOTE_NEIGHBOURS = 5
_SAMPLERS = ("under", "over", "smote")
_RESAMPLING = {
    "sampler": OneOf(("none", *_SAMPLERS)),
    "rate": Real(0.1, 1.0, where=Where("sampler", _SAMPLERS)),
}
_WEIGHTING = {
    "weights": OneOf(("equal", "balanced")),
    "cost_ratio": Real(0.25, 4.0, log=True, where=Where("weights", ("balanced",))),
}


class InfeasibleError(ValueError):
    """A sampler that cannot do what it was asked to with these labels."""


@dataclass(frozen=True)
class ClassCounts:
    """How many comparisons passed and failed."""

    passed: int
    failed: int

    @classmethod
    def of(cls, y: NDArray[np.int64]) -> ClassCounts:
        """Count the zeros (passed) and ones (failed) of `y`."""
        failed = int(y.sum())
        return cls(len(y) - failed, failed)

    def resampled(self, sampler: str, rate: float) -> ClassCounts:
        """Return the counts after resampling to `rate`.

        Raises
        ------
        InfeasibleError
            If the labels have that rate already, or the smaller class is too small for SMOTE.
        """
        small, large = sorted((self.passed, self.failed))
        if sampler == "smote" and small <= SMOTE_NEIGHBOURS:
            raise InfeasibleError(f"SMOTE needs more than {SMOTE_NEIGHBOURS} of a class; there are {small}")
        wanted = (small, int(small / rate)) if sampler == "under" else (int(large * rate), large)
        if wanted[1] >= large and wanted[0] <= small:
            raise InfeasibleError(f"the rate is {small / large:.3f} already; {rate:.3f} asks for less")
        return ClassCounts(*reversed(wanted)) if self.failed <= self.passed else ClassCounts(*wanted)

    def weights(self, cost_ratio: float) -> ClassWeights:
        """Return weights that balance the classes, times `cost_ratio` for fails.

        Parameters
        ----------
        cost_ratio : float
            How many false alarms a missed regression costs. It stands on top of balanced classes, so it
            means the same whatever share of the comparisons failed.
        """
        both = self.passed + self.failed
        return ClassWeights(both / (2 * self.passed), cost_ratio * both / (2 * self.failed))


def space_of(model: Model) -> Space:
    """Return what the parameters of a pipeline with this classifier may be."""
    return {**model.space, **_RESAMPLING, **(_WEIGHTING if model.weighted else {})}


def strict_pipeline(
    model: Model, params: Params, y: NDArray[np.int64], seed: int, guide: Guide | None = None
) -> Any:
    """Build the unfitted pipeline, for labels `y` of shape (n_rows,).

    Parameters
    ----------
    model : Model
    params : mapping
        Of `space_of`: ``sampler``, ``rate``, ``weights``, ``cost_ratio`` and the classifier's own.
    y : ndarray of shape (n_rows,)
        The labels it will be fitted to: 1 is fail.
    seed : int
    guide : Guide or None
        What the columns promise; None: nothing, and the model is the one of the textbook.

    Raises
    ------
    InfeasibleError
        If the sampler cannot reach its rate with these labels.
    """
    from imblearn.pipeline import Pipeline

    counts, steps = ClassCounts.of(y), []
    if params["sampler"] != "none":
        resampled = counts.resampled(params["sampler"], params["rate"])
        steps = [("sample", _sampler(params["sampler"], counts, resampled, seed))]
        counts = resampled
    if params.get("k", 1) > counts.passed + counts.failed:
        raise InfeasibleError(f"there are fewer than {params['k']} comparisons to be neighbours")
    balanced = params.get("weights") == "balanced"
    weights = counts.weights(params["cost_ratio"]) if balanced else None
    classify = _classifier(model, params, seed, weights, guide)
    return Pipeline([*_preparing(guide), *steps, ("classify", classify)])


def _preparing(guide: Guide | None) -> list[tuple[str, Any]]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    if guide is None:
        median = SimpleImputer(strategy="median", keep_empty_features=True)
        return [("impute", median), ("scale", StandardScaler())]
    from training.estimators.preparation import Gaps, Scaled

    return [("impute", Gaps(guide.directions, guide.evidence)), ("scale", Scaled(guide.evidence))]


def _classifier(
    model: Model, params: Params, seed: int, weights: ClassWeights | None, guide: Guide | None
) -> Any:
    if guide is None:
        return model.build(params, seed, weights)
    built = model.build(params, seed, weights, guide.directions)
    if guide.evidence is None:
        return built
    from training.estimators.preparation import Evident

    return Evident(built, guide.evidence)


def pipeline(
    model: Model, params: Params, y: NDArray[np.int64], seed: int, guide: Guide | None = None
) -> Any:
    """Build the unfitted pipeline; what these labels don't allow is left out rather than an error."""
    try:
        return strict_pipeline(model, params, y, seed, guide)
    except InfeasibleError:
        nearest = {"k": min(params["k"], len(y))} if "k" in params else {}
        return strict_pipeline(model, {**params, **nearest, "sampler": "none"}, y, seed, guide)


def answering(fitted: Any) -> Any:
    """Return what of a fitted pipeline acts when it answers: all but its sampler."""
    from sklearn.pipeline import Pipeline

    return Pipeline([(name, step) for name, step in fitted.steps if not hasattr(step, "fit_resample")])


def fail_probability(fitted: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of ``fail`` for every row of `x`, shape (n_rows,)."""
    return np.asarray(fitted.predict_proba(x)[:, 1], np.float64)


def _sampler(name: str, counts: ClassCounts, wanted: ClassCounts, seed: int) -> Any:
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from imblearn.under_sampling import RandomUnderSampler
    from sklearn.neighbors import NearestNeighbors

    # the class whose count changes, and its new count; a plain rate can round to no change, which raises
    target = {0: wanted.passed} if wanted.passed != counts.passed else {1: wanted.failed}
    if name == "under":
        return RandomUnderSampler(sampling_strategy=target, random_state=seed)
    if name == "over":
        return RandomOverSampler(sampling_strategy=target, random_state=seed)
    # a tree of neighbours would be stored with the model, in types that only its own code can check
    neighbours = NearestNeighbors(n_neighbors=SMOTE_NEIGHBOURS + 1, algorithm="brute")
    return SMOTE(sampling_strategy=target, k_neighbors=neighbours, random_state=seed)
