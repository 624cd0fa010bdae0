"""The stages evaluate and train of the model family ``matrices``.

Tuning is part of every fit (`training.matrices.engine.engine`), so this family has no stage tune. Evaluation
writes to ``reports/matrices``; test cases (``workload``) are held out whole, and every row below is of
held-out test cases. A scheme is a combination of remedies (`training.matrices.schemes`) of the matrix paper.
Counts are of vectors, as in the matrix paper, or of pairs of matrices, the unit of a request.

``metrics.json``
    ``family, data, seed, trials, champion`` (an entry), ``splits.test-cases`` (``scheme, folds, entries``),
    ``splits.causes`` (training and test share neither causes nor test cases; absent where causes are not
    known), ``splits.pairs`` (the champion and table 5 on folds of whole pairs, which is easier, like the
    split of the matrix paper), ``selected`` (each fold judged by the model that is best on the other folds),
    ``served`` (the champion after rules and validity tree, on unflagged runs), ``validity`` (counts of runs,
    by judge), ``groups`` (agreement of given and automatic groups). An entry has ``kind`` ("model" or
    "opponent", a reference method) and per score ``mean, std, pooled``, of pairs.
``summary.json``, and ``precision_recall.csv, reliability.csv, confusion.csv``
    Figures for DVC (`training.evaluation.figures`).
``oof.parquet``
    ``pair_id, workload, group, split, repeat, fold, entry, kind, scheme, model, group_used, probability,
    threshold, verdict, status, cause, cause_size``: every entry's verdict on every pair. The reference
    methods are ``largest z`` and ``metrics beyond 3 sigma``, and both with ``, pooled noise``; ``cause`` is
    empty and ``cause_size`` missing where nothing was injected or it is not known.
``tables.parquet``
    ``table`` (2, 4, 5, 6, 7, 8), ``row`` (the classifier's name in the matrix paper), ``model, scheme, folds,
    vectors, abnormal, balanced_accuracy, spread, false_positive, false_negative``, the last four again with
    ``target_`` (of vectors of targets, which are equal in every form) and with ``pair_``,
    ``seed_balanced_accuracy, seed_false_positive, seed_false_negative`` (the paper's, may be missing).
    Counts are pooled over folds; ``spread`` is the standard deviation over folds.
``ablation.parquet``
    ``part`` ("added", "left out", "single runs", "single runs, left out", "grouping"), ``step`` (counted from
    0), ``remedy`` (in words), ``model``, the fields of the scheme (``metrics, form, prune, grouping,
    components, balance, tuned``), and the columns of tables.parquet from ``folds`` on. "added": from the
    naive to the full scheme, one remedy at a time; "left out": the champion's model under the full scheme
    without one remedy; "single runs": both of these with the paper's remedies and forms only; "grouping":
    none, given and automatic groups. Of the first ``n_curve_folds`` folds.
``curves.parquet``
    ``figure`` (4 cost ratio, 5 normal training vectors per abnormal one, 6 dimensions), ``model, grouping, x,
    folds, balanced_accuracy, spread``, of vectors; nothing else is tuned.
``times.parquet``, next to the folder ``evaluated``
    Figure 7: ``model, dimensions, seconds`` of fitting an engine to all training vectors, the mean of the
    folds. It differs in every run, so neither DVC nor git stores it.
``validity.parquet``
    ``judge`` ("rules", "tree", "both"), ``fold, kind`` (of invalidity; empty for valid runs), ``runs,
    rejected``.
``groups.parquet``
    ``workload, group, automatic``: the given and the automatic group of each test case.
``served.parquet``
    ``pair_id, workload, group, fold, verdict, probability, status, baseline_runs, target_runs, reason``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from data.errors import InputError
from data.matrices.params import Matrices
from data.params import Params, load
from data.tables.documents import written
from data.tables.files import write_json, write_tables
from training.evaluation.figures import dvc_verdict_figures
from training.evaluation.metrics import summarise_entries
from training.evaluation.search import require_known
from training.matrices.engine.judges import Alarms
from training.matrices.engine.models import CATALOGUE
from training.matrices.engine.stored import EngineRecipe
from training.matrices.evaluation import (
    Evaluation,
    curves_and_times,
    group_agreement,
    grouping_table,
    served_and_validity,
    served_summary,
    summarise_selection,
    validity_summary,
)
from training.matrices.fitting import (
    FoldPart,
    MatrixExamples,
    deal_pairs_to_folds,
    deal_to_folds,
    fold_parts,
    parts_of_causes,
)
from training.matrices.promote import CAUSES, PLACES, SPLIT, rank_models
from training.matrices.schemes import (
    BLENDS,
    FOLLOWED,
    FULL,
    RAW,
    AblationStep,
    Cell,
    Scheme,
    add_remedies,
    candidate_cells,
    grouping_steps,
    leave_out_remedies,
    single_run_steps,
    table_rows,
)

#: Name of the split that is more like that of the matrix paper.
PAIRS = "pairs"
TIMES = "times"


def evaluate_stage() -> None:
    """Evaluate the models and the reference methods on held-out test cases, and write the results.

    It reads params.yaml and the files of ingest and validate. InputError if a file is missing or invalid, a
    model is unknown, or for the reasons of `evaluate_examples`.
    """
    params = load(Matrices)
    require_known(params.section.evaluate.models, CATALOGUE, "matrices")
    metrics, frames = evaluate_examples(MatrixExamples.read(PLACES.interim, PLACES.valid), params)
    # times differ in every run: as an output of the stage they would make DVC run it again
    write_tables(PLACES.reports, {TIMES: frames.pop(TIMES)})
    write_tables(PLACES.evaluated, frames)
    write_json(PLACES.metrics, metrics)
    dvc_verdict_figures(metrics, SPLIT, frames["oof"]).write(PLACES)


def evaluate_examples(
    examples: MatrixExamples, params: Params[Matrices]
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return the content of metrics.json, and by name every table that the stage evaluate writes.

    The tables are ``oof, tables, ablation, curves, times, served, validity, groups``. The names of models in
    `params` are not checked. InputError if not even two folds of test cases have both labels.
    """
    how, seed, full = params.section.evaluate, params.seed, _full_scheme(params.section)
    fold_of = deal_to_folds(examples.pairs, how.n_folds, seed)
    folds, alarms = fold_parts(examples, fold_of), _requested_alarms(params.section)
    evaluation = Evaluation(examples, SPLIT, folds, how.n_trials, seed, params.compute, alarms)
    rows, wanted = table_rows(full), candidate_cells(how.models, full)
    evaluation.fit_cells([*wanted, *(row.cell for row in rows)], "tables")
    oof = evaluation.oof_table(wanted)
    splits = {SPLIT: _summarise_split(evaluation, oof, "test cases")}
    # training and test share no cause; no folds where causes are not known
    causes = parts_of_causes(examples, how.n_cause_folds, seed)
    if causes:
        splits[CAUSES] = _on_folds(evaluation, CAUSES, causes, wanted)
    champion = _champion_cell(wanted, rank_models([split["entries"] for split in splits.values()])[0])
    # test cases of test pairs may be in training
    pairs = fold_parts(examples, deal_pairs_to_folds(examples.pairs, how.n_cause_folds, seed))
    all_remedies = [row.cell for row in rows if row.table == 5]  # noqa: PLR2004 - of the matrix paper
    splits[PAIRS] = _on_folds(evaluation, PAIRS, pairs, [champion, *all_remedies])
    steps = _ablation_steps(champion, full)
    # every step is a fit per fold, and some are the slowest fits of all
    ablation = evaluation.on_first_folds(how.n_curve_folds)
    ablation.fit_cells([step.cell for step in steps], "ablation")
    few_folds = fold_parts(examples, deal_to_folds(examples.pairs, how.n_curve_folds, seed))
    curves, times = curves_and_times(evaluation, few_folds)
    recipe = _engine_recipe(champion, examples, params)
    engines = [answers.engine for answers in evaluation.answers_by_cell[champion]]
    served, validity = served_and_validity(examples, fold_of, recipe, engines, params.compute)
    groups = grouping_table(examples, seed)
    metrics = {
        "family": "matrices",
        "data": _data_summary(examples, params.section),
        "seed": seed,
        "trials": how.n_trials,
        "splits": splits,
        "champion": champion.entry_name,
        "selected": summarise_selection(oof),
        "served": served_summary(served),
        "validity": validity_summary(validity),
        "groups": group_agreement(groups),
    }
    return metrics, {
        "oof": oof,
        "tables": evaluation.results_table(rows),
        "ablation": ablation.results_table(steps),
        "curves": curves,
        TIMES: times,
        "served": served,
        "validity": validity,
        "groups": groups,
    }


def _on_folds(evaluation: Evaluation, split: str, folds: list[FoldPart], cells: list[Cell]) -> dict[str, Any]:
    other = replace(evaluation, split=split, parts=folds, answers_by_cell={})
    other.fit_cells(cells, f"whole {split}")
    return _summarise_split(other, other.oof_table(dict.fromkeys(cells)), split)


def _summarise_split(evaluation: Evaluation, oof: pd.DataFrame, whole: str) -> dict[str, Any]:
    folds = len(evaluation.parts)
    scheme = f"{folds} folds of whole {whole}"
    return {"scheme": scheme, "folds": folds, "entries": summarise_entries(oof, evaluation.split)}


def train_stage() -> None:
    """Train the champion of metrics.json on all data, and write it to the directory of models.

    It reads params.yaml, metrics.json and the files of ingest and validate. InputError if one is missing or
    invalid, or the champion's model is no longer in params.yaml.
    """
    params, metrics = load(Matrices), written(PLACES.metrics, "evaluate")
    section, examples = params.section, MatrixExamples.read(PLACES.interim, PLACES.valid)
    wanted = candidate_cells(section.evaluate.models, _full_scheme(section))
    champion = _champion_cell(wanted, metrics["champion"])
    _engine_recipe(champion, examples, params).train(examples.tables).write(PLACES.models)


def _engine_recipe(champion: Cell, examples: MatrixExamples, params: Params[Matrices]) -> EngineRecipe:
    section = params.section
    trials, missing = section.evaluate.n_trials, section.checks.max_missing_fraction
    validity, alarms = examples.has_invalid_flags, _requested_alarms(section)
    return EngineRecipe(champion, trials, params.seed, validity, missing, examples.digest, alarms)


def _requested_alarms(section: Matrices) -> Alarms | None:
    share, confidence = section.decide.max_false_positive_rate, section.decide.confidence
    return None if share is None else Alarms(share, confidence)


def _champion_cell(wanted: list[Cell], entry: str) -> Cell:
    champion = next((cell for cell in wanted if cell.entry_name == entry), None)
    if champion is None:
        expected = ", ".join(f'"{cell.entry_name}"' for cell in wanted)
        raise InputError(f'champion="{entry}"; expected one of {expected}; run evaluate', file=PLACES.metrics)
    return champion


def _full_scheme(section: Matrices) -> Scheme:
    return replace(FULL, components=section.evaluate.max_components)


def _ablation_steps(champion: Cell, full: Scheme) -> list[AblationStep]:
    steps = [step for model in FOLLOWED for step in add_remedies(model, full)]
    # remedies are of one form; of a blend, the kind of its classifiers is followed
    model = BLENDS.get(champion.model, champion.model)
    steps += leave_out_remedies(model, full)
    steps += single_run_steps(FOLLOWED, full)
    steps += [step for model in FOLLOWED for step in grouping_steps(RAW, model)]
    return [*steps, *grouping_steps(full, model)]


def _data_summary(examples: MatrixExamples, section: Matrices) -> dict[str, Any]:
    runs, pairs = examples.tables.runs, examples.pairs
    return {
        "format": section.ingest.format,
        "path": section.ingest.path.as_posix(),
        "digest": examples.digest,
        "runs": len(runs),
        "invalid_runs": int((~runs["valid"]).sum()),
        "pairs": len(pairs),
        "fails": int(pairs["abnormal"].sum()),
        "workloads": int(pairs["workload"].nunique()),
        "groups": int(pairs["group"].nunique()),
        "raw_metrics": len(examples.tables.raw_metrics),
        "summary_metrics": len(examples.tables.summary_metrics),
    }
