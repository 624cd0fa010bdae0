"""What profiles of fingerprints are worth, on the public data: speed, stability, predictions, false alarms.

Run it with ``python -m benchmarks.profiles [PART ...]``, all parts without; each writes its pages:
``docs/results/profiles*.md`` (speed) and ``docs/results/fingerprints-<part>*.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import SEED, Table, best, busy, clocked, load
from data.errors import InputError
from data.fingerprints.formats import SOURCES
from data.fingerprints.params import Fingerprints, Profiling
from data.fingerprints.validity import decide
from data.parallel import Compute, side_by_side
from data.params import Ingest
from features.fingerprints.matrix import KEYS, FingerprintTable, Measured, featurize
from training.fingerprints.differences import adjusted, difference, exchanged
from training.fingerprints.importance import Boosting, car_scores, seed_shares
from training.fingerprints.prediction import Forecast, by_application, forecast
from training.fingerprints.profiles import Profile, overlap, profile, resamples, shares_of, top, units

JOBS = 2
SETS = ("quiho", "sparecores")
#: Directory of the public data sets.
SHARED = Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))
#: Applications of sparecores, and the median errors of a plain forest in the README of the public data.
REFERENCE = {
    "passmark:CPU_SORTING": 0.056,
    "gb:Single-Core_Clang": 0.050,
    "comp:zstd_7_t1_": 0.103,
    "comp:brotli_4_t1_": 0.136,
    "redis:SET_p16": 0.088,
    "llm:SmolLM-135M.Q4_K_M.gguf_0_128": 0.241,
}


@cache
def table(name: str, shared: Path = SHARED) -> FingerprintTable:
    """Read a public data set as the pipeline does, with the defaults of params.yaml."""
    section = Fingerprints(ingest=Ingest(format=name, path=shared / name))
    tables = SOURCES.read(section.ingest.format, [section.ingest.path]).tables
    return featurize(decide(tables, section.checks.missing).kept(tables), section.featurize.threads)


def present(asked: Sequence[str], *names: str) -> Iterator[str]:
    """Yield the names that are in `asked` and whose data exist; report the missing ones on stderr.

    Raises `InputError` where the data of none of them exist.
    """
    wanted = [name for name in names if name in asked]
    if not any((SHARED / name).is_dir() for name in wanted):
        raise InputError(f"needs {' or '.join(names)}", file=SHARED)
    for name in wanted:
        if (SHARED / name).is_dir():
            yield name
        else:
            sys.stderr.write(f"skipped {name}: {SHARED / name} is not there\n")


#: Timed refits of the paper's regression; the time is multiplied.
REFITS = 5
#: Number of applications of the larger data set whose profiles are timed.
TIMED_APPLICATIONS = 40
#: The stressor used in place of an application, as it is measured in every run of the fingerprint.
STAND_IN = "cpu"
PARAMS = Profiling()
FACTOR = PARAMS.resamples / REFITS
SPEED_COLUMNS = {
    "application": "", "runs x stressors": "", "profile, s": ".2f", f"{PARAMS.resamples} refits, s": ".1f",
    "ratio": ".0f", "rank correlation": ".2f",
}  # fmt: skip


def speed(asked: Sequence[str]) -> None:
    measure = {"quiho": _by_application, "sparecores": _all_profiles}
    for name in present(asked, *measure):
        measure[name](load(), table(name))


def _by_application(before: float, found: FingerprintTable) -> None:
    tasks = [all_runs(found), *map(found.measured, found.applications)]
    rows = side_by_side(timing, tasks, Compute(JOBS), "profiles beside refits")
    medians = np.median([row[2:] for row in rows[1:]], axis=0)
    Table(
        f"A profile with {PARAMS.resamples} resamples, beside refitting the paper's regression as often",
        SPEED_COLUMNS,
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


def all_runs(found: FingerprintTable) -> Measured:
    """Return all runs of the fingerprint, the stressor `STAND_IN` in place of an application."""
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
    """Time both methods, and return the values of `SPEED_COLUMNS`."""
    from scipy.stats import spearmanr

    seconds, ours = clocked(partial(profile_of, measured))
    weights = resamples(units(measured), REFITS, SEED)
    refits = FACTOR * best(lambda: [seed_shares(measured, SEED, counts) for counts in weights])
    correlation = spearmanr(ours.shares, seed_shares(measured, SEED)).statistic
    size = "{} x {}".format(*measured.x.shape)
    return measured.application, size, seconds, refits, refits / seconds, correlation


def _all_profiles(before: float, found: FingerprintTable) -> None:
    measured = [found.measured(name) for name in found.covering(TIMED_APPLICATIONS)]
    seconds, profiles = clocked(
        lambda: side_by_side(profile_of, measured, Compute(JOBS), "profiles of sparecores")
    )
    trusted = sum(one.trust.enough for one in profiles)
    size = "up to {} x {}".format(*max(one.x.shape for one in measured))
    Table(
        "All profiles of sparecores, with trust figures",
        dict.fromkeys(("applications", "machines x stressors", "processes"), "")
        | {"seconds": ".0f", "wanted": "", "trusted": "d"},
        [(len(profiles), size, JOBS, seconds, "under 300", trusted)],
        [f"{PARAMS.resamples} resamples each; reading the data is not counted.", busy(before)],
    ).publish("profiles-sparecores")


def profile_of(measured: Measured) -> Profile:
    return profile(measured, PARAMS, SEED)


RESAMPLES = 10
#: The paper's regression takes 40 s for one fit of a thousand servers.
BOOSTING: dict[str, Boosting] = {"quiho": "gradient-boosting", "sparecores": "xgboost"}
#: Application, number of machines, and mean overlap over the same resamples: paper's method, ours.
Overlaps = tuple[str, int, float, float]
#: By application, the most important stressor according to the paper's data.
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
    for name in present(asked, *BOOSTING):
        before, found = load(), table(name)
        tasks = [found.measured(one) for one in found.covering(applications)]
        rows = side_by_side(
            partial(overlapping, boosting=BOOSTING[name]), tasks, JOBS, f"resamples of {name}"
        )
        Table(
            f"Overlap of the top five over resamples of the machines, {name}",
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
    """Return how much the top five stressors of different resamples overlap, by both methods."""
    machines = measured.by_machine()
    seeds = [
        top(seed_shares(measured, SEED, counts, boosting))
        for counts in resamples(units(measured), RESAMPLES, SEED)
    ]
    ours = shares_of(car_scores(machines, resamples(units(machines), RESAMPLES, SEED)))
    return measured.application, len(machines.y), overlap(seeds), overlap([top(shares) for shares in ours])


def higher(rows: Sequence[Overlaps]) -> str:
    """Return a sentence: for how many applications our profile is the more stable."""
    better = sum(ours > seed for _, _, seed, ours in rows)
    equal = sum(ours == seed for _, _, seed, ours in rows)
    share = f"{better} of {len(rows)} applications ({better / len(rows):.1%}; {equal} equal)"
    return f"Ours is higher for {share}; wanted: 80 %."


def firsts(asked: Sequence[str]) -> None:
    """Find the most important stressors of the paper's profiles by its settings; write the page."""
    (quiho,) = present(asked, "quiho")
    measured = [table(quiho).measured(name) for name in FIRST]
    found = side_by_side(three, measured, Compute(JOBS), "the quiho paper's settings")
    rows = [(name, wanted, *cells) for (name, wanted), cells in zip(FIRST.items(), found, strict=True)]
    right = sum(boosted.split(",")[0] == wanted for _, wanted, boosted, *_ in rows)
    Table(
        "The most important stressors by the quiho paper's settings, quiho",
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
    """Return the first three stressors by each of three methods, and the trust verdict of ours."""
    ours = profile(measured, Profiling(), SEED)
    boosted = (seed_shares(measured, SEED, boosting=name) for name in ("gradient-boosting", "xgboost"))
    first, second = (_first_names(measured, shares) for shares in boosted)
    return first, second, ", ".join(ours.top[:SHOWN]), ours.trust.verdict


def _first_names(measured: Measured, shares: NDArray[np.float64]) -> str:
    return ", ".join(measured.columns[column] for column in np.argsort(-shares, kind="stable")[:SHOWN])


WANTED = 0.8
PREDICTION_COLUMNS = {
    "application": "", "ours": ".2%", "plain forest": ".2%", "plain forest, README of the data": ".1%",
    "ratio": ".3f", "coverage": ".1%",
}  # fmt: skip


def prediction(asked: Sequence[str]) -> None:
    (name,) = present(asked, "sparecores")
    before, found = load(), table(name)
    tasks = [
        Forecast(found.measured(name).by_machine(), (entry,), Profiling().confidence, "xgboost", SEED)
        for name in REFERENCE
        for entry in ("ensemble", "forest")
    ]
    predictions = pd.concat(side_by_side(forecast, tasks, Compute(JOBS), "predictions"), ignore_index=True)
    measures = by_application(predictions, 0.1).set_index(["application", "entry"])
    errors = measures["median_error"].unstack()
    coverage = measures["coverage"].unstack()["ensemble"]
    ours, forest = errors["ensemble"], errors["forest"]
    ratios = ours / forest
    good = int((ratios <= WANTED).sum())
    Table(
        "Median error on CPU models held out, sparecores",
        PREDICTION_COLUMNS,
        [
            (name, ours[name], forest[name], reference, ratios[name], coverage[name])
            for name, reference in REFERENCE.items()
        ],
        [
            f"The ratio is at most {WANTED} for {good} of {len(REFERENCE)} applications; wanted: 6.",
            "5 folds of whole CPU models, the same for both.",
            "The forest: 60 trees on the logarithms of all columns.",
            "Coverage: true values inside our interval of 90 %, whose margin comes from the other folds.",
            busy(before),
        ],
    ).publish("fingerprints-prediction")


APPLICATIONS = {"quiho": 120, "sparecores": 40}
#: Divisions into halves per application and way of dividing.
HALVES = {"quiho": 5, "sparecores": 3}
#: Pairs of different applications.
PAIRS = 60
#: Machines per side in comparisons of few machines.
FEW = (10, 15, 20)
#: Applications whose whole profiles are computed, and machines per side.
WHOLE = (20, 15)
#: Least number of machines on a side for a profile.
LEAST = 4
Flags = NDArray[np.bool_]
Half = Callable[[Measured, np.random.Generator], tuple[Flags, Flags]]


@dataclass(frozen=True)
class Way:
    """A way to divide the machines into two sides: a row of the table.

    `whole`: both profiles are computed and compared, as ``perfjudge irup diff`` does; otherwise the pair is
    only tested, which gives the same p-values.
    """

    name: str
    half: Half
    whole: bool = False
    least: int = LEAST


@dataclass(frozen=True)
class Case:
    """Two sides to compare: an application and its machines each; `seed` is that of the permutations."""

    way: Way
    a: Measured
    b: Measured
    first: NDArray[np.str_]
    second: NDArray[np.str_]
    seed: int

    def sides(self) -> tuple[Measured, Measured]:
        a, b = self.a, self.b
        return a.rows(np.isin(a.machines, self.first)), b.rows(np.isin(b.machines, self.second))


def alarms(asked: Sequence[str]) -> None:
    for name in present(asked, *APPLICATIONS):
        before, found = load(), table(name)
        measured = [found.measured(one).by_machine() for one in found.covering(APPLICATIONS[name])]
        cases = [*alike(measured, HALVES[name]), *apart(measured)]
        alarms = side_by_side(alarm, cases, Compute(JOBS), f"pairs of profiles, {name}")
        counted = pd.DataFrame({"way": [case.way.name for case in cases], "alarm": alarms})
        Table(
            f"Two profiles that differ significantly, {name}",
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
    """Return at most `machines` machines of each half, drawn at random."""
    one, other = half(measured, generator)
    for side in (one, other):
        side[generator.permutation(np.flatnonzero(side))[machines:]] = False
    return one, other


def alarm(case: Case) -> bool:
    """Return whether the two profiles differ significantly."""
    if case.way.whole:
        try:
            a, b = (profile(side, PARAMS, SEED) for side in case.sides())
        except InputError:
            return False
        return difference(a, b, PARAMS, case.seed).significant
    scores = exchanged(*case.sides(), PARAMS.resamples, case.seed)
    return bool((adjusted(scores.b - scores.a) <= PARAMS.significance).any())


def main() -> None:
    parts = {
        "speed": speed,
        "stability": lambda asked: stability(asked, options.applications),
        "prediction": prediction,
        "alarms": alarms,
        "seed": firsts,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=120, help="of each set, for stability")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), help="which public sets")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(parts)}")
    options = parser.parse_args()
    for part in set(options.parts) - set(parts):
        parser.error(f"{part!r} is no part; expected some of: {', '.join(parts)}")
    for part in options.parts or parts:
        try:
            parts[part](options.data)
        except InputError as exc:
            sys.stderr.write(f"skipped {part}: {exc}\n")


if __name__ == "__main__":
    from benchmarks import profiles  # noqa: PLW0406 - other processes look for its functions there

    profiles.main()
