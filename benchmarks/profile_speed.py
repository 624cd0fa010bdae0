"""How long a profile takes, beside refitting the seed's regression, and whether both rank alike."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.fingerprints import JOBS, SEED, busy, load, present, table
from benchmarks.table import Table
from data.fingerprints.params import Profiling
from features.fingerprints.matrix import KEYS, FingerprintTable, Measured
from training.evaluation.sidebyside import side_by_side
from training.fingerprints.profiles import Profile, profile, resamples, units
from training.fingerprints.seed import seed_shares

COMMAND = "python -m benchmarks.profiles speed"
#: The seed's regression is refitted so often, and the time multiplied.
REFITS = 5
#: Applications of the larger set, all of whose profiles are made.
APPLICATIONS = 40
#: The stressor that stands for an application, to have one for every run of the fingerprint.
STAND_IN = "cpu"
PARAMS = Profiling()
FACTOR = PARAMS.resamples / REFITS


@dataclass(frozen=True)
class Timed:
    """One application by both methods: seconds, and how alike both rank its stressors."""

    name: str
    rows: int
    columns: int
    seconds: float
    refits: float
    correlation: float


def main() -> None:
    """Measure, print and write the pages."""
    pages = {"quiho": ("profiles", _by_application), "sparecores": ("profiles-sparecores", _all_profiles)}
    for name in present(*pages):
        page, make = pages[name]
        make().publish(page)


def _by_application() -> Table:
    before, found = load(), table("quiho")
    tasks = [whole(found), *(found.measured(name) for name in found.applications)]
    timed = side_by_side(timing, tasks, JOBS, "profiles beside refits")
    return Table(
        f"A profile with {PARAMS.resamples} resamples, beside refitting the seed's regression as often",
        COMMAND,
        ("application", "runs x stressors", "profile, s", f"{PARAMS.resamples} refits, s", "ratio",
         "rank correlation"),
        [*map(_row, timed), _median(timed[1:])],
        [
            "quiho, one core for each method.",
            f"The seed's regression was refitted {REFITS} times, the time multiplied by {FACTOR:g}.",
            "A profile here is all of it: importances, their intervals, and all trust figures.",
            f"First row: every run of the fingerprint; the stressor {STAND_IN} stands for an application.",
            "Rank correlation: Spearman's, of all importances by the seed's method and by ours.",
            busy(before),
        ],
    )  # fmt: skip


def whole(found: FingerprintTable) -> Measured:
    """Return all runs, with one stressor in the part of the application."""
    runs = found.runs.dropna(subset=STAND_IN)
    x = runs.drop(columns=[*KEYS, STAND_IN])
    return Measured(
        f"{STAND_IN} (stressor)",
        "bogo operations/s",
        "higher",
        tuple(x.columns),
        x.to_numpy(np.float64),
        runs[STAND_IN].to_numpy(np.float64),
        runs["machine"].to_numpy(str),
        runs["cpu_model"].to_numpy(str),
    )


def timing(measured: Measured) -> Timed:
    """Time both methods."""
    start = time.perf_counter()
    ours = profile(measured, PARAMS, SEED)
    seconds = time.perf_counter() - start
    weights = resamples(units(measured), REFITS, SEED)
    start = time.perf_counter()
    for counts in weights:
        seed_shares(measured, SEED, counts)
    refits = (time.perf_counter() - start) * FACTOR
    correlation = spearman(ours.shares, seed_shares(measured, SEED))
    return Timed(measured.application, *measured.x.shape, seconds, refits, correlation)


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the rank correlation of two importances."""
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)


def _row(one: Timed) -> tuple[str, ...]:
    size = f"{one.rows} x {one.columns}"
    ratio = one.refits / one.seconds
    times = f"{one.seconds:.2f}", f"{one.refits:.1f}", f"{ratio:.0f}"
    return (one.name, size, *times, f"{one.correlation:.2f}")


def _median(timed: list[Timed]) -> tuple[str, ...]:
    middle = (
        f"{median(one.seconds for one in timed):.2f}",
        f"{median(one.refits for one in timed):.1f}",
        f"{median(one.refits / one.seconds for one in timed):.0f}",
        f"{median(one.correlation for one in timed):.2f}",
    )
    return (f"median of {len(timed)} applications", "", *middle)


def _all_profiles() -> Table:
    before, found = load(), table("sparecores")
    measured = [found.measured(name) for name in found.covering(APPLICATIONS)]
    start = time.perf_counter()
    profiles = side_by_side(_profile, measured, JOBS, "profiles of sparecores")
    seconds = time.perf_counter() - start
    enough = sum(one.trust.enough for one in profiles)
    rows, columns = max(one.x.shape for one in measured)
    return Table(
        "All profiles of sparecores, with trust figures",
        COMMAND,
        ("applications", "machines x stressors", "processes", "seconds", "wanted", "trusted"),
        [
            (str(len(profiles)), f"up to {rows} x {columns}", str(JOBS), f"{seconds:.0f}", "under 300",
             str(enough)),
        ],
        [f"{PARAMS.resamples} resamples each; reading the data is not counted.", busy(before)],
    )  # fmt: skip


def _profile(measured: Measured) -> Profile:
    return profile(measured, PARAMS, SEED)
