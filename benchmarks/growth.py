"""How training grows with its data in every family; the pipeline has to be up to date."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.table import SEED, Table, call_in_process, load_note, read_metrics, time_call
from data.corun.tables import AND
from data.parallel import with_progress_bar
from data.params import load
from data.paths import FamilyPaths
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured
from training.evaluation.search import Tuned, read_tuned

Words = NDArray[np.str_]
#: Noise as a share of a value, or of a column's standard deviation where values may be 0.
NOISE = 0.02
#: Every tenth pair of matrices is used: 100 copies of all pairs take hours and 10 GB.
PAIRS = 10


#: A model's name, the numbers of cases and of columns of its data, and its fit.
TimedFit = tuple[str, int, int, Callable[[], object]]


def comparison_fit(times: int) -> TimedFit:
    from training.comparisons.decision import examples_of
    from training.comparisons.family import Examples, bound
    from training.comparisons.label_review import read_training_data
    from training.comparisons.train import Fit, fit_pipeline
    from training.comparisons.tune import Classified

    family = bound()
    table = family.read_features()
    name = read_metrics("comparisons")["champion"]
    tuned = read_tuned(family.paths.tuned, Classified)["all"][name]
    examples = read_training_data(family.features_file, table, examples_of(family, table)).all_rows
    x = np.tile(examples.x, (times, 1))
    x += np.nanstd(examples.x, axis=0) * _draw_noise(x.shape)
    train = Examples(x, np.tile(examples.y, times), _numbered_names(examples.groups, times))
    fit = Fit(name, tuned, train, x[:0], SEED, table.constraints)
    return name, *x.shape, lambda: fit_pipeline(fit)


def matrix_fit(times: int) -> TimedFit:
    """Return a fit of the champion of matrices, its search included, on copies of every tenth pair."""
    from data.matrices.params import Matrices
    from training.matrices.engine.engine import Engine
    from training.matrices.fitting import MatrixExamples
    from training.matrices.schemes import FULL, candidate_cells

    paths, how = FamilyPaths("matrices"), load(Matrices).section.evaluate
    cells = candidate_cells(how.models, replace(FULL, components=how.max_components))
    cell = {cell.entry_name: cell for cell in cells}[read_metrics("matrices")["champion"]]
    tables = MatrixExamples.read(paths.interim, paths.valid).tables
    some = tables.runs["pair_id"].unique()[::PAIRS]
    tables = tables.select_runs(tables.runs["pair_id"].isin(some).to_numpy(bool))
    metrics = [*tables.raw_metrics, *tables.summary_metrics]
    runs = _copy_rows(tables.runs, times, ("run_id", "pair_id", "workload"))
    runs[metrics] *= 1 + _draw_noise(runs[metrics].shape)
    engine = Engine(cell, how.n_trials, SEED)
    copied_tables = replace(tables, runs=runs)
    return cell.entry_name, len(runs), len(metrics), lambda: engine.fit(copied_tables)


def corun_fit(times: int) -> TimedFit:
    from data.corun.params import Corun
    from training.corun.estimators.fitting import ImpactTable
    from training.corun.stages import FEATURES, recipe_of

    table = ImpactTable.read(FEATURES)
    name = read_metrics("corun")["champion"]
    tuned = read_tuned(FamilyPaths("corun").tuned, Tuned)["all"][name]
    rows = _copy_rows(table.frame, times, ("task", "corunners", "families"))
    measured = ["impact", *table.rate_features]
    rows[measured] *= np.exp(_draw_noise(rows[measured].shape))
    recipe = recipe_of(table, name, load(Corun).section, SEED, tuned.params)
    return name, len(rows), len(recipe.columns), lambda: recipe.fit(rows)


def profile_fit(times: int) -> TimedFit:
    from data.fingerprints.params import Fingerprints
    from training.fingerprints.profiles import infer_profile

    measured, how = _copied_machines(times), load(Fingerprints).section.profile
    return "profile", *measured.x.shape, lambda: infer_profile(measured, how, SEED)


def prediction_fit(times: int) -> TimedFit:
    from training.fingerprints.prediction import fit_predictor

    measured = _copied_machines(times).by_machine()
    return "prediction", *measured.x.shape, lambda: fit_predictor(measured, SEED)


LESSONS: Mapping[str, Callable[[int], TimedFit]] = {
    "comparisons": comparison_fit,
    "matrices": matrix_fit,
    "corun": corun_fit,
    "fingerprints, profile": profile_fit,
    "fingerprints, prediction": prediction_fit,
}


def _copy_rows(rows: pd.DataFrame, times: int, names: Sequence[str]) -> pd.DataFrame:
    """Repeat rows `times` times; values in the columns `names` get a suffix unique to the copy."""
    frames = []
    for end in (f"#{copy}" for copy in range(times)):
        renamed = {name: rows[name].str.replace(AND, end + AND, regex=False) + end for name in names}
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
TIMES = (1, 10, 100)
COLUMNS = dict.fromkeys(("family", "model", "1x, rows x columns"), "")
COLUMNS |= {f"{times}x, s": ".2f" for times in TIMES} | {"exponent": ".2f"}
COLUMNS |= {f"{times}x, MiB": ".0f" for times in TIMES} | {"of it data, MiB": ".0f"}


class FitCost(NamedTuple):
    """The cost of a fit: processor seconds, and MiB resident before it and at most."""

    what: str
    cases: int
    columns: int
    seconds: float
    data: float
    peak: float


def measure_fit(model: str, times: int) -> FitCost:
    # warm-up: imports are not timed
    with threadpool_limits(1):
        LESSONS[model](1)[-1]()
        *size, learn = LESSONS[model](times)
        data, seconds = _resident_mib(), time_call(learn, time.process_time)[0]
        peak = _resident_mib()
        if seconds < SHORT:
            seconds = min(seconds, *(time_call(learn, time.process_time)[0] for _ in range(ROUNDS - 1)))
    return FitCost(*size, seconds, data, peak)


def _resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    sizes = [(name, times) for name in LESSONS for times in TIMES]
    # each in a fresh process, so that its peak memory is that of this fit
    fits = (call_in_process(measure_fit, *size) for size in sizes)
    done = with_progress_bar(fits, len(sizes), "growth")
    costs, rows = dict(zip(sizes, done, strict=True)), []
    for name in LESSONS:
        of_model = [costs[name, times] for times in TIMES]
        first, *_, small, large = of_model
        exponent = np.log(large.seconds / small.seconds) / np.log(large.cases / small.cases)
        about = name, first.what, f"{first.cases:,} x {first.columns}"
        seconds, peaks = [cost.seconds for cost in of_model], [cost.peak for cost in of_model]
        rows.append((*about, *seconds, float(exponent), *peaks, large.data))
    notes = f"""
    - 1x is what is shipped, of matrices every {PAIRS}th pair. 10x and 100x are copies with noise of
      {NOISE:.0%}, in which operations, test cases, programs and CPU models have names of their own. Seed
      {SEED}.
    - The shipped champion is fitted once to all rows as its stage train does; of matrices the search is part
      of it. One thread, in a process of its own; seconds are of the processor.
    - Exponent: of seconds over rows from 10x to 100x; 1 is linear growth, n log n comes to 1.1 at these
      sizes.
    - MiB: the most that was resident until the fit had ended; the last column is what was before it, at 100x.
    - {load_note()}
    """
    Table("Training, as its data grows", COLUMNS, rows, notes).publish("growth")


if __name__ == "__main__":
    main()
