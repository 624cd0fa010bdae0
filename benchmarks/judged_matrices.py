"""How long verdicts on matrices take, and how much of a verdict is due to the metrics named as its drivers.

Run it with ``python -m benchmarks.judged_matrices``; it writes ``docs/results/judged-matrices.md``.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from benchmarks.table import PERFJUDGE, SEED, Table, load_average, load_note, publish, shortest_time
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from features.matrices.forms import Removal
from serving.matrices.request import answer_matrices, judge_tables
from serving.matrices.schemas import MatricesRequest, Matrix, Pair
from serving.models import ModelRef, Served
from training.matrices.engine.engine import FULL, Engine, Odds, find_attributions
from training.matrices.engine.stored import EngineRecipe, TrainedEngine
from training.matrices.fitting import FoldPart, MatrixExamples, deal_to_folds, fold_parts
from training.matrices.schemes import Cell

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: Maps rows of pairs, the engine's log-odds and n to the indices of n metrics per pair.
Way = Callable[[Removal, Odds, int], Whole]
#: Metrics per pair whose Shapley terms are computed: those with the largest differences.
TRIED = 100


def perfjudge_metrics(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Return the drivers that perfjudge names."""
    return np.concatenate([attribution.metric for _, attribution in find_attributions(removal, odds_of, n)])


def largest_differences(removal: Removal, _: Odds, n: int) -> Whole:
    """Return the metrics with the largest differences in units of noise, whatever the engine's answer."""
    return np.argsort(-removal.sizes, axis=1, kind="stable")[:, :n]


def shapley_end_terms(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Rank metrics by the mean of the first and the last term of Shapley's value, each metric alone."""
    return np.array([_rank_by_end_terms(removal, odds_of, pair)[:n] for pair in range(len(removal.sizes))])


def _rank_by_end_terms(removal: Removal, odds_of: Odds, pair: int) -> Whole:
    tried = np.argsort(-removal.sizes[pair], kind="stable")[:TRIED]
    gone = np.zeros((2 * len(tried), removal.sizes.shape[1]), bool)
    gone[len(tried) :] = True
    rows = np.arange(len(tried))
    gone[rows, tried], gone[len(tried) + rows, tried] = True, False
    without, alone = np.split(odds_without(removal, odds_of, np.full(len(gone), pair), gone), 2)
    return tried[np.argsort(-np.round(alone - without, 9), kind="stable")]


def random_metrics(removal: Removal, _: Odds, n: int) -> Whole:
    every = np.tile(np.arange(removal.sizes.shape[1]), (len(removal.sizes), 1))
    return np.random.default_rng(SEED).permuted(every, axis=1)[:, :n]


WAYS: dict[str, Way] = {
    "perfjudge": perfjudge_metrics,
    "first and last term of Shapley's value": shapley_end_terms,
    "largest differences by noise": largest_differences,
    "at random": random_metrics,
}


def odds_without(removal: Removal, odds_of: Odds, pair: Whole, gone: NDArray[np.bool_]) -> Floats:
    """Return the mean log-odds of versions of pairs without the metrics in `gone`, shape (n_versions,)."""
    x, version = removal.without_differences(pair, gone)
    odds = odds_of(x, pair[version])
    return np.bincount(version, odds, len(pair)) / np.bincount(version, minlength=len(pair))


SHIPPED = Path("data/raw/matrices")
MODELS = ("logistic", "knn", "random-forest", "xgboost")
TRIALS, MISSING, FOLDS = 6, 0.5, 3
#: Metrics named per pair, and the numbers of them whose removal is measured.
NAMED, STEPS = 5, (1, 3, 5)
BATCH, SINGLY = 1000, 20


def main() -> None:
    before = load_average()
    tables = MatrixTables.read(SHIPPED)
    examples = MatrixExamples.from_tables(tables, decide_validity(tables, MISSING), "0" * 64)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        publish("judged-matrices", [_speed_table(examples, before), _falls_table(examples)])


def _speed_table(examples: MatrixExamples, before: float) -> Table:
    rows = [row for model in MODELS for row in _time_rows(model, examples)]
    return Table(
        "How long verdicts on matrices take",
        {"model": "", "what": "", "a pair, ms": ".2f"},
        rows,
        [
            f"The shipped measurement; models are fitted to all of it with {TRIALS} trials, seed {SEED}.",
            "An answer is made of rules, validity tree, verdict, notes and five drivers.",
            "A command starts, and reads the model and the tables, too.",
            "The shorter of two runs each, on one core; a command has all there are.",
            load_note(before),
        ],
    )


def _time_rows(model: str, examples: MatrixExamples) -> Iterator[tuple[object, ...]]:
    trained = EngineRecipe(Cell(model, FULL), TRIALS, SEED, validity=True, missing=MISSING, digest="0" * 64)
    engine = trained.train(examples.tables)
    served = Served(engine, ModelRef(model, "1", "benchmark", "0" * 64))
    unflagged = examples.measured.without_flags()
    names = unflagged.pair_sides.names
    singles = [_select_pair(unflagged, name) for name in names[:SINGLY]]
    bodies = [_request_body(single).encode() for single in singles]
    batch = unflagged.select_runs(unflagged.pair_sides.pair < BATCH)
    pairs = len(batch.pair_sides.names)

    def answered() -> object:
        return [answer_matrices(body, served) for body in bodies]

    timings = {
        "one alone": shortest_time(lambda: [judge_tables(_uncached(single), served) for single in singles], 2)
        / SINGLY,
        "one alone, from JSON to JSON": shortest_time(answered, 2) / SINGLY,
        f"of {pairs} at once": shortest_time(lambda: judge_tables(_uncached(batch), served), 2) / pairs,
        f"perfjudge judge, of {len(names)} from cold": shortest_time(partial(_run_judge, engine), 2)
        / len(names),
    }  # fmt: skip
    for what, seconds in timings.items():
        yield model, what, 1e3 * seconds


def _select_pair(tables: MatrixTables, name: str) -> MatrixTables:
    return tables.select_runs((tables.runs["pair_id"] == name).to_numpy(bool))


def _uncached(tables: MatrixTables) -> MatrixTables:
    """Return a copy of the tables without cached values."""
    return MatrixTables(tables.runs, tables.causes, tables.metrics)


def _request_body(tables: MatrixTables) -> str:
    runs, sides = tables.runs, {}
    for side, side_runs in runs.groupby("side"):
        values = side_runs[tables.all_metrics]
        columns = {name: values[name].tolist() for name in values if values[name].notna().all()}
        sides[side] = Matrix(version=side_runs["version"].iloc[0], metrics=columns)
    first = runs.iloc[0]
    named = {name: first[name] for name in ("pair_id", "workload", "group")}
    pair = Pair(**named, machine="m", baseline=sides["baseline"], target=sides["target"])
    return MatricesRequest(pairs=[pair]).model_dump_json(exclude_none=True)


def _run_judge(engine: TrainedEngine) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        engine.write(Path(temporary))
        command = [str(PERFJUDGE), "judge", str(SHIPPED), "--model", temporary, "--json"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def _falls_table(examples: MatrixExamples) -> Table:
    folds = fold_parts(examples, deal_to_folds(examples.pairs, FOLDS, SEED))
    rows = [row for model in MODELS for row in _fall_rows(model, folds)]
    return Table(
        "What is left of verdicts without their drivers",
        {
            "model": "", "drivers": "", "fails": "d", **{f"fall without {n}": ".2f" for n in STEPS},
            f"pass without {NAMED}": ".0%",
        },
        rows,
        [
            f"The shipped measurement in {FOLDS} folds of whole test cases, {TRIALS} trials, seed {SEED}.",
            "Fails: pairs that an engine which has not seen their test case calls abnormal.",
            "Fall: of the log-odds of abnormal, on average, without the first 1, 3 or 5 named metrics.",
            "Without: the target's runs are moved so that the metrics' middles are the baseline's.",
            "Pass: verdicts that turn.",
            "Most defects move dozens of metrics, so that few verdicts turn without five.",
        ],
    )  # fmt: skip


def _fall_rows(model: str, folds: list[FoldPart]) -> Iterator[tuple[object, ...]]:
    failing_pairs = [_failing_pairs(model, part) for part in folds]
    for name, way in WAYS.items():
        odds = np.concatenate([_odds_left(*failing, way) for failing in failing_pairs])
        falls = odds[:, :1] - odds[:, 1:]
        yield model, name, len(odds), *falls.mean(axis=0).tolist(), float((odds[:, -1] < 0).mean())


def _failing_pairs(model: str, part: FoldPart) -> tuple[Removal, Odds, float]:
    """Return the failing pairs of a fold, the function of their log-odds, and the threshold's log-odds."""
    engine = Engine(FULL, model, TRIALS, SEED).fit(part.train)
    judged = engine.judge_pairs(part.test)
    names = judged.loc[judged["abnormal"], "pair_id"]
    failing = engine.prepare_removal(
        part.test.select_runs(part.test.runs["pair_id"].isin(names).to_numpy(bool))
    )
    return (
        failing,
        engine.log_odds_function(failing),
        float(np.log(engine.threshold / (1 - engine.threshold))),
    )


def _odds_left(removal: Removal, odds_of: Odds, cut: float, way: Way) -> np.ndarray:
    """Return log-odds minus `cut`: of the full pairs, then without the first metrics named by `way`."""
    named, pair = way(removal, odds_of, NAMED), np.arange(len(removal.sizes))
    gone = np.zeros(removal.sizes.shape, bool)
    odds_by_count = [odds_without(removal, odds_of, pair, gone)]
    for count in range(1, NAMED + 1):
        gone[pair, named[:, count - 1]] = True
        if count in STEPS:
            odds_by_count.append(odds_without(removal, odds_of, pair, gone))
    return np.column_stack(odds_by_count) - cut


if __name__ == "__main__":
    main()
