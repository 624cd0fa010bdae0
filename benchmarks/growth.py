"""How training grows with its data in every family.

Run it with ``uv run python -m benchmarks.growth`` where the pipeline is up to date; it takes some minutes and
writes ``docs/results/growth.md``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.table import SEED, Table, load_average, load_note, time_call
from data.parallel import with_progress_bar
from features.corun.rates import AND
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured

Words = NDArray[np.str_]
#: Noise as a share of a value, or of a column's standard deviation where values may be 0.
NOISE = 0.02
#: Every tenth pair of matrices is used: 100 copies of all pairs take hours and 10 GB.
PAIRS = 10


@dataclass(frozen=True)
class TimedFit:
    what: str
    cases: int
    columns: int
    learn: Callable[[], object]


def comparison_fit(times: int) -> TimedFit:
    """Return a fit of the champion of comparisons, with tuned parameters, on `times` copies of its data."""
    from training.comparisons.decision import examples_of
    from training.comparisons.family import Examples, FeatureTable, bound
    from training.comparisons.label_review import read_training_data
    from training.comparisons.train import Fit, fit_pipeline
    from training.comparisons.tune import Classified
    from training.evaluation.search import read_tuned

    family = bound()
    table = FeatureTable.read(family.features_file, family.columns())
    name = _champion(family.paths.metrics)
    tuned = read_tuned(family.paths.tuned, Classified)["all"][name]
    examples = read_training_data(family.features_file, table, examples_of(family, table)).all_rows
    x = np.tile(examples.x, (times, 1))
    x += np.nanstd(examples.x, axis=0) * _draw_noise(x.shape)
    train = Examples(x, np.tile(examples.y, times), _numbered_names(examples.groups, times))
    fit = Fit(name, tuned, train, x[:0], SEED, table.constraints)
    return TimedFit(name, *x.shape, lambda: fit_pipeline(fit))


def matrix_fit(times: int) -> TimedFit:
    """Return a fit of the champion of matrices, its search included, on copies of every tenth pair."""
    from data.matrices.params import Matrices
    from data.params import load
    from data.paths import FamilyPaths
    from training.matrices.engine.engine import FULL, Engine
    from training.matrices.fitting import MatrixExamples
    from training.matrices.schemes import candidate_cells

    paths, how = FamilyPaths("matrices"), load(Matrices).section.evaluate
    wanted = {
        cell.entry_name: cell
        for cell in candidate_cells(how.models, replace(FULL, components=how.max_components))
    }
    cell = wanted[_champion(paths.metrics)]
    tables = MatrixExamples.read(paths.interim, paths.valid).tables
    some = tables.runs["pair_id"].unique()[::PAIRS]
    tables = tables.select_runs(tables.runs["pair_id"].isin(some).to_numpy(bool))
    metrics = [*tables.raw_metrics, *tables.summary_metrics]
    runs = _copy_rows(tables.runs, times, ("run_id", "pair_id", "workload"))
    runs[metrics] *= 1 + _draw_noise(runs[metrics].shape)
    engine = Engine(cell.scheme, cell.model, how.n_trials, SEED)
    copied_tables = replace(tables, runs=runs)
    return TimedFit(cell.entry_name, len(runs), len(metrics), lambda: engine.fit(copied_tables))


def corun_fit(times: int) -> TimedFit:
    """Return a fit of the champion of static co-runs, with tuned parameters, on `times` copies."""
    from data.corun.params import Corun
    from data.params import load
    from data.paths import FamilyPaths
    from training.corun.estimators.fitting import ImpactTable
    from training.corun.stages import FEATURES, recipe_of
    from training.evaluation.search import Tuned, read_tuned

    paths, table = FamilyPaths("corun"), ImpactTable.read(FEATURES)
    name = _champion(paths.metrics)
    tuned = read_tuned(paths.tuned, Tuned)["all"][name]
    rows = _copy_rows(table.frame, times, ("task", "corunners", "families"))
    measured = ["impact", *table.rate_features]
    rows[measured] *= np.exp(_draw_noise(rows[measured].shape))
    recipe = recipe_of(table, name, load(Corun).section, SEED, tuned.params)
    return TimedFit(name, len(rows), len(recipe.columns), lambda: recipe.fit(rows))


def profile_fit(times: int) -> TimedFit:
    """Return the computation of one application's profile on `times` copies of its machines."""
    from data.fingerprints.params import Fingerprints
    from data.params import load
    from training.fingerprints.profiles import infer_profile

    measured, how = _copied_machines(times), load(Fingerprints).section.profile
    return TimedFit("profile", *measured.x.shape, lambda: infer_profile(measured, how, SEED))


def prediction_fit(times: int) -> TimedFit:
    """Return a fit of the model that predicts an application on other machines, on `times` copies."""
    from training.fingerprints.prediction import fit_predictor

    measured = _copied_machines(times).by_machine()
    return TimedFit("prediction", *measured.x.shape, lambda: fit_predictor(measured, SEED))


LESSONS: Mapping[str, Callable[[int], TimedFit]] = {
    "comparisons": comparison_fit,
    "matrices": matrix_fit,
    "corun": corun_fit,
    "fingerprints, profile": profile_fit,
    "fingerprints, prediction": prediction_fit,
}


def _champion(metrics: Path) -> str:
    return str(json.loads(metrics.read_text())["champion"])


def _copy_rows(rows: pd.DataFrame, times: int, names: Sequence[str]) -> pd.DataFrame:
    """Repeat rows `times` times; values in the columns `names` get a suffix unique to the copy."""
    frames = []
    for copy in range(times):
        renamed = {
            name: rows[name].str.replace(AND, f"#{copy}{AND}", regex=False) + f"#{copy}" for name in names
        }
        frames.append(rows.assign(**renamed))
    return pd.concat(frames, ignore_index=True)


def _copied_machines(times: int) -> Measured:
    """Return `times` noisy copies of the application that covers the most machines."""
    table = FingerprintTable.read(PLACES.processed)
    application = table.measurements_of(table.covering_applications(1)[0])
    copied = application.select_rows(np.tile(np.arange(len(application.y)), times))
    return replace(
        copied,
        x=copied.x * np.exp(_draw_noise(copied.x.shape)),
        y=copied.y * np.exp(_draw_noise(copied.y.shape)),
        machines=_numbered_names(application.machines, times),
        cpus=_numbered_names(application.cpus, times),
    )


def _numbered_names(names: Words, times: int) -> Words:
    return np.char.add(np.tile(names, times), np.repeat([f"#{copy}" for copy in range(times)], len(names)))


def _draw_noise(shape: tuple[int, ...]) -> NDArray[np.float64]:
    return NOISE * np.random.default_rng(SEED).standard_normal(shape)


#: A fit that takes less than `SHORT` seconds is repeated, `ROUNDS` times in all; the shortest counts.
SHORT, ROUNDS = 2.0, 3


@dataclass(frozen=True)
class FitCost:
    what: str
    cases: int
    columns: int
    seconds: float
    data: float
    peak: float


def measure_fit(model: str, times: int) -> FitCost:
    # warm-up: imports are not timed
    LESSONS[model](1).learn()
    lesson = LESSONS[model](times)
    data, seconds = _resident_mib(), time_call(lesson.learn, time.process_time)[0]
    peak = _resident_mib()
    if seconds < SHORT:
        seconds = min(seconds, *(time_call(lesson.learn, time.process_time)[0] for _ in range(ROUNDS - 1)))
    return FitCost(lesson.what, lesson.cases, lesson.columns, seconds, data, peak)


def _resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


TIMES = (1, 10, 100)


def cost_row(name: str, costs: Sequence[FitCost]) -> tuple[object, ...]:
    """Return the table row of a model fitted at all sizes."""
    first, small, large = costs[0], *costs[-2:]
    exponent = np.log(large.seconds / small.seconds) / np.log(large.cases / small.cases)
    seconds, peaks = [cost.seconds for cost in costs], [cost.peak for cost in costs]
    size = f"{first.cases:,} x {first.columns}"
    return name, first.what, size, *seconds, float(exponent), *peaks, large.data


def measure_in_process(name: str, times: int) -> FitCost:
    """Fit in a separate process, so that its peak memory is that of this fit."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one", name, str(times)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return FitCost(**json.loads(done.stdout))


NOTES = f"""\
1x is what is shipped, of matrices every {PAIRS}th pair. 10x and 100x are copies with noise of {NOISE:.0%}, \
in which operations, test cases, programs and CPU models have names of their own. Seed {SEED}.
The shipped champion is fitted once to all rows as its stage train does; of matrices the search is part of \
it. One thread, in a process of its own; seconds are of the processor.
Exponent: of seconds over rows from 10x to 100x; 1 is linear growth, n log n comes to 1.1 at these sizes.
MiB: the most that was resident until the fit had ended; the last column is what was before it, at 100x.
""".splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=LESSONS, nargs="+", default=list(LESSONS), help="writes nothing")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "TIMES"), help="print one fit's cost as JSON")
    options, before = parser.parse_args(), load_average()
    if options.one:
        with threadpool_limits(1):
            print(json.dumps(asdict(measure_fit(options.one[0], int(options.one[1])))))
        return
    names = options.only
    sizes = [(name, times) for name in names for times in TIMES]
    done = with_progress_bar((measure_in_process(*size) for size in sizes), len(sizes), "growth")
    costs = dict(zip(sizes, done, strict=True))
    columns = dict.fromkeys(("family", "model", "1x, rows x columns"), "")
    columns |= {f"{times}x, s": ".2f" for times in TIMES} | {"exponent": ".2f"}
    columns |= {f"{times}x, MiB": ".0f" for times in TIMES} | {"of it data, MiB": ".0f"}
    rows = [cost_row(name, [costs[name, times] for times in TIMES]) for name in names]
    whole = Table("Training, as its data grows", columns, rows, [*NOTES, load_note(before)])
    if names == list(LESSONS):
        whole.publish("growth")
    else:
        print(whole.markdown())


if __name__ == "__main__":
    main()
