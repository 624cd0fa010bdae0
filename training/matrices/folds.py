"""Test cases, or pairs, dealt into folds; a group stays in training where it can."""

from __future__ import annotations

import numpy as np
import pandas as pd

from data.errors import InputError


def dealt(pairs: pd.DataFrame, folds: int, seed: int) -> pd.Series:
    """Deal test cases into folds, so that each fold has normal and abnormal pairs.

    Those with most abnormal pairs come first. Each goes to the fold with the fewest test cases of its group,
    then the fewest abnormal pairs, then the fewest pairs. Where a fold gets one kind of pairs only, there is
    one fold less.

    Parameters
    ----------
    pairs : DataFrame
        ``workload, group, abnormal`` (bool), one row per pair.
    folds : int
        At most.
    seed : int
        For the order of test cases with as many abnormal pairs.

    Returns
    -------
    Series of int
        The fold, counted from 0, by workload.

    Raises
    ------
    InputError
        If not even two folds have both kinds.
    """
    cases = pairs.groupby("workload", sort=True).agg(
        group=("group", "first"), abnormal=("abnormal", "sum"), pairs=("abnormal", "size")
    )
    cases = cases.sample(frac=1, random_state=seed).sort_values("abnormal", ascending=False, kind="stable")
    for number in range(min(folds, len(cases)), 1, -1):
        fold_of = pd.Series(_dealt(cases, number), cases.index)
        kinds = pairs["abnormal"].groupby(pairs["workload"].map(fold_of)).nunique()
        if len(kinds) == number and (kinds == 2).all():  # noqa: PLR2004 - normal and abnormal
            return fold_of
    told = f"{int((cases['abnormal'] > 0).sum())} of {len(cases)} have abnormal pairs"
    raise InputError(f"{told}; two folds need normal and abnormal pairs each", place="test cases")


def dealt_pairs(pairs: pd.DataFrame, folds: int, seed: int) -> pd.Series:
    """Deal pairs into folds with equal shares of abnormal ones, wherever their test cases' other pairs are.

    Parameters
    ----------
    pairs : DataFrame
        ``pair_id, abnormal`` (bool).
    folds : int
        At most; fewer where there are not as many pairs of each kind.
    seed : int

    Returns
    -------
    Series of int
        The fold, counted from 0, by ``pair_id``.
    """
    from sklearn.model_selection import StratifiedKFold

    abnormal = pairs["abnormal"].to_numpy(bool)
    number = max(2, min(folds, int(abnormal.sum()), int((~abnormal).sum())))
    fold = np.zeros(len(pairs), int)
    parts = StratifiedKFold(number, shuffle=True, random_state=seed).split(abnormal, abnormal)
    for place, (_, test) in enumerate(parts):
        fold[test] = place
    return pd.Series(fold, pd.Index(pairs["pair_id"]))


def _dealt(cases: pd.DataFrame, number: int) -> list[int]:
    of_group = {group: np.zeros(number, int) for group in cases["group"].unique()}
    abnormal, size = np.zeros(number, int), np.zeros(number, int)
    found = []
    for case in cases.itertuples():
        fold = int(np.lexsort((size, abnormal, of_group[case.group]))[0])
        of_group[case.group][fold] += 1
        abnormal[fold] += case.abnormal
        size[fold] += case.pairs
        found.append(fold)
    return found
