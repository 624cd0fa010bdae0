"""The table of transfer: what was learned on some, asked about others.

Run it with ``uv run python -m benchmarks.transfer ../shared/data`` (some quarter of an hour); it writes
``docs/results/transfer.md``. ``--only causes`` prints the rows of one question, and writes nothing.
A question is a function that takes the folder of public data and a seed, and yields rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.impact import AHEAD_OF_TIME, Errors, Rows, errors_of, recipe_of, table_of
from benchmarks.profiles import REFERENCE
from benchmarks.profiles import read_table as fingerprint_table
from benchmarks.table import SEED, Table, machine_line
from data.corun.formats import pitot, spec_corun
from data.corun.validity import select_engines
from data.fingerprints.params import Profiling
from data.matrices.formats.dbsherlock import read_tables
from data.matrices.params import Matrices
from data.matrices.tables import SIDES, MatrixTables
from data.matrices.validity import decide_validity
from data.parallel import with_progress_bar
from data.tables.problems import Problems
from training.corun.estimators.fitting import ImpactTable
from training.corun.splits import DESIGNS
from training.evaluation.metrics import Scores, score_verdicts
from training.fingerprints.prediction import Forecast, by_application, forecast_application
from training.matrices.engine.engine import FULL, Engine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.shape import drop_invalid_runs
from training.matrices.fitting import FoldPart, MatrixExamples, parts_of_causes


@dataclass(frozen=True)
class TransferRow:
    """The error or score of one judge on held-out data."""

    data: str
    held_out: str
    question: str
    cases: int
    judge: str
    figure: str
    value: float
    spread: float


JUDGES = ("contention", "xgboost")


@dataclass(frozen=True)
class Question:
    """A prediction task: the data set, the held-out part and the predicted quantity."""

    data: str
    held_out: str
    quantity: str

    def row(self, judge: str, folds: Sequence[Errors]) -> TransferRow:
        means, every = [float(fold.mean()) for fold in folds], np.concatenate(folds)
        about = (self.data, self.held_out, self.quantity, len(every), judge, "mean error")
        return TransferRow(*about, float(every.mean()), float(np.std(means)))


SEEDS, CAMPAIGN_FOLDS = 5, 5


def campaign_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out campaigns of spec-corun; then, within each campaign, pairs and programs."""
    table = table_of(spec_corun.read_tables(shared / "spec-corun"))
    question = Question("spec-corun", "campaigns", "impact of all pairs")
    machine_names = table.frame["machine"].to_numpy(np.str_)
    names = np.unique(machine_names).tolist()
    folds = [(np.flatnonzero(machine_names != name), np.flatnonzero(machine_names == name)) for name in names]
    for judge in JUDGES:
        recipes = [recipe_of(table, judge, seed + more) for more in range(SEEDS)]
        yield question.row(judge, [errors_of(table, recipe, *fold) for recipe in recipes for fold in folds])
    for name in names:
        yield from rows_in_campaign(table, name, seed)


def rows_in_campaign(table: ImpactTable, campaign: str, seed: int) -> Iterator[TransferRow]:
    """Hold out pairs, then programs of one campaign."""
    campaign_table = ImpactTable(
        table.frame[table.frame["machine"] == campaign].reset_index(drop=True), table.digest
    )
    for held_out, design in (("pairs", "pairs"), ("programs", "tasks")):
        question = Question("spec-corun", held_out, f"impact in {campaign}")
        for judge in JUDGES:
            errors = [
                errors_of(campaign_table, recipe_of(campaign_table, judge, seed + more), *fold)
                for more in range(SEEDS)
                for fold in DESIGNS[design].divide(campaign_table.frame, CAMPAIGN_FOLDS, seed + more)
            ]
            yield question.row(judge, errors)


#: Folds of whole causes, two causes in each.
CAUSE_FOLDS = 5
#: Candidates: the model that ranks best inside the training part is used.
MODELS = ("logistic", "svm", "knn", "random-forest", "xgboost")
FIGURES = ("balanced_accuracy", "false_positive_rate", "average_precision")
EVEN = 0.5


def cause_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Yield the scores of the engine, a plain XGBoost and a plain forest on held-out causes of DBSherlock."""
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    tables = read_tables(shared / "dbsherlock").without_flaws(Problems())
    examples = MatrixExamples.from_tables(
        tables, decide_validity(tables, Matrices().checks.max_missing_fraction), ""
    )
    parts = parts_of_causes(examples, CAUSE_FOLDS, seed)
    truth = examples.pairs.set_index("pair_id")["abnormal"]
    judges = {
        "ours": partial(_judge_by_engine, seed),
        "plain XGBoost": partial(_judge_by_classifier, XGBClassifier(random_state=seed, n_jobs=1)),
        "plain forest": partial(_judge_by_classifier, RandomForestClassifier(random_state=seed)),
    }
    for judge, judged_part in judges.items():
        fold_verdicts = [judged_part(part) for part in parts]
        folds = [_score_verdicts(verdicts, truth) for verdicts in fold_verdicts]
        whole = _score_verdicts(pd.concat(fold_verdicts), truth)
        for figure in FIGURES:
            fold_scores = [getattr(fold, figure) for fold in folds]
            # probabilities of different folds are not on one scale
            value = float(np.mean(fold_scores)) if figure == "average_precision" else getattr(whole, figure)
            words = figure.replace("_", " ").replace("false positive rate", "false alarms")
            about = ("dbsherlock", "whole causes", "normal or abnormal", len(examples.pairs))
            yield TransferRow(*about, judge, words, float(value), float(np.std(fold_scores)))


def _judge_by_engine(seed: int, part: FoldPart) -> pd.DataFrame:
    how = Matrices()
    alarms = Alarms(how.decide.max_false_positive_rate or EVEN, how.decide.confidence)
    engines = [
        Engine(FULL, model, how.evaluate.n_trials, seed, alarms=alarms).fit(part.train) for model in MODELS
    ]
    judged = max(engines, key=lambda engine: engine.search_result.ranking).judge_pairs(part.test)
    return judged.assign(judged=judged["abnormal"])


def _judge_by_classifier(classifier: Any, part: FoldPart) -> pd.DataFrame:
    """Judge with an untuned classifier on the medians of both sides and their difference."""
    train = drop_invalid_runs(part.train)
    (x, pairs), (x_test, names) = (
        _side_medians(train, train.raw_metrics),
        _side_medians(part.test, train.raw_metrics),
    )
    y = train.runs.groupby("pair_id")["abnormal"].any().reindex(pairs).astype(int)
    probability = classifier.fit(x, y).predict_proba(x_test)[:, 1]
    return pd.DataFrame({"pair_id": names, "probability": probability, "judged": probability >= EVEN})


def _side_medians(tables: MatrixTables, metrics: Sequence[str]) -> tuple[NDArray[np.float64], pd.Index]:
    sides = tables.runs.groupby(["pair_id", "side"])[list(metrics)].median().unstack("side")
    before, after = (sides.xs(side, axis="columns", level="side").to_numpy(np.float64) for side in SIDES)
    return np.hstack([before, after, after - before]), sides.index


def _score_verdicts(verdicts: pd.DataFrame, truth: pd.Series) -> Scores:
    failed = truth.loc[verdicts["pair_id"]].to_numpy(bool)
    return score_verdicts(
        failed, verdicts["judged"].to_numpy(bool), verdicts["probability"].to_numpy(np.float64)
    )


FORECASTS = {"ensemble": "ours", "forest": "plain forest"}


def cpu_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Yield the median error of each judge on each application; all use the same folds of CPU models."""
    fingerprints = fingerprint_table("sparecores", shared)
    for application in REFERENCE:
        measured = fingerprints.measurements_of(application).by_machine()
        task = Forecast(measured, tuple(FORECASTS), Profiling().confidence, "xgboost", seed)
        predictions = forecast_application(task)
        whole = by_application(predictions, 0.1).set_index("entry")["median_error"]
        for entry, judge in FORECASTS.items():
            folds = predictions[predictions["entry"] == entry].groupby("fold")
            spread = folds.apply(lambda rows: by_application(rows, 0.1)["median_error"].item()).std(ddof=0)
            about = ("sparecores", "whole CPU models", application, len(measured.y), judge, "median error")
            yield TransferRow(*about, float(whole[entry]), float(spread))


#: Co-runs on each new device that training sees.
SHOTS = (0, 5, 20)
#: Co-runs of other devices in training, drawn at random: the test is about new devices, not about data size.
LEARNED = 2500
DEVICE_FOLDS = 3


@dataclass(frozen=True)
class DeviceFold:
    """Row numbers of one fold: training, test, and the co-runs on new devices that training may see."""

    train: Rows
    test: Rows
    shots: Rows

    @classmethod
    def of(
        cls, frame: pd.DataFrame, train: Rows, held_out: Rows, generator: np.random.Generator
    ) -> DeviceFold:
        """Draw training rows, and for each new device the rows that training may see; the rest is tested."""
        mixed = pd.Series(generator.permutation(held_out))
        turns = mixed.groupby(frame["device"].to_numpy()[mixed]).cumcount()
        is_shot = (turns < SHOTS[-1]).to_numpy()
        order = np.argsort(turns[is_shot].to_numpy(), kind="stable")
        drawn = generator.permutation(train)[:LEARNED]
        return cls(np.sort(drawn), np.sort(mixed[~is_shot].to_numpy()), mixed[is_shot].to_numpy()[order])

    def training_rows(self, shots: int) -> Rows:
        """Return the training rows with `shots` rows of each new device."""
        devices = len(self.shots) // SHOTS[-1]
        return np.concatenate([self.train, self.shots[: shots * devices]])


def device_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out devices of pitot; training sees `SHOTS` co-runs of each."""
    table = table_of(select_engines(pitot.read_tables(shared / "pitot"), AHEAD_OF_TIME))
    frame, generator = table.frame, np.random.default_rng(seed)
    folds = [
        DeviceFold.of(frame, train, held_out, generator)
        for train, held_out in DESIGNS["machines"].divide(frame, DEVICE_FOLDS, seed)
    ]
    for shots in SHOTS:
        for judge in JUDGES:
            recipe = recipe_of(table, judge, seed)
            errors = [errors_of(table, recipe, fold.training_rows(shots), fold.test) for fold in folds]
            question = Question("pitot", "devices", f"impact, {shots} co-runs of each known")
            yield question.row(judge, errors)


QUESTIONS = {"causes": cause_rows, "devices": device_rows, "campaigns": campaign_rows, "cpus": cpu_rows}
NOTES = (
    "What is held out was never seen in training, nor while anything was chosen or tuned.",
    "The plain judge learned from the same rows, on the same folds.",
    "Spread: standard deviation over the folds.",
)


def answer_question(question: str, shared: Path, seed: int) -> tuple[str, list[TransferRow], str]:
    """Return a question, its rows, each also written to stderr, and the error that ended it, or ""."""
    rows: list[TransferRow] = []
    try:
        for row in QUESTIONS[question](shared, seed):
            sys.stderr.write(f"{' | '.join(row_cells(row))}\n")
            rows.append(row)
    except Exception as failure:  # noqa: BLE001 - rows of the other questions took minutes
        return question, rows, f"{type(failure).__name__}: {failure}"
    return question, rows, ""


def row_cells(row: TransferRow) -> list[str]:
    return [f"{value:.4f}" if isinstance(value, float) else str(value) for value in astuple(row)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the table if every question was answered, else print its rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path, help="where the public data sets lie")
    parser.add_argument("--only", choices=QUESTIONS, nargs="+", default=list(QUESTIONS))
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    answers = (answer_question(question, options.shared, options.seed) for question in options.only)
    outcomes = [*with_progress_bar(answers, len(options.only), "transfer")]
    failed = [(question, rows, failure) for question, rows, failure in outcomes if failure]
    whole = Table(
        "Trained on some, asked about others",
        dict.fromkeys((field.name.replace("_", " ") for field in fields(TransferRow)), ""),
        [row_cells(row) for _, rows, _ in outcomes for row in rows],
        [f"Seed {options.seed}.", *NOTES, machine_line()],
    )
    if failed or options.only != list(QUESTIONS):
        print(whole.markdown())
    else:
        whole.publish("transfer")
    for question, rows, failure in failed:
        sys.stderr.write(f"{question} failed after {len(rows)} rows: {failure}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
