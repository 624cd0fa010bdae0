"""The comparative analysis engine beside a straightforward script, and its cost as vectors become more.

Run it with ``uv run --group benchmarks python -m benchmarks.engine``; it writes ``docs/results/engine.md``
and ``docs/results/engine-growth.md``. All numbers are of synthetic matrices in the shape of seed 001's data.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from benchmarks.engine_fold import (
    COMPONENTS,
    FOLDS,
    SEED,
    SEEDS,
    TRIALS,
    Judged,
    Task,
    ours,
    parted,
    tables_of,
)
from benchmarks.plain_engine import BINS, CLASSIFIERS, plain
from benchmarks.synthetic_matrices import GROUPS, VECTORS
from benchmarks.table import Table, machine
from training.evaluation.sidebyside import side_by_side
from training.matrices.engine.engine import FULL, Scheme

COMMAND = "uv run --group benchmarks python -m benchmarks.engine"
JOBS = 2
#: Folds and groups of the opponent that are timed.
PART_FOLDS, PART_GROUPS = 1, 2
SIZES = (20_000, 60_000, 200_000)


def accuracy(judged: list[Judged]) -> str:
    """Return the balanced accuracy of the vectors of all folds together."""
    truth, told = (np.concatenate([getattr(one, name) for one in judged]) for name in ("truth", "told"))
    return f"{(told[truth].mean() + (~told[~truth]).mean()) / 2:.3f}"


def with_counts(judged: Judged) -> str:
    """Return the balanced accuracy, and of how many vectors it is."""
    return f"{accuracy([judged])} ({judged.truth.sum()} of {len(judged.truth):,} abnormal)"


def all_folds(scheme: Scheme) -> tuple[float, dict[str, list[Judged]]]:
    """Return the seconds on the clock, and what came of each classifier."""
    tasks = [Task(model, fold, scheme) for fold in range(FOLDS) for model in CLASSIFIERS]
    start = time.perf_counter()
    results = side_by_side(ours, tasks, JOBS, "perfjudge")
    seconds = time.perf_counter() - start
    found: dict[str, list[Judged]] = {model: [] for model in CLASSIFIERS}
    for task, result in zip(tasks, results, strict=True):
        found[task.model].append(result)
    return seconds, found


def compared() -> Table:
    """Run the engine on all folds, and the plain script on a part of them."""
    load = os.getloadavg()[0]
    clock, found = all_folds(SEEDS)
    contrast_clock, contrasted = all_folds(FULL)
    train, test = parted(tables_of(VECTORS), 0)
    rows = []
    seconds: dict[str, tuple[float, float]] = {}
    for model in CLASSIFIERS:
        own = sum(one.seconds for one in found[model])
        part = plain(model, train, test, PART_GROUPS, COMPONENTS, TRIALS, SEED)
        same = found[model][0].of_groups(set(part.judged.group))
        timed = part.common + part.judged.seconds
        other = FOLDS * (part.common + part.judged.seconds * GROUPS / PART_GROUPS)
        seconds[model] = own, other
        rows.append((
            model, f"{own:.1f}", f"{timed:.1f}", f"{other:.0f}", f"{other / own:.1f}",
            with_counts(same), with_counts(part.judged),
            accuracy(found[model]), accuracy(contrasted[model]),
        ))  # fmt: skip
    for name, models in (("all", CLASSIFIERS), ("all but similarity-logistic", CLASSIFIERS[:-1])):
        own, other = (sum(seconds[model][which] for model in models) for which in (0, 1))
        rows.append((name, f"{own:.1f}", "", f"{other:.0f}", f"{other / own:.1f}", *("",) * 4))
    return Table(
        f"The engine on {VECTORS:,} synthetic vectors, {FOLDS} folds",
        COMMAND,
        (
            "classifier",
            "perfjudge, s",
            "plain script, part, s",
            "plain script, all folds and groups, s",
            "times",
            "perfjudge's balanced accuracy on the part",
            "plain script's on the part",
            "perfjudge's on all vectors",
            "of pairs' differences",
        ),
        rows,
        _notes(clock, contrast_clock, load),
    )


def _notes(clock: float, contrast_clock: float, load: float) -> list[str]:
    share = GROUPS / PART_GROUPS
    return [
        (
            f"On the clock: {clock:.1f} s for all four classifiers and {FOLDS} folds on {JOBS} processes,"
            " making the matrices in each process included. Seconds in the table are of one thread on the"
            " processor."
        ),
        f"With differences of pairs in place of vectors (`FULL`): {contrast_clock:.1f} s on the clock.",
        f"Synthetic: 200 raw metrics, {GROUPS} groups, 300 test cases, seed {SEED}; folds of test cases.",
        (
            f"Both search {TRIALS} configurations of components (up to {COMPONENTS}), undersampling and cost"
            " ratio on a 2:1 split of the training part, by test case, with classifiers by group."
        ),
        (
            f"Plain script: {PART_FOLDS} fold and {PART_GROUPS} of {GROUPS} groups were timed; their seconds"
            f" were taken {FOLDS} times, those of groups {share:.1f} times more."
        ),
        (
            "Plain script: scikit-learn, imbalanced-learn's undersampling, pyagrum's TAN, and EM around"
            " scikit-learn's logistic regression; one thread."
        ),
        (
            f"The part: the first {PART_GROUPS} groups of the first fold, as the plain script was timed."
            " Both were asked about all of their vectors; so few abnormal ones tell a large difference only."
        ),
        f"Both cut the features of TAN into {BINS} levels of the same frequency.",
        (
            "The similarity logistic is counted by pairs of runs, the others by runs. Where a target run has"
            " no baseline run of its number, perfjudge takes another one, and the plain script none."
        ),
        f"{machine()}; load average {load:.1f} before and {os.getloadavg()[0]:.1f} after.",
    ]


def growing(sizes: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Return a row per classifier: seconds of one fold for every number of vectors, and their growth."""
    seconds = {
        (size, model): ours(Task(model, 0, SEEDS, size)).seconds for size in sizes for model in CLASSIFIERS
    }
    rows = []
    for model in CLASSIFIERS:
        found = [seconds[size, model] for size in sizes]
        exponent = np.polyfit(np.log(sizes), np.log(found), 1)[0]
        ratio = f"{found[-1] / found[0]:.1f}"
        rows.append((model, *(f"{one:.1f}" for one in found), ratio, f"{exponent:.2f}"))
    return rows


def main() -> None:
    """Measure, print and write both tables."""
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--growth-only", action="store_true", help="leave the plain script out")
    options = parser.parse_args()
    with threadpool_limits(1):
        if not options.growth_only:
            compared().publish("engine")
        # what is imported on the way is not counted
        for model in CLASSIFIERS:
            ours(Task(model, 0, vectors=min(options.sizes) // 4))
        sizes = tuple(options.sizes)
        Table(
            "The engine's cost by the number of synthetic vectors",
            COMMAND,
            ("classifier", *(f"{size:,}, s" for size in sizes), "last / first", "exponent"),
            growing(sizes),
            [
                "Fit with search, and judgement, of one fold of ten on one thread; otherwise as engine.md.",
                f"{sizes[-1] / sizes[0]:.0f} times as many vectors; an exponent of 1 is linear growth.",
                f"{machine()}; load average {os.getloadavg()[0]:.1f} after.",
            ],
        ).publish("engine-growth")


if __name__ == "__main__":
    main()
