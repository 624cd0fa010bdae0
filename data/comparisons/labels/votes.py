"""What each person says of each comparison, taken from the table of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.tables import CANNOT_TELL

Ints = NDArray[np.int64]

#: When what bears no time was said.
_LONG_AGO = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True)
class Votes:
    """One person's verdict on one comparison, a row each; nobody votes twice on a comparison.

    Attributes
    ----------
    comparisons, people : Index
        Names, ascending.
    comparison, person : ndarray of shape (n_votes,)
        Places in `comparisons` and `people`.
    fail : ndarray of bool, shape (n_votes,)
    """

    comparisons: pd.Index[str]
    people: pd.Index[str]
    comparison: Ints
    person: Ints
    fail: NDArray[np.bool_]

    @classmethod
    def of(cls, labels: pd.DataFrame) -> Votes:
        """Take the votes from a table of labels.

        Who votes is the ``annotator``; where a comparison has several labels without one, who they are
        ``labelled_by``, and whoever is not named is somebody else each time. Of two labels by one person
        the later one counts, by ``labelled_at``, then by row. Who cannot tell in the end does not vote.
        """
        labels = decided(labels)
        last = _last_votes(labels.assign(person=_voters(labels)).dropna(subset=["person"]))
        comparison, comparisons = pd.factorize(last["comparison_id"], sort=True)
        person, people = pd.factorize(last["person"], sort=True)
        fail = (last["status"] == "fail").to_numpy(bool)
        return cls(
            pd.Index(comparisons),
            pd.Index(people),
            np.asarray(comparison, np.int64),
            np.asarray(person, np.int64),
            fail,
        )

    @property
    def counts(self) -> Ints:
        """How many people say pass and how many say fail, shape (2, n_comparisons)."""
        n = len(self.comparisons)
        fails = np.bincount(self.comparison[self.fail], minlength=n)
        return np.stack([np.bincount(self.comparison, minlength=n) - fails, fails])


def decided(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels that say pass or fail.

    Left out are the answers `CANNOT_TELL`, and what the same person said of the comparison before.

    Parameters
    ----------
    labels : DataFrame
        As of `data.comparisons.tables`.

    Returns
    -------
    DataFrame
        The other rows, in their order.
    """
    undecided = labels["status"] == CANNOT_TELL
    if not undecided.any():
        return labels
    frame, whose = (
        labels.assign(person=labels["annotator"].fillna(labels["labelled_by"])),
        ["comparison_id", "person"],
    )
    last = _last_votes(frame.dropna(subset=["person"]))
    retracted = pd.MultiIndex.from_frame(last.loc[last["status"] == CANNOT_TELL, whose])
    return labels[~undecided & ~pd.MultiIndex.from_frame(frame[whose]).isin(retracted)]


def agreed(labels: pd.DataFrame) -> pd.Series:
    """Return the status of comparisons that have one label of nobody in particular, by comparison_id.

    That is a label as such: a consensus that the source has found, or the truth of an injected change. It
    holds until somebody labels the comparison after it: then the votes decide.
    """
    labels = decided(labels)
    times = labels["labelled_at"].fillna(_LONG_AGO)
    latest = times.where(labels["annotator"].notna(), _LONG_AGO)
    later = latest.groupby(labels["comparison_id"]).transform("max") > times
    return labels[_alone(labels) & ~later].set_index("comparison_id")["status"]


def _last_votes(votes: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each ``person`` on each comparison."""
    ordered = votes.sort_values("labelled_at", kind="stable", na_position="first")
    return ordered.drop_duplicates(["comparison_id", "person"], keep="last").sort_index()


def _alone(labels: pd.DataFrame) -> pd.Series:
    """Mark labels without annotator that are the only such one of their comparison."""
    plain = labels["annotator"].isna()
    many = plain.groupby(labels["comparison_id"]).transform("sum")
    return plain & (many == 1)


def _voters(labels: pd.DataFrame) -> pd.Series:
    """Name who votes with each label; missing where the label is nobody's in particular."""
    strangers = pd.Series([f"somebody {row}" for row in range(len(labels))], labels.index, dtype="str")
    named = labels["annotator"].fillna(labels["labelled_by"]).fillna(strangers)
    return named.mask(_alone(labels))
