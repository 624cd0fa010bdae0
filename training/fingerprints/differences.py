"""Significance test of the difference of two profiles, per stressor (quiho paper, section 5.3).

A bootstrap of each profile by itself calls one in five pairs of equal profiles different (10 machines a side,
40 stressors). So performances are exchanged between both sides, under the hypothesis that the profiles are
equal, which keeps the significance level for few machines, too. Machines of one CPU model are near-copies and
are exchanged together: exchanged one by one, four of five pairs of equal profiles on 9 simulated CPU models
of 3 machines are called different.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import comb, prod
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.fingerprints.params import Profiling
from data.fingerprints.tables import MEMORY, VM
from features.fingerprints.matrix import FingerprintTable, Measured, categories_of, columns_by_category
from training.fingerprints.importance import car_operator, car_scores, log_rates
from training.fingerprints.profiles import Profile, shares_of, sums_of, top_columns
from training.fingerprints.trust import too_few_messages

Floats = NDArray[np.float64]
#: Least number of CPU models (or machines) for which an exchange can be significant after adjusting for all
#: stressors.
FEW = 8
#: Number of applications that are tested, and of halvings of the machines of each.
APPLICATIONS, HALVINGS = 20, 5


@dataclass(frozen=True)
class ProfileDifference:
    """Two profiles compared.

    `paired`: both were measured on the same machines, whose performances were exchanged pair by pair; `units`
    is the number of machines (or CPU models) exchanged. `features` has a row per stressor, least p-value
    first: ``stressor, importance_a, importance_b`` (largest = 100), ``change`` (b - a), ``score_a, score_b``
    (signed correlation-adjusted scores, which are tested), ``p_value`` (adjusted for all stressors),
    ``moved`` (bool: significant). `categories` has the same columns, without scores, per ``category`` of
    table 1 of the fingerprint paper, whose shares are tested. `stops_at` is the stressor at which the paper's
    algorithm stops: the first, in the ranking of a, whose importances differ by more than `tolerance` (of
    100); None where the profiles are equivalent. `reasons` tell why the test is unreliable (few machines);
    they may be empty.
    """

    a: str
    b: str
    paired: bool
    units: int
    features: pd.DataFrame
    categories: pd.DataFrame
    stops_at: str | None
    tolerance: float
    reasons: tuple[str, ...]

    @property
    def moved_stressors(self) -> tuple[str, ...]:
        """The stressors that changed significantly, least p-value first."""
        return tuple(self.features.loc[self.features["moved"], "stressor"])

    @property
    def significant(self) -> bool:
        """Whether any stressor changed significantly."""
        return bool(self.features["moved"].any())


@dataclass(frozen=True)
class Exchanged:
    """Scores of both sides, shape (1 + n_exchanges, n_columns); the first row is without an exchange.

    They are positive where a stressor's rate rises with performance. `units` is the number of CPU models or
    machines that are exchanged as a whole, `least` the least p-value that these can give.
    """

    a: Floats
    b: Floats
    paired: bool
    units: int
    least: float


def profile_difference(a: Profile, b: Profile, params: Profiling, seed: int) -> ProfileDifference:
    """Return the changes from profile `a` to `b` by stressor and by category, with their p-values.

    The p-values, adjusted for all rows of their table, come from ``params.n_bootstrap`` random exchanges of
    machines between the profiles, which `seed` draws; a change is significant up to ``params.significance``.
    ValueError if the stressors of the profiles, or their order, differ.
    """
    if a.measured.columns != b.measured.columns:
        raise ValueError("the profiles are over different stressors")
    columns, least = a.measured.columns, params.significance
    scores = exchange_performances(a.measured, b.measured, params.n_bootstrap, seed)
    named = columns_by_category(columns)
    changes = (shares_of(scores.b) - shares_of(scores.a)) @ sums_of(named.values(), len(columns))
    stressors, kinds = pd.Index(columns, name="stressor"), pd.Index(list(named), name="category")
    features = _test_changes(stressors, scores.b - scores.a, a.features, b.features, least)
    categories = _test_changes(kinds, changes, a.categories, b.categories, least)
    stop, reasons = stops_at(a, b, params.tolerance), tuple(_unreliable_reasons(a, b, scores, params))
    exchanged = scores.paired, scores.units
    return ProfileDifference(
        a.application, b.application, *exchanged, features, categories, stop, params.tolerance, reasons
    )


def exchange_performances(a: Measured, b: Measured, number: int, seed: int) -> Exchanged:
    """Return the scores of two applications, as measured and after `number` random exchanges.

    `a` and `b` have one row per machine and the same columns. Where at least half of the smaller side's
    machines are also on the other side, only shared machines are used (``paired``), and the two
    (standardised) performances of a machine are swapped, alike for all machines of a CPU model. Otherwise
    machines are dealt to the two sides. If both sides have a CPU model, its machines are dealt one by one,
    and each side keeps its number of them; the machines of any other CPU model stay together on one side, and
    each side keeps its number of such models.
    """
    generator = np.random.default_rng(seed)
    shared = np.intersect1d(a.machines, b.machines)
    if 2 * len(shared) >= min(len(a.machines), len(b.machines)):
        shared_a, shared_b = (side.select_rows(np.isin(side.machines, shared)) for side in (a, b))
        return _swap_speeds(shared_a, shared_b, number, generator)
    return _deal_machines(a, b, number, generator)


def adjusted_p_values(changes: Floats) -> Floats:
    """Return two-sided p-values, shape (n_columns,), adjusted for all columns (Westfall and Young 1993).

    `changes`, shape (1 + n_exchanges, n_columns), has the observed changes in its first row. Absolute changes
    are divided by the standard deviation of their column. The p-value of a column is the share of all rows,
    with the first, whose largest quotient is at least the observed one of the column; 1 if it does not vary.
    """
    spread = changes.std(axis=0)
    sizes = np.abs(changes) / np.where(spread > 0, spread, np.inf)
    largest = sizes.max(axis=1)
    # an exchange that changes nothing must count as equal in spite of rounding
    return np.asarray((largest[:, None] >= sizes[0] * (1 - 1e-9)).mean(axis=0), np.float64)


def stops_at(a: Profile, b: Profile, tolerance: float) -> str | None:
    """Return the most important stressor of `a` whose importances in `a` and `b` differ; None without one.

    They differ by more than `tolerance`, in points of 100 (section 5.3 of the fingerprint paper). KeyError if
    `b` misses a stressor that is compared.
    """
    other = b.features.set_index("stressor")["importance"]
    for stressor, importance in zip(a.features["stressor"], a.features["importance"], strict=True):
        if abs(importance - other[stressor]) > tolerance:
            return str(stressor)
    return None


def _swap_speeds(a: Measured, b: Measured, number: int, generator: np.random.Generator) -> Exchanged:
    names, rows = np.unique(a.cpus, return_inverse=True)
    swap = np.zeros((1 + number, len(names)), bool)
    swap[1:] = generator.random((number, len(names))) < 1 / 2
    logs = (log_rates(a.x) + log_rates(b.x)) / 2
    operator = car_operator(logs)
    speed_a, speed_b = _standardise_rows(a.log_speed), _standardise_rows(b.log_speed)
    swapped = swap[:, rows]
    first, second = np.where(swapped, speed_b, speed_a), np.where(swapped, speed_a, speed_b)
    a_scores, b_scores = (_standardise_rows(side) @ operator.T for side in (first, second))
    return Exchanged(a_scores, b_scores, True, len(names), 2.0 ** (1 - len(names)))


def _deal_machines(a: Measured, b: Measured, number: int, generator: np.random.Generator) -> Exchanged:
    pooled = replace(
        a,
        better="higher",
        x=np.concatenate([a.x, b.x]),
        y=np.exp(np.concatenate([_standardise_rows(a.log_speed), _standardise_rows(b.log_speed)])),
        machines=np.concatenate([a.machines, b.machines]),
        cpus=np.concatenate([a.cpus, b.cpus]),
    )
    first = np.arange(len(pooled.y)) < len(a.y)
    shared = np.isin(pooled.cpus, np.intersect1d(a.cpus, b.cpus))
    alone = np.char.add(np.char.add(pooled.cpus, np.where(first, "/a/", "/b/")), pooled.machines)
    _, start, rows = np.unique(np.where(shared, alone, pooled.cpus), return_index=True, return_inverse=True)
    strata = np.where(shared, pooled.cpus, "")[start]
    side = first[start].astype(np.float64)
    permuted = (_permute_within_strata(side, strata, generator) for _ in range(number))
    dealt = np.stack([side, *permuted])[:, rows]
    units = [side[strata == stratum] for stratum in np.unique(strata)]
    # with sides of equal size, exchanging all units changes nothing
    mirrored = all(2 * part.sum() == len(part) for part in units)
    least = (2 if mirrored else 1) / prod(comb(len(part), int(part.sum())) for part in units)
    return Exchanged(car_scores(pooled, dealt), car_scores(pooled, 1 - dealt), False, len(side), least)


def _permute_within_strata(side: Floats, strata: NDArray[np.str_], generator: np.random.Generator) -> Floats:
    order = np.argsort(strata, kind="stable")
    dealt = np.empty_like(side)
    dealt[order] = side[np.lexsort((generator.random(len(side)), strata))]
    return dealt


def _standardise_rows(values: Floats) -> Floats:
    spread = values.std(axis=-1, keepdims=True)
    centred = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, np.inf), np.float64)


def _test_changes(
    names: pd.Index, changes: Floats, a: pd.DataFrame, b: pd.DataFrame, significance: float
) -> pd.DataFrame:
    columns = [name for name in ("importance", "score") if name in a]
    sides = [side.set_index(names.name)[columns] for side in (a, b)]
    p_values = pd.DataFrame({"p_value": adjusted_p_values(changes)}, names)
    table = p_values.join([sides[0].add_suffix("_a"), sides[1].add_suffix("_b")])
    change, moved = table["importance_b"] - table["importance_a"], table["p_value"] <= significance
    table = table.assign(change=change, moved=moved, size=change.abs())
    table = table.sort_values(["p_value", "size"], ascending=[True, False], kind="stable")
    return table.drop(columns="size").reset_index()


def _unreliable_reasons(a: Profile, b: Profile, scores: Exchanged, params: Profiling) -> Iterator[str]:
    for side in (a, b):
        for reason in too_few_messages(side.trust.machines, side.trust.cpus, params.trust):
            yield f'"{side.application}": {reason}'
    what = "CPU models" if scores.paired else "machines or CPU models"
    if scores.units < FEW:
        yield f"{scores.units} {what} to exchange, fewer than {FEW}"
    elif scores.least > params.significance:
        problem = f"{scores.units} {what} to exchange give no p-value below {scores.least:.2g}"
        yield f"{problem}; expected {params.significance:g} or less"


@dataclass(frozen=True)
class FalsePositives:
    """Numbers of A/A pairs (halves of an application's machines) and of those called different."""

    applications: int
    pairs: int
    alarms: int

    @property
    def share(self) -> float:
        """False alarms per pair."""
        return self.alarms / self.pairs


def count_false_positives(
    table: FingerprintTable, applications: Sequence[str], params: Profiling, seed: int
) -> FalsePositives | None:
    """Compare the halves of applications' machines, several times; return the number of false alarms.

    At most 20 of the applications with at least 16 machines are used, evenly spaced in their order; the
    machines of each are halved at random five times. A pair of halves is a false alarm if any stressor's
    adjusted p-value is at most ``params.significance``. None if no application has 16 machines; InputError if
    one is not measured in `table`.
    """
    every = [table.measurements_of(name).by_machine() for name in applications]
    enough = [measured for measured in every if len(measured.machines) >= 2 * FEW]
    if not enough:
        return None
    positions = np.unique(np.linspace(0, len(enough) - 1, APPLICATIONS).astype(int))
    alarms = 0
    for place, repetition in product(positions.tolist(), range(HALVINGS)):
        measured, generator = enough[place], np.random.default_rng((seed, place, repetition))
        order = generator.permutation(len(measured.machines))
        first = order < len(order) // 2
        a, b, draw = measured.select_rows(first), measured.select_rows(~first), generator.integers(2**31)
        scores = exchange_performances(a, b, params.n_bootstrap, int(draw))
        alarms += bool((adjusted_p_values(scores.b - scores.a) <= params.significance).any())
    return FalsePositives(len(positions), len(positions) * HALVINGS, alarms)


Verdict = Literal["supported", "not supported", "not enough diversity"]


#: A stressor leads if it is among the top five in at least this share of the resamples.
OFTEN = 0.5


#: Number of leading stressors that must be of memory for a program to be memory intensive (section 6.1).
FIRST = 3


COLUMNS = ("figure", "claim", "applications", "seed_says", "we_find", "verdict", "reasons")


@dataclass(frozen=True)
class Claim:
    """A claim of the fingerprint paper on one application, or on two that are compared.

    "leads": the `stressors` are among the most important; "memory": the first three are of memory (Mem or VM
    in table 1); "differs": the two profiles differ (in those stressors, if any are named).
    """

    figure: str
    text: str
    applications: tuple[str, ...]
    kind: Literal["leads", "memory", "differs"]
    stressors: tuple[str, ...] = ()


CLAIMS = (
    Claim("5", "hpccg depends on stackmmap and cache", ("hpccg",), "leads", ("stackmmap", "cache")),
    Claim("10", "redis SET is memory intensive", ("redis-set",), "memory"),
    Claim("10", "redis GET is memory intensive", ("redis-get",), "memory"),
    Claim("10", "scikit-learn depends on zero (memory)", ("scikit-learn",), "leads", ("zero",)),
    Claim("10", "SSCA depends on cache", ("ssca",), "leads", ("cache",)),
    Claim(
        "11",
        "MariaDB's engines InnoDB and Memory have different profiles",
        ("mariadb-innodb-load", "mariadb-memory-load"),
        "differs",
    ),
    Claim("13", "STREAM with 1 addition is memory bound", ("stream-nadds-add-1",), "memory"),
    Claim(
        "13",
        "STREAM depends on memory with 1 addition, on bsearch and hsearch (CPU) with 30 additions",
        ("stream-nadds-add-1", "stream-nadds-add-30"),
        "differs",
        ("bsearch", "hsearch"),
    ),
    Claim(
        "14",
        "MariaDB 10.3.2 and 5.5.58 have different profiles",
        ("mariadb-10.3.2-innodb-load", "mariadb-5.5.58-innodb-load"),
        "differs",
    ),
)


def check_claims(
    profiles: Mapping[str, Profile],
    seed_shares: Mapping[str, NDArray[np.float64]],
    params: Profiling,
    seed: int,
) -> pd.DataFrame:
    """Test the fingerprint paper's claims on the data; return a row of text per claim, in the paper's order.

    A claim on one application is supported if each stressor that it names is in the top five in at least half
    of the resamples, or, for a claim on memory, if all of the top three are of memory in at least half. A
    claim on two applications is supported if `profile_difference` finds any stressor significant, or, if it
    names stressors, any of these. With ``reasons`` to doubt the ranking or the test, the verdict is "not
    enough diversity". Claims about applications without a profile are left out.

    `seed_shares` has, by application, the importances that the paper's method gives on this data, shape
    (n_columns,); KeyError if it lacks one that a claim needs. `seed` is a random seed. Returns ``figure,
    claim, applications, seed_says`` (the top five of `seed_shares`), ``we_find`` (our result in words),
    ``verdict`` ("supported" | "not supported" | "not enough diversity"), ``reasons``.
    """
    rows = []
    for claim in CLAIMS:
        if not all(name in profiles for name in claim.applications):
            continue
        sides = [profiles[name] for name in claim.applications]
        if claim.kind == "differs":
            compared = profile_difference(sides[0], sides[1], params, seed)
            (holds, finding), untrusted = _judge_differs(claim, compared), compared.reasons
        else:
            holds, finding = (
                _judge_leads(claim, sides[0]) if claim.kind == "leads" else _judge_memory(sides[0])
            )
            untrusted = sides[0].trust.reasons
        verdict: Verdict = "not enough diversity" if untrusted else "supported" if holds else "not supported"
        says = "; ".join(_top_five(side, seed_shares[side.application]) for side in sides)
        about = (claim.figure, claim.text, ", ".join(claim.applications), says)
        rows.append((*about, finding, verdict, "; ".join(untrusted)))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype("str")


def _top_five(side: Profile, shares: NDArray[np.float64]) -> str:
    order = np.argsort(-shares, kind="stable")[:5]
    return f"{side.application}: {', '.join(side.measured.columns[column] for column in order)}"


def _judge_leads(claim: Claim, side: Profile) -> tuple[bool, str]:
    tops = [{side.measured.columns[column] for column in top} for top in top_columns(side.resampled)]
    often = {stressor: float(np.mean([stressor in names for names in tops])) for stressor in claim.stressors}
    shares = [f"{stressor} in the top five of {share:.0%} of resamples" for stressor, share in often.items()]
    return min(often.values()) >= OFTEN, f"{', '.join(shares)}; first {', '.join(side.top_stressors)}"


def _judge_memory(side: Profile) -> tuple[bool, str]:
    of_memory = np.array([not {MEMORY, VM}.isdisjoint(categories_of(name)) for name in side.measured.columns])
    first = np.argsort(-side.resampled, axis=1, kind="stable")[:, :FIRST]
    share = float(of_memory[first].all(axis=1).mean())
    finding = f"the first {FIRST} are of memory in {share:.0%} of resamples"
    return share >= OFTEN, f"{finding}; first {', '.join(side.top_stressors)}"


def _judge_differs(claim: Claim, compared: ProfileDifference) -> tuple[bool, str]:
    least, moved = compared.features["p_value"].iloc[0], compared.moved_stressors
    finding = f"least p-value {least:.3f} on {compared.units} CPU models or machines"
    holds = any(name in claim.stressors for name in moved) if claim.stressors else bool(moved)
    named = f"changed: {', '.join(moved[:5])}" if moved else "no stressor changed"
    return holds, f"{finding}; {named}"
