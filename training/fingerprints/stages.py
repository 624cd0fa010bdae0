"""The stages profile, evaluate and promote of the model family ``fingerprints``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Fingerprints, Profiling
from data.parallel import side_by_side
from data.params import Params, load
from data.paths import Places
from data.tables.documents import written
from data.tables.files import digest_of, write_json, write_tables
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured
from training.evaluation.figures import of_predictions, predicted_measured
from training.evaluation.paired_bootstrap import OutOfFoldPredictions, by_entry
from training.fingerprints.differences import claims
from training.fingerprints.importance import FOLDS, seed_shares
from training.fingerprints.prediction import (
    Forecast,
    by_application,
    by_median,
    entries,
    forecast,
    ranked,
)
from training.fingerprints.profiles import Profile, overlap, profile, resamples, scaled, top, units
from training.registry.runs import Logbook, TrackedRun, headline, scores_by_name
from training.supply import UnseenSupply

WHAT = "forecasts"
_OOF = Places("fingerprints").evaluated / "oof.parquet"


def _read_unseen(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    oof = pd.read_parquet(root / _OOF).rename(columns={"value": "measured"})
    rows = oof.assign(case=oof["application"] + " on " + oof["machine"], group=oof["cpu_model"])
    return by_entry(WHAT, rows, metrics["champion"], metrics["tolerance"])


def _no_registered(directory: Path, *_: object) -> OutOfFoldPredictions:
    raise InputError("forecasts have no registered model; each request trains its own", file=directory)


def unseen() -> UnseenSupply:
    """Return the functions that read out-of-fold predictions."""
    return UnseenSupply((_OOF.as_posix(),), _read_unseen, _no_registered)


def promote_stage() -> None:
    """Log the forecast models that are not in MLflow yet, the best one last."""
    knobs, metrics = load(Fingerprints), written(PLACES.metrics, "evaluate")
    evidence = digest_of(PLACES.metrics, PLACES.evaluated / "oof.parquet")
    book = Logbook("fingerprints", metrics["data"], PLACES.processed / "features.parquet", evidence)
    known, oof = book.known(), pd.read_parquet(PLACES.evaluated / "oof.parquet")
    for name in reversed(ranked(metrics["splits"]["grouped"]["entries"])):
        if name not in known:
            with book.logged(run_of(name, metrics, oof[oof["entry"] == name], knobs)):
                pass
    print(f"fingerprints: {metrics['champion']} is best; there is no model to register")  # noqa: T201


def run_of(name: str, metrics: dict[str, Any], rows: pd.DataFrame, knobs: Params[Fingerprints]) -> TrackedRun:
    """Return the MLflow log of an entry of metrics.json; `rows` are its predictions."""
    return TrackedRun(
        name,
        {
            **headline(metrics["splits"]["grouped"]["entries"][name]),
            **scores_by_name(metrics["splits"], name),
        },
        {"confidence": knobs.section.profile.confidence, "seed": knobs.seed},
        {"model": name},
        nested=[
            TrackedRun(
                f"{name} grouped f{fold:02}",
                headline(entries(fold_rows, metrics["tolerance"])[name]),
                {},
                {"kind": "fold", "split": "grouped"},
            )
            for fold, fold_rows in rows.groupby("fold", sort=True)
        ],
        figures=partial(
            predicted_measured,
            rows.rename(columns={"value": "measured"}),
            metrics["tolerance"],
            f"{name}, folds of whole CPU models",
            "performance",
        ),
    )


@dataclass(frozen=True)
class Profiled:
    """An application's profile by both methods, and the stability of each method's top five."""

    ours: Profile
    seeds: NDArray[np.float64]
    seed_stability: float
    our_stability: float


def profiled(measured: Measured, params: Profiling, seed: int) -> Profiled:
    """Profile one application by our method and by that of seed 003."""
    ours, number, boosting = profile(measured, params, seed), params.seed_resamples, params.boosting
    weights = resamples(units(measured), number, seed)
    of_resamples = [seed_shares(measured, seed, counts, boosting) for counts in weights]
    return Profiled(
        ours,
        seed_shares(measured, seed, boosting=boosting),
        overlap([top(shares) for shares in of_resamples]),
        overlap([top(shares) for shares in ours.resampled[:number]]),
    )


def tables(found: list[Profiled]) -> dict[str, pd.DataFrame]:
    """Return the stage's tables by the name of their file.

    ``profiles`` (`Profile.features` with ``seed_importance``), ``clusters`` and ``categories`` (as in
    `Profile`), each with ``application`` as the first column; ``trust``, one row per application: ``metric,
    better, enough``, the fields of `Trust`, ``seed_stability`` and ``our_stability``.
    """
    parts: dict[str, dict[str, pd.DataFrame]] = {"profiles": {}, "clusters": {}, "categories": {}}
    rows = []
    for both in found:
        ours, measured, trust = both.ours, both.ours.measured, both.ours.trust
        seeds = pd.Series(scaled(both.seeds), measured.columns, name="seed_importance")
        parts["profiles"][ours.application] = ours.features.join(seeds, on="stressor")
        parts["clusters"][ours.application] = ours.clusters
        parts["categories"][ours.application] = ours.categories
        row = {name: getattr(measured, name) for name in ("application", "metric", "better")}
        row |= {"enough": trust.enough, **asdict(trust), "leaders": ", ".join(trust.leaders)}
        row |= {name: "; ".join(getattr(trust, name)) for name in ("reasons", "unpredicted")}
        rows.append(row | {"seed_stability": both.seed_stability, "our_stability": both.our_stability})
    frames = {
        name: pd.concat(of_all, names=["application"]).reset_index("application").reset_index(drop=True)
        for name, of_all in parts.items()
    }
    return frames | {"trust": pd.DataFrame(rows)}


def profile_stage() -> None:
    """Profile every application by the method of seed 003 and ours, and write the tables."""
    knobs = load(Fingerprints)
    section = knobs.section
    measured = _measured(section)
    how = partial(profiled, params=section.profile, seed=knobs.seed)
    found = side_by_side(how, measured, knobs.compute, "profile fingerprints")
    seeds = {one.ours.application: one.seeds for one in found}
    profiles = {one.ours.application: one.ours for one in found}
    written = {**tables(found), "claims": claims(profiles, seeds, section.profile, knobs.seed)}
    write_tables(PLACES.profiled, written)
    trusted = int(written["trust"]["enough"].sum())
    print(f"{len(found)} applications profiled, {trusted} of them can be trusted")  # noqa: T201


def evaluate_stage() -> None:
    """Evaluate predictions on held-out CPU models."""
    knobs = load(Fingerprints)
    section = knobs.section
    kept = [one.by_machine() for one in _measured(section)]
    kept = [one for one in kept if len(np.unique(one.cpus)) > 1]
    if not kept:
        raise InputError("all machines are of one CPU model; expected two or more", file=PLACES.processed)
    named, how = section.evaluate.entries, section.profile
    tasks = [Forecast(one, named, how.confidence, how.boosting, knobs.seed) for one in kept]
    found = side_by_side(forecast, tasks, knobs.compute, "evaluate fingerprints")
    predictions, tolerance = pd.concat(found, ignore_index=True), section.evaluate.tolerance
    tables = {"oof": predictions, "accuracy": by_application(predictions, tolerance)}
    write_tables(PLACES.evaluated, tables)
    summaries = entries(predictions, tolerance)
    content = {
        "family": "fingerprints",
        "data": _described(section, kept),
        "seed": knobs.seed,
        "tolerance": tolerance,
        "splits": {
            "grouped": {
                "scheme": f"{FOLDS} folds of whole CPU models (fewer where there are fewer)",
                "folds": FOLDS,
                "entries": summaries,
            }
        },
        "champion": ranked(summaries)[0],
    }
    write_json(PLACES.metrics, content)
    of_predictions(content, "grouped", "median_error", by_median(predictions)).write(PLACES)


def _measured(section: Fingerprints) -> list[Measured]:
    table = FingerprintTable.read(PLACES.processed)
    return [table.measured(name) for name in table.covering(section.profile.applications)]


def _described(section: Fingerprints, measured: list[Measured]) -> dict[str, Any]:
    return {
        "format": section.ingest.format,
        "path": section.ingest.path.as_posix(),
        "digest": digest_of(PLACES.processed / "features.parquet", PLACES.processed / "targets.parquet"),
        "machines": len({machine for one in measured for machine in one.machines}),
        "cpu_models": len({cpu for one in measured for cpu in one.cpus}),
        "applications": len(measured),
    }
