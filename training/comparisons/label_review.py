"""Labels that look wrong, by out-of-fold predictions and by other annotators.

Source: C. Northcutt, L. Jiang, I. Chuang, Confident learning: estimating uncertainty in dataset labels,
Journal of Artificial Intelligence Research 70 (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import decided_labels, disputed_comparisons
from data.comparisons.sides import Floats, Ints
from data.tables.files import digest_of
from data.tables.specs import read_table
from training.comparisons.family import Examples, FeatureTable, concat_examples
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability
from training.evaluation.calibration import learn_sigmoid, log_odds
from training.evaluation.thresholds import best_cut

#: The model for few labels: trees with at least 4 rows per leaf, and classes of equal weight.
FEW = ("extra-trees", {**CATALOGUE["extra-trees"].start, "leaf": 4, "weights": "balanced", "cost_ratio": 1.0})
#: Function that fits a model to labelled rows.
Fitting = Callable[[Examples], Any]
#: Least number of groups with fails, and with passes, to choose a threshold; largest number of folds.
_FOLDS = (2, 5)
#: With extra training data, the user's labels are used from this number of fails and of passes on, and from
#: this number of labels on.
ENOUGH, ENOUGH_LABELS = 5, 30
#: Largest loss of estimated balanced accuracy at the threshold that keeps the share of fails.
MAX_LOSS = 0.02
#: The threshold without enough labels: that of classes of equal weight.
_EVEN = 0.5


@dataclass(frozen=True)
class Learnable:
    """The user's labels, and optionally a champion's training data and unlabelled rows."""

    user_labels: Examples  # the user's labels
    #: The extra training data of a champion; its groups are not in `user_labels`.
    start: Examples | None = None
    rest: Floats | None = None  # shape (n_rest, n_features) or None: Unlabelled rows

    @property
    def only_user_labels(self) -> bool:
        """Whether there are neither extra training data nor unlabelled rows."""
        return self.start is None and (self.rest is None or not len(self.rest))

    @property
    def all_rows(self) -> Examples:
        """All rows to fit a model to."""
        return self.rows_to_fit(self.user_labels)

    def rows_to_fit(self, labelled: Examples) -> Examples:
        """Return the rows to fit to if only `labelled` of the user's rows may be used; these come last."""
        rows = labelled.training_rows
        return rows if self.start is None else concat_examples(self.start, rows)


@dataclass(frozen=True)
class FewModel:
    """A model from few labels; its verdict is fail if the probability is at least `threshold`."""

    fitted: Any
    threshold: float

    def predict_probability(self, x: Floats) -> Floats:
        """Return the probability of fail, shape (n_rows,)."""
        return fail_probability(self.fitted, x)


def fit_few_labels(data: Learnable, seed: int) -> FewModel | None:
    """Return a model fitted to `data`, with its ``threshold`` of fail; None while all labels are equal.

    With extra training data, the user's labels and the unlabelled rows are ignored until there are 30
    (`ENOUGH_LABELS`) labels, among them 5 (`ENOUGH`) fails and 5 passes: passes alone teach a model to
    recognise where a measurement comes from. The model is fitted to labelled rows only; unlabelled ones help
    to choose the threshold.
    """
    y = data.user_labels.y
    if data.start is not None and (len(y) < ENOUGH_LABELS or np.bincount(y, minlength=2).min() < ENOUGH):
        data = Learnable(data.start)
    model = fit_model(data, seed)
    if model is None:
        return None
    return FewModel(model, choose_threshold(data, model, partial(_fit_extra_trees, seed=seed), seed))


def fit_model(data: Learnable, seed: int) -> Any:
    """Return an extra-trees pipeline fitted to the user's and any extra labels; None if all are equal."""
    whole = data.all_rows
    return _fit_extra_trees(whole, seed) if len(np.unique(whole.y)) == len((0, 1)) else None


def choose_threshold(data: Learnable, model: Any, fitting: Fitting, seed: int) -> float:
    """Return the threshold of ``fail``, a probability, for models that `fitting` trains on `data`.

    It has the best balanced accuracy (`best_cut`) over the user's labelled rows and further ones. The rows
    labelled first are not a fair sample: most are hard, and many fail. So unlabelled rows, judged by `model`,
    which is fitted to all of `data`, count as passes (C. Elkan, K. Noto, Learning classifiers from only
    positive and unlabeled data, KDD 2008), or as partial fails where the user's labels make fail the likelier
    verdict. The fails of ``data.start`` count as well, because the user's may be too few; its passes do not,
    because unchanged comparisons differ between measurements. All probabilities of labelled rows are
    out-of-fold. Returns 0.5 if a label has fewer than two groups, a fold would train on one label, or nothing
    counts as a pass.

    While ``data.start`` is given and most of the user's rows are unlabelled, the threshold keeps the share of
    the user's rows that a model of ``data.start`` alone fails, unless its estimated balanced accuracy is more
    than 0.02 (`MAX_LOSS`) below the best: a threshold from few fails varies more than that share.
    """
    whole, folds = data.all_rows, _grouped_folds(data.all_rows, seed)
    if folds is None:
        return _EVEN
    probability = np.zeros(len(whole.y))
    for train, test in folds:
        probability[test] = fail_probability(fitting(whole.select_rows(train)), whole.x[test])
    user_rows = data.user_labels.is_trained
    # the user's rows come last
    is_user_row = np.arange(len(whole.y)) >= len(whole.y) - user_rows.sum()
    counted = is_user_row | (whole.y == 1)
    rest = np.zeros(0) if data.rest is None or not len(data.rest) else fail_probability(model, data.rest)
    likely = _likely_fails(whole.y[is_user_row], probability[is_user_row], rest)
    y = np.concatenate([whole.y[counted], likely])
    if y.min() == 1:
        return _EVEN
    scores = np.concatenate([probability[counted], rest])
    best = best_cut(y, scores).threshold
    if data.start is None or data.rest is None or len(rest) <= user_rows.sum():
        return best
    x = np.concatenate([data.user_labels.x[user_rows], data.rest])
    share = _share_of_fails(data.start, x, fitting, seed)
    kept = float(np.quantile(np.concatenate([probability[is_user_row], rest]), 1 - share))
    loss = _balanced_accuracy(y, scores >= best) - _balanced_accuracy(y, scores >= kept)
    return kept if loss <= MAX_LOSS else best


def _share_of_fails(start: Examples, x: Floats, fitting: Fitting, seed: int) -> float:
    """Return the share of the rows `x` that a model of `start` alone fails, at its own threshold."""
    model = fitting(start)
    threshold = choose_threshold(Learnable(start), model, fitting, seed)
    return float((fail_probability(model, x) >= threshold).mean())


def _balanced_accuracy(y: Floats, failed: NDArray[np.bool_]) -> float:
    return float(y[failed].sum() / y.sum() + (1 - y)[~failed].sum() / (1 - y).sum()) / 2


def _likely_fails(y: Ints, probability: Floats, rest: Floats) -> Floats:
    """Return the weight of each unlabelled row as a fail: 0, or more than 0.5."""
    if len(np.unique(y)) < len((0, 1)) or not len(rest):
        return np.zeros(len(rest))
    failing = learn_sigmoid(y, log_odds(probability))(log_odds(rest))
    share = 1 / (1 + np.exp(-failing))
    return np.asarray(np.where(share > _EVEN, share, 0.0))


def _grouped_folds(examples: Examples, seed: int) -> list[tuple[Ints, Ints]] | None:
    from sklearn.model_selection import StratifiedGroupKFold

    max_folds = min(len(np.unique(examples.groups[examples.y == label])) for label in (0, 1))
    least, usual = _FOLDS
    if max_folds < least:
        return None
    kfold = StratifiedGroupKFold(min(max_folds, usual), shuffle=True, random_state=seed)
    divided = list(kfold.split(examples.x, examples.y, examples.groups))
    fair = all(len(np.unique(examples.y[train])) == len((0, 1)) for train, _ in divided)
    return divided if fair else None


def _fit_extra_trees(examples: Examples, seed: int) -> Any:
    name, params = FEW
    return build_pipeline(CATALOGUE[name], params, examples.y, seed).fit(examples.x, examples.y)


#: Files of the stage featurize: the extra training data, and the unlabelled comparisons.
START, UNLABELLED_FILE = "start.parquet", "unlabelled.parquet"


def read_training_data(
    features: Path, table: FeatureTable, labelled: Examples, *, unlabelled: bool = False
) -> Learnable:
    """Return `labelled` with the extra training data and, if `unlabelled`, the unlabelled rows.

    `labelled` becomes the field ``user_labels``. The extra training data are in start.parquet (field
    ``start``), the unlabelled rows in unlabelled.parquet (field ``rest``), both next to the file `features`,
    which is not read. A field is None if its file does not exist; ``start`` also if the file has no rows,
    ``rest`` also unless `unlabelled`. InputError if a file that is read is damaged or lacks a column of
    `table`.
    """
    start, others = features.with_name(START), features.with_name(UNLABELLED_FILE)
    first = FeatureTable.read(start, table.columns).examples if start.is_file() else None
    wanted = dict.fromkeys(table.columns, "float64")
    counted = unlabelled and others.is_file()
    rest = read_table(others, wanted)[[*wanted]].to_numpy(np.float64) if counted else None
    return Learnable(labelled, first if first is not None and len(first.y) else None, rest)


def digest_beside(features: Path, table: FeatureTable) -> str:
    """Return ``table.digest``, preceded by the first 6 digits of the SHA-256 of start.parquet.

    Nothing precedes it if start.parquet is not in the directory of the file `features`.
    """
    start = features.with_name(START)
    return f"{digest_of(start)[:6]}{table.digest}" if start.is_file() else table.digest


@dataclass(frozen=True)
class Suspect:
    """A label to review."""

    comparison_id: str
    status: str
    labelled_by: str  # the annotators
    probability: float  # of fail, out-of-fold
    #: How much more confident the model is of the other verdict than it usually is where that is the label; 0
    #: if only annotators disagree.
    doubt: float
    reason: tuple[str, ...]  # in words


def suspected_labels(verdicts: pd.DataFrame, champion: str, labels: pd.DataFrame) -> list[Suspect]:
    """Return the labels that look wrong, most doubtful first, then the other labels that annotators dispute.

    A label is suspected if the model's confidence in the other verdict is at least its mean confidence where
    that verdict is the label (the threshold of confident learning, one per fold). `verdicts` are out-of-fold,
    one row per ``entry`` and ``comparison_id``, with ``fold, verdict, status, probability``. The entry
    `champion` gives the probabilities; of all entries, those that contradict the label are counted. `labels`
    is the table of all annotators' labels. In the result, ``labelled_by`` is only the annotator who settled
    the label, if any ("unknown" without a name); ``doubt`` is that of `label_doubts`, 0 where that is
    negative or NaN. The second part is ordered as in `disputed_comparisons`; comparisons without the
    champion's verdict are not in the result.
    """
    champion_rows = verdicts[verdicts["entry"] == champion].set_index("comparison_id")
    doubt = pd.Series(label_doubts(champion_rows), champion_rows.index)
    contradicts = verdicts["verdict"] != verdicts["status"]
    against = contradicts.groupby(verdicts["comparison_id"]).agg(["sum", "size"])
    divided = disputed_comparisons(labels, champion_rows["status"]).set_index("comparison_id")
    divided = divided[divided.index.isin(champion_rows.index)]
    # the person who settled a comparison, or else all who voted
    votes = decided_labels(labels)
    settled = votes["annotator"].isna()
    votes = votes[settled | ~votes["comparison_id"].isin(votes.loc[settled, "comparison_id"])]
    annotators = votes.dropna(subset=["labelled_by"]).groupby("comparison_id")["labelled_by"].agg(", ".join)
    doubted = doubt[doubt >= 0].sort_values(ascending=False, kind="stable").index
    result = []
    for key in [*doubted, *divided.index[~divided.index.isin(doubted)]]:
        row, reasons = champion_rows.loc[key], list[str]()
        if key in doubted:
            opinion = "the champion, trained without this comparison, predicts a fail probability of"
            count, models = against.loc[key]
            reasons += [
                f"{opinion} {row['probability']:.3f}",
                f"{count} of {models} models contradict the label",
            ]
        if key in divided.index:
            reasons += [f"{divided.loc[key, f'voted_{word}']} voted {word}" for word in ("fail", "pass")]
        probability, excess = float(row["probability"]), max(0.0, float(doubt[key]))
        by = annotators.get(key, "unknown")
        result.append(Suspect(key, str(row["status"]), by, probability, excess, tuple(reasons)))
    return result


def label_doubts(champion_rows: pd.DataFrame) -> Floats:
    """Return how much the confidence in the verdict that is not the label exceeds its threshold.

    The threshold is the mean confidence in that verdict over the rows of the same fold where it is the label.
    `champion_rows` has ``fold, status, probability`` (of fail); the result has shape (n_rows,). A negative
    value supports the label; NaN where a fold has no label of the other kind.
    """
    fail = np.asarray(champion_rows["status"] == "fail")
    other = np.where(fail, 1 - champion_rows["probability"], champion_rows["probability"])
    sure = pd.Series(np.where(fail, champion_rows["probability"], 1 - champion_rows["probability"]))
    kinds = pd.DataFrame({"fold": champion_rows["fold"].to_numpy(), "fail": fail, "sure": sure})
    means = kinds.groupby(["fold", "fail"])["sure"].mean()
    wanted = pd.MultiIndex.from_arrays([kinds["fold"], ~kinds["fail"]])
    return np.asarray(other - means.reindex(wanted).to_numpy(np.float64))


#: The label of unlabelled rows.
UNLABELLED = -1
#: While no fail is labelled, one row in this many is drawn at random: passes are needed, too, and suspicion
#: can be wrong.
ONE_AT_RANDOM = 5


@dataclass(frozen=True)
class Pool:
    """Comparisons that can be labelled, and the labels so far."""

    x: Floats  # shape (n_rows, n_features): May hold NaN
    y: Ints  # shape (n_rows,): 1 is fail, 0 is pass, `UNLABELLED` is neither yet
    groups: NDArray[np.str_]  # shape (n_rows,): The operation of each
    #: Shape (n_rows,): A larger value is a likelier fail: a champion's probability, or a rule's measure.
    suspicion: Floats
    start: Examples | None = None  # the extra training data

    @property
    def training_data(self) -> Learnable:
        """The labelled rows, and the extra training data."""
        rows = np.flatnonzero(self.y != UNLABELLED)
        return Learnable(Examples(self.x[rows], self.y[rows], self.groups[rows]), self.start)


def next_to_label(pool: Pool, n: int, seed: int = 0) -> Ints:
    """Return the indices of the rows to label next, in order, shape (n,).

    As long as the user has labelled no fail, or there is no pass, not even in the extra training data, rows
    with the largest ``suspicion`` come first, and every fifth is drawn at random. Then a model is fitted to
    the labels, and rows come first where its log-odds are nearest to 0 (uncertainty sampling: D. Lewis, W.
    Gale, A sequential algorithm for training text classifiers, SIGIR 1994). Except for rows drawn at random,
    one row of an operation comes before a second of any, because neighbours in a series carry the same
    information; until a fail is labelled, labelled passes of the operation count, too. Fewer than `n` rows
    are returned if fewer are unlabelled.
    """
    data, free = pool.training_data, np.flatnonzero(pool.y == UNLABELLED)
    model = fit_model(data, seed) if (data.user_labels.y == 1).any() else None
    if model is not None and len(free):
        odds = log_odds(fail_probability(model, pool.x[free]))
        return _spread_over_groups(pool, free[np.argsort(np.abs(odds), kind="stable")])[:n]
    # the most suspicious rows, every `ONE_AT_RANDOM`-th place drawn from the others
    ordered = _spread_over_groups(pool, free[np.argsort(-pool.suspicion[free], kind="stable")])
    n = min(n, len(ordered))
    suspicious = n - n // ONE_AT_RANDOM
    others = np.random.default_rng(seed).permutation(ordered[suspicious:])[: n - suspicious]
    positions = np.arange(1, len(others) + 1) * (ONE_AT_RANDOM - 1)
    return np.insert(ordered[:suspicious], np.minimum(positions, suspicious), others)


def _spread_over_groups(pool: Pool, ordered: Ints) -> Ints:
    """Order rows by their rank in their group; until a fail is labelled, labelled passes raise the rank."""
    names, groups = np.unique(pool.groups, return_inverse=True)
    seen = np.bincount(groups[pool.y == 0], minlength=len(names)) * (not (pool.y == 1).any())
    turns = pd.Series(ordered).groupby(groups[ordered]).cumcount().to_numpy() + seen[groups[ordered]]
    return ordered[np.argsort(turns, kind="stable")]
