"""How stable the top five of a profile are over resamples of the machines: the seed's method beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.fingerprints import JOBS, SEED, busy, load, present, table
from benchmarks.table import Table
from features.fingerprints.matrix import Measured
from training.evaluation.sidebyside import side_by_side
from training.fingerprints.importance import car_scores
from training.fingerprints.profiles import overlap, resamples, shares_of, top, units
from training.fingerprints.seed import Boosting, seed_shares

COMMAND = "python -m benchmarks.profiles stability"
RESAMPLES = 10
#: The paper's regression takes 40 s for one fit of a thousand servers.
BOOSTING: dict[str, Boosting] = {"quiho": "gradient-boosting", "sparecores": "xgboost"}


@dataclass(frozen=True)
class Task:
    """An application whose top five are found in each resample."""

    measured: Measured
    boosting: Boosting


@dataclass(frozen=True)
class Overlaps:
    """Mean overlap of the top five of an application over the same resamples, by both methods."""

    application: str
    machines: int
    seed: float
    ours: float


def main(applications: int) -> None:
    """Measure, print and write the pages."""
    for name in present("quiho", "sparecores"):
        _set(name, applications).publish(f"fingerprints-stability-{name}")


def _set(name: str, applications: int) -> Table:
    before, found = load(), table(name)
    tasks = [Task(found.measured(one), BOOSTING[name]) for one in found.covering(applications)]
    overlaps = side_by_side(overlapping, tasks, JOBS, f"resamples of {name}")
    return Table(
        f"Overlap of the top five over resamples of the machines, {name}",
        COMMAND if len(tasks) == len(found.applications) else f"{COMMAND} --applications {applications}",
        ("application", "machines", "seed's method", "ours"),
        [*map(_row, overlaps), _mean(overlaps)],
        [
            higher(overlaps),
            f"Mean Jaccard index of all pairs of {RESAMPLES} bootstrap resamples, the same for both methods.",
            "Resampled are whole CPU models where there are ten or more, whole machines elsewhere.",
            f"The seed's method by {BOOSTING[name]}, on all runs; ours on machines.",
            busy(before),
        ],
    )


def overlapping(task: Task) -> Overlaps:
    """Find the top five in each resample by both methods."""
    measured, machines = task.measured, task.measured.by_machine()
    seeds = [
        top(seed_shares(measured, SEED, counts, task.boosting))
        for counts in resamples(units(measured), RESAMPLES, SEED)
    ]
    ours = shares_of(car_scores(machines, resamples(units(machines), RESAMPLES, SEED)))
    return Overlaps(
        measured.application, len(machines.y), overlap(seeds), overlap([top(shares) for shares in ours])
    )


def higher(overlaps: Sequence[Overlaps]) -> str:
    """Tell for how many applications ours is the more stable."""
    better = sum(one.ours > one.seed for one in overlaps)
    equal = sum(one.ours == one.seed for one in overlaps)
    share = f"{better} of {len(overlaps)} applications ({better / len(overlaps):.1%}; {equal} equal)"
    return f"Ours is higher for {share}; wanted: 80 %."


def _row(one: Overlaps) -> tuple[str, ...]:
    return one.application, str(one.machines), f"{one.seed:.3f}", f"{one.ours:.3f}"


def _mean(overlaps: Sequence[Overlaps]) -> tuple[str, ...]:
    seed, ours = fmean(one.seed for one in overlaps), fmean(one.ours for one in overlaps)
    return f"mean of {len(overlaps)}", "", f"{seed:.3f}", f"{ours:.3f}"
