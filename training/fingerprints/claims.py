"""What seed 003 claims of its applications, and whether the data at hand supports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.fingerprints.params import Profiling
from data.fingerprints.tables import CATEGORIES, MEMORY, VM
from features.fingerprints.matrix import stressor_of
from training.fingerprints.differences import ProfileDifference, difference
from training.fingerprints.profiles import Profile, top

Verdict = Literal["supported", "not supported", "not enough diversity"]
#: A stressor leads if it is among the top five in at least this share of the resamples.
OFTEN = 0.5
#: How many stressors must be of memory for a program to be memory intensive (section 6.1).
FIRST = 3
COLUMNS = ("figure", "claim", "applications", "seed_says", "we_find", "verdict", "reasons")


@dataclass(frozen=True)
class Claim:
    """A sentence of the seed.

    Attributes
    ----------
    figure : str
    text : str
    applications : tuple of str
        One, or the two that are compared.
    kind : {"leads", "memory", "differs"}
        The stressors are among the most important; the first three are of memory (Mem or VM in table 1); the
        two profiles differ (in those stressors, if any are named).
    stressors : tuple of str
    """

    figure: str
    text: str
    applications: tuple[str, ...]
    kind: Literal["leads", "memory", "differs"]
    stressors: tuple[str, ...] = ()


CLAIMS = (
    Claim("5", "hpccg leans on stackmmap and cache", ("hpccg",), "leads", ("stackmmap", "cache")),
    Claim("10", "redis SET is memory intensive", ("redis-set",), "memory"),
    Claim("10", "redis GET is memory intensive", ("redis-get",), "memory"),
    Claim("10", "scikit-learn leans on zero (memory)", ("scikit-learn",), "leads", ("zero",)),
    Claim("10", "SSCA leans on cache", ("ssca",), "leads", ("cache",)),
    Claim(
        "11",
        "MariaDB's engines innodb and memory differ",
        ("mariadb-innodb-load", "mariadb-memory-load"),
        "differs",
    ),
    Claim("13", "STREAM with 1 addition is memory bound", ("stream-nadds-add-1",), "memory"),
    Claim(
        "13",
        "STREAM moves from memory to bsearch and hsearch (CPU) from 1 to 30 additions",
        ("stream-nadds-add-1", "stream-nadds-add-30"),
        "differs",
        ("bsearch", "hsearch"),
    ),
    Claim(
        "14",
        "MariaDB 10.3.2 and 5.5.58 differ",
        ("mariadb-10.3.2-innodb-load", "mariadb-5.5.58-innodb-load"),
        "differs",
    ),
)


def claims(
    profiles: Mapping[str, Profile],
    seed_shares: Mapping[str, NDArray[np.float64]],
    params: Profiling,
    seed: int,
) -> pd.DataFrame:
    """Hold the seed's claims against the data.

    A claim is supported if it holds over resamples of the machines (the stressors are among the top five in
    half of them; the first three are of memory in half of them) and the ranking can be trusted, or by the
    test of two profiles.

    Parameters
    ----------
    profiles : mapping of str to Profile
        By application; claims about applications that are missing are left out.
    seed_shares : mapping of str to ndarray of shape (n_columns,)
        The importances of the seed's method.
    params : Profiling
    seed : int

    Returns
    -------
    DataFrame
        ``figure, claim, applications, seed_says`` (the top five of the seed's method on this data),
        ``we_find, verdict`` ("supported" | "not supported" | "not enough diversity"), ``reasons``.
    """
    rows = [
        _row(claim, [profiles[name] for name in claim.applications], seed_shares, params, seed)
        for claim in CLAIMS
        if all(name in profiles for name in claim.applications)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype("str")


def _row(
    claim: Claim,
    sides: list[Profile],
    seed_shares: Mapping[str, NDArray[np.float64]],
    params: Profiling,
    seed: int,
) -> tuple[str, ...]:
    if claim.kind == "differs":
        found = difference(sides[0], sides[1], params, seed)
        (holds, told), untrusted = _differs(claim, found), found.reasons
    else:
        holds, told = _leads(claim, sides[0]) if claim.kind == "leads" else _memory(sides[0])
        untrusted = sides[0].trust.reasons
    verdict: Verdict = "not enough diversity" if untrusted else "supported" if holds else "not supported"
    says = "; ".join(_five(side, seed_shares[side.application]) for side in sides)
    applications = ", ".join(claim.applications)
    return claim.figure, claim.text, applications, says, told, verdict, "; ".join(untrusted)


def _five(side: Profile, shares: NDArray[np.float64]) -> str:
    order = np.argsort(-shares, kind="stable")[:5]
    return f"{side.application}: {', '.join(side.measured.columns[column] for column in order)}"


def _leads(claim: Claim, side: Profile) -> tuple[bool, str]:
    tops = [{side.measured.columns[column] for column in top(row)} for row in side.resampled]
    often = {stressor: float(np.mean([stressor in one for one in tops])) for stressor in claim.stressors}
    told = [f"{stressor} in the top five of {share:.0%} of resamples" for stressor, share in often.items()]
    return min(often.values()) >= OFTEN, f"{', '.join(told)}; first {', '.join(side.top)}"


def _memory(side: Profile) -> tuple[bool, str]:
    of_memory = np.array(
        [bool({MEMORY, VM} & set(CATEGORIES.get(stressor_of(name), ()))) for name in side.measured.columns]
    )
    first = np.argsort(-side.resampled, axis=1, kind="stable")[:, :FIRST]
    share = float(of_memory[first].all(axis=1).mean())
    told = f"the first {FIRST} are of memory in {share:.0%} of resamples"
    return share >= OFTEN, f"{told}; first {', '.join(side.top)}"


def _differs(claim: Claim, found: ProfileDifference) -> tuple[bool, str]:
    least = found.features["p_value"].iloc[0]
    told = f"least p-value {least:.3f} on {found.units} CPU models or machines"
    moved = [name for name in found.moved if not claim.stressors or name in claim.stressors]
    named = f"moved: {', '.join(found.moved[:5])}" if found.moved else "nothing moved"
    return bool(moved), f"{told}; {named}"
