"""Comparisons become vectors: the 15 components of seed 000 and what samples and history add to them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from data.comparisons.sides import Floats, Ints, Sides
from data.comparisons.stages import Valid
from data.comparisons.tables import ComparisonTables
from data.places import Places
from data.tables.files import replacing
from features.comparisons.asked import Asked
from features.comparisons.five_numbers import (
    oriented,
    overlap,
    relative_differences,
    spread,
    superiority,
)
from features.comparisons.history import HISTORY, version_features
from features.comparisons.ranks import moments, rank_test, sampled, welch_t
from features.comparisons.reduce import over_configurations, signed_root

PLACES = Places("comparisons")
#: The order of figure 6.5, lines 31-34.
SEED_FEATURES = tuple(
    f"{statistic}_{reduction}"
    for statistic in ("medians", "mins", "maxes", "q1s", "q3s")
    for reduction in ("min", "med", "max")
)

#: What is computed per configuration, and which of its lowest, middle and highest value is kept; the sum of
#: z values is divided by the root of their number (Stouffer): small shifts everywhere add up.
_PER_CONFIGURATION: dict[str, tuple[str, ...]] = {
    "rank_z": ("min", "med", "sum"),
    "superiority": ("min", "med"),
    "welch_t": ("min", "med"),
    "baseline_effect": ("min",),
    "pooled_effect": ("min", "med"),
    "lows": ("min",),
    "highs": ("min",),
    "overlap": ("min",),
    "baseline_noise": ("max",),
    "spread_ratio": ("med",),
    "repetitions": ("min",),
    **dict.fromkeys(HISTORY, ("min",)),
}
EXTENDED_FEATURES = tuple(
    f"{name}_{reduction}" for name, reductions in _PER_CONFIGURATION.items() for reduction in reductions
)

#: Comparisons handled at once: few enough that what is computed in between stays in the processor's cache.
_BLOCK = 16_384
#: Statistics in units of noise are cut off here before their root is taken.
_LARGEST = 1e4
#: No feature is larger: forests compute in float32, and such a value says "beyond comparison" already.
_BOUND = 1e9
#: Repetitions a side that five numbers stand for where a source does not say: the fewest that have them all.
SUMMARISED = 5


def columns(features: Literal["seed", "extended"]) -> tuple[str, ...]:
    """Return the columns that models see under the knob ``comparisons.featurize.set``."""
    return SEED_FEATURES if features == "seed" else SEED_FEATURES + EXTENDED_FEATURES


def seed_vectors(sides: Sides) -> pd.DataFrame:
    """Return the vector of figure 6.5 for every comparison (seed 000, section 6.5).

    Returns
    -------
    DataFrame of shape (n_comparisons, 15)
        Columns `SEED_FEATURES`. Negative ``medians_*`` mean a worse target, also where lower is better.
    """
    n = sides.n_comparisons
    vector = np.empty((5, 3, n))
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        rows = slice(*np.searchsorted(sides.comparison, (start, stop)))
        differences = relative_differences(
            oriented(sides.baseline_five[rows], sides.sign[rows]),
            oriented(sides.target_five[rows], sides.sign[rows]),
        )
        extent = over_configurations(differences, sides.comparison[rows] - start, stop - start)
        for column, values in enumerate(extent):
            vector[:, column, start:stop] = signed_root(values)
    return pd.DataFrame(vector.reshape(15, n).T, columns=list(SEED_FEATURES), copy=False)


def vectors(sides: Sides) -> pd.DataFrame:
    """Return all features of every comparison, computed for all of them at once.

    Returns
    -------
    DataFrame of shape (n_comparisons, n_features)
        Columns `SEED_FEATURES` and `EXTENDED_FEATURES`, float64, between -`_BOUND` and `_BOUND`, or NaN
        where a feature cannot be known: everything about versions without history and with one version a
        side. Where there are five numbers instead of samples, what only samples tell is estimated from them.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return pd.concat([seed_vectors(sides), _extended(sides)], axis=1).clip(-_BOUND, _BOUND)


def _extended(sides: Sides) -> pd.DataFrame:
    values = _per_configuration(sides)
    stacked = np.vstack([values[name] for name in _PER_CONFIGURATION])
    extent = over_configurations(stacked, sides.comparison, sides.n_comparisons)
    total = _stouffer(values["rank_z"], sides)
    kept = dict(zip(("min", "med", "max"), extent, strict=True))
    extended = {
        f"{name}_{reduction}": total if reduction == "sum" else kept[reduction][row]
        for row, (name, reductions) in enumerate(_PER_CONFIGURATION.items())
        for reduction in reductions
    }
    return pd.DataFrame(extended, columns=list(EXTENDED_FEATURES))


def featurize(tables: ComparisonTables, valid: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the training tables, of every valid, labelled comparison.

    Parameters
    ----------
    tables : ComparisonTables
    valid : DataFrame
        ``comparison_id``, ``valid`` and ``status`` of every comparison, as the stage validate writes it.

    Returns
    -------
    dict
        ``features``: ``comparison_id, benchmark, operation, machine, fold_group, status`` and the features;
        ``changes``: ``comparison_id``, and how far its medians moved. In the order of the comparisons table.
    """
    judged = tables.comparisons[["comparison_id"]].merge(valid, on="comparison_id", how="left")
    kept = judged["valid"].fillna(value=False).to_numpy(bool) & judged["status"].notna().to_numpy()
    chosen = tables.comparisons[kept].reset_index(drop=True)
    head = chosen[["comparison_id", "benchmark", "operation", "machine"]].copy()
    head["fold_group"] = head["benchmark"] + "/" + head["operation"]
    head["status"] = judged.loc[kept, "status"].to_numpy()
    sides = Sides.of(ComparisonTables(tables.results, chosen, tables.labels))
    return {
        "features": pd.concat([head, vectors(sides)], axis=1),
        "changes": head[["comparison_id"]].assign(worst_change=Asked.of(sides).worst_change),
    }


def _stouffer(z: Floats, sides: Sides) -> Floats:
    """Combine the known z values of every comparison's configurations."""
    known = np.isfinite(z)
    owner, n = sides.comparison[known], sides.n_comparisons
    count = np.bincount(owner, minlength=n)
    return np.bincount(owner, z[known], minlength=n) / np.sqrt(np.where(count > 0, count, np.nan))


def _per_configuration(sides: Sides) -> dict[str, Floats]:
    """Compute what `_PER_CONFIGURATION` names, each of shape (n_configurations,)."""
    values = _of_five_numbers(sides) | _of_samples(sides)
    values |= dict(zip(HISTORY, version_features(sides), strict=True))
    given = np.flatnonzero(~sampled(sides))
    for name, estimate in _of_summaries(sides, given).items():
        values[name][given] = estimate
    return {name: np.where(np.isfinite(column), column, np.nan) for name, column in values.items()}


def _of_five_numbers(sides: Sides) -> dict[str, Floats]:
    b, t = oriented(sides.baseline_five, sides.sign), oriented(sides.target_five, sides.sign)
    shift, size = t[:, 2] - b[:, 2], np.abs(b[:, 2])
    noise_b, noise_t = spread(b), spread(t)
    return {
        "baseline_effect": _compressed(shift / noise_b),
        "pooled_effect": _compressed(shift / np.sqrt((noise_b**2 + noise_t**2) / 2)),
        "lows": signed_root((t[:, 0] - b[:, 0]) / size),
        "highs": signed_root((t[:, 4] - b[:, 4]) / size),
        "overlap": overlap(b, t),
        "baseline_noise": noise_b / size,
        "spread_ratio": np.log(noise_t / noise_b),
    }


def _of_samples(sides: Sides) -> dict[str, Floats]:
    ranks = rank_test(sides.baseline, sides.target, sides.sign)
    baseline, target = moments(sides.baseline), moments(sides.target)
    fewer = np.minimum(baseline.n, target.n).astype(np.float64)
    return {
        "rank_z": ranks.z,
        "superiority": ranks.superiority,
        "welch_t": _compressed(welch_t(baseline, target, sides.sign)),
        "repetitions": np.log2(np.where(fewer > 0, fewer, np.nan)),
    }


def _of_summaries(sides: Sides, given: Ints) -> dict[str, Floats]:
    """Estimate what `_of_samples` computes where a source gave only five numbers.

    They are taken as the quantiles of `SUMMARISED` repetitions a side: the spread of a rank test under no
    change, and the error of a mean, follow from their number.
    """
    b = oriented(sides.baseline_five, sides.sign)[given]
    t = oriented(sides.target_five, sides.sign)[given]
    better, n = superiority(b, t), float(SUMMARISED)
    error = np.sqrt((spread(b) ** 2 + spread(t) ** 2) / n)
    return {
        "superiority": better,
        "rank_z": (better - 0.5) / np.sqrt((2 * n + 1) / (12 * n * n)),
        "welch_t": _compressed((t[:, 2] - b[:, 2]) / error),
        "repetitions": np.where(np.isnan(better), np.nan, np.log2(n)),
    }


def _compressed(statistic: Floats) -> Floats:
    return signed_root(np.clip(statistic, -_LARGEST, _LARGEST))


def featurize_stage() -> None:
    """Stage featurize: the vectors of labelled comparisons, and how far their medians moved."""
    valid = Valid.read(PLACES.valid).comparisons
    for name, table in featurize(ComparisonTables.read(PLACES.interim), valid).items():
        with replacing(PLACES.processed / f"{name}.parquet") as path:
            table.to_parquet(path, index=False, compression="zstd")
