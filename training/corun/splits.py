"""Designs for splitting co-runs: at random (co-run paper), and with unseen pairs, tasks or machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import AND
from data.errors import InputError

Rows = NDArray[np.intp]
Divided = list[tuple[Rows, Rows]]


@dataclass(frozen=True)
class Design:
    """A way to split: ``divide(table, folds, seed)`` returns training and test rows of each fold."""

    scheme: str
    divide: Callable[[pd.DataFrame, int, int], Divided]


def at_random(table: pd.DataFrame, folds: int, seed: int) -> Divided:
    """Return (training, test) row numbers of `folds` random folds; InputError with fewer rows than folds."""
    from sklearn.model_selection import KFold

    if len(table) < folds:
        raise InputError(f"{len(table)} co-runs are too few; {folds} random folds need at least {folds}")
    return list(KFold(folds, shuffle=True, random_state=seed).split(table))


def by_task(table: pd.DataFrame, folds: int, seed: int) -> Divided:
    """Return (training, test) row numbers of `folds` folds, among which the families are divided at random.

    `table` has ``families``, joined by ``+``. A row is a test row of a fold that has all its families, and a
    training row of a fold that has none of them. The list is empty with fewer than two families per fold.
    """
    members = [names.split(AND) for names in table["families"]]
    if len({name for names in members for name in names}) < 2 * folds:
        return []
    in_fold = folds_of_members(members, folds, seed)
    train = [np.flatnonzero([fold not in row_folds for row_folds in in_fold]) for fold in range(folds)]
    test = [np.flatnonzero([row_folds == {fold} for row_folds in in_fold]) for fold in range(folds)]
    return list(zip(train, test, strict=True))


def folds_of_members(members: Sequence[Sequence[str]], folds: int, seed: int) -> list[set[int]]:
    """Return the folds, from 0, of the names in each row; names are divided among folds at random."""
    names = sorted({name for row in members for name in row})
    fold_of = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % folds, strict=True))
    return [{int(fold_of[name]) for name in row} for row in members]


def _by_groups(*columns: str) -> Callable[[pd.DataFrame, int, int], Divided]:
    def hold_out_groups(table: pd.DataFrame, folds: int, seed: int) -> Divided:
        from sklearn.model_selection import GroupKFold

        groups = table.groupby(list(columns), sort=True).ngroup().to_numpy()
        number = min(folds, len(np.unique(groups)))
        if number < 2:  # noqa: PLR2004 - nothing to hold out
            return []
        return list(GroupKFold(number, shuffle=True, random_state=seed).split(groups, groups=groups))

    return hold_out_groups


_UNSEEN_ON_MACHINE = "combinations of families unseen on their machine"
DESIGNS = {
    "random": Design("at random, 4:1 (the seed's)", at_random),
    # both directions of a pair share their families
    "pairs": Design("unseen combinations of families, on all machines", _by_groups("families")),
    # training may have seen them on another machine
    "pairs-on-machine": Design(_UNSEEN_ON_MACHINE, _by_groups("machine", "families")),
    "tasks": Design("combinations of unseen families only", by_task),
    "machines": Design("unseen devices", _by_groups("device")),
}


@dataclass(frozen=True)
class DesignPart:
    """Training and test rows of one fold of a design; fold -1 is all rows, for the served model."""

    design: str
    fold: int
    train: Rows
    test: Rows

    @property
    def name(self) -> str:
        """``all``, or the design and the fold, such as ``random/f0``."""
        return "all" if self.fold < 0 else f"{self.design}/f{self.fold}"


def possible_splits(
    table: pd.DataFrame, wanted: tuple[str, ...], folds: int, seed: int
) -> dict[str, Divided]:
    """Return (training, test) row numbers of folds, by each wanted design that the table allows.

    A design is left out if `table` has too few families, machines or devices to hold out, or a fold would
    have no training or no test rows. Designs other than "random" and "tasks" have fewer than `folds` folds if
    `table` has fewer groups. `table` has ``families, machine, device``. InputError if no design is possible,
    or "random" is wanted and there are fewer rows than folds; KeyError if a name is unknown.
    """
    divided = {name: DESIGNS[name].divide(table, folds, seed) for name in wanted}
    if table["machine"].nunique() < 2:  # noqa: PLR2004 - no other machine
        divided["pairs-on-machine"] = []
    divided = {name: parts for name, parts in divided.items() if _has_full_folds(parts)}
    if not divided:
        raise InputError(f"{len(table)} co-runs are too few for {folds} folds of any design")
    return divided


def design_parts(table: pd.DataFrame, wanted: tuple[str, ...], folds: int, seed: int) -> list[DesignPart]:
    """Return one part of all rows (fold -1, no test rows), then the folds, from 0, of each possible design.

    Designs keep the order of `wanted`; that of the first part is "pairs" if possible, else the first possible
    one. Possible designs, their number of folds and errors are as of `possible_splits`.
    """
    divided = possible_splits(table, wanted, folds, seed)
    main = main_design(tuple(divided))
    everything = DesignPart(main, -1, np.arange(len(table)), np.arange(0))
    folded = [
        DesignPart(name, fold, *rows)
        for name, fold_splits in divided.items()
        for fold, rows in enumerate(fold_splits)
    ]
    return [everything, *folded]


def main_design(designs: tuple[str, ...]) -> str:
    """Return the design whose scores choose the champion: "pairs" if it is in `designs`, else the first."""
    return "pairs" if "pairs" in designs else designs[0]


def inner_folds(table: pd.DataFrame, design: str, folds: int, seed: int) -> Divided:
    """Return (training, test) row numbers per fold, split as `design` does, or at random if it cannot.

    It cannot if it is left out by `possible_splits`. InputError if `table` has fewer rows than `folds` and is
    split at random.
    """
    divided = DESIGNS[design].divide(table, folds, seed)
    return divided if _has_full_folds(divided) else at_random(table, folds, seed)


def _has_full_folds(divided: Divided) -> bool:
    return bool(divided) and all(len(train) and len(test) for train, test in divided)
