"""The model family ``comparisons``: its files, labelled vectors, folds, and the rules of other tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Comparisons, Evaluate
from data.comparisons.sides import Floats, Samples, Sides, flatten_samples
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.params import Params, load
from data.paths import FamilyPaths
from data.tables.files import digest_of
from data.tables.specs import read_table
from features.comparisons.summaries import Moments, rank_test, sample_moments, welch_t
from features.comparisons.vectors import DIRECTIONS, EVIDENCE, model_columns
from training.estimators.answering import MonotoneConstraints

KEYS = {"comparison_id": "str", "fold_group": "str", "status": "str"}


@dataclass(frozen=True)
class Examples:
    """Vectors, labels and groups, one row each."""

    x: NDArray[np.float64]  # shape (n_rows, n_features): May hold NaN, where a feature cannot be computed
    y: NDArray[np.int64]  # shape (n_rows,): 1 is fail
    groups: NDArray[np.str_]  # shape (n_rows,): No group is in both training and test rows
    #: Shape (n_rows,) or None: Rows below the minimum effect size, which pass without a model; None: no row.
    below: NDArray[np.bool_] | None = None
    #: The same comparisons, in the same order, with features computed without history.
    bare: Examples | None = None

    def select_rows(self, index: NDArray[np.int64]) -> Examples:
        """Return the rows `index`, shape (n_selected,), in that order."""
        below = None if self.below is None else self.below[index]
        bare = None if self.bare is None else self.bare.select_rows(index)
        return Examples(self.x[index], self.y[index], self.groups[index], below, bare)

    @property
    def needs_model(self) -> NDArray[np.bool_]:
        """Flags, shape (n_rows,), of rows not below the minimum effect size, which need a model."""
        return np.ones(len(self.y), bool) if self.below is None else ~self.below

    @property
    def is_trained(self) -> NDArray[np.bool_]:
        """Which rows are training rows, shape (n_rows,): those not below the minimum effect size.

        All rows if a label would get lost otherwise.
        """
        needed = self.needs_model
        lost = len(np.unique(self.y[needed])) < len(np.unique(self.y))
        return np.ones_like(needed) if lost else needed

    @property
    def training_rows(self) -> Examples:
        """The rows to fit a model to: those of `is_trained`, after those of `bare`.

        Without `bare` if a label gets lost where rows below the minimum effect size are left out.
        """
        chosen = self.is_trained
        full = replace(self.select_rows(np.flatnonzero(chosen)), below=None, bare=None)
        if self.bare is None or chosen.sum() > self.needs_model.sum():
            return full
        return concat_examples(self.bare.select_rows(np.flatnonzero(self.bare.needs_model)), full)

    @property
    def all_rows(self) -> Examples:
        """All rows, after those of `bare`."""
        return self if self.bare is None else concat_examples(self.bare, self)

    def drop_passes(self, rows: int, seed: int) -> Examples:
        """Return a copy with at most `rows` rows that need a model: passes are dropped at random.

        All fails and at least one pass stay, even if these are more rows. `self` if nothing is dropped.
        """
        needed = self.needs_model
        passes = np.flatnonzero(needed & (self.y == 0))
        surplus = int(needed.sum()) - rows
        if surplus <= 0:
            return self
        out = np.random.default_rng(seed).choice(passes, min(surplus, len(passes) - 1), replace=False)
        return self.select_rows(np.delete(np.arange(len(self.y)), out))


def concat_examples(first: Examples, second: Examples) -> Examples:
    """Return the rows of `first`, then those of `second`; `below` and `bare` of the result are None."""
    return Examples(
        np.concatenate([first.x, second.x]),
        np.concatenate([first.y, second.y]),
        np.concatenate([first.groups, second.groups]),
    )


@dataclass(frozen=True)
class FeatureTable:
    """The feature table of a family, from the stage featurize."""

    frame: pd.DataFrame  # ``comparison_id``, ``fold_group``, ``status`` and the features
    columns: tuple[str, ...]  # the features that the models take, in order
    digest: str  # SHA-256 of the file

    @classmethod
    def read(cls, path: Path, columns: tuple[str, ...]) -> FeatureTable:
        """Return the table; InputError if the file is missing or damaged, or a column or value is wrong."""
        if not path.is_file():
            raise InputError("no such file; run featurize first", file=path)
        try:
            frame = read_table(path, KEYS | dict.fromkeys(columns, "float64"))
        except InputError as exc:
            raise InputError(f"{exc.problem}; run featurize again", file=path, place=exc.place) from exc
        unknown = set(frame["status"].unique()) - {"pass", "fail"}
        if unknown:
            raise InputError(f"status={min(map(str, unknown))!r} is neither pass nor fail", file=path)
        return cls(frame.reset_index(drop=True), columns, digest_of(path))

    @property
    def examples(self) -> Examples:
        """The vectors with their labels and groups."""
        x, groups = self.frame[list(self.columns)], self.frame["fold_group"]
        failed = np.asarray(self.frame["status"] == "fail", np.int64)
        return Examples(x.to_numpy(np.float64), failed, groups.to_numpy(np.str_))

    @property
    def constraints(self) -> MonotoneConstraints | None:
        """Directions of the columns for estimators; None if the direction of a column is unknown."""
        if not set(self.columns) <= set(DIRECTIONS):
            return None
        evidence = self.columns.index(EVIDENCE) if EVIDENCE in self.columns else None
        return MonotoneConstraints(tuple(DIRECTIONS[name] for name in self.columns), evidence)

    def reference_medians(self) -> dict[str, float]:
        """Return the median of every feature over the comparisons that passed (0 where it has no value)."""
        passed = self.frame.loc[self.frame["status"] == "pass", list(self.columns)]
        return {str(name): float(value) for name, value in passed.median().fillna(0.0).items()}


Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One split into training and test rows."""

    split: str  # ``all``, ``stratified_parts`` or ``grouped_parts``
    #: train, test: row numbers, ascending. The part ``all`` has no test rows.
    train: Rows
    test: Rows
    #: repeat, fold: which repeat of the split, and which fold of it, counted from 0.
    repeat: int = 0
    fold: int = 0

    @property
    def name(self) -> str:
        """``all``, ``stratified/r0f2`` (repeat 0, fold 2) or ``grouped/f1``."""
        repeat = f"r{self.repeat}" if self.split == "stratified" else ""
        return self.split if self.split == "all" else f"{self.split}/{repeat}f{self.fold}"


def all_parts(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Return the part "all", then the parts of `stratified_parts`, then those of `grouped_parts`.

    The part "all" has all rows for training, and no test rows. InputError as by the other two.
    """
    everything = Part("all", np.arange(len(examples.y)), np.arange(0))
    return [everything, *stratified_parts(examples, how, seed), *grouped_parts(examples, how, seed)]


def stratified_parts(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Return the parts of a random split, with about equal shares of fails per fold (thesis, section 6.6.1).

    ``how.n_folds`` parts for each of ``how.n_repeats`` repeats; a part has the numbers of ``repeat`` and
    ``fold``, from 0, and the row numbers ``train`` and ``test``, ascending. InputError if a label has fewer
    rows than folds.
    """
    from sklearn.model_selection import RepeatedStratifiedKFold

    fewest = int(np.bincount(examples.y, minlength=2).min())
    if fewest < how.n_folds:
        needed = f"{how.n_folds} folds need at least {how.n_folds}"
        raise InputError(f"{fewest} comparisons have the rarer label; {needed}", place="stratified split")
    folds = RepeatedStratifiedKFold(n_splits=how.n_folds, n_repeats=how.n_repeats, random_state=seed)
    divided = enumerate(folds.split(examples.x, examples.y))
    return [Part("stratified", train, test, *divmod(place, how.n_folds)) for place, (train, test) in divided]


def grouped_parts(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Return ``how.n_grouped_folds`` parts; no group has rows both in training and in test of a part.

    Each row is in the test rows of one part; folds are stratified by label and shuffled with `seed`. A part
    has the row numbers ``train`` and ``test``, ascending, and the number ``fold``, all from 0. InputError if
    a label has fewer groups than folds, or the test rows of a fold have a single label.
    """
    folds = group_folds(examples, how.n_grouped_folds, seed, "grouped split")
    return [Part("grouped", train, test, fold=number) for number, (train, test) in enumerate(folds)]


def group_folds(examples: Examples, folds: int, seed: int, place: str) -> list[tuple[Rows, Rows]]:
    """Return training and test row numbers, ascending, of each of `folds` folds, stratified by label.

    Each row is in the test rows of one fold; no group is divided between folds. InputError, with the words
    `place`, if a label has fewer groups than folds, or the test rows of a fold have a single label.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    for label, word in ((1, "fails"), (0, "passes")):
        groups = len(np.unique(examples.groups[examples.y == label]))
        if groups < folds:
            problem = f"{word} come from {groups} operations; {folds} folds need at least {folds}"
            raise InputError(problem, place=place)
    kfold = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    divided = list(kfold.split(examples.x, examples.y, examples.groups))
    for _, test in divided:
        if len(np.unique(examples.y[test])) < len((0, 1)):
            problem = f"a fold of whole operations got only one kind of label; use fewer than {folds} folds"
            raise InputError(problem, place=place)
    return divided


Flags = NDArray[np.bool_]


def median_worse(sides: Sides, share: float = 0.05) -> Flags:
    """Return true for comparisons with a median worse than the baseline's by more than `share` of it.

    Shape (n_comparisons,); one such configuration is enough. Whether more is worse depends on the
    configuration. False where a median is unknown, or both are 0.
    """
    return _any_configuration(sides, _median_shift(sides) < -share)


def mann_whitney(sides: Sides, p: float) -> Flags:
    """Return true where Mann-Whitney's two-sided test gives less than `p` and the target ranks worse.

    Shape (n_comparisons,); one such configuration is enough. False where a side has no samples. Normal
    approximation with the corrections for ties and continuity, as SciPy computes it for all but the smallest
    samples.
    """
    return _any_configuration(sides, _ranks_worse(sides, p))


def welch_rule(sides: Sides, p: float = 0.05) -> Flags:
    """Return true for comparisons where Welch's two-sided p is below `p` and the target's mean is worse.

    Shape (n_comparisons,); one such configuration is enough. Whether more is worse depends on the
    configuration. False where a side has fewer than two samples; where neither side varies, any loss is true.
    """
    from scipy.special import stdtr

    baseline, target = sample_moments(sides.baseline), sample_moments(sides.target)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = welch_t(baseline, target, sides.sign)
        probability = 2 * stdtr(_welch_degrees(baseline, target), t)
    return _any_configuration(sides, (t < 0) & ((probability < p) | np.isneginf(t)))


def asv_rule(sides: Sides, p: float = 0.002, share: float = 0.1) -> Flags:
    """Return true where Mann-Whitney's p is below `p` and the median is worse by more than `share`.

    Shape (n_comparisons,); one configuration that meets both is enough; `share` is of the baseline's median.
    False where a side has no samples. The defaults are those of airspeed velocity. With so few samples that
    no arrangement of them reaches `p` (5 and 5), asv falls back on confidence intervals; that fallback is not
    modelled, so the rule is false.
    """
    return _any_configuration(sides, _ranks_worse(sides, p) & (_median_shift(sides) < -share))


def perfherder_rule(sides: Sides, t: float = 7.0, share: float = 0.02) -> Flags:
    """Return true where Welch's t, towards worse, exceeds `t` and the mean is worse by more than `share`.

    Shape (n_comparisons,); one configuration that meets both is enough; `share` is of the baseline's mean.
    False where a side has fewer than two samples; where neither side varies, t is infinite. This is the rule
    of Mozilla's alerts.
    """
    baseline, target = sample_moments(sides.baseline), sample_moments(sides.target)
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = sides.sign * (target.mean - baseline.mean) / np.abs(baseline.mean)
        return _any_configuration(sides, (welch_t(baseline, target, sides.sign) < -t) & (shift < -share))


def conbench_rule(sides: Sides, z: float = 5.0) -> Flags:
    """Return true for comparisons where the target's mean is over `z` deviations worse than the baseline's.

    Shape (n_comparisons,); one configuration that is worse is enough. Whether more is worse depends on the
    configuration. This is Conbench's lookback z-score: if the baseline has several versions, mean and
    standard deviation (by n - 1) are those of their means, else those of its samples; history is not used. A
    configuration without both numbers, as with a single sample of the baseline, counts as not worse; with
    deviation 0, any loss counts.
    """
    means = sample_moments(_version_means(sides.baseline))
    samples, target = sample_moments(sides.baseline), sample_moments(sides.target)
    several = means.n > 1
    centre = np.where(several, means.mean, samples.mean)
    deviation = np.sqrt(np.where(several, means.variance, samples.variance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _any_configuration(sides, sides.sign * (target.mean - centre) / deviation < -z)


#: Rules by their names in metrics and verdicts: of the scheduler thesis (section 6.1), of textbooks, and of
#: airspeed velocity, Mozilla Perfherder and Conbench. True is fail, an array of shape (n_comparisons,).
RULES: dict[str, Callable[[Sides], Flags]] = {
    "median-5": median_worse,
    "mann-whitney-05": partial(mann_whitney, p=0.05),
    "mann-whitney-001": partial(mann_whitney, p=0.001),
    "welch-05": welch_rule,
    "asv": asv_rule,
    "perfherder": perfherder_rule,
    "conbench": conbench_rule,
}


def _any_configuration(sides: Sides, worse: Flags) -> Flags:
    return np.bincount(sides.comparison[worse], minlength=sides.n_comparisons) > 0


def _median_shift(sides: Sides) -> Floats:
    """Return the shift of the median as a share of the baseline's; negative: target worse."""
    baseline, target = sides.baseline_five[:, 2], sides.target_five[:, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        return sides.sign * (target - baseline) / np.abs(baseline)


def _ranks_worse(sides: Sides, p: float) -> Flags:
    ranks = rank_test(sides.baseline, sides.target, sides.sign)
    return (ranks.z < 0) & (ranks.p_values() < p)


def _welch_degrees(baseline: Moments, target: Moments) -> Floats:
    of_b, of_t = baseline.variance / baseline.n, target.variance / target.n
    return (of_b + of_t) ** 2 / (of_b**2 / (baseline.n - 1) + of_t**2 / (target.n - 1))


def _version_means(samples: Samples) -> Samples:
    owner, place = flatten_samples(samples)
    values, orders = samples.values[place], samples.orders[place]  # noqa: PD011
    edge = np.r_[True, (np.diff(owner) != 0) | (np.diff(orders) != 0)][: len(owner)]
    first = np.flatnonzero(edge)
    sums = np.add.reduceat(values, first) if len(first) else values
    counts = np.bincount(owner[first], minlength=len(samples.starts))
    stops = np.cumsum(counts)
    return Samples(sums / np.diff(np.r_[first, len(owner)]), orders[first], stops - counts, stops)


@dataclass(frozen=True)
class Family:
    """Parameters, paths and features of a model family, for the stages."""

    params: Params[Comparisons]  # parameters of all families, and of this one
    columns: tuple[str, ...]  # the features that the models take
    #: Returns the fixed rules' verdicts: a boolean column per rule (True is fail), indexed by
    #: ``comparison_id``.
    rules: Callable[[], pd.DataFrame]
    paths: FamilyPaths
    name = "comparisons"

    @property
    def section(self) -> Comparisons:
        """The family's section of params.yaml."""
        return self.params.section

    @property
    def features_file(self) -> Path:
        """File with the labelled vectors."""
        return self.paths.processed / "features.parquet"

    def read_features(self) -> FeatureTable:
        """Return the labelled vectors; InputError if file or column is missing, or a label is invalid."""
        return FeatureTable.read(self.features_file, self.columns)

    def stage_file(self, name: Literal["changes", "bare", "runs"]) -> Path:
        """Return the path of a file from the stage featurize with a row for each labelled comparison.

        "changes" has the worst change of the medians, "bare" the vectors without history; "runs" has a single
        row, the between-run spread.
        """
        return self.paths.processed / f"{name}.parquet"


def bound() -> Family:
    """Return the family comparisons with the parameters in params.yaml of the working directory.

    InputError if that file is missing or invalid.
    """
    params, paths = load(Comparisons), FamilyPaths(Family.name)
    columns = model_columns(params.section.featurize.feature_set)
    return Family(params, columns, partial(_rule_verdicts, paths), paths)


def _rule_verdicts(paths: FamilyPaths) -> pd.DataFrame:
    tables = ComparisonTables.read(paths.interim)
    sides, index = Sides.from_tables(tables).overflow_safe, pd.Index(tables.comparisons["comparison_id"])
    return pd.DataFrame({name: decide(sides) for name, decide in RULES.items()}, index=index)
