"""Aggregate the labels of several annotators into training labels, and measure their agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints
from data.comparisons.tables import CANNOT_TELL
from data.tables.specs import with_dtypes

#: Time of labels without one.
_LONG_AGO = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True)
class Votes:
    """One row per annotator and comparison.

    `comparison` and `person` (shape (n_votes,)) are indices into `comparisons` and `people`; `fail` is
    whether the vote is fail.
    """

    comparisons: pd.Index[str]
    people: pd.Index[str]
    comparison: Ints
    person: Ints
    fail: NDArray[np.bool_]

    @classmethod
    def from_labels(cls, labels: pd.DataFrame) -> Votes:
        """Return the votes in a table of labels.

        The voter is the ``annotator``. Labels without annotator are votes only where a comparison has several
        of them; their voter is ``labelled_by``, and unnamed voters are distinct. The latest label of a voter
        counts, by ``labelled_at``, then by row.
        """
        labels = decided_labels(labels)
        unnamed = pd.Series([f"somebody {row}" for row in range(len(labels))], labels.index, dtype="str")
        authors = labels["annotator"].fillna(labels["labelled_by"]).fillna(unnamed)
        voters = authors.mask(_is_sole_unattributed(labels))
        last = _last_votes(labels.assign(person=voters).dropna(subset=["person"]))
        comparison, comparisons = pd.factorize(last["comparison_id"], sort=True)
        person, people = pd.factorize(last["person"], sort=True)
        indices = np.asarray(comparison, np.int64), np.asarray(person, np.int64)
        fail = (last["status"] == "fail").to_numpy(bool)
        return cls(pd.Index(comparisons), pd.Index(people), *indices, fail)

    @property
    def vote_counts(self) -> Ints:
        """The number of votes for pass and for fail, shape (2, n_comparisons)."""
        n = len(self.comparisons)
        fails = np.bincount(self.comparison[self.fail], minlength=n)
        return np.stack([np.bincount(self.comparison, minlength=n) - fails, fails])


def decided_labels(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels pass and fail, without those of authors whose latest label is "cannot_tell".

    This is decided per comparison; if an author's latest label is another one, all of the author's passes and
    fails are kept. The author is the ``annotator``, else ``labelled_by``; the latest is by ``labelled_at``
    (missing: first), then by row. `labels` has the columns ``LABEL_DTYPES``; rows keep their order.
    """
    undecided = labels["status"] == CANNOT_TELL
    if not undecided.any():
        return labels
    frame = labels.assign(person=labels["annotator"].fillna(labels["labelled_by"]))
    keys = ["comparison_id", "person"]
    last = _last_votes(frame.dropna(subset=["person"]))
    retracted = pd.MultiIndex.from_frame(last.loc[last["status"] == CANNOT_TELL, keys])
    return labels[~undecided & ~pd.MultiIndex.from_frame(frame[keys]).isin(retracted)]


def settled_labels(labels: pd.DataFrame) -> pd.Series:
    """Return the status, indexed by comparison_id, where the only label without annotator decides.

    It decides unless an annotator's label of the comparison is later; a missing time is the earliest. Labels
    that `decided_labels` removes do not count. All other comparisons are decided by votes, and are not in the
    result. Rows keep their order.
    """
    labels = decided_labels(labels)
    times = labels["labelled_at"].fillna(_LONG_AGO)
    latest = times.where(labels["annotator"].notna(), _LONG_AGO)
    later = latest.groupby(labels["comparison_id"]).transform("max") > times
    return labels[_is_sole_unattributed(labels) & ~later].set_index("comparison_id")["status"]


def _last_votes(votes: pd.DataFrame) -> pd.DataFrame:
    ordered = votes.sort_values("labelled_at", kind="stable", na_position="first")
    return ordered.drop_duplicates(["comparison_id", "person"], keep="last").sort_index()


def _is_sole_unattributed(labels: pd.DataFrame) -> pd.Series:
    """Mark labels without annotator that are the only such label of their comparison."""
    plain = labels["annotator"].isna()
    return plain & (plain.groupby(labels["comparison_id"]).transform("sum") == 1)


@dataclass(frozen=True)
class Reliability:
    """Estimates from votes, in the order of `Votes.people` and `Votes.comparisons`."""

    sensitivity: Floats  # shape (n_people,): share of right votes on fails
    specificity: Floats  # shape (n_people,): share of right votes on passes
    prevalence: float  # share of fails
    posterior: Floats  # shape (n_comparisons,): P(fail)


#: EM stops when no posterior changes by more than this, or after this number of rounds.
_SETTLED, _MOST_ROUNDS = 1e-7, 500
#: Prior votes of every annotator, right and wrong, on fails and on passes; they prevent label switching.
_PRIOR_RIGHT, _PRIOR_WRONG = 4.0, 1.0
#: Minimum distance of probabilities from 0 and 1.
_EDGE = 1e-9


def dawid_skene(votes: Votes) -> Reliability:
    """Return estimates, by expectation maximisation, of the annotators' reliability and P(fail).

    To each person's votes on fails and on passes, 4 right votes and 1 wrong vote are added as a prior.
    Method: Dawid and Skene (1979). ValueError if there are no votes.
    """
    if not len(votes.comparisons):
        raise ValueError("no votes to estimate the reliability of annotators from")
    passes, fails = votes.vote_counts
    posterior = fails / (passes + fails)
    for _ in range(_MOST_ROUNDS):
        estimate = _em_step(votes, posterior)
        moved = np.abs(estimate.posterior - posterior).max()
        posterior = estimate.posterior
        if moved < _SETTLED:
            break
    return estimate


def _em_step(votes: Votes, posterior: Floats) -> Reliability:
    weight = posterior[votes.comparison]
    sensitivity = _share_of_right(votes, weight, votes.fail)
    specificity = _share_of_right(votes, 1 - weight, ~votes.fail)
    prevalence = float(np.clip(posterior.mean(), _EDGE, 1 - _EDGE))
    likely_fail = np.where(votes.fail, sensitivity[votes.person], 1 - sensitivity[votes.person])
    likely_pass = np.where(votes.fail, 1 - specificity[votes.person], specificity[votes.person])
    evidence = np.log(likely_fail) - np.log(likely_pass)
    odds = np.bincount(votes.comparison, evidence, minlength=len(posterior))
    odds += np.log(prevalence) - np.log1p(-prevalence)
    return Reliability(sensitivity, specificity, prevalence, 1 / (1 + np.exp(-odds)))


def _share_of_right(votes: Votes, weight: Floats, right: NDArray[np.bool_]) -> Floats:
    """Return each annotator's share of right votes, weighted, with the prior votes added."""
    n = len(votes.people)
    hits = np.bincount(votes.person, weight * right, minlength=n) + _PRIOR_RIGHT
    all_of_them = np.bincount(votes.person, weight, minlength=n) + _PRIOR_RIGHT + _PRIOR_WRONG
    return np.asarray(np.clip(hits / all_of_them, _EDGE, 1 - _EDGE))


Rule = Literal["majority", "dawid-skene"]
#: Columns of `annotator_reliability`, with their dtypes.
ANNOTATOR_COLUMNS = {
    "annotator": "str",
    **dict.fromkeys(("cases", "fails"), "int64"),
    **dict.fromkeys(("sensitivity", "specificity", "agreement"), "float64"),
}
#: Maximum distance of P(fail) from 0.5 in a tie.
_TIED = 1e-9


def consensus_status(labels: pd.DataFrame, rule: Rule) -> pd.Series:
    """Return the status ("pass", "fail") of every labelled comparison, indexed by comparison_id.

    It is missing where votes are tied. Comparisons that `settled_labels` decides come first. The others,
    sorted by id, get the status of the majority, or with the rule "dawid-skene" the more probable status
    given the reliability of the voters. Comparisons without a vote (see `decided_labels`) are not in the
    result.
    """
    votes = Votes.from_labels(labels)
    if rule == "majority":
        passes, fails = votes.vote_counts
        fail = fails / (passes + fails)
    else:
        fail = dawid_skene(votes).posterior if len(votes.comparisons) else np.zeros(0)
    status = np.select([fail > 0.5 + _TIED, fail < 0.5 - _TIED], ["fail", "pass"], "")
    voted = pd.Series(status, votes.comparisons, name="status", dtype="str").where(status != "")
    settled = settled_labels(labels)
    return pd.concat([settled, voted[~voted.index.isin(settled.index)]]).rename_axis("comparison_id")


def annotator_reliability(labels: pd.DataFrame, status: pd.Series) -> pd.DataFrame:
    """Return the reliability of every voter of `Votes`, the one with most labels first, ties by name.

    The columns are ``annotator``; ``cases``, the number of labels pass and fail; ``fails`` among them;
    ``sensitivity`` and ``specificity`` by `dawid_skene`; and ``agreement``: of the labels on comparisons with
    a consensus, the share that agrees with it (NaN without such labels). `status` is the consensus by
    comparison_id. Only a voter's last label of a comparison counts. Empty if no comparison has two votes.
    """
    votes = Votes.from_labels(labels)
    if not len(votes.comparisons) or votes.vote_counts.sum(axis=0).max() <= 1:
        return with_dtypes(None, ANNOTATOR_COLUMNS)
    reliability, n = dawid_skene(votes), len(votes.people)
    settled = status.reindex(votes.comparisons).to_numpy(object)[votes.comparison]
    is_settled = ~pd.isna(settled)
    agrees = is_settled & ((settled == "fail") == votes.fail)
    n_settled = np.bincount(votes.person, is_settled, minlength=n)
    n_agreed = np.bincount(votes.person, agrees, minlength=n)
    table = pd.DataFrame(
        {
            "annotator": votes.people,
            "cases": np.bincount(votes.person, minlength=n),
            "fails": np.bincount(votes.person, votes.fail, minlength=n),
            "sensitivity": reliability.sensitivity,
            "specificity": reliability.specificity,
            "agreement": n_agreed / np.where(n_settled > 0, n_settled, np.nan),
        }
    ).astype(ANNOTATOR_COLUMNS)
    return table.sort_values(["cases", "annotator"], ascending=[False, True], ignore_index=True)


def disputed_comparisons(labels: pd.DataFrame, status: pd.Series) -> pd.DataFrame:
    """Return comparisons with votes for both labels: those without consensus first, then the others.

    Either part is ordered by the number of votes for the rarer label, the largest first, then by id. `status`
    is the consensus by comparison_id. The columns are ``comparison_id``; ``voted_fail`` and ``voted_pass``,
    the names of the voters of `Votes` who voted so, joined by commas; and ``status``, missing without
    consensus. The table is empty if no comparison is disputed.
    """
    votes = Votes.from_labels(labels)
    fewer = votes.vote_counts.min(axis=0)
    divided = votes.comparisons[fewer > 0]
    names = {
        f"voted_{word}": _voter_names(votes, chosen).reindex(divided)
        for word, chosen in (("fail", votes.fail), ("pass", ~votes.fail))
    }
    table = pd.DataFrame({**names, "status": status.reindex(divided)}, index=divided)
    order = np.lexsort((-fewer[fewer > 0], table["status"].notna()))
    return table.iloc[order].rename_axis("comparison_id").reset_index()


def _voter_names(votes: Votes, chosen: NDArray[np.bool_]) -> pd.Series:
    people = pd.Series(votes.people[votes.person[chosen]], votes.comparisons[votes.comparison[chosen]])
    return people.groupby(level=0).agg(", ".join)
