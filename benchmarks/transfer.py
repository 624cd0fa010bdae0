"""The table of transfer: what was learned on some, asked about others.

A question is a function that takes the folder of public data and a seed, and yields rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.impact import AHEAD_OF_TIME, Errors, Rows, errors_of, recipe_of, table_of
from benchmarks.pages.documents import goals_table
from benchmarks.profiles import REFERENCE
from benchmarks.profiles import read_table as fingerprint_table
from benchmarks.table import SEED, Table, machine_line
from data.corun.formats import pitot, spec_corun
from data.corun.validity import select_engines
from data.fingerprints.params import Profiling
from data.matrices.formats.dbsherlock import TRANSACTIONS, read_tables
from data.matrices.params import Matrices
from data.matrices.tables import SIDES, MatrixTables
from data.matrices.validity import decide_validity
from data.parallel import Compute, side_by_side
from data.tables.problems import Problems
from training.corun.estimators.fitting import ImpactTable
from training.corun.splits import DESIGNS
from training.evaluation.metrics import Scores, score_verdicts
from training.fingerprints.prediction import Forecast, by_application, forecast_application
from training.matrices.engine.engine import Engine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.shape import drop_invalid_runs
from training.matrices.fitting import FoldPart, MatrixExamples, parts_of_causes
from training.matrices.schemes import JOINED, Cell


class TransferRow(NamedTuple):
    """The error or score of one judge on held-out data."""

    data: str
    held_out: str
    question: str
    cases: int
    judge: str
    figure: str
    value: float
    spread: float

    @classmethod
    def of_errors(
        cls, data: str, held_out: str, question: str, judge: str, folds: Sequence[Errors]
    ) -> TransferRow:
        """Return the row of the mean error over all folds."""
        every, spread = np.concatenate(folds), np.std([float(fold.mean()) for fold in folds])
        about = data, held_out, question, len(every), judge, "mean error"
        return cls(*about, float(every.mean()), float(spread))

    @property
    def cells(self) -> list[str]:
        return [f"{value:.4f}" if isinstance(value, float) else str(value) for value in self]


JUDGES = ("contention", "xgboost")
SEEDS, CAMPAIGN_FOLDS = 5, 5


def campaign_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out campaigns of spec-corun; then, within each campaign, pairs and programs."""
    table = table_of(spec_corun.read_tables(shared / "spec-corun"))
    machine_names = table.frame["machine"].to_numpy(np.str_)
    names = np.unique(machine_names).tolist()
    folds = [(np.flatnonzero(machine_names != name), np.flatnonzero(machine_names == name)) for name in names]
    for judge in JUDGES:
        recipes = [recipe_of(table, judge, seed + more) for more in range(SEEDS)]
        errors = [errors_of(table, recipe, *fold) for recipe in recipes for fold in folds]
        yield TransferRow.of_errors("spec-corun", "campaigns", "impact of all pairs", judge, errors)
    for name in names:
        campaign = ImpactTable(table.frame[machine_names == name].reset_index(drop=True), table.digest)
        for held_out, design in (("pairs", "pairs"), ("programs", "tasks")):
            for judge in JUDGES:
                errors = [
                    errors_of(campaign, recipe_of(campaign, judge, seed + more), *fold)
                    for more in range(SEEDS)
                    for fold in DESIGNS[design].divide(campaign.frame, CAMPAIGN_FOLDS, seed + more)
                ]
                yield TransferRow.of_errors("spec-corun", held_out, f"impact in {name}", judge, errors)


#: Folds of whole causes; of DBSherlock, two causes in each.
CAUSE_FOLDS = 5
SHIPPED = Path("data/raw/matrices")
#: The champion of the shipped measurement.
OURS = Cell("xgboost-blend", JOINED)
EVEN = 0.5


def cause_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Yield the scores on held-out causes of DBSherlock, and of the shipped measurement."""
    tables = read_tables(shared / "dbsherlock").without_flaws(Problems())
    targets = tables.runs[tables.runs["side"] == SIDES[1]]
    loaded = targets.groupby("pair_id")[TRANSACTIONS].max() > 0
    yield from _score_causes("dbsherlock", tables, loaded[~loaded].index.tolist(), seed)
    yield from _score_causes("shipped matrices", MatrixTables.read(SHIPPED), [], seed)


def _score_causes(data: str, tables: MatrixTables, idle: list[str], seed: int) -> Iterator[TransferRow]:
    """Yield mean scores over five seeds; those with all pairs, then those without the `idle` ones."""
    validity = decide_validity(tables, Matrices().checks.max_missing_fraction)
    examples = MatrixExamples.from_tables(tables, validity, "")
    truth = examples.pairs.set_index("pair_id")["abnormal"]
    seeds = range(seed, seed + SEEDS)
    parts = [(part, number) for number in seeds for part in parts_of_causes(examples, CAUSE_FOLDS, number)]
    kept = {"whole causes": truth}
    if idle:
        kept["whole causes, idle targets left out"] = truth.drop(idle, errors="ignore")
    for judge, judge_part in CAUSE_JUDGES.items():
        verdicts = side_by_side(judge_part, parts, Compute(2), judge)
        by_seed = [
            [one for one, (_, its_seed) in zip(verdicts, parts, strict=True) if its_seed == number]
            for number in seeds
        ]
        for held_out, labels in kept.items():
            scores = pd.DataFrame([_seed_scores(folds, labels) for folds in by_seed])
            for figure, values in scores.items():
                about = (data, held_out, "normal or abnormal", len(labels), judge, str(figure))
                yield TransferRow(*about, float(values.mean()), float(values.std(ddof=0)))


def _seed_scores(folds: Sequence[pd.DataFrame], truth: pd.Series) -> dict[str, float]:
    """Return the scores of all folds together; of average precision, the mean over folds."""
    known = [verdicts[verdicts["pair_id"].isin(truth.index)] for verdicts in folds]
    whole = _score_verdicts(pd.concat(known), truth)
    # probabilities of different folds are not on one scale
    precision = np.mean([_score_verdicts(verdicts, truth).average_precision for verdicts in known])
    return {
        "balanced accuracy": whole.balanced_accuracy,
        "false alarms": whole.false_positive_rate,
        "average precision": float(precision),
    }


def _judge_by_engine(part_and_seed: tuple[FoldPart, int]) -> pd.DataFrame:
    part, seed = part_and_seed
    how = Matrices()
    alarms = Alarms(how.decide.max_false_positive_rate or EVEN, how.decide.confidence)
    judged = Engine(OURS, how.evaluate.n_trials, seed, alarms=alarms).fit(part.train).judge_pairs(part.test)
    return judged.assign(judged=judged["abnormal"])


def _judge_by_classifier(build: Callable[..., Any], part_and_seed: tuple[FoldPart, int]) -> pd.DataFrame:
    """Judge with an untuned classifier on the medians of both sides and their difference."""
    part, seed = part_and_seed
    train = drop_invalid_runs(part.train)
    (x, pairs), (x_test, names) = (_side_medians(side, train.raw_metrics) for side in (train, part.test))
    y = train.runs.groupby("pair_id")["abnormal"].any().reindex(pairs).astype(int)
    probability = build(random_state=seed).fit(x, y).predict_proba(x_test)[:, 1]
    return pd.DataFrame({"pair_id": names, "probability": probability, "judged": probability >= EVEN})


def _side_medians(tables: MatrixTables, metrics: Sequence[str]) -> tuple[NDArray[np.float64], pd.Index]:
    sides = tables.runs.groupby(["pair_id", "side"])[list(metrics)].median().unstack("side")
    before, after = (sides.xs(side, axis="columns", level="side").to_numpy(np.float64) for side in SIDES)
    return np.hstack([before, after, after - before]), sides.index


def _score_verdicts(verdicts: pd.DataFrame, truth: pd.Series) -> Scores:
    failed = truth.loc[verdicts["pair_id"]].to_numpy(bool)
    judged, probability = verdicts["judged"].to_numpy(bool), verdicts["probability"].to_numpy(np.float64)
    return score_verdicts(failed, judged, probability)


def _plain_xgboost(random_state: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=random_state, n_jobs=1)


def _plain_forest(random_state: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=random_state)


CAUSE_JUDGES: dict[str, Callable[[tuple[FoldPart, int]], pd.DataFrame]] = {
    "ours": _judge_by_engine,
    "plain XGBoost": partial(_judge_by_classifier, _plain_xgboost),
    "plain forest": partial(_judge_by_classifier, _plain_forest),
}
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


def device_rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out devices of pitot; training sees `SHOTS` co-runs of each at random, the rest is tested."""
    table = table_of(select_engines(pitot.read_tables(shared / "pitot"), AHEAD_OF_TIME))
    frame, generator, folds = table.frame, np.random.default_rng(seed), list[tuple[Rows, Rows, Rows]]()
    for train, held_out in DESIGNS["machines"].divide(frame, DEVICE_FOLDS, seed):
        mixed = generator.permutation(held_out)
        turns = frame.iloc[mixed].groupby("device").cumcount().reset_index(drop=True)
        is_shot = (turns < SHOTS[-1]).to_numpy()
        shots = mixed[is_shot][np.argsort(turns[is_shot].to_numpy(), kind="stable")]
        folds.append((np.sort(generator.permutation(train)[:LEARNED]), np.sort(mixed[~is_shot]), shots))
    for number in SHOTS:
        for judge in JUDGES:
            recipe = recipe_of(table, judge, seed)
            errors = []
            for train, test, shots in folds:
                seen = shots[: number * (len(shots) // SHOTS[-1])]
                errors.append(errors_of(table, recipe, np.concatenate([train, seen]), test))
            question = f"impact, {number} co-runs of each known"
            yield TransferRow.of_errors("pitot", "devices", question, judge, errors)


QUESTIONS = {"causes": cause_rows, "devices": device_rows, "campaigns": campaign_rows, "cpus": cpu_rows}
NOTES = (
    "What is held out was never seen in training, nor in tuning.",
    "Ours for matrices: the champion of the shipped matrices, chosen by these pairs, not by DBSherlock.",
    "The plain judge learned from the same rows, on the same folds.",
    "Spread: standard deviation over the folds; for whole causes, over five seeds of folds and models.",
    "Idle: targets of DBSherlock without a transaction; normal if of Poor Physical Design, else abnormal.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the table if every question was answered, else print its rows; print the goals; return a code.

    The exit code is 1 if a question failed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path, help="where the public data sets lie")
    parser.add_argument("--only", choices=QUESTIONS, nargs="+", default=list(QUESTIONS))
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    rows, failures = list[list[str]](), list[str]()
    for question in options.only:
        before = len(rows)
        try:
            for row in QUESTIONS[question](options.shared, options.seed):
                sys.stderr.write(f"{' | '.join(row.cells)}\n")
                rows.append(row.cells)
        except Exception as exc:  # noqa: BLE001 - rows of the other questions took minutes
            count = len(rows) - before
            failures.append(f"{question} failed after {count} rows: {type(exc).__name__}: {exc}\n")
    columns = dict.fromkeys((name.replace("_", " ") for name in TransferRow._fields), "")
    notes = [f"Seed {options.seed}.", *NOTES, machine_line()]
    whole = Table("Trained on some, asked about others", columns, rows, notes)
    whole.publish("transfer", dry=bool(failures) or options.only != list(QUESTIONS))
    print(goals_table(Path(__file__).parents[1]))
    sys.stderr.writelines(failures)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
