"""How long a profile takes, beside refitting the quiho paper's regression, and whether both rank alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.fingerprints import JOBS, present, table
from benchmarks.table import SEED, Table, best, busy, clocked, load
from data.fingerprints.params import Profiling
from data.parallel import Compute, side_by_side
from features.fingerprints.matrix import KEYS, FingerprintTable, Measured
from training.fingerprints.importance import seed_shares
from training.fingerprints.profiles import Profile, profile, resamples, units

COMMAND = "python -m benchmarks.profiles speed"
#: The paper's regression is refitted so often, and the time multiplied.
REFITS = 5
#: Applications of the larger set, all of whose profiles are made.
APPLICATIONS = 40
#: The stressor that stands for an application, to have one for every run of the fingerprint.
STAND_IN = "cpu"
PARAMS = Profiling()
FACTOR = PARAMS.resamples / REFITS
COLUMNS = {
    "application": "", "runs x stressors": "", "profile, s": ".2f", f"{PARAMS.resamples} refits, s": ".1f",
    "ratio": ".0f", "rank correlation": ".2f",
}  # fmt: skip


def main(asked: Sequence[str]) -> None:
    """Measure, print and write the pages."""
    measure = {"quiho": _by_application, "sparecores": _all_profiles}
    for name in present(asked, *measure):
        measure[name](load(), table(name))


def _by_application(before: float, found: FingerprintTable) -> None:
    tasks = [whole(found), *map(found.measured, found.applications)]
    rows = side_by_side(timing, tasks, Compute(JOBS), "profiles beside refits")
    medians = np.median([row[2:] for row in rows[1:]], axis=0)
    Table(
        f"A profile with {PARAMS.resamples} resamples, beside refitting the paper's regression as often",
        COMMAND,
        COLUMNS,
        [*rows, (f"median of {len(rows) - 1} applications", "", *medians)],
        [
            "quiho, one core for each method.",
            f"The paper's regression was refitted {REFITS} times, the time multiplied by {FACTOR:g}.",
            "A profile here is all of it: importances, their intervals, and all trust figures.",
            f"First row: every run of the fingerprint; the stressor {STAND_IN} stands for an application.",
            "Rank correlation: Spearman's, of all importances by the paper's method and by ours.",
            busy(before),
        ],
    ).publish("profiles")


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


def timing(measured: Measured) -> tuple[object, ...]:
    """Time both methods, and return the values of `COLUMNS`."""
    from scipy.stats import spearmanr

    seconds, ours = clocked(partial(_profile, measured))
    weights = resamples(units(measured), REFITS, SEED)
    refits = FACTOR * best(lambda: [seed_shares(measured, SEED, counts) for counts in weights])
    correlation = spearmanr(ours.shares, seed_shares(measured, SEED)).statistic
    size = "{} x {}".format(*measured.x.shape)
    return measured.application, size, seconds, refits, refits / seconds, correlation


def _all_profiles(before: float, found: FingerprintTable) -> None:
    measured = [found.measured(name) for name in found.covering(APPLICATIONS)]
    seconds, profiles = clocked(
        lambda: side_by_side(_profile, measured, Compute(JOBS), "profiles of sparecores")
    )
    trusted = sum(one.trust.enough for one in profiles)
    size = "up to {} x {}".format(*max(one.x.shape for one in measured))
    Table(
        "All profiles of sparecores, with trust figures",
        COMMAND,
        dict.fromkeys(("applications", "machines x stressors", "processes"), "")
        | {"seconds": ".0f", "wanted": "", "trusted": "d"},
        [(len(profiles), size, JOBS, seconds, "under 300", trusted)],
        [f"{PARAMS.resamples} resamples each; reading the data is not counted.", busy(before)],
    ).publish("profiles-sparecores")


def _profile(measured: Measured) -> Profile:
    return profile(measured, PARAMS, SEED)
