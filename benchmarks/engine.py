"""The comparative analysis engine beside a straightforward script, and its cost as vectors become more.

Run it with ``uv run --group benchmarks python -m benchmarks.engine``; it writes ``docs/results/engine.md``
and ``docs/results/engine-growth.md``. All numbers are of synthetic matrices in the shape of the
analysis engine paper's data.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice

import numpy as np

from benchmarks.engine_fold import (
    BINS,
    CLASSIFIERS,
    COMPONENTS,
    FOLDS,
    SEEDS,
    TRIALS,
    Judged,
    Task,
    ours,
    parted,
    plain,
    tables_of,
)
from benchmarks.synthetic_matrices import GROUPS, VECTORS
from benchmarks.table import SEED, Table, busy, clocked, load, machine
from data.parallel import Compute, side_by_side
from training.matrices.engine.engine import FULL, Scheme

COMMAND = "uv run --group benchmarks python -m benchmarks.engine"
JOBS = 2
#: Folds and groups of the opponent that are timed.
PART_FOLDS, PART_GROUPS = 1, 2
SIZES = (20_000, 60_000, 200_000)
COLUMNS = {
    "classifier": "", "perfjudge, s": ".1f", "plain script, part, s": ".1f",
    "plain script, all folds and groups, s": ".0f", "times": ".1f",
    "perfjudge's balanced accuracy on the part": "", "plain script's on the part": "",
    "perfjudge's on all vectors": ".3f", "of pairs' differences": ".3f",
}  # fmt: skip
GROWTH = {"last / first": ".1f", "exponent": ".2f"}


def accuracy(judged: list[Judged]) -> float:
    """Return the balanced accuracy of the vectors of all folds together."""
    truth, told = (np.concatenate([getattr(one, name) for one in judged]) for name in ("truth", "told"))
    return float((told[truth].mean() + (~told[~truth]).mean()) / 2)


def with_counts(judged: Judged) -> str:
    """Return the balanced accuracy, and of how many vectors it is."""
    return f"{accuracy([judged]):.3f} ({judged.truth.sum()} of {len(judged.truth):,} abnormal)"


def all_folds(scheme: Scheme) -> tuple[float, dict[str, list[Judged]]]:
    """Return the seconds on the clock, and what came of each classifier."""
    tasks = [Task(model, fold, scheme) for model in CLASSIFIERS for fold in range(FOLDS)]
    seconds, results = clocked(lambda: side_by_side(ours, tasks, Compute(JOBS), "perfjudge"))
    folds = iter(results)
    return seconds, {model: list(islice(folds, FOLDS)) for model in CLASSIFIERS}


def compared() -> Table:
    """Run the engine on all folds, and the plain script on a part of them."""
    before = load()
    clock, found = all_folds(SEEDS)
    contrast_clock, contrasted = all_folds(FULL)
    train, test = parted(tables_of(VECTORS), 0)
    rows: list[tuple[object, ...]] = []
    seconds = {}
    for model in CLASSIFIERS:
        own = sum(one.seconds for one in found[model])
        common, part = plain(model, train, test, PART_GROUPS, COMPONENTS, TRIALS, SEED)
        same = found[model][0].of_groups(set(part.group))
        timed = common + part.seconds
        other = FOLDS * (common + part.seconds * GROUPS / PART_GROUPS)
        seconds[model] = np.array([own, other])
        on_part, on_all = map(with_counts, (same, part)), map(accuracy, (found[model], contrasted[model]))
        rows.append((model, own, timed, other, other / own, *on_part, *on_all))
    for name, models in (("all", CLASSIFIERS), ("all but similarity-logistic", CLASSIFIERS[:-1])):
        own, other = sum(seconds[model] for model in models)
        rows.append((name, own, None, other, other / own, *(None,) * 4))
    return Table(
        f"The engine on {VECTORS:,} synthetic vectors, {FOLDS} folds",
        COMMAND,
        COLUMNS,
        rows,
        [*_notes(clock, contrast_clock), busy(before)],
    )


def _notes(clock: float, contrast_clock: float) -> list[str]:
    return f"""\
On the clock: {clock:.1f} s for all four classifiers and {FOLDS} folds on {JOBS} processes, making the \
matrices in each process included. Seconds in the table are of one thread on the processor.
With differences of pairs in place of vectors (`FULL`): {contrast_clock:.1f} s on the clock.
Synthetic: 200 raw metrics, {GROUPS} groups, 300 test cases, seed {SEED}; folds of test cases.
Both search {TRIALS} configurations of components (up to {COMPONENTS}), undersampling and cost ratio on a \
2:1 split of the training part, by test case, with classifiers by group.
Plain script: {PART_FOLDS} fold and {PART_GROUPS} of {GROUPS} groups were timed; their seconds were taken \
{FOLDS} times, those of groups {GROUPS / PART_GROUPS:.1f} times more.
Plain script: scikit-learn, imbalanced-learn's undersampling, pyagrum's TAN, and EM around scikit-learn's \
logistic regression; one thread.
The part: the first {PART_GROUPS} groups of the first fold, as the plain script was timed. Both were asked \
about all of their vectors; so few abnormal ones tell a large difference only.
Both cut the features of TAN into {BINS} levels of the same frequency.
The similarity logistic is counted by pairs of runs, the others by runs. Where a target run has no baseline \
run of its number, perfjudge takes another one, and the plain script none.
""".splitlines()


def growing(sizes: list[int]) -> Iterator[tuple[object, ...]]:
    """Yield a row per classifier: seconds of one fold for every number of vectors, and their growth."""
    # the matrices of one size are made once for all classifiers
    seconds = [[ours(Task(model, 0, SEEDS, size)).seconds for model in CLASSIFIERS] for size in sizes]
    for model, *found in zip(CLASSIFIERS, *seconds, strict=True):
        exponent = np.polyfit(np.log(sizes), np.log(found), 1)[0]
        yield model, *found, found[-1] / found[0], exponent


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
        sizes = options.sizes
        Table(
            "The engine's cost by the number of synthetic vectors",
            COMMAND,
            {"classifier": "", **{f"{size:,}, s": ".1f" for size in sizes}} | GROWTH,
            list(growing(sizes)),
            [
                "Fit with search, and judgement, of one fold of ten on one thread; otherwise as engine.md.",
                f"{sizes[-1] / sizes[0]:.0f} times as many vectors; an exponent of 1 is linear growth.",
                f"{machine()}; load average {load():.1f} after.",
            ],
        ).publish("engine-growth")


if __name__ == "__main__":
    main()
