"""The labelled vectors that models learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Evaluate
from data.errors import InputError
from data.tables.files import digest_of
from features.comparisons.vectors import DIRECTIONS, EVIDENCE
from training.estimators.answering import Guide

KEYS = {"comparison_id": "str", "fold_group": "str", "status": "str"}


@dataclass(frozen=True)
class Examples:
    """Vectors, labels and groups, a row each.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features)
        May hold NaN, where a feature cannot be computed.
    y : ndarray of shape (n_rows,)
        1 is fail.
    groups : ndarray of shape (n_rows,)
        What must not straddle training and test.
    below : ndarray of bool, shape (n_rows,), or None
        Which lie below the floor: they pass, no model is asked. None if none does.
    bare : Examples or None
        The same comparisons, in the same order, as they are if nothing is known of earlier versions.
    """

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    groups: NDArray[np.str_]
    below: NDArray[np.bool_] | None = None
    bare: Examples | None = None

    def rows(self, index: NDArray[np.int64]) -> Examples:
        """Return those rows, in that order."""
        below = None if self.below is None else self.below[index]
        bare = None if self.bare is None else self.bare.rows(index)
        return Examples(self.x[index], self.y[index], self.groups[index], below, bare)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """At which rows a model is asked, shape (n_rows,)."""
        return np.ones(len(self.y), bool) if self.below is None else ~self.below

    @property
    def lessons(self) -> Examples:
        """What a model is fitted to: the rows at which it is asked, after those of `bare`.

        All rows where those at which it is asked have but one label.
        """
        if len(np.unique(self.y[self.asked])) < len(np.unique(self.y)):
            return Examples(self.x, self.y, self.groups)
        own, *bare = (one.rows(np.flatnonzero(one.asked)) for one in (self, self.bare) if one is not None)
        return joined(bare[0], own) if bare else replace(own, below=None)

    @property
    def seen(self) -> Examples:
        """All rows, after those of `bare`."""
        return self if self.bare is None else joined(self.bare, self)

    def sample(self, rows: int, seed: int) -> Examples:
        """Leave out passes at random, so that models are asked at `rows` rows at most, at all fails."""
        asked = self.asked
        passes = np.flatnonzero(asked & (self.y == 0))
        surplus = int(asked.sum()) - rows
        if surplus <= 0:
            return self
        out = np.random.default_rng(seed).choice(passes, min(surplus, len(passes) - 1), replace=False)
        return self.rows(np.delete(np.arange(len(self.y)), out))


def joined(first: Examples, second: Examples) -> Examples:
    """Return the rows of both, with neither's floor nor what is bare."""
    return Examples(
        np.concatenate([first.x, second.x]),
        np.concatenate([first.y, second.y]),
        np.concatenate([first.groups, second.groups]),
    )


@dataclass(frozen=True)
class FeatureTable:
    """The feature table of a family, as the stage featurize wrote it.

    Attributes
    ----------
    frame : DataFrame
        ``comparison_id``, ``fold_group``, ``status`` and the features.
    columns : tuple of str
        The features that the models see, in order.
    digest : str
        SHA-256 of the file.
    """

    frame: pd.DataFrame
    columns: tuple[str, ...]
    digest: str

    @classmethod
    def read(cls, path: Path, columns: tuple[str, ...]) -> FeatureTable:
        """Read the table."""
        if not path.is_file():
            raise InputError("no such file; run featurize first", file=path)
        frame = pd.read_parquet(path)
        missing = [name for name in (*KEYS, *columns) if name not in frame.columns]
        if missing:
            raise InputError(f"lacks the column {missing[0]!r}", file=path)
        unknown = set(frame["status"].unique()) - {"pass", "fail"}
        if unknown:
            raise InputError(f"status={min(map(str, unknown))!r} is neither pass nor fail", file=path)
        return cls(frame.reset_index(drop=True), columns, digest_of(path))

    @property
    def examples(self) -> Examples:
        """The vectors with their labels and groups."""
        return Examples(
            self.frame[list(self.columns)].to_numpy(np.float64),
            np.asarray(self.frame["status"] == "fail", np.int64),
            self.frame["fold_group"].to_numpy(np.str_),
        )

    @property
    def guide(self) -> Guide | None:
        """What estimators must know of the columns; None if they are none that featurize made."""
        if not set(self.columns) <= set(DIRECTIONS):
            return None
        evidence = self.columns.index(EVIDENCE) if EVIDENCE in self.columns else None
        return Guide(tuple(DIRECTIONS[name] for name in self.columns), evidence)

    def reference(self) -> dict[str, float]:
        """Return the median of every feature over the comparisons that passed (0 where none has it)."""
        passed = self.frame.loc[self.frame["status"] == "pass", list(self.columns)]
        return {str(name): float(value) for name, value in passed.median().fillna(0.0).items()}


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
    """Divide at random, with the same share of fails in every fold (seed 000, section 6.6.1)."""
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
    """Divide so that no group is in training and test at once."""
    folds = group_folds(examples, how.grouped_folds, seed, "grouped split")
    return [Part("grouped", train, test, fold=number) for number, (train, test) in enumerate(folds)]


def group_folds(examples: Examples, folds: int, seed: int, place: str) -> list[tuple[Rows, Rows]]:
    """Return training and test rows of `folds` folds of whole groups, each with passes and fails."""
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
