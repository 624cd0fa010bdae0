"""The matrices that engines learn from and are scored on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import InputError
from data.matrices.tables import SIDES, MatrixTables
from data.matrices.validity import MatrixDecisions, unjudgeable
from data.tables.files import digest_of


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


@dataclass(frozen=True)
class MatrixExamples:
    """Flagged runs, and the pairs that a verdict can be scored on.

    Attributes
    ----------
    tables : MatrixTables
        All runs, as `data.matrices.validity.MatrixDecisions.flagged` returns them.
    pairs : DataFrame
        ``pair_id, workload, group, abnormal`` (bool), in the order of the runs: pairs whose valid runs can be
        judged, and whose target is labelled.
    decisions : MatrixDecisions
        What the rules say.
    measured : MatrixTables
        As measured: what a person who asks would hand in.
    digest : str
        SHA-256 of the files.
    """

    tables: MatrixTables
    pairs: pd.DataFrame
    decisions: MatrixDecisions
    measured: MatrixTables
    digest: str

    @classmethod
    def read(cls, interim: Path, processed: Path) -> MatrixExamples:
        """Read what the stages ingest and validate wrote.

        Raises
        ------
        InputError
            If a file is missing or wrong, or no pair has a label.
        """
        tables, decisions = MatrixTables.read(interim), MatrixDecisions.read(processed)
        names = (interim / "matrices", interim / "metrics", processed / "valid", processed / "valid_metrics")
        # what the verdicts rest on
        return cls.of(tables, decisions, digest_of(*(name.with_suffix(".parquet") for name in names)))

    @classmethod
    def of(cls, tables: MatrixTables, decisions: MatrixDecisions, digest: str) -> MatrixExamples:
        """Flag the runs of `tables` by `decisions`.

        Raises
        ------
        InputError
            If no pair that can be judged has a label.
        """
        flagged = decisions.flagged(tables)
        pairs = _pairs(flagged.runs)
        if pairs.empty:
            raise InputError("no pair that can be judged has a label to learn from", place="pairs")
        return cls(flagged, pairs, decisions, tables, digest)

    @property
    def flagged(self) -> bool:
        """Whether an analyst has flagged a run invalid, so that there is something to learn."""
        return bool((~self.measured.runs["valid"].fillna(value=True)).any())

    def without(self, named: pd.Index) -> MatrixTables:
        """Return all runs but those of these test cases, or pairs: what the index is named after."""
        return self.tables.of_runs((~self.tables.runs[named.name].isin(named)).to_numpy(bool))

    def testing(self, named: pd.Index) -> MatrixTables:
        """Return the valid runs of their pairs that are scored, without any flag."""
        pairs = self.pairs.loc[self.pairs[named.name].isin(named), "pair_id"]
        runs = self.tables.runs
        chosen = runs["pair_id"].isin(pairs) & runs["valid"]
        return self.tables.of_runs(chosen.to_numpy(bool)).without_flags()

    def truth(self) -> pd.Series:
        """Say by ``run_id`` which valid runs are abnormal; a baseline is normal unless it is labelled."""
        runs = self.tables.runs[self.tables.runs["valid"]]
        return runs.set_index("run_id")["abnormal"].fillna(value=False).astype(bool)


def _pairs(runs: pd.DataFrame) -> pd.DataFrame:
    reasons = unjudgeable(runs, runs["valid"].to_numpy(bool))
    target = runs[(runs["side"] == SIDES[1]) & runs["valid"] & runs["abnormal"].notna()]
    found = target.groupby("pair_id", sort=False).agg(
        workload=("workload", "first"), group=("group", "first"), abnormal=("abnormal", "any")
    )
    judgeable = found[found.index.isin(reasons.index[reasons == ""])]
    return judgeable.reset_index().astype({"abnormal": "bool"})
