"""Profiles of fingerprints on the public data: speed, stability, false alarms."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from operator import eq, gt
from pathlib import Path
from statistics import fmean
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.table import SEED, SHARED, Table, load_note, time_call
from data.errors import InputError
from data.fingerprints.formats import SOURCES
from data.fingerprints.params import Fingerprints, Profiling
from data.fingerprints.validity import decide_validity
from data.parallel import Compute, side_by_side
from data.params import Ingest
from features.fingerprints.matrix import KEYS, FingerprintTable, Measured, fingerprint_matrix
from training.fingerprints.differences import adjusted_p_values, exchange_performances, profile_difference
from training.fingerprints.importance import Boosting, car_scores, seed_shares
from training.fingerprints.profiles import (
    Profile,
    infer_profile,
    mean_overlap,
    resample_weights,
    resampling_units,
    shares_of,
    top_columns,
)

JOBS = 2
SETS = ("quiho", "sparecores")


@cache
def read_table(name: str, shared: Path = SHARED) -> FingerprintTable:
    """Read a public data set as the pipeline does, with the defaults of params.yaml."""
    section = Fingerprints(ingest=Ingest(format=name, path=shared / name))
    tables = SOURCES.read(section.ingest.format, [section.ingest.path]).tables
    return fingerprint_matrix(
        decide_validity(tables, section.checks.max_missing_fraction).select_kept(tables),
        section.featurize.threads,
    )


def present_sets(set_names: Sequence[str], *names: str) -> Iterator[str]:
    """Yield the names that are in `set_names` and whose data exist; report the missing ones on stderr.

    Raises `InputError` where the data of none of them exist.
    """
    wanted = [name for name in names if name in set_names]
    if not any((SHARED / name).is_dir() for name in wanted):
        raise InputError(f"needs {' or '.join(names)}", file=SHARED)
    for name in wanted:
        if (SHARED / name).is_dir():
            yield name
        else:
            sys.stderr.write(f"skipped {name}: {SHARED / name} is not there\n")


def covering_measurements(fingerprints: FingerprintTable, number: int) -> list[Measured]:
    return [fingerprints.measurements_of(name) for name in fingerprints.covering_applications(number)]


#: Timed refits of the paper's regression; the time is multiplied.
REFITS = 5
#: Number of applications of the larger data set whose profiles are timed.
TIMED_APPLICATIONS = 40
#: The stressor used in place of an application, as it is measured in every run of the fingerprint.
STAND_IN = "cpu"
PARAMS = Profiling()
FACTOR = PARAMS.n_bootstrap / REFITS
SPEED_COLUMNS = {
    "application": "", "runs x stressors": "", "profile, s": ".2f", f"{PARAMS.n_bootstrap} refits, s": ".1f",
    "ratio": ".0f", "rank correlation": ".2f",
}  # fmt: skip


def write_speed(set_names: Sequence[str], _: int) -> None:
    for name in present_sets(set_names, *SETS):
        {"quiho": _write_quiho_speed, "sparecores": _write_sparecores_speed}[name](read_table(name))


def _write_quiho_speed(fingerprints: FingerprintTable) -> None:
    # every run of the fingerprint, the stressor `STAND_IN` in place of an application
    runs = fingerprints.runs.dropna(subset=STAND_IN)
    rates = runs.drop(columns=[*KEYS, STAND_IN])
    all_runs = Measured(
        *(f"{STAND_IN} (stressor)", "bogo operations/s", "higher", tuple(rates.columns)),
        *(rates.to_numpy(np.float64), runs[STAND_IN].to_numpy(np.float64)),
        *(runs[name].to_numpy(str) for name in ("machine", "cpu_model")),
    )
    tasks = [all_runs, *map(fingerprints.measurements_of, fingerprints.applications)]
    rows = side_by_side(time_methods, tasks, Compute(JOBS), "profiles beside refits")
    medians = np.median([row[2:] for row in rows[1:]], axis=0)
    rows.append((f"median of {len(rows) - 1} applications", "", *medians))
    notes = [
        "quiho, one core for each method.",
        f"The paper's regression was refitted {REFITS} times, the time multiplied by {FACTOR:g}.",
        "A profile here is all of it: importances, their intervals, and all trust figures.",
        f"First row: every run of the fingerprint; the stressor {STAND_IN} stands for an application.",
        "Rank correlation: Spearman's, of all importances by the paper's method and by ours.",
        load_note(),
    ]
    title = f"A profile with {PARAMS.n_bootstrap} resamples, beside refitting the paper's regression as often"
    Table(title, SPEED_COLUMNS, rows, notes).publish("profiles")


def time_methods(measured: Measured) -> tuple[object, ...]:
    """Time both methods, and return the values of `SPEED_COLUMNS`."""
    from scipy.stats import spearmanr

    seconds, ours = time_call(partial(profile_of, measured))
    weights = resample_weights(resampling_units(measured), REFITS, SEED)
    refits = FACTOR * time_call(lambda: [seed_shares(measured, SEED, counts) for counts in weights])[0]
    correlation = spearmanr(ours.shares, seed_shares(measured, SEED)).statistic
    size = "{} x {}".format(*measured.x.shape)
    return measured.application, size, seconds, refits, refits / seconds, correlation


def _write_sparecores_speed(fingerprints: FingerprintTable) -> None:
    measured = covering_measurements(fingerprints, TIMED_APPLICATIONS)
    infer_all = partial(side_by_side, profile_of, measured, Compute(JOBS), "profiles of sparecores")
    seconds, profiles = time_call(infer_all)
    trusted = sum(application.trust.enough for application in profiles)
    size = "up to {} x {}".format(*max(application.x.shape for application in measured))
    columns = dict.fromkeys(("applications", "machines x stressors", "processes"), "")
    columns |= {"seconds": ".0f", "wanted": "", "trusted": "d"}
    rows = [(len(profiles), size, JOBS, seconds, "under 300", trusted)]
    notes = [f"{PARAMS.n_bootstrap} resamples each; reading the data is not counted.", load_note()]
    Table("All profiles of sparecores, with trust figures", columns, rows, notes).publish(
        "profiles-sparecores"
    )


def profile_of(measured: Measured) -> Profile:
    return infer_profile(measured, PARAMS, SEED)


RESAMPLES = 10
#: The paper's regression takes 40 s for one fit of a thousand servers.
BOOSTING: dict[str, Boosting] = {"quiho": "gradient-boosting", "sparecores": "xgboost"}
#: By application, the most important stressor according to the paper's data.
FIRST = {
    **dict.fromkeys(("hpccg", "ssca", "scikit-learn"), "cache"),
    **{f"mariadb{version}-innodb-load": "msync" for version in ("-10.3.2", "-5.5.58", "")},
}
SHOWN = 3


def write_stability(set_names: Sequence[str], applications: int) -> None:
    for name in present_sets(set_names, *BOOSTING):
        tasks = covering_measurements(read_table(name), applications)
        overlap = partial(top_five_overlap, boosting=BOOSTING[name])
        rows = side_by_side(overlap, tasks, Compute(JOBS), f"resamples of {name}")
        better, equal = (sum(compare(row[3], row[2]) for row in rows) for compare in (gt, eq))
        share = f"{better} of {len(rows)} applications ({better / len(rows):.1%}; {equal} equal)"
        means = (f"mean of {len(rows)}", "", *(fmean(row[side] for row in rows) for side in (2, 3)))
        notes = [
            f"Ours is higher for {share}; wanted: 80 %.",
            f"Mean Jaccard index of all pairs of {RESAMPLES} bootstrap resamples, the same for both.",
            "Resampled are whole CPU models where there are ten or more, whole machines elsewhere.",
            f"The paper's method by {BOOSTING[name]}, on all runs; ours on machines.",
            load_note(),
        ]
        title = f"Overlap of the top five over resamples of the machines, {name}"
        columns = {"application": "", "machines": "", "paper's method": ".3f", "ours": ".3f"}
        Table(title, columns, [*rows, means], notes).publish(f"fingerprints-stability-{name}")


def top_five_overlap(measured: Measured, boosting: Boosting) -> tuple[str, int, float, float]:
    """Return application, machines, and the mean overlap over the same resamples: paper's method, ours."""
    machines = measured.by_machine()
    weights = resample_weights(resampling_units(measured), RESAMPLES, SEED)
    seeds = (seed_shares(measured, SEED, counts, boosting) for counts in weights)
    ours = shares_of(car_scores(machines, resample_weights(resampling_units(machines), RESAMPLES, SEED)))
    overlaps = [mean_overlap(top_columns(np.array([*shares]))) for shares in (seeds, ours)]
    return measured.application, len(machines.y), *overlaps


def write_first_stressors(set_names: Sequence[str], _: int) -> None:
    (quiho,) = present_sets(set_names, "quiho")
    measured = [read_table(quiho).measurements_of(name) for name in FIRST]
    first_stressors = side_by_side(first_three, measured, Compute(JOBS), "the quiho paper's settings")
    rows = [(*wanted, *cells) for wanted, cells in zip(FIRST.items(), first_stressors, strict=True)]
    right = sum(boosted.split(",")[0] == wanted for _, wanted, boosted, *_ in rows)
    columns = dict.fromkeys(
        ("application", "wanted first", "gradient boosting", "XGBoost", "ours", "trust"), ""
    )
    notes = [
        f"Gradient boosting has the wanted one first for {right} of {len(rows)} applications.",
        "On few machines many splits are equally good.",
        "Gradient boosting draws one of them, XGBoost takes the first by name.",
        f"1000 trees, depth 4, rate 0.01, on z-scores of all runs; random state {SEED}.",
    ]
    title = "The most important stressors by the quiho paper's settings, quiho"
    Table(title, columns, rows, notes).publish("fingerprints-seed")


def first_three(measured: Measured) -> list[str]:
    """Return the first three stressors by each of three methods, and the trust verdict of ours."""
    ours, first = infer_profile(measured, Profiling(), SEED), []
    for boosting in ("gradient-boosting", "xgboost"):
        order = np.argsort(-seed_shares(measured, SEED, boosting=boosting), kind="stable")
        first.append(", ".join(measured.columns[column] for column in order[:SHOWN]))
    return [*first, ", ".join(ours.top_stressors[:SHOWN]), ours.trust.ranking_verdict]


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
Halves = tuple[NDArray[np.bool_], NDArray[np.bool_]]
#: A way to divide machines into two sides.
Half = Callable[[Measured, Generator], Halves]


@dataclass(frozen=True)
class Case:
    """Two sides to compare: an application and its machines each; `seed` is that of the permutations.

    `whole`: both profiles are computed and compared, as ``perfjudge irup diff`` does; otherwise the pair is
    only tested, which gives the same p-values.
    """

    way: str
    whole: bool
    a: Measured
    b: Measured
    first: NDArray[np.str_]
    second: NDArray[np.str_]
    seed: int

    def sides(self) -> tuple[Measured, Measured]:
        a, b = self.a, self.b
        return a.select_rows(np.isin(a.machines, self.first)), b.select_rows(np.isin(b.machines, self.second))

    def is_alarm(self) -> bool:
        """Return whether the two profiles differ significantly."""
        if self.whole:
            try:
                a, b = map(profile_of, self.sides())
            except InputError:
                return False
            return profile_difference(a, b, PARAMS, self.seed).significant
        scores = exchange_performances(*self.sides(), PARAMS.n_bootstrap, self.seed)
        return bool((adjusted_p_values(scores.b - scores.a) <= PARAMS.significance).any())


def write_alarms(set_names: Sequence[str], _: int) -> None:
    for name in present_sets(set_names, *APPLICATIONS):
        covering = covering_measurements(read_table(name), APPLICATIONS[name])
        measured = [measurement.by_machine() for measurement in covering]
        cases = [*same_application_pairs(measured, HALVES[name]), *other_application_pairs(measured)]
        alarms = side_by_side(Case.is_alarm, cases, Compute(JOBS), f"pairs of profiles, {name}")
        counted = pd.DataFrame({"way": [case.way for case in cases], "alarm": alarms})
        counts = counted.groupby("way", sort=False)["alarm"].agg(["size", "sum", "mean"])
        notes = [
            f"Significant: some stressor moved at {PARAMS.significance:g}, adjusted for all stressors.",
            "Wanted where the application is the same: at most 5 %.",
            f"{PARAMS.n_bootstrap} exchanges; {len(measured)} applications; halves drawn for each pair.",
            f"Pairs with fewer machines a side than said (halves: {LEAST}) are left out.",
            "Whole profiles: made and compared as `perfjudge irup diff` does.",
            "Elsewhere the pair is only tested, which gives the same p-values.",
            load_note(),
        ]
        columns = {"what is compared": "", "pairs": "d", "significant": "d", "share": ".1%"}
        table = Table(
            f"Two profiles that differ significantly, {name}", columns, list(counts.itertuples()), notes
        )
        table.publish(f"fingerprints-alarms-{name}")


def same_application_pairs(measured: list[Measured], number: int) -> Iterator[Case]:
    """Yield pairs of the same application on disjoint machines."""
    pairs = [(measurement, measurement) for measurement in measured]
    for how, half in (("machine", by_machine), ("CPU model", by_cpu)):
        yield from _halved_cases(f"same application, halves by {how}", half, pairs * number)
    for machines in FEW:
        for how, half in (("machines", by_machine), ("machines of other CPU models", by_cpu)):
            limited = partial(limited_halves, half, machines)
            yield from _halved_cases(f"same application, {machines} {how} a side", limited, pairs, machines)
    applications, machines = WHOLE
    name = f"same application, {machines} machines a side, whole profiles"
    chosen = pairs[:: max(len(pairs) // applications, 1)][:applications]
    limited = partial(limited_halves, by_machine, machines)
    yield from _halved_cases(name, limited, chosen, machines, whole=True)


def other_application_pairs(measured: list[Measured]) -> Iterator[Case]:
    """Yield pairs of applications of different kinds."""
    kinds = [measurement.application.replace(":", "-").partition("-")[0] for measurement in measured]
    application_pairs = product(zip(measured, kinds, strict=True), repeat=2)
    every = [(a, b) for (a, kind), (b, other) in application_pairs if kind != other]
    chosen = np.random.default_rng(SEED).choice(len(every), min(PAIRS, len(every)), replace=False)
    pairs = [every[index] for index in chosen]
    halves = {"halves by machine": by_machine, "halves by CPU model": by_cpu}
    for how, half in {"the same machines": all_machines, **halves}.items():
        yield from _halved_cases(f"different applications, {how}", half, pairs)


def _halved_cases(
    way: str, half: Half, pairs: list[tuple[Measured, Measured]], least: int = LEAST, *, whole: bool = False
) -> Iterator[Case]:
    generator = np.random.default_rng([SEED, crc32(way.encode())])
    for a, b in pairs:
        shared = a.select_rows(np.isin(a.machines, b.machines))
        first, second = (shared.machines[part] for part in half(shared, generator))
        case = Case(way, whole, a, b, first, second, int(generator.integers(2**31)))
        if all(len(side.y) >= least and np.ptp(side.y) > 0 for side in case.sides()):
            yield case


def all_machines(measured: Measured, _: Generator) -> Halves:
    every = np.ones(len(measured.y), bool)
    return every, every


def by_machine(measured: Measured, generator: Generator) -> Halves:
    first = np.zeros(len(measured.y), bool)
    first[generator.permutation(len(first))[: len(first) // 2]] = True
    return first, ~first


def by_cpu(measured: Measured, generator: Generator) -> Halves:
    models = generator.permutation(np.unique(measured.cpus))
    first = np.isin(measured.cpus, models[: len(models) // 2])
    return first, ~first


def limited_halves(half: Half, machines: int, measured: Measured, generator: Generator) -> Halves:
    """Return at most `machines` machines of each half, drawn at random."""
    first, other = half(measured, generator)
    for side in (first, other):
        side[generator.permutation(np.flatnonzero(side))[machines:]] = False
    return first, other


PARTS = {
    "speed": write_speed, "stability": write_stability, "alarms": write_alarms, "seed": write_first_stressors,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=120, help="of each set, for stability")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), help="which public sets")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    options = parser.parse_args()
    for part in set(options.parts) - set(PARTS):
        parser.error(f"{part!r} is no part; expected some of: {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        try:
            PARTS[part](options.data, options.applications)
        except InputError as exc:
            sys.stderr.write(f"skipped {part}: {exc}\n")


if __name__ == "__main__":
    from benchmarks import profiles  # noqa: PLW0406 - other processes look for its functions there

    profiles.main()
