"""Cases parted so that what is asked about has other causes, and test cases, than what is learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.matrices.tables import MatrixTables

Flags = NDArray[np.bool_]
Whole = NDArray[np.intp]

#: The cause of what is normal, or of what nobody knows.
NONE = ""


@dataclass(frozen=True)
class Apart:
    """What is learned from, and what is asked: flags of shape (n_cases,)."""

    learned: Flags
    asked: Flags


@dataclass(frozen=True)
class Caused:
    """Cases, and what caused those that are abnormal.

    Attributes
    ----------
    workload, cause : ndarray of str, shape (n_cases,)
        The cause is empty where there is none, or it is unknown.
    abnormal : ndarray of bool, shape (n_cases,)
    """

    workload: NDArray[Any]
    cause: NDArray[Any]
    abnormal: Flags

    def parted(self, part: Whole, seed: int) -> list[Apart]:
        """Part the cases: each cause is in one part, and its test cases too where they have no other.

        What is asked of a part are the normal cases of its test cases, and the abnormal ones of both its test
        cases and its causes. What is learned from is neither of its test cases nor of its causes.

        Parameters
        ----------
        part : ndarray of int, shape (n_cases,)
            Of the test case of each, from 0: for those with several causes, or none.
        seed : int
            For the order of causes that are as frequent.

        Returns
        -------
        list of Apart
            Of parts with normal and abnormal cases to learn from and to ask; none where there are not two.
        """
        number = int(part.max(initial=0)) + 1
        of_cause = self._dealt(number, seed)
        caused = np.array([of_cause.get(str(cause), -1) for cause in self.cause], np.intp)
        of_case = self._following(caused, part)
        found = []
        for one in range(number):
            asked = (of_case == one) & np.where(self.abnormal, caused == one, True)
            learned = (of_case != one) & (caused != one)
            if all(len(np.unique(self.abnormal[rows])) > 1 for rows in (asked, learned)):
                found.append(Apart(learned, asked))
        return found if len(found) > 1 else []

    def _dealt(self, number: int, seed: int) -> dict[str, int]:
        """Return the part of each cause; the most frequent are dealt first."""
        known = self.abnormal & (self.cause != NONE)
        names, counts = np.unique(self.cause[known].astype(str), return_counts=True)
        shuffled = np.random.default_rng(seed).permutation(len(names))
        sizes, found = np.zeros(number), {}
        for place in shuffled[np.argsort(-counts[shuffled], kind="stable")]:
            found[str(names[place])] = int(sizes.argmin())
            sizes[sizes.argmin()] += counts[place]
        return found

    def _following(self, caused: Whole, part: Whole) -> Whole:
        """Return the part of each case's test case: its causes' where they are all in one, or the given."""
        workload = np.unique(self.workload.astype(str), return_inverse=True)[1]
        known, many = caused >= 0, int(workload.max(initial=-1)) + 1
        first, last = np.full(many, np.iinfo(np.intp).max), np.full(many, -1)
        np.minimum.at(first, workload[known], caused[known])
        np.maximum.at(last, workload[known], caused[known])
        return np.where((first == last)[workload], last[workload], part)


def causes(tables: MatrixTables) -> dict[str, str]:
    """Return what caused the abnormal runs of each pair, by ``pair_id``, where it is known."""
    known = tables.causes[tables.causes["cause"].fillna(NONE) != NONE]
    if known.empty:
        return {}
    pairs = tables.runs.loc[tables.runs["abnormal"].fillna(value=False).astype(bool), ["run_id", "pair_id"]]
    found = known[["run_id", "cause"]].merge(pairs, on="run_id").drop_duplicates("pair_id")
    return dict(zip(found["pair_id"].astype(str), found["cause"].astype(str), strict=True))
