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
from serving.reports.evaluation_files import Entry, Metrics
from training.fingerprints.trust import Trust

TRUST_DTYPES = (
    dict.fromkeys(("application", "leaders", "by", "reasons", "unpredicted"), "str")
    | dict.fromkeys(("machines", "cpus"), "int64")
    | dict.fromkeys(("r2", "median_error", "stability", "top_rank_stability", "chance"), "float64")
    | dict.fromkeys(("seed_stability", "our_stability"), "float64")
)
_RANKED = {"application": "str"} | dict.fromkeys(("importance", "low", "high"), "float64")
PROFILE_DTYPES = _RANKED | {
    "stressor": "str",
    "cluster": "int64",
    "categories": "str",
    "seed_importance": "float64",
}
CLUSTER_DTYPES = _RANKED | {"cluster": "int64", "stressors": "str"}
CATEGORY_DTYPES = _RANKED | {"category": "str"}
CLAIM_DTYPES = dict.fromkeys(("figure", "claim", "seed_says", "we_find", "verdict", "reasons"), "str")
ACCURACY_DTYPES = {"application": "str", "entry": "str", "median_error": "float64"}


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

    @classmethod
    def read(cls, root: Path) -> ProfiledPage:
        """Read the stages' files under the project `root`; InputError if one is missing or invalid."""
        paths = FamilyPaths("fingerprints", root)
        trust = read_table(paths.profiled / "trust.parquet", TRUST_DTYPES)
        stability = trust[["application", "seed_stability", "our_stability"]]
        accuracy = read_table(paths.evaluated / "accuracy.parquet", ACCURACY_DTYPES)
        return cls(
            read_json(paths.metrics, Metrics[Entry]),
            FingerprintTable.read(paths.processed),
            tuple(FingerprintDecisions.read(paths.valid).explanation_lines()),
            _read_profiles(paths.profiled, trust),
            read_table(paths.profiled / "claims.parquet", CLAIM_DTYPES),
            stability.set_axis(["application", "seed", "ours"], axis="columns"),
            accuracy.pivot(index="application", columns="entry", values="median_error").reset_index(),
        )


def _read_profiles(reports: Path, trust: pd.DataFrame) -> dict[str, Reported]:
    features, clusters, categories = (
        dict(list(read_table(reports / f"{name}.parquet", dtypes).groupby("application", sort=False)))
        for name, dtypes in (
            ("profiles", PROFILE_DTYPES),
            ("clusters", CLUSTER_DTYPES),
            ("categories", CATEGORY_DTYPES),
        )
    )
    profiles = {}
    for row in trust.to_dict("records"):
        name = row["application"]
        if name not in features or name not in clusters or name not in categories:
            raise InputError(f'has no profile of "{name}"; run the stage profile', file=reports)
        profiles[name] = Reported(name, features[name], clusters[name], categories[name], _parse_trust(row))
    return profiles


def _parse_trust(row: Mapping[str, Any]) -> Trust:
    separators = {"leaders": ", ", "reasons": "; ", "unpredicted": "; "}
    lists = {name: tuple(part for part in row[name].split(by) if part) for name, by in separators.items()}
    return Trust(**{field.name: lists.get(field.name, row[field.name]) for field in fields(Trust)})
