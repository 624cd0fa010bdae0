"""Labels that look wrong: what models that had not seen them say, and what other people say.

Source: C. Northcutt, L. Jiang, I. Chuang, Confident learning: estimating uncertainty in dataset labels,
Journal of Artificial Intelligence Research 70 (2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import decided, disagreements
from training.comparisons.examples import Examples
from training.comparisons.few_labels import Learnable, fitted
from training.estimators.pipelines import fail_probability


@dataclass(frozen=True)
class Suspect:
    """A label to look at again.

    Attributes
    ----------
    comparison_id, status : str
    labelled_by : str
        Who says so.
    probability : float
        Of fail, by the model that had not seen the operation.
    doubt : float
        By how much the model is surer of the other verdict than it usually is where that is the label; among
        people who don't agree, 0.
    why : tuple of str
        In words.
    """

    comparison_id: str
    status: str
    labelled_by: str
    probability: float
    doubt: float
    why: tuple[str, ...]


def suspects(verdicts: pd.DataFrame, champion: str, labels: pd.DataFrame) -> list[Suspect]:
    """Return the labels that look wrong, the most doubtful first, then those on which people don't agree.

    A label is suspected if the model is at least as sure of the other verdict as it is on average where the
    other verdict is the label (its threshold of confidence, by fold: each has a scale of its own).

    Parameters
    ----------
    verdicts : DataFrame
        Held-out verdicts of models, a row per ``entry`` and ``comparison_id``, with ``fold, verdict, status,
        probability``, each comparison once an entry.
    champion : str
        The entry whose probabilities count; of the others, how many gainsay the label is told.
    labels : DataFrame
        As of `data.comparisons.tables`.
    """
    own = verdicts[verdicts["entry"] == champion].set_index("comparison_id")
    doubt = pd.Series(doubts(own), own.index)
    gainsaid = verdicts["verdict"] != verdicts["status"]
    against = gainsaid.groupby(verdicts["comparison_id"]).agg(["sum", "size"])
    divided = disagreements(labels, own["status"]).set_index("comparison_id")
    divided = divided[divided.index.isin(own.index)]
    named = _names(labels)
    doubted = doubt[doubt >= 0].sort_values(ascending=False, kind="stable").index
    return [
        Suspect(
            key,
            str(own.loc[key, "status"]),
            named.get(key, "unknown"),
            float(own.loc[key, "probability"]),
            max(0.0, float(doubt[key])),
            (*_of_models(own.loc[key], against.loc[key], key in doubted), *_of_people(divided, key)),
        )
        for key in [*doubted, *divided.index[~divided.index.isin(doubted)]]
    ]


def doubts(own: pd.DataFrame) -> Floats:
    """Return by how much each row is beyond the threshold of confidence of the verdict that is not its label.

    Below 0 is no ground for doubt; NaN where a fold lacks a label of the other kind.
    """
    fail = np.asarray(own["status"] == "fail")
    other = np.where(fail, 1 - own["probability"], own["probability"])
    sure = pd.Series(np.where(fail, own["probability"], 1 - own["probability"]))
    kinds = pd.DataFrame({"fold": own["fold"].to_numpy(), "fail": fail, "sure": sure})
    means = kinds.groupby(["fold", "fail"])["sure"].mean()
    wanted = pd.MultiIndex.from_arrays([kinds["fold"], ~kinds["fail"]])
    return np.asarray(other - means.reindex(wanted).to_numpy(np.float64))


def _names(labels: pd.DataFrame) -> dict[str, str]:
    """Say who labelled each comparison: who settled it, or else all who voted."""
    labels = decided(labels)
    settled = labels["annotator"].isna()
    rows = labels[settled | ~labels["comparison_id"].isin(labels.loc[settled, "comparison_id"])]
    return dict(rows.dropna(subset=["labelled_by"]).groupby("comparison_id")["labelled_by"].agg(", ".join))


def _of_models(row: pd.Series, against: pd.Series, doubted: bool) -> tuple[str, ...]:
    if not doubted:
        return ()
    told = f"models that never saw it give fail {row['probability']:.2f}"
    return told, f"{against['sum']} of {against['size']} models gainsay the label"


def _of_people(divided: pd.DataFrame, key: str) -> tuple[str, ...]:
    if key not in divided.index:
        return ()
    return tuple(f"{divided.loc[key, f'said_{word}']} said {word}" for word in ("fail", "pass"))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: What nobody has labelled.
UNLABELLED = -1
#: While no fail is labelled, one in so many is drawn at random: passes are needed, too, and suspicion errs.
ONE_AT_RANDOM = 5
#: Probabilities nearer to 0 or 1 than this are not told apart.
_EXTREME = 1e-4


@dataclass(frozen=True)
class Pool:
    """Comparisons that can be labelled, and what is known of them.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features)
        May hold NaN.
    y : ndarray of shape (n_rows,)
        1 is fail, 0 is pass, `UNLABELLED` is neither yet.
    groups : ndarray of shape (n_rows,)
        The operation of each.
    suspicion : ndarray of shape (n_rows,)
        The larger, the sooner it fails: by a champion's probability, or by a rule.
    start : Examples or None
        What a champion has learnt from.
    """

    x: Floats
    y: Ints
    groups: NDArray[np.str_]
    suspicion: Floats
    start: Examples | None = None

    @property
    def free(self) -> Ints:
        """The rows that nobody has labelled, ascending."""
        return np.flatnonzero(self.y == UNLABELLED)

    @property
    def known(self) -> Learnable:
        """What can be learned from."""
        rows = np.flatnonzero(self.y != UNLABELLED)
        return Learnable(Examples(self.x[rows], self.y[rows], self.groups[rows]), self.start)


def next_to_label(pool: Pool, n: int, seed: int = 0) -> Ints:
    """Return the rows to label next, the first of them first.

    Fails are rare, so the first task is to find some: while none is labelled, the most suspicious come first,
    with some at random among them. Then a model is fitted to what is labelled, and those come first of which
    it is least sure, by the distance of their log-odds from even (uncertainty sampling: D. Lewis, W. Gale, A
    sequential algorithm for training text classifiers, SIGIR 1994). Either way one of an operation comes
    before a second: neighbours in a series tell the same.

    Parameters
    ----------
    pool : Pool
    n : int
        How many; fewer if fewer are left.
    seed : int
        The same pool and seed give the same rows.
    """
    known, free = pool.known, pool.free
    model = fitted(known, seed) if (known.own.y == 1).any() else None
    if model is not None and len(free):
        odds = np.clip(fail_probability(model, pool.x[free]), _EXTREME, 1 - _EXTREME)
        return _spread(pool, free[np.argsort(np.abs(np.log(odds / (1 - odds))), kind="stable")])[:n]
    return _found(pool, free, n, seed)


def _found(pool: Pool, free: Ints, n: int, seed: int) -> Ints:
    """Return the most suspicious, every `ONE_AT_RANDOM`-th place drawn from the others."""
    ordered = _spread(pool, free[np.argsort(-pool.suspicion[free], kind="stable")])
    n = min(n, len(ordered))
    suspicious = n - n // ONE_AT_RANDOM
    others = np.random.default_rng(seed).permutation(ordered[suspicious:])[: n - suspicious]
    places = np.arange(1, len(others) + 1) * (ONE_AT_RANDOM - 1)
    return np.insert(ordered[:suspicious], np.minimum(places, suspicious), others)


def _spread(pool: Pool, ordered: Ints) -> Ints:
    """Put the first of every group before all seconds, those before all thirds, and so on.

    While no fail is labelled, a group that has labels stands back likewise.
    """
    names, groups = np.unique(pool.groups, return_inverse=True)
    seen = np.bincount(groups[pool.y == 0], minlength=len(names)) * (not (pool.y == 1).any())
    turns = _turns(groups[ordered]) + seen[groups[ordered]]
    return ordered[np.argsort(turns, kind="stable")]


def _turns(groups: Ints) -> Ints:
    """Return how often the group of each row came before it."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    begins = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    runs = np.diff(np.append(begins, len(groups)))
    turns = np.empty(len(groups), np.int64)
    turns[order] = np.arange(len(groups)) - np.repeat(begins, runs)
    return turns
