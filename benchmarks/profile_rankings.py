"""What profiles rank first by the paper's method and by ours, and how stable that is over resamples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.fingerprints import JOBS, present, table
from benchmarks.table import SEED, Table, busy, load
from data.fingerprints.params import Profiling
from data.parallel import Compute, side_by_side
from features.fingerprints.matrix import Measured
from training.fingerprints.importance import Boosting, car_scores, seed_shares
from training.fingerprints.profiles import overlap, profile, resamples, shares_of, top, units

COMMAND = "python -m benchmarks.profiles stability"
RESAMPLES = 10
#: The paper's regression takes 40 s for one fit of a thousand servers.
BOOSTING: dict[str, Boosting] = {"quiho": "gradient-boosting", "sparecores": "xgboost"}
#: Application, machines, and by the paper's method and ours the mean overlap over the same resamples.
Overlaps = tuple[str, int, float, float]
#: The stressor that the paper's data put first.
FIRST = {
    "hpccg": "cache",
    "ssca": "cache",
    "scikit-learn": "cache",
    "mariadb-10.3.2-innodb-load": "msync",
    "mariadb-5.5.58-innodb-load": "msync",
    "mariadb-innodb-load": "msync",
}
SHOWN = 3


def stability(asked: Sequence[str], applications: int) -> None:
    """Measure, print and write the pages."""
    for name in present(asked, *BOOSTING):
        before, found = load(), table(name)
        tasks = [found.measured(one) for one in found.covering(applications)]
        rows = side_by_side(
            partial(overlapping, boosting=BOOSTING[name]), tasks, JOBS, f"resamples of {name}"
        )
        Table(
            f"Overlap of the top five over resamples of the machines, {name}",
            COMMAND if len(tasks) == len(found.applications) else f"{COMMAND} --applications {applications}",
            {"application": "", "machines": "", "paper's method": ".3f", "ours": ".3f"},
            [*rows, (f"mean of {len(rows)}", "", *(fmean(row[side] for row in rows) for side in (2, 3)))],
            [
                higher(rows),
                f"Mean Jaccard index of all pairs of {RESAMPLES} bootstrap resamples, the same for both.",
                "Resampled are whole CPU models where there are ten or more, whole machines elsewhere.",
                f"The paper's method by {BOOSTING[name]}, on all runs; ours on machines.",
                busy(before),
            ],
        ).publish(f"fingerprints-stability-{name}")


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


def firsts(asked: Sequence[str]) -> None:
    """Find what is first in the profiles that the paper shows, by its settings; write the page."""
    (quiho,) = present(asked, "quiho")
    measured = [table(quiho).measured(name) for name in FIRST]
    found = side_by_side(three, measured, Compute(JOBS), "the quiho paper's settings")
    rows = [(name, wanted, *cells) for (name, wanted), cells in zip(FIRST.items(), found, strict=True)]
    right = sum(boosted.split(",")[0] == wanted for _, wanted, boosted, *_ in rows)
    Table(
        "The most important stressors by the quiho paper's settings, quiho",
        "python -m benchmarks.profiles seed",
        dict.fromkeys(("application", "wanted first", "gradient boosting", "XGBoost", "ours", "trust"), ""),
        rows,
        [
            f"Gradient boosting has the wanted one first for {right} of {len(rows)} applications.",
            "On few machines many splits are equally good.",
            "Gradient boosting draws one of them, XGBoost takes the first by name.",
            f"1000 trees, depth 4, rate 0.01, on z-scores of all runs; random state {SEED}.",
        ],
    ).publish("fingerprints-seed")


def three(measured: Measured) -> tuple[str, str, str, str]:
    """Return the first stressors by each method, and whether ours can be trusted."""
    ours = profile(measured, Profiling(), SEED)
    boosted = (seed_shares(measured, SEED, boosting=name) for name in ("gradient-boosting", "xgboost"))
    first, second = (_named(measured, shares) for shares in boosted)
    return first, second, ", ".join(ours.top[:SHOWN]), ours.trust.verdict


def _named(measured: Measured, shares: NDArray[np.float64]) -> str:
    return ", ".join(measured.columns[column] for column in np.argsort(-shares, kind="stable")[:SHOWN])
