"""False alarms of the test of two profiles: the same application on disjoint machines; and its power."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.fingerprints import JOBS, present, table
from benchmarks.table import SEED, Table, busy, load
from data.errors import InputError
from data.fingerprints.params import Profiling
from data.parallel import Compute, side_by_side
from features.fingerprints.matrix import Measured
from training.fingerprints.differences import adjusted, difference, exchanged
from training.fingerprints.profiles import profile

PARAMS = Profiling()
APPLICATIONS = {"quiho": 120, "sparecores": 40}
#: Halves of an application by each way to halve.
HALVES = {"quiho": 5, "sparecores": 3}
#: Pairs of different applications.
PAIRS = 60
#: Machines a side where there are few.
FEW = (10, 15, 20)
#: Applications whose whole profiles are made, with so many machines a side.
WHOLE = (20, 15)
#: What a side needs to have a profile.
LEAST = 4
Flags = NDArray[np.bool_]
Half = Callable[[Measured, np.random.Generator], tuple[Flags, Flags]]


@dataclass(frozen=True)
class Way:
    """A way to make two sides out of the machines: a row of the table.

    `whole`: both profiles are made and compared, as ``perfjudge irup diff`` does; else the pair is only
    tested, which gives the same p-values.
    """

    name: str
    half: Half
    whole: bool = False
    least: int = LEAST


@dataclass(frozen=True)
class Case:
    """Two sides to compare: applications, and the machines of either; `seed` is that of the exchanges."""

    way: Way
    a: Measured
    b: Measured
    first: NDArray[np.str_]
    second: NDArray[np.str_]
    seed: int

    def sides(self) -> tuple[Measured, Measured]:
        """Return a and b on their machines."""
        a, b = self.a, self.b
        return a.rows(np.isin(a.machines, self.first)), b.rows(np.isin(b.machines, self.second))


def main(asked: Sequence[str]) -> None:
    """Measure, print and write the pages."""
    for name in present(asked, *APPLICATIONS):
        before, found = load(), table(name)
        measured = [found.measured(one).by_machine() for one in found.covering(APPLICATIONS[name])]
        cases = [*alike(measured, HALVES[name]), *apart(measured)]
        alarms = side_by_side(alarm, cases, Compute(JOBS), f"pairs of profiles, {name}")
        counted = pd.DataFrame({"way": [case.way.name for case in cases], "alarm": alarms})
        Table(
            f"Two profiles that differ significantly, {name}",
            "python -m benchmarks.profiles alarms",
            {"what is compared": "", "pairs": "d", "significant": "d", "share": ".1%"},
            list(
                counted.groupby("way", sort=False)["alarm"].agg(["size", "sum", "mean"]).itertuples(name=None)
            ),
            [
                f"Significant: some stressor moved at {PARAMS.significance:g}, adjusted for all stressors.",
                "Wanted where the application is the same: at most 5 %.",
                f"{PARAMS.resamples} exchanges; {len(measured)} applications; halves drawn for each pair.",
                f"Pairs with fewer machines a side than said (halves: {LEAST}) are left out.",
                "Whole profiles: made and compared as `perfjudge irup diff` does.",
                "Elsewhere the pair is only tested, which gives the same p-values.",
                busy(before),
            ],
        ).publish(f"fingerprints-alarms-{name}")


def alike(measured: list[Measured], number: int) -> Iterator[Case]:
    """Yield pairs of the same application on disjoint machines."""
    pairs = [(one, one) for one in measured]
    for how, half in (("machine", by_machine), ("CPU model", by_cpu)):
        yield from _halved(Way(f"same application, halves by {how}", half), pairs * number)
    for machines in FEW:
        for how, half in (("machines", by_machine), ("machines of other CPU models", by_cpu)):
            way = f"same application, {machines} {how} a side"
            yield from _halved(Way(way, partial(few, half, machines), least=machines), pairs)
    applications, machines = WHOLE
    way = f"same application, {machines} machines a side, whole profiles"
    chosen = pairs[:: max(len(pairs) // applications, 1)][:applications]
    yield from _halved(Way(way, partial(few, by_machine, machines), whole=True, least=machines), chosen)


def apart(measured: list[Measured]) -> Iterator[Case]:
    """Yield pairs of applications of different kinds."""
    kinds = [one.application.replace(":", "-").partition("-")[0] for one in measured]
    both = product(zip(measured, kinds, strict=True), repeat=2)
    every = [(a, b) for (a, kind), (b, other) in both if kind != other]
    chosen = np.random.default_rng(SEED).choice(len(every), min(PAIRS, len(every)), replace=False)
    pairs = [every[index] for index in chosen]
    halves = {"halves by machine": by_machine, "halves by CPU model": by_cpu}
    for how, half in {"the same machines": together, **halves}.items():
        yield from _halved(Way(f"different applications, {how}", half), pairs)


def _halved(way: Way, pairs: list[tuple[Measured, Measured]]) -> Iterator[Case]:
    generator = np.random.default_rng([SEED, crc32(way.name.encode())])
    for a, b in pairs:
        both = a.rows(np.isin(a.machines, b.machines))
        first, second = (both.machines[part] for part in way.half(both, generator))
        case = Case(way, a, b, first, second, int(generator.integers(2**31)))
        if all(len(side.y) >= way.least and np.ptp(side.y) > 0 for side in case.sides()):
            yield case


def together(measured: Measured, _: np.random.Generator) -> tuple[Flags, Flags]:
    """Return all machines twice."""
    every = np.ones(len(measured.y), bool)
    return every, every


def by_machine(measured: Measured, generator: np.random.Generator) -> tuple[Flags, Flags]:
    """Return two halves of the machines, drawn at random."""
    first = np.zeros(len(measured.y), bool)
    first[generator.permutation(len(first))[: len(first) // 2]] = True
    return first, ~first


def by_cpu(measured: Measured, generator: np.random.Generator) -> tuple[Flags, Flags]:
    """Return the machines of two halves of the CPU models, drawn at random."""
    models = generator.permutation(np.unique(measured.cpus))
    first = np.isin(measured.cpus, models[: len(models) // 2])
    return first, ~first


def few(half: Half, machines: int, measured: Measured, generator: np.random.Generator) -> tuple[Flags, Flags]:
    """Return some of the machines of each half."""
    one, other = half(measured, generator)
    for side in (one, other):
        side[generator.permutation(np.flatnonzero(side))[machines:]] = False
    return one, other


def alarm(case: Case) -> bool:
    """Tell whether the two profiles differ significantly."""
    if case.way.whole:
        try:
            a, b = (profile(side, PARAMS, SEED) for side in case.sides())
        except InputError:
            return False
        return difference(a, b, PARAMS, case.seed).significant
    scores = exchanged(*case.sides(), PARAMS.resamples, case.seed)
    return bool((adjusted(scores.b - scores.a) <= PARAMS.significance).any())
