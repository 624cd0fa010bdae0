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

from benchmarks.table import SEED, Table, busy, clocked, load
from data.parallel import watched
from features.corun.rates import AND
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured

Words = NDArray[np.str_]
#: Noise as a share of a value, or of a column's standard deviation where values may be 0.
NOISE = 0.02
#: Every tenth pair of matrices is used: 100 copies of all pairs take hours and 10 GB.
PAIRS = 10


@dataclass(frozen=True)
class Lesson:
    what: str
    cases: int
    columns: int
    learn: Callable[[], object]


def comparisons(times: int) -> Lesson:
    """Return a fit of the champion of comparisons, with tuned parameters, on `times` copies of its data."""
    from training.comparisons.decision import examples_of
    from training.comparisons.family import Examples, FeatureTable, bound
    from training.comparisons.label_review import known_of
    from training.comparisons.train import Fit, fitted
    from training.comparisons.tune import Classified
    from training.evaluation.search import read_tuned

    family = bound()
    table = FeatureTable.read(family.features, family.columns())
    name = _champion(family.places.metrics)
    tuned = read_tuned(family.places.tuned, Classified)["all"][name]
    known = known_of(family.features, table, examples_of(family, table)).learnt
    x = np.tile(known.x, (times, 1))
    x += np.nanstd(known.x, axis=0) * _noise(x.shape)
    train = Examples(x, np.tile(known.y, times), _named(known.groups, times))
    fit = Fit(name, tuned, train, x[:0], SEED, table.guide)
    return Lesson(name, *x.shape, lambda: fitted(fit))


def matrices(times: int) -> Lesson:
    """Return a fit of the champion of matrices, its search included, on copies of every tenth pair."""
    from data.matrices.params import Matrices
    from data.params import load
    from data.paths import Places
    from training.matrices.engine.engine import FULL, Engine
    from training.matrices.fitting import MatrixExamples
    from training.matrices.schemes import candidates

    places, how = Places("matrices"), load(Matrices).section.evaluate
    wanted = {cell.entry: cell for cell in candidates(how.models, replace(FULL, components=how.components))}
    cell = wanted[_champion(places.metrics)]
    tables = MatrixExamples.read(places.interim, places.valid).tables
    some = tables.runs["pair_id"].unique()[::PAIRS]
    tables = tables.of_runs(tables.runs["pair_id"].isin(some).to_numpy(bool))
    metrics = [*tables.raw, *tables.summary]
    runs = _copies(tables.runs, times, ("run_id", "pair_id", "workload"))
    runs[metrics] *= 1 + _noise(runs[metrics].shape)
    engine = Engine(cell.scheme, cell.model, how.trials, SEED)
    many = replace(tables, runs=runs)
    return Lesson(cell.entry, len(runs), len(metrics), lambda: engine.fit(many))


def corun(times: int) -> Lesson:
    """Return a fit of the champion of static co-runs, with tuned parameters, on `times` copies."""
    from data.corun.params import Corun
    from data.params import load
    from data.paths import Places
    from training.corun.estimators.fitting import ImpactTable
    from training.corun.stages import FEATURES, recipe_of
    from training.evaluation.search import Tuned, read_tuned

    places, table = Places("corun"), ImpactTable.read(FEATURES)
    name = _champion(places.metrics)
    tuned = read_tuned(places.tuned, Tuned)["all"][name]
    rows = _copies(table.frame, times, ("task", "corunners", "families"))
    measured = ["impact", *table.rates]
    rows[measured] *= np.exp(_noise(rows[measured].shape))
    recipe = recipe_of(table, name, load(Corun).section, SEED, tuned.params)
    return Lesson(name, len(rows), len(recipe.columns), lambda: recipe.fit(rows))


def profile(times: int) -> Lesson:
    """Return the computation of one application's profile on `times` copies of its machines."""
    from data.fingerprints.params import Fingerprints
    from data.params import load
    from training.fingerprints.profiles import profile

    measured, how = _machines(times), load(Fingerprints).section.profile
    return Lesson("profile", *measured.x.shape, lambda: profile(measured, how, SEED))


def prediction(times: int) -> Lesson:
    """Return a fit of the model that predicts an application on other machines, on `times` copies."""
    from training.fingerprints.prediction import learn

    measured = _machines(times).by_machine()
    return Lesson("prediction", *measured.x.shape, lambda: learn(measured, SEED))


LESSONS: Mapping[str, Callable[[int], Lesson]] = {
    "comparisons": comparisons,
    "matrices": matrices,
    "corun": corun,
    "fingerprints, profile": profile,
    "fingerprints, prediction": prediction,
}


def _champion(metrics: Path) -> str:
    return str(json.loads(metrics.read_text())["champion"])


def _copies(rows: pd.DataFrame, times: int, names: Sequence[str]) -> pd.DataFrame:
    """Repeat rows `times` times; values in the columns `names` get a suffix unique to the copy."""
    copies = []
    for copy in range(times):
        own = {name: rows[name].str.replace(AND, f"#{copy}{AND}", regex=False) + f"#{copy}" for name in names}
        copies.append(rows.assign(**own))
    return pd.concat(copies, ignore_index=True)


def _machines(times: int) -> Measured:
    """Return `times` noisy copies of the application that covers the most machines."""
    table = FingerprintTable.read(PLACES.processed)
    one = table.measured(table.covering(1)[0])
    many = one.rows(np.tile(np.arange(len(one.y)), times))
    return replace(
        many,
        x=many.x * np.exp(_noise(many.x.shape)),
        y=many.y * np.exp(_noise(many.y.shape)),
        machines=_named(one.machines, times),
        cpus=_named(one.cpus, times),
    )


def _named(names: Words, times: int) -> Words:
    return np.char.add(np.tile(names, times), np.repeat([f"#{copy}" for copy in range(times)], len(names)))


def _noise(shape: tuple[int, ...]) -> NDArray[np.float64]:
    return NOISE * np.random.default_rng(SEED).standard_normal(shape)


#: A fit that takes less than `SHORT` seconds is repeated, `ROUNDS` times in all; the shortest counts.
SHORT, ROUNDS = 2.0, 3


@dataclass(frozen=True)
class Learnt:
    what: str
    cases: int
    columns: int
    seconds: float
    data: float
    peak: float


def learnt(model: str, times: int) -> Learnt:
    # warm-up: imports are not timed
    LESSONS[model](1).learn()
    lesson = LESSONS[model](times)
    data, seconds = _resident(), clocked(lesson.learn, time.process_time)[0]
    peak = _resident()
    if seconds < SHORT:
        seconds = min(seconds, *(clocked(lesson.learn, time.process_time)[0] for _ in range(ROUNDS - 1)))
    return Learnt(lesson.what, lesson.cases, lesson.columns, seconds, data, peak)


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


TIMES = (1, 10, 100)


def row(name: str, found: Sequence[Learnt]) -> tuple[object, ...]:
    """Return the table row of a model fitted at all sizes."""
    first, small, large = found[0], *found[-2:]
    exponent = np.log(large.seconds / small.seconds) / np.log(large.cases / small.cases)
    seconds, peaks = [one.seconds for one in found], [one.peak for one in found]
    size = f"{first.cases:,} x {first.columns}"
    return name, first.what, size, *seconds, float(exponent), *peaks, large.data


def measured(name: str, times: int) -> Learnt:
    """Fit in a separate process, so that its peak memory is that of this fit."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one", name, str(times)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Learnt(**json.loads(done.stdout))


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
    options, before = parser.parse_args(), load()
    if options.one:
        with threadpool_limits(1):
            print(json.dumps(asdict(learnt(options.one[0], int(options.one[1])))))
        return
    names = options.only
    sizes = [(name, times) for name in names for times in TIMES]
    done = watched((measured(*size) for size in sizes), len(sizes), "growth")
    found = dict(zip(sizes, done, strict=True))
    columns = dict.fromkeys(("family", "model", "1x, rows x columns"), "")
    columns |= {f"{times}x, s": ".2f" for times in TIMES} | {"exponent": ".2f"}
    columns |= {f"{times}x, MiB": ".0f" for times in TIMES} | {"of it data, MiB": ".0f"}
    rows = [row(name, [found[name, times] for times in TIMES]) for name in names]
    whole = Table("Training, as its data grows", columns, rows, [*NOTES, busy(before)])
    if names == list(LESSONS):
        whole.publish("growth")
    else:
        print(whole.markdown())


if __name__ == "__main__":
    main()
