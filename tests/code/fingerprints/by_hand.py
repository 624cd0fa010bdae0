"""Profiles and differences made by hand."""

import numpy as np
import pandas as pd

from serving.fingerprints.profiled import Reported
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.trust import Trust

CATEGORIES = {
    "cache": "Cache",
    "zero": "Mem",
    "hsearch": "CPU, Cache, Mem",
    "cpu": "CPU",
    "vm": "Mem, VM",
    "nop": "CPU",
}
REASON = "2 machines, fewer than 15"


def profile(importances, *, application="app", reasons=(), leaders=("cache",), cluster=None):
    """Make a profile whose importances are given, most important first."""
    names = list(importances)
    number = np.arange(len(names))
    values = np.array([float(value) for value in importances.values()])
    features = pd.DataFrame({
        "stressor": names, "importance": values, "low": values / 2, "high": values,
        "seed_importance": values[::-1], "cluster": number if cluster is None else cluster,
        "categories": [CATEGORIES.get(name, "other") for name in names],
    })  # fmt: skip
    groups = features.groupby("cluster", sort=False)
    clusters = groups.agg(stressors=("stressor", ", ".join), importance=("importance", "max")).reset_index()
    category = pd.DataFrame(
        {"category": ["Mem"], "importance": [100.0], "low": [50.0], "high": [100.0], "permutation": [1.0]}
    )
    trust = Trust(
        20, 8, 0.9, 0.05, 0.6, () if reasons else leaders, 0.95, "importance", 0.005, tuple(reasons), ()
    )
    whole = clusters.assign(low=0.0, high=100.0, permutation=0.0)
    return Reported(application, features, whole, category, trust)


def difference(rows, *, a="before", b="after", reasons=(), stops_at=None):
    """Make a difference of (stressor, importance a, importance b, p, moved)."""
    features = pd.DataFrame(rows, columns=["stressor", "importance_a", "importance_b", "p_value", "moved"])
    features["change"] = features["importance_b"] - features["importance_a"]
    return ProfileDifference(a, b, True, 20, features, features.iloc[:0], stops_at, 10.0, tuple(reasons))
