"""How long verdicts on matrices take, and how much of a verdict is due to the named drivers."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from benchmarks.serving import pair_bodies
from benchmarks.table import PERFJUDGE, SEED, Table, load_note, publish, shortest_time
from data.comparisons.sides import Floats
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from features.matrices.forms import Removal
from serving.matrices.request import answer_matrices, judge_tables
from serving.models import ModelRef, Served
from training.matrices.engine.engine import Engine, Odds, find_attributions
from training.matrices.engine.shape import make_test_rows
from training.matrices.engine.stored import EngineRecipe
from training.matrices.fitting import FoldPart, MatrixExamples, deal_to_folds, fold_parts
from training.matrices.schemes import FULL, Cell

Whole = NDArray[np.intp]
#: Maps rows of pairs, the engine's log-odds and n to the indices of n metrics per pair.
Way = Callable[[Removal, Odds, int], Whole]
#: Metrics per pair whose Shapley terms are computed: those with the largest differences.
TRIED = 100


def shapley_end_terms(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Rank metrics by the mean of the first and the last term of Shapley's value, each metric alone."""
    ranked = []
    for pair, sizes in enumerate(removal.sizes):
        tried = np.argsort(-sizes, kind="stable")[:TRIED]
        gone = np.zeros((2 * len(tried), len(sizes)), bool)
        gone[len(tried) :] = True
        rows = np.arange(len(tried))
        gone[rows, tried], gone[len(tried) + rows, tried] = True, False
        without, alone = np.split(odds_without(removal, odds_of, np.full(len(gone), pair), gone), 2)
        ranked.append(tried[np.argsort(-np.round(alone - without, 9), kind="stable")][:n])
    return np.array(ranked)


def random_metrics(removal: Removal, _: Odds, n: int) -> Whole:
    every = np.tile(np.arange(removal.sizes.shape[1]), (len(removal.sizes), 1))
    return np.random.default_rng(SEED).permuted(every, axis=1)[:, :n]


#: Ways to name metrics: perfjudge's drivers, and others, such as the largest differences in units of noise.
WAYS: dict[str, Way] = {
    "perfjudge": lambda removal, odds_of, n: np.concatenate(
        [driver.metric for _, driver in find_attributions(removal, odds_of, n)]
    ),
    "first and last term of Shapley's value": shapley_end_terms,
    "largest differences by noise": lambda removal, _, n: (-removal.sizes).argsort(1, "stable")[:, :n],
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


def time_rows(model: str, examples: MatrixExamples) -> Iterator[tuple[object, ...]]:
    """Yield rows of milliseconds per pair: one alone, from JSON to JSON, in a batch, and by the command."""
    trained = EngineRecipe(Cell(model, FULL), TRIALS, SEED, validity=True, missing=MISSING, digest="0" * 64)
    engine = trained.train(examples.tables)
    served = Served(engine, ModelRef(model, "1", "benchmark", "0" * 64))
    unflagged = examples.measured.without_flags()
    names, pair_ids = unflagged.pair_sides.names, unflagged.runs["pair_id"]
    singles = [unflagged.select_runs((pair_ids == name).to_numpy(bool)) for name in names[:SINGLY]]
    bodies = [body.encode() for body in pair_bodies(unflagged, unflagged.all_metrics, SINGLY)]
    batch = unflagged.select_runs(unflagged.pair_sides.pair < BATCH)
    pairs = len(batch.pair_sides.names)

    def judge_uncached(*parts: MatrixTables) -> None:
        for tables in parts:
            judge_tables(MatrixTables(tables.runs, tables.causes, tables.metrics), served)

    def run_command() -> None:
        with tempfile.TemporaryDirectory() as temporary:
            engine.write(Path(temporary))
            command = [str(PERFJUDGE), "judge", str(SHIPPED), "--model", temporary, "--json"]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)

    for what, work, count in (
        ("one alone", partial(judge_uncached, *singles), SINGLY),
        ("one alone, from JSON to JSON", lambda: [answer_matrices(body, served) for body in bodies], SINGLY),
        (f"of {pairs} at once", partial(judge_uncached, batch), pairs),
        (f"perfjudge judge, of {len(names)} from cold", run_command, len(names)),
    ):
        yield model, what, 1e3 * shortest_time(work, 2) / count


def failing_pairs(model: str, part: FoldPart) -> tuple[Removal, Odds, float]:
    """Return the failing pairs of a fold, the function of their log-odds, and the threshold's log-odds."""
    engine = Engine(Cell(model, FULL), TRIALS, SEED).fit(part.train)
    judged = engine.judge_pairs(part.test)
    names = judged.loc[judged["abnormal"], "pair_id"]
    failing = part.test.select_runs(part.test.runs["pair_id"].isin(names).to_numpy(bool))
    whole, threshold = engine.grouping.assign_groups(failing), engine.threshold
    rows = make_test_rows(engine.form, engine.scales, engine.grouping, failing)
    removal = Removal.from_rows(engine.form, whole, engine.scales, rows)
    return removal, engine.log_odds_function(removal), float(np.log(threshold / (1 - threshold)))


def odds_left(removal: Removal, odds_of: Odds, cut: float, way: Way) -> Floats:
    """Return log-odds minus `cut`: of the full pairs, then without the first metrics named by `way`."""
    named, pair = way(removal, odds_of, NAMED), np.arange(len(removal.sizes))
    gone = np.zeros(removal.sizes.shape, bool)
    odds_by_count = [odds_without(removal, odds_of, pair, gone)]
    for count in range(1, NAMED + 1):
        gone[pair, named[:, count - 1]] = True
        if count in STEPS:
            odds_by_count.append(odds_without(removal, odds_of, pair, gone))
    return np.column_stack(odds_by_count) - cut


def fall_rows(model: str, folds: list[FoldPart]) -> Iterator[tuple[object, ...]]:
    failing = [failing_pairs(model, part) for part in folds]
    for name, way in WAYS.items():
        odds = np.concatenate([odds_left(*pairs, way) for pairs in failing])
        falls = odds[:, :1] - odds[:, 1:]
        yield model, name, len(odds), *falls.mean(axis=0).tolist(), float((odds[:, -1] < 0).mean())


def main() -> None:
    tables = MatrixTables.read(SHIPPED)
    examples = MatrixExamples.from_tables(tables, decide_validity(tables, MISSING), "0" * 64)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        times = [row for model in MODELS for row in time_rows(model, examples)]
        speed_load, folds = load_note(), fold_parts(examples, deal_to_folds(examples.pairs, FOLDS, SEED))
        falls = [row for model in MODELS for row in fall_rows(model, folds)]
    fall_columns = {"model": "", "drivers": "", "fails": "d", **{f"fall without {n}": ".2f" for n in STEPS}}
    speed_notes = [
        f"The shipped measurement; models are fitted to all of it with {TRIALS} trials, seed {SEED}.",
        "An answer is made of rules, validity tree, verdict, notes and five drivers.",
        "A command starts, and reads the model and the tables, too.",
        "The shorter of two runs each, on one core; a command has all there are.",
        speed_load,
    ]
    fall_notes = [
        f"The shipped measurement in {FOLDS} folds of whole test cases, {TRIALS} trials, seed {SEED}.",
        "Fails: pairs that an engine which has not seen their test case calls abnormal.",
        "Fall: of the log-odds of abnormal, on average, without the first 1, 3 or 5 named metrics.",
        "Without: the target's runs are moved so that the metrics' middles are the baseline's.",
        "Pass: verdicts that turn.",
        "Most defects move dozens of metrics, so that few verdicts turn without five.",
    ]
    speed_columns = {"model": "", "what": "", "a pair, ms": ".2f"}
    fall_columns |= {f"pass without {NAMED}": ".0%"}
    tables = [
        Table("How long verdicts on matrices take", speed_columns, times, speed_notes),
        Table("What is left of verdicts without their drivers", fall_columns, falls, fall_notes),
    ]
    publish("judged-matrices", tables)


if __name__ == "__main__":
    main()
