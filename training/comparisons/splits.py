"""The ways in which comparisons are divided into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import Evaluate
from data.errors import InputError
from training.comparisons.examples import Examples

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One division into training and test rows.

    Attributes
    ----------
    split : str
        ``all``, ``stratified`` or ``grouped``.
    train, test : ndarray of int
        Row numbers, ascending. The part ``all`` has no test rows.
    repeat, fold : int
        Which repeat of the split, and which fold of it, counted from 0.
    """

    split: str
    train: Rows
    test: Rows
    repeat: int = 0
    fold: int = 0

    @property
    def name(self) -> str:
        """``all``, ``stratified/r0f2`` (repeat 0, fold 2) or ``grouped/f1``."""
        repeat = f"r{self.repeat}" if self.split == "stratified" else ""
        return self.split if self.split == "all" else f"{self.split}/{repeat}f{self.fold}"


def parts(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Return the part of all rows, and those of both splits."""
    everything = Part("all", np.arange(len(examples.y)), np.arange(0))
    return [everything, *stratified(examples, how, seed), *grouped(examples, how, seed)]


def stratified(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Divide at random, with the same share of fails in every fold (seed 000, section 6.6.1).

    Raises
    ------
    InputError
        If there are fewer passes or fails than folds.
    """
    from sklearn.model_selection import RepeatedStratifiedKFold

    fewest = int(np.bincount(examples.y, minlength=2).min())
    if fewest < how.folds:
        raise InputError(
            f"{fewest} comparisons have the rarer label; {how.folds} folds need at least {how.folds}",
            place="stratified split",
        )
    folds = RepeatedStratifiedKFold(n_splits=how.folds, n_repeats=how.repeats, random_state=seed)
    return [
        Part("stratified", train, test, *divmod(number, how.folds))
        for number, (train, test) in enumerate(folds.split(examples.x, examples.y))
    ]


def grouped(examples: Examples, how: Evaluate, seed: int) -> list[Part]:
    """Divide so that no group is in training and test at once.

    Raises
    ------
    InputError
        If fails or passes come from fewer groups than there are folds.
    """
    folds = group_folds(examples, how.grouped_folds, seed, "grouped split")
    return [Part("grouped", train, test, fold=number) for number, (train, test) in enumerate(folds)]


def group_folds(examples: Examples, folds: int, seed: int, place: str) -> list[tuple[Rows, Rows]]:
    """Return training and test rows of `folds` folds of whole groups, each with passes and fails.

    Raises
    ------
    InputError
        If fails or passes come from too few groups.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    for label, word in ((1, "fails"), (0, "passes")):
        groups = len(np.unique(examples.groups[examples.y == label]))
        if groups < folds:
            raise InputError(
                f"{word} come from {groups} operations; {folds} folds need at least {folds}", place=place
            )
    kfold = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    divided = list(kfold.split(examples.x, examples.y, examples.groups))
    for _, test in divided:
        if len(np.unique(examples.y[test])) < len((0, 1)):
            raise InputError(
                f"a fold of whole operations got only one kind of label; use fewer than {folds} folds",
                place=place,
            )
    return divided
