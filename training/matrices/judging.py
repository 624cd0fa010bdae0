"""Judge pairs of matrices: validity, group, verdict, and the raw metrics that contributed most to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from data.errors import InputError
from data.matrices.tables import RUN_DTYPES, SUMMARY, MatrixTables, incomparable_pairs
from data.matrices.validity import first_broken, unit_notes, unjudgeable_pairs
from data.tables.problems import Problems, nearest_name

if TYPE_CHECKING:
    from training.matrices.engine.engine import Attribution, ExplainedPair
    from training.matrices.engine.stored import TrainedEngine

#: Least similarity of two names to suggest that a metric was renamed.
ALIKE = 0.75
#: Number of names that a message lists; the others are counted.
SHOWN = 5


def match_metrics(
    tables: MatrixTables, metrics: pd.DataFrame, groups: Collection[str], missing: float
) -> tuple[MatrixTables, tuple[str, ...]]:
    """Return `tables` with exactly the metrics of a model, in its order, and notes on all differences.

    A metric that is missing, in another unit (unless one unit is empty), or without any value is taken as not
    measured (NaN); a metric that the model does not know is dropped. `metrics` are those of the training
    data, `groups` its workload groups; a run of another group adds a note only. At most 5 notes of a kind are
    listed, others counted. InputError if more than the share `missing` of the model's raw metrics are
    unusable.
    """
    units = dict(zip(metrics["metric"].tolist(), metrics["unit"].tolist(), strict=True))
    theirs = dict(zip(tables.metrics["metric"].tolist(), tables.metrics["unit"].tolist(), strict=True))
    model_metrics, present = list(units), {*RUN_DTYPES, *tables.all_metrics}
    absent = [name for name in model_metrics if name not in present]
    extra = [name for name in tables.all_metrics if name not in units]
    other = [name for name in model_metrics if name in theirs and len({theirs[name], units[name]} - {""}) > 1]
    measured = [name for name in model_metrics if name in present]
    without_values = np.asarray(np.isnan(tables.metric_values(measured)).all(axis=0)).tolist()
    empty = [name for name, is_empty in zip(measured, without_values, strict=True) if is_empty]
    raw = [name for name in model_metrics if not name.startswith(SUMMARY)]
    unusable = {*absent, *other, *empty}.intersection(raw)
    if raw and len(unusable) > missing * len(raw):
        first = next(name for name in raw if name in unusable)
        problem = f'{len(unusable)} of the {len(raw)} raw metrics of the model are missing, such as "{first}"'
        raise InputError(f"{problem}; expected {1 - missing:.0%} of them", place="runs")
    strange = [group for group in tables.runs["group"].unique() if group not in groups]

    def missing_note(name: str) -> str:
        alike = nearest_name(name, extra, ALIKE)
        renamed = f'; was it renamed "{alike}"?' if alike else ""
        return f'metric "{name}" is missing; it is taken as not measured{renamed}'

    def unit_note(name: str) -> str:
        note = f'metric "{name}" comes in {theirs[name]}, expected {units[name]}'
        return f"{note}; it is taken as not measured"

    notes = [
        *_limited_notes(absent, missing_note, "are missing"),
        *_limited_notes(
            extra, 'metric "{}" is unknown to the model; it is not used'.format, "are unknown to the model"
        ),
        *_limited_notes(other, unit_note, "come in another unit"),
        *_limited_notes(empty, 'metric "{}" has no value in any run'.format, "have no value in any run"),
        *_limited_notes(
            strange,
            'group "{}" is unknown to the model; the classifier for all groups is used'.format,
            "are unknown groups",
        ),
    ]
    runs, columns = tables.runs, [*RUN_DTYPES, *model_metrics]
    if columns == runs.columns.tolist() and not other:
        return tables.with_metrics(metrics), tuple(notes)
    runs = runs.reindex(columns=columns).assign(**dict.fromkeys(other, np.nan))
    return MatrixTables(runs, tables.causes, metrics), tuple(notes)


def _limited_notes(names: Sequence[str], note: Callable[[str], str], more: str) -> list[str]:
    others = [f"... and {len(names) - SHOWN} more {more}"] if len(names) > SHOWN else []
    return [*map(note, names[:SHOWN]), *others]


#: The reason where all runs are valid but the engine has nothing to compare.
NO_ANSWER = "a side has no value of any metric of the model"


@dataclass(frozen=True)
class InvalidRun:
    """A run that is not judged, and why.

    `by` is a rule of `data.matrices.validity`, named by `rule`, or the validity tree (section 4.1 of the
    matrix paper). `reason` is the violated condition, such as "process.wait=-3 must be 0 or more", or the
    path through the tree.
    """

    run_id: str
    side: str
    by: Literal["rule", "tree"]
    rule: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class MatrixVerdict:
    """The verdict on one pair of matrices.

    `group_used` is the group whose classifier decided, or "fallback", learned from all groups; `probability`
    is that of ``fail``, and `threshold` its least value for the verdict ``fail``. `attributions` begin with
    the largest contribution. An invalid pair has a `reason`, such as "has 1 valid of 3 baseline runs;
    expected at least 2", and none of these four. `baseline_runs` and `target_runs` count the valid runs.
    `notes` name, for example, a metric whose unit seems to have changed.
    """

    pair_id: str
    workload: str
    group: str
    group_used: str = ""
    verdict: Literal["pass", "fail", "invalid"] = "invalid"
    probability: float | None = None
    threshold: float | None = None
    reason: str
    baseline_runs: int
    target_runs: int
    invalid_runs: tuple[InvalidRun, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MatrixJudgement:
    """The verdicts on all pairs, in the order of their first runs, and notes that concern all."""

    verdicts: tuple[MatrixVerdict, ...]
    notes: tuple[str, ...]


#: Passes on the results of the pairs, given their number, and may report progress.
Watch: TypeAlias = "Callable[[Iterable[ExplainedPair], int], Iterable[ExplainedPair]]"


def without_progress(pairs: Iterable[ExplainedPair], _total: int) -> Iterable[ExplainedPair]:
    """Return `pairs` unchanged: a `Watch` that does not report progress."""
    return pairs


def judge_tables(
    trained: TrainedEngine, tables: MatrixTables, n_attributions: int = 5, watch: Watch = without_progress
) -> MatrixJudgement:
    """Return a verdict on every pair of `tables`; one that cannot be judged is ``invalid``, with the reason.

    The result has ``verdicts``, an object per pair (`MatrixVerdict`: ``verdict, probability, reason`` and
    others) in the order of their first runs, and ``notes`` on metrics and groups. Rules reject runs first,
    then the validity tree checks the remaining runs. A pair is judged if at least two runs of its baseline
    and one of its target are left, its sides can be compared (see `incomparable_pairs`), and both have a
    value of a metric of the model. Flags ``valid`` and ``abnormal`` of `tables` are ignored. `n_attributions`
    is the number of raw metrics to name for each pair, at most 10 (0: none). `watch` is called with the
    iterator of answers and their number, and returns an iterator of the same answers, so that it can show
    progress.

    InputError if `tables` is empty, if more metrics are missing than the card allows, or if a run has no id,
    workload, group or pair, is on a side other than baseline or target, or repeats the id of another run.
    ModelError if the model fails.
    """
    card = trained.card
    usable_tables = tables.without_flawed_runs(Problems())
    if usable_tables.runs.empty:
        raise InputError("none; expected at least one pair of matrices", place="runs")
    matched, notes = match_metrics(usable_tables, card.known_metrics, card.groups, card.missing)
    invalid, runs = _find_invalid_runs(trained, matched), matched.runs
    is_valid = np.array([run is None for run in invalid], bool)
    reasons = unjudgeable_pairs(runs, is_valid).to_dict() | incomparable_pairs(runs)
    pair_of_run, first_rows = runs["pair_id"].to_numpy(object), matched.pair_sides.first_rows
    chosen = is_valid & np.array([not reasons[pair] for pair in pair_of_run], bool)
    valid_tables = matched if chosen.all() else matched.select_runs(chosen)
    invalid_runs, notes_of_pairs = defaultdict[str, list[InvalidRun]](list), defaultdict[str, list[str]](list)
    for pair_id, run in zip(pair_of_run, invalid, strict=True):
        if run is not None:
            invalid_runs[pair_id].append(run)
    for pair_id, note in unit_notes(valid_tables, valid_tables.raw_metrics):
        notes_of_pairs[pair_id].append(note)
    answers: dict[str, dict[str, Any]] = {}
    if not valid_tables.runs.empty:
        explained = trained.engine.explain_pairs(valid_tables, n_attributions)
        for answer in watch(explained, len(valid_tables.pair_sides.names)):
            verdict = "fail" if answer.abnormal else "pass"
            answers[answer.pair_id] = answer._asdict() | {"verdict": verdict}
    # the verdict is about the target; the sides may differ in the workload or the group
    columns = (runs[name].to_numpy(object)[first_rows] for name in ("pair_id", "workload", "group"))
    counts = matched.pair_sides.count_runs(is_valid).tolist()
    verdicts = (
        MatrixVerdict(
            workload=workload,
            group=group,
            reason=reasons[pair_id] or ("" if pair_id in answers else NO_ANSWER),
            baseline_runs=baseline_runs,
            target_runs=target_runs,
            invalid_runs=tuple(invalid_runs[pair_id]),
            notes=tuple(notes_of_pairs[pair_id]),
            **answers.get(pair_id, {"pair_id": pair_id}),
        )
        for pair_id, workload, group, (baseline_runs, target_runs) in zip(*columns, counts, strict=True)
    )
    return MatrixJudgement(tuple(verdicts), notes)


def _find_invalid_runs(trained: TrainedEngine, tables: MatrixTables) -> list[InvalidRun | None]:
    """Return for each run why a rule or the tree finds it invalid, None where it is valid."""
    runs = tables.runs
    names, sides = (runs[name].to_numpy(object).tolist() for name in ("run_id", "side"))
    broken = zip(*first_broken(tables, trained.card.missing, tables.raw_metrics, []), strict=True)
    invalid = [
        InvalidRun(run, side, "rule", rule, reason) if rule else None
        for run, side, (rule, reason) in zip(names, sides, broken, strict=True)
    ]
    is_valid = np.array([run is None for run in invalid], bool)
    if trained.validity is not None and is_valid.any():
        left = tables if is_valid.all() else tables.select_runs(is_valid)
        for row, path in zip(np.flatnonzero(is_valid), trained.validity.decision_paths(left), strict=True):
            if path is not None:
                invalid[row] = InvalidRun(names[row], sides[row], "tree", "", path)
    return invalid
