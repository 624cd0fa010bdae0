"""How stable the top five of a profile are over resamples of the machines: the seed's method beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from benchmarks.fingerprints import JOBS, present, table
from benchmarks.table import SEED, Table, busy, load
from features.fingerprints.matrix import Measured
from training.evaluation.sidebyside import side_by_side
from training.fingerprints.importance import car_scores
from training.fingerprints.profiles import overlap, shares_of, top, units
from training.fingerprints.resamples import resamples
from training.fingerprints.seed import Boosting, seed_shares

COMMAND = "python -m benchmarks.profiles stability"
RESAMPLES = 10
#: The paper's regression takes 40 s for one fit of a thousand servers.
BOOSTING: dict[str, Boosting] = {"quiho": "gradient-boosting", "sparecores": "xgboost"}
#: Application, machines, and by the seed's method and ours the mean overlap over the same resamples.
Overlaps = tuple[str, int, float, float]


def main(applications: int) -> None:
    """Measure, print and write the pages."""
    for name in present("quiho", "sparecores"):
        _set(name, applications).publish(f"fingerprints-stability-{name}")


def _set(name: str, applications: int) -> Table:
    before, found = load(), table(name)
    tasks = [found.measured(one) for one in found.covering(applications)]
    rows = side_by_side(partial(overlapping, boosting=BOOSTING[name]), tasks, JOBS, f"resamples of {name}")
    return Table(
        f"Overlap of the top five over resamples of the machines, {name}",
        COMMAND if len(tasks) == len(found.applications) else f"{COMMAND} --applications {applications}",
        {"application": "", "machines": "", "seed's method": ".3f", "ours": ".3f"},
        [*rows, (f"mean of {len(rows)}", "", *(fmean(row[side] for row in rows) for side in (2, 3)))],
        [
            higher(rows),
            f"Mean Jaccard index of all pairs of {RESAMPLES} bootstrap resamples, the same for both methods.",
            "Resampled are whole CPU models where there are ten or more, whole machines elsewhere.",
            f"The seed's method by {BOOSTING[name]}, on all runs; ours on machines.",
            busy(before),
        ],
    )


def overlapping(measured: Measured, boosting: Boosting) -> Overlaps:
    """Find the top five in each resample by both methods, and how much they overlap."""
    machines = measured.by_machine()
    seeds = [
        top(seed_shares(measured, SEED, counts, boosting))
        for counts in resamples(units(measured), RESAMPLES, SEED)
    ]
    ours = shares_of(car_scores(machines, resamples(units(machines), RESAMPLES, SEED)))
    return measured.application, len(machines.y), overlap(seeds), overlap([top(shares) for shares in ours])


def higher(rows: Sequence[Overlaps]) -> str:
    """Tell for how many applications ours is the more stable."""
    better = sum(ours > seed for _, _, seed, ours in rows)
    equal = sum(ours == seed for _, _, seed, ours in rows)
    share = f"{better} of {len(rows)} applications ({better / len(rows):.1%}; {equal} equal)"
    return f"Ours is higher for {share}; wanted: 80 %."
