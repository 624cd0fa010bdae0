"""Engines fitted to the training part of a fold and asked about the rest."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.tables import SIDES, MatrixTables
from data.parallel import Compute, side_by_side
from training.matrices.engine.engine import Engine
from training.matrices.engine.judges import Alarms, Cases
from training.matrices.engine.shape import NONE, Apart, Caused, Prepared, asked, causes
from training.matrices.examples import MatrixExamples, dealt
from training.matrices.schemes import Cell
from training.matrices.scores import Held, Mistakes


@dataclass(frozen=True)
class FoldPart:
    """A fold: what is learned from, and what is asked.

    Attributes
    ----------
    fold : int
    train : MatrixTables
        All runs of the training test cases, with flags.
    test : MatrixTables
        Valid runs of the others, without flags.
    truth : Series of bool
        By ``run_id``: whether a run of `test` is abnormal.
    """

    fold: int
    train: MatrixTables
    test: MatrixTables
    truth: pd.Series


def parts(examples: MatrixExamples, fold_of: pd.Series) -> list[FoldPart]:
    """Divide by the fold of each test case, or of each pair; what has no pair to score is only trained on.

    Parameters
    ----------
    examples : MatrixExamples
    fold_of : Series of int
        By ``workload`` or ``pair_id``, which the index is named after.
    """
    truth, found = examples.truth(), []
    for fold in sorted(fold_of.unique()):
        inside = fold_of.index[fold_of == fold]
        test, train = examples.testing(inside), examples.without(inside)
        found.append(FoldPart(int(fold), train, test, truth.loc[test.runs["run_id"]]))
    return found


def parts_of_causes(examples: MatrixExamples, number: int, seed: int) -> list[FoldPart]:
    """Divide so that what is asked has other causes, and is of other test cases, than what is learned from.

    Parameters
    ----------
    examples : MatrixExamples
    number : int
        Of parts at most.
    seed : int

    Returns
    -------
    list of FoldPart
        None where causes are not known, or too few.
    """
    pairs, truth = examples.pairs, examples.truth()
    known = causes(examples.tables)
    cause = np.array([known.get(pair, NONE) for pair in pairs["pair_id"]], object)
    workload = pairs["workload"].to_numpy(object)
    number = min(number, len(set(known.values())), len(set(workload)))
    if number < len(("learned", "asked")):
        return []
    part = pairs["workload"].map(dealt(pairs, number, seed)).to_numpy(np.intp)
    found = Caused(workload, cause, pairs["abnormal"].to_numpy(bool)).parted(part, seed)
    return [_of_causes(examples, fold, one, truth) for fold, one in enumerate(found)]


def _of_causes(examples: MatrixExamples, fold: int, apart: Apart, truth: pd.Series) -> FoldPart:
    pairs, runs = examples.pairs, examples.tables.runs
    test = examples.testing(pd.Index(pairs["pair_id"][apart.asked]))
    learned = runs["pair_id"].isin(pairs["pair_id"][apart.learned])
    # what is not scored stays with its test case
    beside = ~runs["pair_id"].isin(pairs["pair_id"]) & runs["workload"].isin(pairs["workload"][apart.learned])
    train = examples.tables.of_runs((learned | beside).to_numpy(bool))
    return FoldPart(fold, train, test, truth.loc[test.runs["run_id"]])


@dataclass(frozen=True)
class EngineFit:
    """A cell to fit to a part's training runs, and to ask about its test runs.

    Attributes
    ----------
    cell : Cell
    part : FoldPart
    trials : int
        Of the search.
    seed : int
    fixed : mapping
        Parameters that are not searched.
    alarms : Alarms or None
        What is to be promised of false alarms.
    """

    cell: Cell
    part: FoldPart
    trials: int
    seed: int
    fixed: Mapping[str, Any] = field(default_factory=dict)
    alarms: Alarms | None = None

    @property
    def engine(self) -> Engine:
        """What is fitted."""
        return Engine(self.cell.scheme, self.cell.model, self.trials, self.seed, self.fixed, self.alarms)

    @property
    def same(self) -> Hashable:
        """What decides the answer: where nothing is summarised or grouped, some schemes do the same."""
        scheme, train = self.cell.scheme, self.part.train
        metrics = scheme.metrics if train.summary else "raw"
        one_group = scheme.grouping == "given" and len(set(train.runs["group"])) == 1
        scheme = replace(scheme, metrics=metrics, grouping="none" if one_group else scheme.grouping)
        fixed = tuple(self.fixed.items())
        return id(self.part), scheme, self.cell.model, self.trials, self.seed, fixed, self.alarms


def all_held(fits: Sequence[EngineFit], compute: Compute, title: str) -> list[Held]:
    """Fit all side by side, what has the same answer once; those that learn from the same rows share them."""
    which = [fit.same for fit in fits]
    distinct = dict(zip(which, fits, strict=True))
    found = dict(zip(distinct, _each_held(list(distinct.values()), compute, title), strict=True))
    return [found[one] for one in which]


def _each_held(fits: Sequence[EngineFit], compute: Compute, title: str) -> list[Held]:
    alike: dict[Hashable, list[int]] = {}
    for number, fit in enumerate(fits):
        alike.setdefault((id(fit.part), fit.engine.shape), []).append(number)
    batches = [[fits[number] for number in numbers] for numbers in alike.values()]
    found = side_by_side(_batch_held, batches, compute, title)
    by_number = dict(zip(chain(*alike.values()), chain(*found), strict=True))
    return [by_number[number] for number in range(len(fits))]


def _batch_held(fits: Sequence[EngineFit]) -> list[Held]:
    from sklearn import config_context

    part = fits[0].part
    # what forms make is finite, and parameters come from the catalogue
    with config_context(assume_finite=True, skip_parameter_validation=True):
        shaped = fits[0].engine.shape.of(part.train)
        rows = asked(shaped, part.test)
        found = []
        for fit in fits:
            prepared = fit.engine.prepared(shaped)
            found.append(_held(fit, prepared, prepared.asked(rows)))
        return found


def _held(fit: EngineFit, prepared: Prepared, unseen: Cases) -> Held:
    """Fit, and count what is said of the rest."""
    part, begun = fit.part, time.perf_counter()
    engine = fit.engine.learned(prepared)
    seconds = time.perf_counter() - begun
    pairs, vectors = engine.answers(part.test, unseen)
    truth = part.truth.loc[vectors["run_id"]].to_numpy(bool)
    told = pairs[["pair_id", "group_used", "probability", "threshold"]].assign(
        judged=pairs["abnormal"].to_numpy(bool)
    )
    judged, target = vectors["abnormal"].to_numpy(np.bool_), (vectors["side"] == SIDES[1]).to_numpy(bool)
    of_targets = Mistakes.of(truth[target], judged[target])
    return Held(part.fold, told, Mistakes.of(truth, judged), of_targets, seconds)
