"""What people agree on: the label that trains, and who stands how far from it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from data.comparisons.labels.reliability import Reliability, dawid_skene
from data.comparisons.labels.votes import Votes, agreed

Rule = Literal["majority", "dawid-skene"]
#: What is told of every person.
PEOPLE = {
    "annotator": "str",
    "cases": "int64",
    "fails": "int64",
    "sensitivity": "float64",
    "specificity": "float64",
    "agreement": "float64",
}
#: Probabilities so near to each other are a tie.
_TIED = 1e-9


def consensus(labels: pd.DataFrame, rule: Rule) -> pd.Series:
    """Return the status of every labelled comparison, by comparison_id; missing where people are tied.

    Parameters
    ----------
    labels : DataFrame
        As of `data.comparisons.tables`.
    rule : {"majority", "dawid-skene"}
        How votes become a status: most of them, or their weight by the reliability of who gave them. A
        label of nobody in particular (see `data.comparisons.labels.votes.agreed`) comes before all votes.
    """
    votes = Votes.of(labels)
    fail = _share_of_fails(votes) if rule == "majority" else _posterior(votes)
    said = np.select([fail > 0.5 + _TIED, fail < 0.5 - _TIED], ["fail", "pass"], "")
    voted = pd.Series(said, votes.comparisons, name="status", dtype="str").where(said != "")
    plain = agreed(labels)
    return pd.concat([plain, voted[~voted.index.isin(plain.index)]]).rename_axis("comparison_id")


def _share_of_fails(votes: Votes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    passes, fails = votes.counts
    return np.asarray(fails / (passes + fails))


def _posterior(votes: Votes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return dawid_skene(votes).posterior if len(votes.comparisons) else np.zeros(0)


def people(labels: pd.DataFrame, status: pd.Series) -> pd.DataFrame:
    """Say how reliable everybody is who labelled with others, the one with most cases first.

    Parameters
    ----------
    labels : DataFrame
    status : Series
        What `consensus` returns.

    Returns
    -------
    DataFrame
        Columns `PEOPLE`: ``cases`` that they labelled, those that they call ``fails``, their sensitivity and
        specificity by Dawid and Skene, and the share of their verdicts that the consensus bears out. Empty if
        no comparison has votes of two people.
    """
    votes = Votes.of(labels)
    if not len(votes.comparisons) or votes.counts.sum(axis=0).max() < len(("one", "another")):
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PEOPLE.items()})
    return _described(votes, dawid_skene(votes), status)


def _described(votes: Votes, found: Reliability, status: pd.Series) -> pd.DataFrame:
    n = len(votes.people)
    held = status.reindex(votes.comparisons).to_numpy(object)[votes.comparison]
    known = ~pd.isna(held)
    borne_out = known & ((held == "fail") == votes.fail)
    cases = np.bincount(votes.person, minlength=n)
    known_cases = np.bincount(votes.person, known, minlength=n)
    table = pd.DataFrame(
        {
            "annotator": votes.people,
            "cases": cases,
            "fails": np.bincount(votes.person, votes.fail, minlength=n).astype(np.int64),
            "sensitivity": found.sensitivity,
            "specificity": found.specificity,
            "agreement": np.bincount(votes.person, borne_out, minlength=n)
            / np.where(known_cases > 0, known_cases, np.nan),
        }
    )
    return table.astype(PEOPLE).sort_values(
        ["cases", "annotator"], ascending=[False, True], ignore_index=True
    )


def disagreements(labels: pd.DataFrame, status: pd.Series) -> pd.DataFrame:
    """Return the comparisons on which people don't agree, those without a consensus first, then most divided.

    Returns
    -------
    DataFrame
        ``comparison_id, said_fail, said_pass, status``: who says what, as names in one text each, and the
        consensus, missing where there is none.
    """
    votes = Votes.of(labels)
    fewer = votes.counts.min(axis=0)
    divided = votes.comparisons[fewer > 0]
    said = {
        f"said_{word}": _names(votes, chosen).reindex(divided)
        for word, chosen in (("fail", votes.fail), ("pass", ~votes.fail))
    }
    table = pd.DataFrame({**said, "status": status.reindex(divided)}, index=divided)
    order = np.lexsort((-fewer[fewer > 0], table["status"].notna()))
    return table.iloc[order].rename_axis("comparison_id").reset_index()


def _names(votes: Votes, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pd.Series:
    """Return who gave the chosen votes, by comparison."""
    who = pd.Series(votes.people[votes.person[chosen]], votes.comparisons[votes.comparison[chosen]])
    return who.groupby(level=0).agg(", ".join)
