"""Cross-validation folds, engines fitted to them, and counts of their errors."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.errors import InputError
from data.matrices.tables import SIDES, Flags, MatrixTables
from data.matrices.validity import MatrixDecisions, unjudgeable_pairs
from data.parallel import Compute, side_by_side
from data.tables.files import digest_of
from training.matrices.engine.engine import Engine, FittedEngine
from training.matrices.engine.shape import NONE, make_test_rows, pair_causes, split_by_causes
from training.matrices.schemes import Printed


def deal_to_folds(pairs: pd.DataFrame, folds: int, seed: int) -> pd.Series:
    """Return the fold, from 0, by test case (``workload``); every fold has normal and abnormal pairs.

    There are fewer than `folds` where necessary. Test cases with most abnormal pairs are dealt first, equal
    ones at random; each goes to the fold with the fewest test cases of its group, then the fewest abnormal
    pairs, then the fewest pairs. `pairs` has ``workload, group, abnormal``. The index is the
    workload. InputError if not even two folds have both labels.
    """
    cases = pairs.groupby("workload", sort=True).agg(
        group=("group", "first"), abnormal=("abnormal", "sum"), pairs=("abnormal", "size")
    )
    cases = cases.sample(frac=1, random_state=seed).sort_values("abnormal", ascending=False, kind="stable")
    for number in range(min(folds, len(cases)), 1, -1):
        fold_of = pd.Series(_fold_of_cases(cases, number), cases.index)
        kinds = pairs["abnormal"].groupby(pairs["workload"].map(fold_of)).nunique()
        if len(kinds) == number and (kinds == 2).all():  # noqa: PLR2004 - normal and abnormal
            return fold_of
    abnormal = f"{int((cases['abnormal'] > 0).sum())} of {len(cases)} have abnormal pairs"
    raise InputError(f"{abnormal}; two folds need normal and abnormal pairs each", place="test cases")


def deal_pairs_to_folds(pairs: pd.DataFrame, folds: int, seed: int) -> pd.Series:
    """Return the fold, from 0, of each ``pair_id``; folds have about equal shares of abnormal pairs.

    There are fewer than `folds`, but at least two, where a label has fewer pairs. `pairs` has ``pair_id,
    abnormal``; its order is kept. ValueError if no label has two pairs.
    """
    from sklearn.model_selection import StratifiedKFold

    abnormal = pairs["abnormal"].to_numpy(bool)
    number = max(2, min(folds, int(abnormal.sum()), int((~abnormal).sum())))
    fold = np.zeros(len(pairs), int)
    parts = StratifiedKFold(number, shuffle=True, random_state=seed).split(abnormal, abnormal)
    for place, (_, test) in enumerate(parts):
        fold[test] = place
    return pd.Series(fold, pd.Index(pairs["pair_id"]))


def _fold_of_cases(cases: pd.DataFrame, number: int) -> list[int]:
    of_group = {group: np.zeros(number, int) for group in cases["group"].unique()}
    abnormal, size = np.zeros(number, int), np.zeros(number, int)
    folds = []
    for case in cases.itertuples():
        fold = int(np.lexsort((size, abnormal, of_group[case.group]))[0])
        of_group[case.group][fold] += 1
        abnormal[fold] += case.abnormal
        size[fold] += case.pairs
        folds.append(fold)
    return folds


@dataclass(frozen=True)
class MatrixExamples:
    """Flagged runs, and the pairs whose verdict can be scored.

    `tables` has all runs, flagged by `decisions`, `measured` these runs as measured, like a request. `pairs`
    has ``pair_id, workload, group, abnormal`` (bool), in the order of the runs: pairs whose valid runs can be
    judged, and whose target is labelled. `digest` is the SHA-256 of the files.
    """

    tables: MatrixTables
    pairs: pd.DataFrame
    decisions: MatrixDecisions
    measured: MatrixTables
    digest: str

    @classmethod
    def read(cls, interim: Path, processed: Path) -> MatrixExamples:
        """Read the output of ingest and validate; InputError if a file is wrong or no pair has a label."""
        tables, decisions = MatrixTables.read(interim), MatrixDecisions.read(processed)
        names = (interim / "matrices", interim / "metrics", processed / "valid", processed / "valid_metrics")
        # the files that the verdicts depend on
        digest = digest_of(*(name.with_suffix(".parquet") for name in names))
        return cls.from_tables(tables, decisions, digest)

    @classmethod
    def from_tables(cls, tables: MatrixTables, decisions: MatrixDecisions, digest: str) -> MatrixExamples:
        """Flag the runs of `tables` by `decisions`; InputError if no pair that can be judged has a label."""
        flagged = decisions.flag_valid_runs(tables)
        pairs = _scorable_pairs(flagged.runs)
        if pairs.empty:
            raise InputError("no pair that can be judged has a label to learn from", place="pairs")
        return cls(flagged, pairs, decisions, tables, digest)

    @property
    def has_invalid_flags(self) -> bool:
        """Whether an analyst has flagged any run invalid, so that a validity tree can be learned."""
        return bool((~self.measured.runs["valid"].fillna(value=True)).any())

    def runs_without(self, named: pd.Index) -> MatrixTables:
        """Return all runs except those of the test cases, or pairs, in `named`.

        The name of the index, ``workload`` or ``pair_id``, is the column that is compared.
        """
        return self.tables.select_runs((~self.tables.runs[named.name].isin(named)).to_numpy(bool))

    def runs_to_judge(self, named: pd.Index) -> MatrixTables:
        """Return the valid runs, without flags, of the scored pairs of the test cases, or pairs, in `named`.

        The name of the index, ``workload`` or ``pair_id``, is the column that is compared.
        """
        pairs = self.pairs.loc[self.pairs[named.name].isin(named), "pair_id"]
        runs = self.tables.runs
        chosen = runs["pair_id"].isin(pairs) & runs["valid"]
        return self.tables.select_runs(chosen.to_numpy(bool)).without_flags()

    def truth_of_runs(self) -> pd.Series:
        """Return by ``run_id`` whether each valid run is abnormal; a run without a label is normal."""
        runs = self.tables.runs[self.tables.runs["valid"]]
        return runs.set_index("run_id")["abnormal"].fillna(value=False).astype(bool)


def _scorable_pairs(runs: pd.DataFrame) -> pd.DataFrame:
    reasons = unjudgeable_pairs(runs, runs["valid"].to_numpy(bool))
    target = runs[(runs["side"] == SIDES[1]) & runs["valid"] & runs["abnormal"].notna()]
    pairs = target.groupby("pair_id", sort=False).agg(
        workload=("workload", "first"), group=("group", "first"), abnormal=("abnormal", "any")
    )
    judgeable = pairs[pairs.index.isin(reasons.index[reasons == ""])]
    return judgeable.reset_index().astype({"abnormal": "bool"})


@dataclass(frozen=True)
class Mistakes:
    """Error counts of verdicts on vectors or pairs; abnormal is positive."""

    cases: int
    abnormal: int
    false_positive: int
    false_negative: int

    @classmethod
    def from_flags(cls, abnormal: Flags, judged: Flags) -> Mistakes:
        """Return the counts; both masks (`judged`: called abnormal) have the shape (n_cases,)."""
        wrong = abnormal != judged
        counted = (abnormal, wrong & judged, wrong & abnormal)
        return cls(len(abnormal), *(int(flags.sum()) for flags in counted))

    @property
    def balanced_accuracy(self) -> float:
        """The mean of both classes' accuracies (equation 2 of the matrix paper); NaN without both classes."""
        normal = self.cases - self.abnormal
        if not normal or not self.abnormal:
            return float("nan")
        return 1 - (self.false_negative / self.abnormal + self.false_positive / normal) / 2


@dataclass(frozen=True)
class CellAnswers:
    """The results of a model under a scheme on one fold.

    `pairs` has ``pair_id, group_used, probability, threshold, judged`` (bool); `vectors` counts all vectors,
    `targets` those of targets, which every form judges; `seconds` is the time of search and fit; `engine` is
    kept where the classifier is tuned, as that of the champion will be.
    """

    fold: int
    pairs: pd.DataFrame
    vectors: Mistakes
    targets: Mistakes
    seconds: float
    engine: FittedEngine | None = None


def results_row(
    fold_answers: Sequence[CellAnswers], abnormal: pd.Series, printed: Printed | None
) -> dict[str, Any]:
    """Return the errors of a model in all folds, at least one, as a dict.

    The keys are ``folds, vectors, abnormal`` (counts, the last of abnormal vectors) and, from the matrix
    paper's figures `printed`, ``seed_false_negative, seed_false_positive, seed_balanced_accuracy`` (each None
    if the paper has none). For vectors, and with the prefixes ``target_`` (vectors of targets) and ``pair_``,
    there are ``balanced_accuracy`` (pooled), ``spread`` (its population standard deviation over the folds
    with both labels), both NaN if undefined, and ``false_positive, false_negative`` (counts). The argument
    `abnormal` is the truth by ``pair_id``; KeyError if a judged pair is missing.
    """
    vectors, targets = [fold.vectors for fold in fold_answers], [fold.targets for fold in fold_answers]
    pairs = []
    for fold in fold_answers:
        truth = abnormal.loc[fold.pairs["pair_id"]].to_numpy(bool)
        pairs.append(Mistakes.from_flags(truth, fold.pairs["judged"].to_numpy(bool)))
    whole = add_mistakes(vectors)
    columns: dict[str, Any] = {"folds": len(fold_answers), "vectors": whole.cases, "abnormal": whole.abnormal}
    for prefix, folds in (("", vectors), ("target_", targets), ("pair_", pairs)):
        whole = add_mistakes(folds)
        columns[f"{prefix}balanced_accuracy"] = whole.balanced_accuracy
        columns[f"{prefix}spread"] = accuracy_spread(folds)
        columns[f"{prefix}false_positive"] = whole.false_positive
        columns[f"{prefix}false_negative"] = whole.false_negative
    names = Printed.__dataclass_fields__
    return columns | {f"seed_{name}": printed and getattr(printed, name) for name in names}


def accuracy_spread(folds: Sequence[Mistakes]) -> float:
    """Return the population standard deviation of balanced accuracy over the folds that have both classes.

    NaN if there is no such fold.
    """
    scores = [counts.balanced_accuracy for counts in folds if counts.balanced_accuracy >= 0]
    return float(np.std(scores)) if scores else float("nan")


def add_mistakes(counts: Sequence[Mistakes]) -> Mistakes:
    """Return the sums of the counts (cases, abnormal, false positives and negatives) of one or more folds."""
    return Mistakes(*(sum(numbers) for numbers in zip(*map(astuple, counts), strict=True)))


@dataclass(frozen=True)
class FoldPart:
    """A fold: all training runs with flags, the valid test runs without, and their truth by ``run_id``."""

    fold: int
    train: MatrixTables
    test: MatrixTables
    truth: pd.Series


def fold_parts(examples: MatrixExamples, fold_of: pd.Series) -> list[FoldPart]:
    """Return the training runs, the test runs and the truth of each fold, in ascending order of the folds.

    The fields are ``fold, train, test`` and ``truth`` (by ``run_id``: whether a test run is abnormal).
    `fold_of` is the fold by ``workload`` or ``pair_id``; the name of its index is the column that is
    compared. Training runs, with flags, are all runs outside the fold, also invalid ones. Test runs, without
    flags, are the valid runs of the fold whose pairs can be scored; one without a label counts as normal.
    """
    truth, folds = examples.truth_of_runs(), []
    for fold in sorted(fold_of.unique()):
        inside = fold_of.index[fold_of == fold]
        test, train = examples.runs_to_judge(inside), examples.runs_without(inside)
        folds.append(FoldPart(int(fold), train, test, truth.loc[test.runs["run_id"]]))
    return folds


def parts_of_causes(examples: MatrixExamples, number: int, seed: int) -> list[FoldPart]:
    """Return up to `number` folds whose training and test runs share neither a cause nor a test case.

    A fold has the fields of `fold_parts`. Runs of pairs that cannot be scored are in training if their test
    case is, whatever their cause. Empty if fewer than two causes or test cases are known, or fewer than two
    folds have both labels in training and test; InputError if the test cases cannot be dealt to two folds
    with both labels each.
    """
    pairs, truth, runs = examples.pairs, examples.truth_of_runs(), examples.tables.runs
    cause_by_pair = pair_causes(examples.tables)
    cause = np.array([cause_by_pair.get(pair, NONE) for pair in pairs["pair_id"]], object)
    workload = pairs["workload"].to_numpy(object)
    number = min(number, len(set(cause_by_pair.values())), len(set(workload)))
    if number < len(("train", "test")):
        return []
    part = pairs["workload"].map(deal_to_folds(pairs, number, seed)).to_numpy(np.intp)
    scored, folds = runs["pair_id"].isin(pairs["pair_id"]), []
    splits = split_by_causes(workload, cause, pairs["abnormal"].to_numpy(bool), part, seed)
    for fold, (is_learned, is_tested) in enumerate(splits):
        test = examples.runs_to_judge(pd.Index(pairs["pair_id"][is_tested]))
        learned = runs["pair_id"].isin(pairs["pair_id"][is_learned])
        # pairs that are not scored stay with their test case
        unscored = ~scored & runs["workload"].isin(pairs["workload"][is_learned])
        train = examples.tables.select_runs((learned | unscored).to_numpy(bool))
        folds.append(FoldPart(fold, train, test, truth.loc[test.runs["run_id"]]))
    return folds


#: Time of a fit of the slowest models, and of a classifier for each of the given groups, as multiples.
_EFFORT = {"xgboost-blend": 20, "xgboost": 10, "random-forest": 5, "similarity-logistic": 3}
_GROUPS_EFFORT = 6


@dataclass(frozen=True)
class EngineFit:
    """An engine to fit to a fold's training runs and to test on its test runs."""

    engine: Engine
    part: FoldPart

    @property
    def relative_effort(self) -> int:
        """The approximate time of the fit, in units of the fastest models' without groups."""
        effort = _EFFORT.get(self.engine.cell.model, 1)
        return effort * _GROUPS_EFFORT if self.engine.cell.scheme.grouping == "given" else effort

    @property
    def fit_key(self) -> Hashable:
        """A key that equal fits share: without summary metrics or with one group, some schemes coincide."""
        engine, scheme, train = self.engine, self.engine.cell.scheme, self.part.train
        metrics = scheme.metrics if train.summary_metrics else "raw"
        one_group = scheme.grouping == "given" and len(set(train.runs["group"])) == 1
        scheme = replace(scheme, metrics=metrics, grouping="none" if one_group else scheme.grouping)
        fixed = tuple(engine.fixed.items())
        return id(self.part), scheme, engine.cell.model, engine.trials, engine.seed, fixed, engine.alarms


def judge_all_fits(fits: Sequence[EngineFit], compute: Compute, title: str) -> list[CellAnswers]:
    """Return the results of all `fits`, in order, computed in parallel; equal fits are computed once.

    An engine is fitted to the training runs of its fold and judges the test runs. A result has ``fold``,
    ``pairs`` (``pair_id, group_used, probability, threshold, judged``), the error counts ``vectors`` and
    ``targets``, ``seconds``, and ``engine`` (None unless the scheme is tuned). `title` names the work in
    messages on progress. InputError if a fold's training rows have one label, or a model or form is unknown.
    """
    by_rows: dict[Hashable, dict[Hashable, EngineFit]] = {}
    for key, fit in {fit.fit_key: fit for fit in fits}.items():
        by_rows.setdefault((id(fit.part), fit.engine.row_settings), {})[key] = fit
    # the slowest first, so that no process waits for the last one
    batches = sorted(by_rows.values(), key=lambda batch: -sum(fit.relative_effort for fit in batch.values()))
    answers = side_by_side(_judge_batch, [list(batch.values()) for batch in batches], compute, title)
    by_key = dict(zip(chain(*batches), chain(*answers), strict=True))
    return [by_key[fit.fit_key] for fit in fits]


def _judge_batch(fits: Sequence[EngineFit]) -> list[CellAnswers]:
    from sklearn import config_context

    part = fits[0].part
    # forms return finite values, and parameters come from the catalogue
    with config_context(assume_finite=True, skip_parameter_validation=True):
        shaped = fits[0].engine.row_settings.make_rows(part.train)
        rows = make_test_rows(shaped.form, shaped.scales, shaped.grouping, part.test)
        answers = []
        for fit in fits:
            prepared, begun = fit.engine.prepare_cases(shaped), time.perf_counter()
            engine = fit.engine.fit_prepared(shaped, *prepared)
            seconds = time.perf_counter() - begun
            pairs, vectors = engine.judge_pairs_and_vectors(part.test, rows)
            verdicts = pairs[["pair_id", "group_used", "probability", "threshold"]]
            verdicts = verdicts.assign(judged=pairs["abnormal"].to_numpy(bool))
            truth = part.truth.loc[vectors["run_id"]].to_numpy(bool)
            judged = vectors["abnormal"].to_numpy(np.bool_)
            target = (vectors["side"] == SIDES[1]).to_numpy(bool)
            of_targets = Mistakes.from_flags(truth[target], judged[target])
            of_vectors, kept = Mistakes.from_flags(truth, judged), engine if engine.scheme.tuned else None
            answers.append(CellAnswers(part.fold, verdicts, of_vectors, of_targets, seconds, kept))
        return answers
