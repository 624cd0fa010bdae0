"""The comparative analysis engine (matrix paper, section 5); each of its five remedies can be off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import factorial, isfinite
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, Flags, Floats, Labels, MatrixTables, Whole
from features.matrices.forms import (
    ABOUT,
    FORMS,
    PAIR_FORMS,
    MetricStatistics,
    Removal,
    Rows,
    summarise_groups,
)
from features.matrices.projection import Projection
from training.estimators.answering import model_answering, require_finite
from training.matrices.engine.grouping import ALL, Grouping
from training.matrices.engine.judges import FALLBACK, Alarms, Cases, GroupClassifiers
from training.matrices.engine.models import CATALOGUE, PAIRED
from training.matrices.engine.search import SearchInput, SearchResult, mean_pair_odds, search_params
from training.matrices.engine.shape import RowSettings, TrainingRows, make_test_rows, with_both_sides
from training.matrices.schemes import BLENDS, Cell, Scheme

#: Function of rows, and the index of each row's pair, that returns log-odds, one per row.
Odds = Callable[[Floats, Whole], Floats]

#: Number of metrics tried in the first step, those that differ most in units of noise; number of the best of
#: them tried in each later step.
TRIED, AGAIN = 32, 16
#: Largest number of metrics named; their contributions are computed from all their subsets.
MAX_DRIVERS = 10
#: Number of values judged at a time.
AT_ONCE = 2_000_000
#: Decimals to which log-odds are compared; smaller differences are rounding errors.
DIGITS = 9


@dataclass(frozen=True)
class Attribution:
    """The share of a raw metric in a verdict, with medians of the valid runs (None: not measured).

    `contribution` is its part of the fall of the log-odds of ``fail`` when the differences of all attributed
    metrics are removed.
    """

    metric: str
    unit: str
    baseline: float | None
    target: float | None
    contribution: float


@dataclass(frozen=True)
class NamedAttributions:
    """The attributions of some pairs: metric indices and contributions, shape (n_pairs, n), largest first."""

    metric: Whole
    contribution: Floats


def find_attributions(removal: Removal, odds_of: Odds, n: int) -> Iterator[tuple[slice, NamedAttributions]]:
    """Yield, for consecutive slices of the pairs, the `n` metrics that drive the log-odds of ``fail``.

    Each item is the slice, and an object with ``metric`` (indices) and ``contribution``, both of shape
    (n_pairs in the slice, n), the largest contribution first; a positive one raises the log-odds. `n` is
    limited to 10 (`MAX_DRIVERS`) and to the number of metrics. Each step takes the metric whose removal,
    after those already selected, lowers the log-odds most; the first tries the 32 (`TRIED`) that differ most
    in units of noise, the second the 16 (`AGAIN`) that came next, later ones the rest of these. To remove a
    metric, the target's runs are shifted until their median equals the baseline's. The fall of the log-odds
    when all selected metrics are removed is divided among them by Shapley values. `odds_of` takes versions of
    ``removal.rows.x``, and the index of each row's pair, and returns the log-odds of each row; a pair has the
    mean of its rows.
    """
    pairs, metrics = removal.sizes.shape
    n, tried = min(n, MAX_DRIVERS, metrics), min(TRIED, metrics)
    rows = int(removal.counts.max(initial=1)) * max(tried, 2**n) * removal.rows.x.shape[1]
    step = max(1, AT_ONCE // max(1, rows))
    for first in range(0, pairs, step):
        here = slice(first, min(first + step, pairs))
        odds = partial(_odds_without, removal, odds_of, np.arange(here.start, here.stop))
        # the caller checks that the result is finite
        with np.errstate(over="ignore", invalid="ignore"):
            metric = _selected_metrics(odds, removal.sizes[here], n)
            yield here, _shapley_values(odds, metric, metrics)


def _odds_without(removal: Removal, odds_of: Odds, pairs: Whole, removed: Flags) -> Floats:
    """Return the log-odds of each version of `pairs` without the `removed` metrics, (n_pairs, n_versions)."""
    count, versions, _ = removed.shape
    pair = np.repeat(pairs, versions)
    x, version = removal.without_differences(pair, removed.reshape(count * versions, -1))
    odds = odds_of(x, pair[version])
    return np.asarray((np.bincount(version, odds) / np.bincount(version)).reshape(count, versions))


def _selected_metrics(odds: Callable[[Flags], Floats], sizes: Floats, n: int) -> Whole:
    gone = np.zeros(sizes.shape, bool)
    left = np.argsort(-sizes, axis=1, kind="stable")[:, :TRIED]
    metric = np.zeros((len(sizes), n), np.intp)
    for place in range(n):
        removed = np.repeat(gone[:, None], left.shape[1], axis=1)
        np.put_along_axis(removed, left[:, :, None], values=True, axis=2)
        order = np.argsort(np.round(odds(removed), DIGITS), axis=1, kind="stable")
        left = np.take_along_axis(left, order, axis=1)
        metric[:, place] = left[:, 0]
        np.put_along_axis(gone, left[:, :1], values=True, axis=1)
        left = left[:, 1 : AGAIN + 1]
    return metric


def _shapley_values(odds: Callable[[Flags], Floats], metric: Whole, metrics: int) -> NamedAttributions:
    """Divide the fall of the log-odds without all selected metrics among them, from all their subsets."""
    count, n = metric.shape
    inside = (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
    removed = np.zeros((count, len(inside), metrics), bool)
    metric_rows = np.broadcast_to(metric[:, None], (count, len(inside), n))
    np.put_along_axis(removed, metric_rows, np.broadcast_to(inside, metric_rows.shape), axis=2)
    orders = np.array([factorial(size) * factorial(n - 1 - size) / factorial(n) for size in range(n)])
    weights = np.where(inside, 1.0, -1.0) * orders[inside.sum(axis=1, keepdims=True) - inside]
    contribution = np.round(-odds(removed) @ weights, 12) + 0.0
    order = np.argsort(-np.round(contribution, DIGITS), axis=1, kind="stable")
    return NamedAttributions(
        np.take_along_axis(metric, order, axis=1), np.take_along_axis(contribution, order, axis=1)
    )


#: Least number of abnormal, and of normal, target rows for a group to get its own classifier; the matrix
#: paper (section 4.3) calls fewer too few.
CASES = 3


@dataclass(frozen=True)
class Engine:
    """An unfitted engine.

    The model of `cell` is a name in `training.matrices.engine.models.CATALOGUE`; models in `PAIRED` take two
    runs as one row, whatever the scheme's form. `fixed` parameters are not searched: ``components, sampler,
    rate, cost_ratio, share`` or the classifier's. `alarms` is the guarantee on the false positive rate.
    """

    cell: Cell
    trials: int
    seed: int
    fixed: Mapping[str, Any] = field(default_factory=dict)
    alarms: Alarms | None = None

    def fit(self, tables: MatrixTables) -> FittedEngine:
        """Return an engine fitted to `tables`, whose flags are the labels; tuning sees no other data.

        Raises InputError if the remaining runs are all normal or all abnormal, or a name is unknown.
        """
        shaped = self.row_settings.make_rows(tables)
        return self.fit_prepared(shaped, *self.prepare_cases(shaped))

    @property
    def row_settings(self) -> RowSettings:
        """Settings that decide how tables become rows.

        InputError if the model is unknown or needs another form.
        """
        model, scheme = self.cell.model, self.cell.scheme
        if model not in CATALOGUE:
            raise InputError(f'model="{model}"; expected one of: {", ".join(CATALOGUE)}')
        form = "concatenated" if model in PAIRED else scheme.form
        if model in BLENDS and (form, scheme.components) != ("joined", None):
            raise InputError(f'model="{model}" needs the form "joined" and no principal components')
        return RowSettings(scheme.metrics, form, scheme.prune, scheme.grouping, self.seed)

    def prepare_cases(self, shaped: TrainingRows) -> tuple[Projection, Cases]:
        """Return the projection of training rows, and the cases that this engine learns from."""
        components = self.cell.scheme.components
        projection = Projection.from_rows(shaped.rows, components)
        plain = self.cell.scheme.tuned and components is not None
        return projection, Cases.from_rows(shaped.rows, projection, plain=plain)

    def fit_prepared(self, shaped: TrainingRows, projection: Projection, cases: Cases) -> FittedEngine:
        """Return an engine fitted to cases prepared with the same row settings and number of components."""
        counted = count_by_group(cases.group[cases.target], cases.y[cases.target])
        # automatic groups only estimate noise; abnormal cases are learned from all groups together
        groups = groups_with_cases(counted) if self.cell.scheme.grouping == "given" else ()
        question = SearchInput(self.cell, cases, groups, self.seed, self.fixed, shaped.causes, self.alarms)
        chosen = search_params(question, self.trials)
        judges = question.fit_classifiers(chosen.params, np.ones(len(cases.y), bool))
        scales = (shaped.form, shaped.scales, shaped.grouping, projection)
        return FittedEngine(self.cell.scheme, self.cell.model, *scales, judges, chosen)


class ExplainedPair(NamedTuple):
    """The verdict on a pair, with fields as in `FittedEngine.judge_pairs`; largest attribution first.

    The contributions of a pair's attributions add up to the fall of the log-odds of abnormal without their
    differences.
    """

    pair_id: str
    group_used: str
    probability: float
    threshold: float
    attributions: tuple[Attribution, ...] = ()

    @property
    def abnormal(self) -> bool:
        """Whether the probability reaches the threshold."""
        return self.probability >= self.threshold


@dataclass(frozen=True)
class FittedEngine:
    """A fitted engine; `search_result` is the outcome of the search."""

    scheme: Scheme
    model: str
    form: str
    scales: MetricStatistics
    grouping: Grouping
    projection: Projection
    judges: GroupClassifiers
    search_result: SearchResult

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the engine uses, which tables must have."""
        return self.scales.metrics

    @property
    def threshold(self) -> float:
        """The least probability of an abnormal pair."""
        return self.search_result.pairs.threshold

    def judge_pairs(self, tables: MatrixTables) -> pd.DataFrame:
        """Return a verdict on every pair that has a baseline and a target; others are left out.

        `tables` must have the columns `metrics`, and only valid runs. Raises ModelError if a probability is
        not finite. The result has ``pair_id, workload, group, group_used, probability`` (of abnormal),
        ``threshold, abnormal`` (bool), in the order of the pairs' first target runs. ``group_used`` is
        "fallback" where the group is unknown or has no classifier, and "all" where no group has one.
        """
        return self.judge_pairs_and_vectors(tables)[0]

    def judge_pairs_and_vectors(
        self, tables: MatrixTables, rows: Rows | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the table of `judge_pairs`, and a verdict on every vector, the unit of the matrix paper.

        A vector is a row of the form; with a form of one row per pair, it is a target run, and has its pair's
        verdict. The second table has ``run_id, pair_id, workload, group, side,
        probability, threshold, abnormal``. `rows`, if known, are those of `make_test_rows`. Requirements and
        errors are those of `judge_pairs`.
        """
        if rows is None:
            rows = make_test_rows(self.form, self.scales, self.grouping, tables)
        cases, odds = self._judge_rows(rows)
        return self._pair_table(tables, cases, odds), self._vector_table(tables, cases, odds)

    def _pair_table(self, tables: MatrixTables, cases: Cases, odds: Floats) -> pd.DataFrame:
        about = tables.runs[["pair_id", "workload", "group"]].drop_duplicates("pair_id").set_index("pair_id")
        verdicts = pd.DataFrame(self._pair_verdicts(cases, odds), columns=ExplainedPair._fields)
        columns = verdicts[["group_used", "probability", "threshold"]]
        abnormal = verdicts["probability"] >= verdicts["threshold"]
        return about.loc[verdicts["pair_id"]].reset_index().assign(**columns, abnormal=abnormal)

    def _pair_verdicts(self, cases: Cases, odds: Floats) -> list[ExplainedPair]:
        """Return the verdicts without attributions; pairs in the order of their first target rows."""
        with model_answering(self.model):
            of_pairs, _ = mean_pair_odds(cases, np.ones(len(odds), bool), odds)
            probabilities = self.search_result.pairs.probability(of_pairs)
        require_finite(self.model, "probability", probabilities)
        used, own = dict[str, str](), self.judges.of_groups
        for pair, group in zip(cases.pair[cases.target], cases.group[cases.target], strict=True):
            used.setdefault(pair, group if group in own else FALLBACK if own else ALL)
        answers = zip(used.items(), probabilities.tolist(), strict=True)
        return [ExplainedPair(*of_pair, probability, self.threshold) for of_pair, probability in answers]

    def _vector_table(self, tables: MatrixTables, cases: Cases, odds: Floats) -> pd.DataFrame:
        runs, of_pairs = tables.runs[list(ABOUT)], self.form in PAIR_FORMS
        calibration = self.search_result.pairs if of_pairs else self.search_result.rows
        threshold, probability = calibration.threshold, calibration.probability(odds)
        if of_pairs:
            rows = runs[(runs["side"] == SIDES[1]) & runs["pair_id"].isin(cases.pair)]
            probability = pd.Series(probability, cases.pair).reindex(rows["pair_id"]).to_numpy()
        else:
            rows = runs.set_index("run_id").loc[cases.run].reset_index()
        return rows.reset_index(drop=True).assign(
            probability=probability, threshold=threshold, abnormal=probability >= threshold
        )

    def explain_pairs(self, tables: MatrixTables, n: int) -> Iterator[ExplainedPair]:
        """Yield the verdict on each complete pair, with the `n` raw metrics that drove it; 0: without them.

        Pairs without a baseline or a target are left out. Raises ModelError if a number is not finite.
        """
        whole = self.grouping.assign_groups(with_both_sides(tables))
        with model_answering(self.model):
            rows = FORMS[self.form](whole, self.scales)
        verdicts = {pair.pair_id: pair for pair in self._pair_verdicts(*self._judge_rows(rows))}
        if not n or not verdicts:
            yield from verdicts.values()
            return
        with model_answering(self.model):
            removal = Removal.from_rows(self.form, whole, self.scales, rows)
        for here, named in find_attributions(removal, self.log_odds_function(removal), n):
            of_pairs = self._describe_drivers(removal.pairs[here], named, whole)
            for pair, strongest in zip(removal.pairs[here], of_pairs, strict=True):
                yield verdicts[pair]._replace(attributions=strongest)

    def log_odds_function(self, removal: Removal) -> Odds:
        """Return a function from versions of `removal`'s rows to calibrated log-odds, one per row.

        It also takes the index of each row's pair, and raises ModelError if a number is not finite.
        """
        group, line = removal.rows.about["group"].to_numpy(object)[removal.starts], self.search_result.pairs
        # limited to the components that the classifiers use
        projection = self.projection.first_components(self.judges.components)

        def odds_of(x: Floats, pair: Whole) -> Floats:
            with model_answering(self.model):
                projected = projection.project_rows(replace(removal.rows, x=x))
                odds = line.slope * self.judges.row_log_odds(projected, group[pair]) + line.shift
            require_finite(self.model, "log-odds", odds)
            return odds

        return odds_of

    def _describe_drivers(
        self, pairs: NDArray[Any], named: NamedAttributions, tables: MatrixTables
    ) -> Iterator[tuple[Attribution, ...]]:
        require_finite(self.model, "contribution", named.contribution)
        run_places, values = tables.pair_sides, tables.metric_values(self.metrics)
        units = dict(zip(tables.metrics["metric"].tolist(), tables.metrics["unit"].tolist(), strict=True))
        of_name = {name: number for number, name in enumerate(pairs)}
        pair = np.array([of_name.get(name, -1) for name in run_places.names], np.intp)[run_places.pair]
        rows = np.flatnonzero(pair >= 0)
        scales = np.where(np.isfinite(values[rows]), values[rows], np.nan)
        matrix = run_places.target[rows] * len(pairs) + pair[rows]
        medians, _, _ = summarise_groups(matrix, scales, 2 * len(pairs))
        sides = medians.reshape(2, len(pairs), -1)
        for number, metrics in enumerate(named.metric):
            names = [self.metrics[metric] for metric in metrics]
            measured = sides[:, number, metrics].tolist()
            side_medians = [[v if isfinite(v) else None for v in side] for side in measured]
            fields = zip(names, *side_medians, named.contribution[number].tolist(), strict=True)
            yield tuple(Attribution(name, str(units[name]), *numbers) for name, *numbers in fields)

    def _judge_rows(self, rows: Rows) -> tuple[Cases, Floats]:
        with model_answering(self.model):
            cases = Cases.from_rows(rows, self.projection, plain=self.judges.components is None)
            return cases, self.judges.log_odds(cases, np.ones(len(cases.y), bool))


def count_by_group(group: NDArray[Any], y: Labels) -> pd.DataFrame:
    """Return the numbers of ``abnormal`` and of all ``rows``, indexed by group, ascending.

    `group` and `y` (1 for an abnormal row, else 0) have shape (n_rows,).
    """
    return pd.Series(y).groupby(group).agg(abnormal="sum", rows="size")


def groups_with_cases(counted: pd.DataFrame) -> tuple[str, ...]:
    """Return the groups with at least 3 abnormal and 3 normal rows; empty if `counted` has a single group.

    `counted` is the result of `count_by_group`, whose order is kept.
    """
    normal = counted["rows"] - counted["abnormal"]
    enough = (counted["abnormal"] >= CASES) & (normal >= CASES)
    return tuple(counted.index[enough]) if len(counted) > 1 else ()
