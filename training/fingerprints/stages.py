"""The family ``fingerprints`` in the training package: its stages profile and evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Fingerprints, Profiling
from data.params import load
from data.tables.digest import digest_of
from data.tables.files import replacing, write_json
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured
from training.evaluation.sidebyside import side_by_side
from training.fingerprints.claims import claims
from training.fingerprints.forecasts import Forecast, by_application, champion, entries, forecast
from training.fingerprints.heldout import FOLDS
from training.fingerprints.profiles import Profile, overlap, profile, scaled, top, units
from training.fingerprints.resamples import resamples
from training.fingerprints.seed import seed_shares


@dataclass(frozen=True)
class Profiled:
    """An application's profile by both methods.

    Attributes
    ----------
    ours : Profile
    seeds : ndarray of shape (n_columns,)
        The shares of the seed's method.
    seed_stability, our_stability : float
        Mean overlap of the top five over the same resamples of the machines.
    """

    ours: Profile
    seeds: NDArray[np.float64]
    seed_stability: float
    our_stability: float


@dataclass(frozen=True)
class Task:
    """An application to profile."""

    measured: Measured
    params: Profiling
    seed: int


def profiled(task: Task) -> Profiled:
    """Profile one application by both methods."""
    ours = profile(task.measured, task.params, task.seed)
    number, boosting = task.params.seed_resamples, task.params.boosting
    weights = resamples(units(task.measured), number, task.seed)
    again = [seed_shares(task.measured, task.seed, counts, boosting) for counts in weights]
    return Profiled(
        ours,
        seed_shares(task.measured, task.seed, boosting=boosting),
        overlap([top(shares) for shares in again]),
        overlap([top(shares) for shares in ours.resampled[:number]]),
    )


def tables(found: list[Profiled]) -> dict[str, pd.DataFrame]:
    """Put profiles into tables, by the name of their file.

    Returns
    -------
    dict
        ``profiles`` (`Profile.features`, with ``seed_importance`` beside it), ``clusters``, ``categories``
        (as in `Profile`), each with a column ``application`` first; ``trust``, one row per application:
        ``metric, better, enough, reasons, machines, cpus, r2, median_error, stability``, and the overlap of
        the top five over the same few resamples by both methods, ``seed_stability`` and ``our_stability``.
    """
    named = {"profiles": _features, "clusters": _clusters, "categories": _categories}
    parts = {
        name: pd.concat([_of(one.ours.application, make(one)) for one in found], ignore_index=True)
        for name, make in named.items()
    }
    return {**parts, "trust": pd.DataFrame([_trust(one) for one in found])}


def _of(application: str, table: pd.DataFrame) -> pd.DataFrame:
    copy = table.copy()
    copy.insert(0, "application", application)
    return copy


def _features(one: Profiled) -> pd.DataFrame:
    seeds = pd.Series(scaled(one.seeds), one.ours.measured.columns, name="seed_importance")
    return one.ours.features.join(seeds, on="stressor")


def _clusters(one: Profiled) -> pd.DataFrame:
    return one.ours.clusters


def _categories(one: Profiled) -> pd.DataFrame:
    return one.ours.categories


def _trust(one: Profiled) -> dict[str, Any]:
    trust = one.ours.trust
    return {
        "application": one.ours.application,
        "metric": one.ours.measured.metric,
        "better": one.ours.measured.better,
        "enough": trust.enough,
        "reasons": "; ".join(trust.reasons),
        "machines": trust.machines,
        "cpus": trust.cpus,
        "r2": trust.r2,
        "median_error": trust.median_error,
        "stability": trust.stability,
        "seed_stability": one.seed_stability,
        "our_stability": one.our_stability,
    }


def profile_stage() -> None:
    """Stage profile: which stressors explain each application, by the seed's method and ours."""
    knobs = load(Fingerprints)
    section = knobs.section
    measured = _measured(section)
    tasks = [Task(one, section.profile, knobs.seed) for one in measured]
    found = side_by_side(profiled, tasks, knobs.jobs, "profile fingerprints")
    seeds = {one.ours.application: one.seeds for one in found}
    profiles = {one.ours.application: one.ours for one in found}
    written = {**tables(found), "claims": claims(profiles, seeds, section.profile, knobs.seed)}
    for name, table in written.items():
        _write(PLACES.profiled, name, table)
    trusted = int(written["trust"]["enough"].sum())
    print(f"{len(found)} applications profiled, {trusted} of them can be trusted")  # noqa: T201


def evaluate_stage() -> None:
    """Stage evaluate: predictions on held-out CPU models."""
    knobs = load(Fingerprints)
    section = knobs.section
    kept = [one.by_machine() for one in _measured(section)]
    kept = [one for one in kept if len(np.unique(one.cpus)) > 1]
    if not kept:
        raise InputError("all machines are of one CPU model; expected two or more", file=PLACES.processed)
    tasks = [
        Forecast(
            one, section.evaluate.entries, section.profile.confidence, section.profile.boosting, knobs.seed
        )
        for one in kept
    ]
    found = side_by_side(forecast, tasks, knobs.jobs, "evaluate fingerprints")
    predictions = pd.concat(found, ignore_index=True)
    _write(PLACES.evaluated, "oof", predictions)
    _write(PLACES.evaluated, "accuracy", by_application(predictions, section.evaluate.tolerance))
    summaries = entries(predictions, section.evaluate.tolerance)
    content = {
        "family": "fingerprints",
        "data": _described(section, kept),
        "seed": knobs.seed,
        "tolerance": section.evaluate.tolerance,
        "splits": {
            "grouped": {
                "scheme": f"{FOLDS} folds of whole CPU models (fewer where there are fewer)",
                "folds": FOLDS,
                "entries": summaries,
            }
        },
        "champion": champion(summaries),
    }
    write_json(PLACES.metrics, content)


def _measured(section: Fingerprints) -> list[Measured]:
    table = FingerprintTable.read(PLACES.processed)
    return [table.measured(name) for name in table.covering(section.profile.applications)]


def _described(section: Fingerprints, measured: list[Measured]) -> dict[str, Any]:
    machines = {machine for one in measured for machine in one.machines}
    cpus = {cpu for one in measured for cpu in one.cpus}
    return {
        "format": section.ingest.format,
        "path": section.ingest.path.as_posix(),
        "digest": digest_of(PLACES.processed / "features.parquet", PLACES.processed / "targets.parquet"),
        "machines": len(machines),
        "cpu_models": len(cpus),
        "applications": len(measured),
    }


def _write(directory: Path, name: str, table: pd.DataFrame) -> None:
    with replacing(directory / f"{name}.parquet") as path:
        table.to_parquet(path, index=False)
