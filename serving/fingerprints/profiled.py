"""Read the results of the stages of the family ``fingerprints`` for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from data.errors import InputError
from data.fingerprints.validity import FingerprintDecisions
from data.paths import FamilyPaths
from data.tables.files import read_json
from data.tables.specs import read_table
from features.fingerprints.matrix import FingerprintTable
from serving.fingerprints.worst_cases import PREDICTIONS
from serving.reports.evaluation_files import Entry, Metrics, dtypes_of
from training.fingerprints.trust import Trust

_RANKED = dtypes_of(str="application", float64="importance low high")
#: Columns of the tables that the stage profile writes, by file name.
TABLES = {
    "trust": dtypes_of(
        str="application leaders by reasons unpredicted",
        int64="machines cpus",
        float64="r2 median_error stability top_rank_stability chance seed_stability our_stability",
    ),
    "profiles": _RANKED | dtypes_of(str="stressor categories", int64="cluster", float64="seed_importance"),
    "clusters": _RANKED | dtypes_of(int64="cluster", str="stressors"),
    "categories": _RANKED | dtypes_of(str="category"),
    "claims": dtypes_of(str="figure claim seed_says we_find verdict reasons"),
}
ACCURACY = dtypes_of(str="application entry", float64="median_error")


@dataclass(frozen=True)
class Reported:
    """One application's profile, written by the stage profile."""

    application: str
    features: pd.DataFrame
    clusters: pd.DataFrame
    categories: pd.DataFrame
    trust: Trust


@dataclass(frozen=True)
class ProfiledPage:
    """The input of the page."""

    metrics: Metrics[Entry]
    table: FingerprintTable
    notes: tuple[str, ...]
    profiles: Mapping[str, Reported]
    claims: pd.DataFrame
    stability: pd.DataFrame
    accuracy: pd.DataFrame
    predictions: pd.DataFrame

    @classmethod
    def read(cls, root: Path) -> ProfiledPage:
        """Read the stages' files under the project `root`; InputError if one is missing or invalid."""
        paths = FamilyPaths("fingerprints", root)
        tables = {name: read_table(paths.profiled / f"{name}.parquet", TABLES[name]) for name in TABLES}
        stability = tables["trust"][["application", "seed_stability", "our_stability"]]
        accuracy = read_table(paths.evaluated / "accuracy.parquet", ACCURACY)
        return cls(
            read_json(paths.metrics, Metrics[Entry]),
            FingerprintTable.read(paths.processed),
            tuple(FingerprintDecisions.read(paths.valid).explanation_lines()),
            _profiles_of(tables, paths.profiled),
            tables["claims"],
            stability.set_axis(["application", "seed", "ours"], axis="columns"),
            accuracy.pivot(index="application", columns="entry", values="median_error").reset_index(),
            read_table(paths.evaluated / "oof.parquet", PREDICTIONS),
        )


def _profiles_of(tables: Mapping[str, pd.DataFrame], directory: Path) -> dict[str, Reported]:
    features, clusters, categories = (
        dict(list(tables[name].groupby("application"))) for name in ("profiles", "clusters", "categories")
    )
    profiles = {}
    for row in tables["trust"].to_dict("records"):
        name = row["application"]
        if not (name in features and name in clusters and name in categories):
            raise InputError(f'has no profile of "{name}"; run the stage profile', file=directory)
        profiles[name] = Reported(name, features[name], clusters[name], categories[name], _parse_trust(row))
    return profiles


def _parse_trust(row: Mapping[str, Any]) -> Trust:
    separators = {"leaders": ", ", "reasons": "; ", "unpredicted": "; "}
    lists = {name: tuple(part for part in row[name].split(by) if part) for name, by in separators.items()}
    return Trust(**{field.name: lists.get(field.name, row[field.name]) for field in fields(Trust)})
