"""One classifier per workload group, and a fallback trained on all groups (matrix paper, section 4.3)."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SIDES, Flags, Floats, Labels, Whole
from features.matrices.forms import Rows
from features.matrices.projection import Projection
from training.estimators.catalogue import Model, Params
from training.evaluation.thresholds import GuaranteedRate, ScoredCases, guarantee_rates
from training.matrices.engine.models import log_odds


@dataclass(frozen=True)
class Alarms:
    """The requested guarantee: at most this `share` of normal pairs raises an alarm, with `confidence`."""

    share: float
    confidence: float

    def learn_guarantee(self, out_of_fold: pd.DataFrame, seed: int) -> GuaranteedRate:
        """Return the guarantee, with the least probability of abnormal that raises an alarm.

        `out_of_fold` has ``workload, probability`` (of abnormal) and ``y`` (1: abnormal) of pairs. The
        threshold ``cut`` is None if there are too few cases for a guarantee.
        """
        normal, workload = (out_of_fold["y"] == 0).to_numpy(bool), out_of_fold["workload"].to_numpy(np.str_)
        scored_cases = ScoredCases(1 - out_of_fold["probability"].to_numpy(np.float64), normal, workload)
        return guarantee_rates(scored_cases, [self.share], self.confidence, seed)[0].for_opposite_class()


SAMPLERS = ("none", "under", "over")
#: Name of the classifier that decides where a group has none.
FALLBACK = "fallback"
#: Approximate largest number of rows the fallback learns from where groups have their own classifiers; the
#: time for trees grows faster than their rows.
MAX_FALLBACK_ROWS = 50_000


@dataclass(frozen=True)
class Cases:
    """Rows as input to the classifiers.

    `x` has shape (n_rows, blocks * width + n_beside): every block projected to `width` components, the
    leading ones first; then the columns not projected. `plain`, None or of shape (n_rows, blocks * n_metrics
    + n_beside), has the rows standardised, without projection. The other arrays have shape (n_rows,): `y` is
    1 for abnormal, 0 for normal; `target` is whether the row counts for its pair.
    """

    x: Floats
    plain: Floats | None
    y: Labels
    run: NDArray[Any]
    pair: NDArray[Any]
    workload: NDArray[Any]
    group: NDArray[Any]
    target: Flags
    blocks: int
    width: int

    @classmethod
    def from_rows(cls, rows: Rows, projection: Projection, *, plain: bool) -> Cases:
        """Return `rows` projected; `plain`: keep them standardised, too; a missing label becomes 0."""
        x, about = projection.project_rows(rows), rows.about
        return cls(
            x,
            projection.first_components(None).project_rows(rows) if plain else None,
            np.nan_to_num(rows.y).astype(np.int64),
            run=about["run_id"].to_numpy(object),
            pair=about["pair_id"].to_numpy(object),
            workload=about["workload"].to_numpy(object),
            group=about["group"].to_numpy(object),
            target=(about["side"] == SIDES[1]).to_numpy(bool),
            blocks=rows.blocks,
            width=(x.shape[1] - rows.n_other_columns) // rows.blocks,
        )

    @property
    def n_beside(self) -> int:
        """The number of columns of `x` after the components."""
        return self.x.shape[1] - self.blocks * self.width

    def leading_columns(self, components: int | None) -> Floats:
        """Return the first `components` of every block, then the other columns; None: `plain`, if present."""
        if components is None and self.plain is not None:
            return self.plain
        if components is None or components >= self.width:
            return self.x
        blocks = np.arange(self.blocks)[:, None] * self.width + np.arange(components)
        other_columns = np.arange(self.blocks * self.width, self.x.shape[1])
        return self.x[:, np.concatenate([blocks.ravel(), other_columns])]


@dataclass(frozen=True)
class GroupClassifiers:
    """Fitted classifiers: `of_groups` by group, and the `fallback` for all rows (None where not needed).

    `share` is the weight of a group's own classifier against the fallback, in log-odds; 1: it decides alone.
    """

    of_groups: dict[str, Any]
    fallback: Any
    share: float
    components: int | None

    @classmethod
    def fit(
        cls, model: Model, params: Params, cases: Cases, *, chosen: Flags, groups: Collection[str], seed: int
    ) -> GroupClassifiers:
        """Return classifiers fitted to the cases of the mask `chosen`, shape (n_rows,).

        `params` are the classifier's hyperparameters, and ``components, sampler, rate, cost_ratio, share``.
        Those of `groups` whose chosen cases have both labels get their own classifier. No fallback is fitted
        if all cases that are not chosen belong to such groups and ``share`` is 1.
        """
        x, share = cases.leading_columns(params["components"]), float(params["share"])
        of_groups = {}
        for group in groups if share else ():
            rows = np.flatnonzero(chosen & (cases.group == group))
            if len(np.unique(cases.y[rows])) > 1:
                of_groups[group] = fit_classifier(model, params, x[rows], cases.y[rows], seed)
        others = cases.group[~chosen]
        needed = share < 1 or not len(others) or not np.isin(others, list(of_groups)).all()
        rows = np.flatnonzero(chosen)
        if of_groups:
            rows = rows[np.random.default_rng(seed).random(len(rows)) * len(rows) < MAX_FALLBACK_ROWS]
        fallback = fit_classifier(model, params, x[rows], cases.y[rows], seed) if needed else None
        return cls(of_groups, fallback, share, params["components"])

    def log_odds(self, cases: Cases, chosen: Flags) -> Floats:
        """Return the log-odds of abnormal of the cases in the mask `chosen`, shape (n_chosen,)."""
        return self.row_log_odds(cases.leading_columns(self.components)[chosen], cases.group[chosen])

    def row_log_odds(self, x: Floats, group: NDArray[Any]) -> Floats:
        """Return the log-odds of abnormal (n_rows,); `x` is the classifiers' input, `group` is by row."""
        odds = np.zeros(len(x))
        place, names = pd.factorize(group)
        alone = np.array([self.share == 1 and name in self.of_groups for name in names], bool)
        rows = ~alone[place]
        if rows.any():
            odds[rows] = log_odds(self.fallback, x[rows])
        for number, name in enumerate(names):
            if name in self.of_groups:
                rows = place == number
                weighted = self.share * log_odds(self.of_groups[name], x[rows])
                odds[rows] = weighted + (1 - self.share) * odds[rows]
        return odds


def fit_classifier(model: Model, params: Params, x: Floats, y: Labels, seed: int) -> Any:
    """Return one classifier fitted to `x`, (n_rows, n_columns), and labels `y`, (n_rows,), after resampling.

    `model` is its entry in the catalogue. `params` are its hyperparameters, and those of resampling:
    ``sampler`` and ``rate`` (default 1), as in `resample_rows`, and ``cost_ratio``, the weight of class 1
    relative to class 0 (nearest neighbours ignore it). KeyError without ``sampler`` or ``cost_ratio``. The
    ``k`` of nearest neighbours is limited to the number of rows. Warnings that a fit did not converge are
    hidden; some models raise ValueError if `y` has one label.
    """
    from sklearn.exceptions import ConvergenceWarning

    rows = resample_rows(y, params["sampler"], params.get("rate", 1.0), seed)
    cost = params["cost_ratio"]
    weights = None if cost == 1 or not model.weighted else {0: 1.0, 1: cost}
    limited_params = {**params, "k": min(params["k"], len(rows))} if "k" in params else params
    with warnings.catch_warnings():
        # weights that have not fully converged predict as well
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = model.build(limited_params, seed, weights)
        if model.name == "logistic" and x.shape[1] > len(rows):
            # the time of Newton's method is cubic in the number of columns
            classifier.set_params(solver="lbfgs")
        return classifier.fit(x[rows], y[rows])


def resample_rows(y: Labels, sampler: str, rate: float, seed: int) -> Whole:
    """Return the indices of the rows to learn from, ascending (matrix paper, section 4.4).

    "under" drops random rows of the more frequent class of `y`, "over" repeats random rows of the rarer one,
    until the number of rows of the rarer class is `rate` times that of the other; "none" returns all rows, as
    do the others if that ratio is already reached, or `y` has one class.
    """
    rows = np.arange(len(y))
    if sampler == "none":
        return rows
    rare, frequent = sorted((rows[y == 0], rows[y == 1]), key=len)
    if not len(rare) or len(rare) >= rate * len(frequent):
        return rows
    draw = np.random.default_rng(seed)
    if sampler == "under":
        frequent = draw.choice(frequent, round(len(rare) / rate), replace=False)
    else:
        more = round(rate * len(frequent)) - len(rare)
        rare = np.concatenate([rare, draw.choice(rare, more)])
    return np.sort(np.concatenate([rare, frequent]))
