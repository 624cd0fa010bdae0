"""How often a ranking is trusted where one stressor is the cause, and where none is.

Run it with ``python -m benchmarks.trusted [--seeds N]``; it writes ``docs/results/fingerprints-trust.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.profiles import JOBS, present, table
from benchmarks.table import SEED, Table, busy, load
from data.fingerprints.params import Profiling
from data.parallel import Compute, side_by_side
from features.fingerprints.matrix import EVERY_THREAD, Measured
from training.fingerprints.importance import log_rates
from training.fingerprints.profiles import Profile, profile

Floats = NDArray[np.float64]
#: Of these many machines, so many CPU models.
MACHINES, CPUS = 24, 12
POWER = 0.9


@dataclass(frozen=True)
class MadeUp:
    """An application and the stressor that it follows; None where it follows none alone."""

    measured: Measured
    cause: str | None


Maker = Callable[[Measured, np.random.Generator], MadeUp]


def some(every: Measured, generator: np.random.Generator) -> Measured:
    """Draw `MACHINES` machines of `CPUS` CPU models, as many of each, with their rates on one thread."""
    names, counts = np.unique(every.cpus, return_counts=True)
    each = MACHINES // CPUS
    models = generator.choice(names[counts >= each], CPUS, replace=False)
    rows = [generator.choice(np.flatnonzero(every.cpus == model), each, replace=False) for model in models]
    single = [n for n, column in enumerate(every.columns) if not column.endswith(EVERY_THREAD)]
    return _complete(every.rows(np.concatenate(rows)).only(single))


def whole(every: Measured, _: np.random.Generator) -> Measured:
    return _complete(every)


def _complete(measured: Measured) -> Measured:
    """Fill gaps, and leave out what is the same everywhere."""
    logs = log_rates(measured.x)
    varying = np.flatnonzero(np.ptp(logs, axis=0) > 0).tolist()
    return replace(measured, x=np.exp(logs)).only(varying)


def following(noise: float, stressor: str | None = None) -> Maker:
    """Make applications whose time is a power of one rate, `noise` aside; of any stressor without one."""

    def made(machines: Measured, generator: np.random.Generator) -> MadeUp:
        cause = stressor or str(generator.choice(machines.columns))
        rate = np.log(machines.x[:, machines.columns.index(cause)])
        return MadeUp(timed(machines, -POWER * rate + generator.normal(0, noise, len(rate))), cause)

    return made


def unrelated(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application that every CPU model runs at a speed of its own."""
    names, rows = np.unique(machines.cpus, return_inverse=True)
    noise = generator.normal(0, 0.02, len(rows))
    return MadeUp(timed(machines, generator.normal(0, 0.3, len(names))[rows] + noise), None)


def scattered(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application whose time has nothing to do with the machine."""
    return MadeUp(timed(machines, generator.normal(0, 0.3, len(machines.y))), None)


def flat(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application that leans on everything alike."""
    logs = np.log(machines.x)
    common = ((logs - logs.mean(axis=0)) / logs.std(axis=0)).mean(axis=1)
    return MadeUp(timed(machines, -0.3 * common + generator.normal(0, 0.02, len(common))), None)


def timed(machines: Measured, logs: Floats) -> Measured:
    """Return the machines with an application of these logarithms of seconds."""
    return replace(machines, application="made", metric="seconds", better="lower", y=np.exp(logs))


PARAMS = Profiling()
#: The application whose machines stand for the set, and how machines are drawn from them.
MEASURED = {"quiho": ("stream-nadds-add-1", whole), "sparecores": ("passmark:CPU_SORTING", some)}
MADE: dict[str, Maker] = {
    "follows stream within 2 %": following(0.02, "stream"),
    "follows any one stressor within 2 %": following(0.02),
    "follows any one stressor within 10 %": following(0.1),
    "leans on everything alike": flat,
    "each CPU model has a speed of its own": unrelated,
    "each machine has a speed of its own": scattered,
}
COLUMNS = {
    "fingerprints": "", "the application": "", "made": "d", "trusted": ".1%", "cause among leaders": ".1%",
}  # fmt: skip
#: An application of the paper whose first five stressors cannot be told apart.
FLAT = "hpccg"


@dataclass(frozen=True)
class MadeCase:
    """One application to make and to profile."""

    data: str
    what: str
    every: Measured
    seed: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40, help="applications of each kind")
    options = parser.parse_args()
    before, sets = load(), list(present(tuple(MEASURED), *MEASURED))
    cases = [case for name in sets for case in drawn(name, options.seeds)]
    found = side_by_side(judged, cases, Compute(JOBS), "rankings")
    told = pd.DataFrame({"data": [case.data for case in cases], "what": [case.what for case in cases]})
    told[["trusted", "right"]] = found
    rows = told.groupby(["data", "what"], sort=False)[["trusted", "right"]].agg(["size", "mean"])
    Table(
        "Rankings that are trusted",
        {
            "fingerprints": "",
            "the application": "",
            "made": "d",
            "trusted": ".1%",
            "cause among leaders": ".1%",
        },
        [(*key, int(row.iloc[0]), row.iloc[1], row.iloc[3]) for key, row in rows.iterrows()],
        [
            "Wanted: at most 5 % where there is no one cause (the last three of each set).",
            f"Time is the stressor's rate to the power of -{POWER:g}, with noise.",
            "quiho: the 30 machines of 8 CPU models that have most applications.",
            f"sparecores: {MACHINES} servers of {CPUS} CPU models, drawn for each; rates on one thread.",
            *(real(name) for name in sets if name == "quiho"),
            f"Leaders: the same in {PARAMS.trust.leading:.0%} of {PARAMS.resamples} resamples.",
            f"And some stressor stands out from chance at p {PARAMS.significance:g}.",
            busy(before),
        ],
    ).publish("fingerprints-trust")


def drawn(name: str, seeds: int) -> Iterator[MadeCase]:
    """Yield the applications to make on the machines of a public data set."""
    every = table(name).measured(MEASURED[name][0]).by_machine()
    for what in MADE:
        for seed in range(seeds):
            yield MadeCase(name, what, every, seed)


def judged(case: MadeCase) -> tuple[bool, bool]:
    """Tell whether the ranking is trusted, and whether the cause is then among the leaders."""
    generator = np.random.default_rng([SEED, case.seed, crc32(case.what.encode())])
    draw: Callable[[Measured, np.random.Generator], Measured] = MEASURED[case.data][1]
    made = MADE[case.what](draw(case.every, generator), generator)
    trust = profile(made.measured, PARAMS, case.seed).trust
    return trust.enough, made.cause in trust.leaders


def real(name: str) -> str:
    """Say which of the paper's applications are trusted."""
    found = table(name)
    measured = [found.measured(one) for one in found.applications]
    profiles = side_by_side(_profiled, measured, Compute(JOBS), f"profiles of {name}")
    trusted = [f"{one.application} ({', '.join(one.trust.leaders)})" for one in profiles if one.trust.enough]
    refused = next(one for one in profiles if one.application == FLAT)
    return (
        f"Of the {len(profiles)} applications of {name}, {len(trusted)} are trusted: {'; '.join(trusted)}. "
        f"{FLAT} is not: {'; '.join(refused.trust.reasons)}."
    )


def _profiled(measured: Measured) -> Profile:
    return profile(measured, PARAMS, SEED)


if __name__ == "__main__":
    from benchmarks import trusted  # noqa: PLW0406 - other processes look for its functions there

    trusted.main()
