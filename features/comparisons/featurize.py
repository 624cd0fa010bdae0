"""Stage featurize of the family ``comparisons``: tables of vectors for training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Comparisons, FeatureSet
from data.comparisons.sides import Sides
from data.comparisons.stages import Valid, validate
from data.comparisons.tables import ComparisonTables
from data.parallel import Compute, side_by_side
from data.params import load
from data.paths import Places
from data.tables.files import write_tables
from features.comparisons.history import known_spreads, usual_spread
from features.comparisons.vectors import PreparedComparisons, computed, described, vectors, without_past

RowIndices = NDArray[np.intp]

#: Comparisons per block, unless one benchmark has more; they take as long as starting a process.
MANY = 20_000
#: Features of a comparison use only results of the same benchmark on the same machine.
_TOGETHER = ["benchmark", "machine"]


def parted(comparisons: pd.DataFrame, many: int = MANY) -> list[RowIndices]:
    """Return the row numbers of each block, in ascending order; at least one block."""
    sizes = comparisons.groupby(_TOGETHER, sort=False, dropna=False).size()
    number = pd.Series(((sizes.cumsum() - sizes) // many).to_numpy(), sizes.index, dtype="int64")
    block = number.reindex(pd.MultiIndex.from_frame(comparisons[_TOGETHER])).to_numpy()
    found = [np.flatnonzero(block == one) for one in np.unique(block)]
    return found or [np.arange(len(comparisons))]


def of_rows(
    tables: ComparisonTables, comparisons: pd.DataFrame, parts: Sequence[RowIndices]
) -> list[ComparisonTables]:
    """Return the tables of each block."""
    if len(parts) == 1:
        return [ComparisonTables(tables.results, comparisons, tables.labels)]
    place = pd.MultiIndex.from_frame(tables.results[_TOGETHER])
    found = []
    for rows in parts:
        block = comparisons.iloc[rows].reset_index(drop=True)
        here = place.isin(pd.MultiIndex.from_frame(block[_TOGETHER].drop_duplicates()))
        results = tables.results[here].reset_index(drop=True)
        found.append(ComparisonTables(results, block, tables.labels[:0]))
    return found


def together(frames: Sequence[pd.DataFrame], parts: Sequence[RowIndices]) -> pd.DataFrame:
    """Concatenate the results of several blocks, in the order of the comparisons."""
    order = np.argsort(np.concatenate(parts), kind="stable")
    return pd.concat(frames, ignore_index=True).iloc[order].reset_index(drop=True)


#: Training data of the shipped champion.
SHIPPED = Path("data/raw/measured")
Featurize = Callable[[ComparisonTables, pd.DataFrame], dict[str, pd.DataFrame]]


def unlabelled(tables: ComparisonTables, valid: pd.DataFrame, featurize: Featurize) -> pd.DataFrame:
    """Return the vectors of valid comparisons without a status."""
    named = valid.assign(status=valid["status"].isna().map({True: "unlabelled", False: None}))
    return featurize(tables, named)["features"]


def shipped(own: pd.DataFrame, featurize: Featurize, directory: Path = SHIPPED) -> pd.DataFrame:
    """Return the labelled vectors that the shipped champion was trained on.

    Parameters
    ----------
    own : DataFrame
        The features of the project's own comparisons. Shipped vectors of the same operations are left out, so
        that no fold is tested on operations of its training data.
    featurize : callable
        As `featurize`.
    directory : Path
        The directory of the shipped tables.

    Raises
    ------
    InputError
        If the tables are missing.
    """
    tables = ComparisonTables.read(directory)
    found = featurize(tables, validate(tables).comparisons)["features"]
    return found[~found["fold_group"].isin(own["fold_group"])].reset_index(drop=True)


PLACES = Places("comparisons")


def featurize(
    tables: ComparisonTables,
    valid: pd.DataFrame,
    features: FeatureSet = "extended",
    compute: Compute | None = None,
    many: int = MANY,
) -> dict[str, pd.DataFrame]:
    """Return the training tables, of every valid, labelled comparison.

    Parameters
    ----------
    tables : ComparisonTables
    valid : DataFrame
        ``comparison_id``, ``valid`` and ``status`` of every comparison, as the stage validate writes it.
    features : {"extended", "retrospective"}
        The feature set to compute, as for `vectors`.
    compute : Compute, optional
        Computes blocks of about `many` comparisons in parallel, if there are several.

    Returns
    -------
    dict
        ``features``: ``comparison_id, benchmark, operation, machine, fold_group, status`` and the features;
        ``changes``: ``comparison_id``, and how far its medians moved. In the order of the comparisons table.
        ``bare``: both for the same comparisons, computed without earlier versions.
        ``runs``: ``spread``, the usual between-run spread.
    """
    judged = tables.comparisons[["comparison_id"]].merge(valid, on="comparison_id", how="left")
    kept = judged["valid"].fillna(value=False).to_numpy(bool) & judged["status"].notna().to_numpy()
    chosen = tables.comparisons[kept].reset_index(drop=True)
    head = chosen[["comparison_id", "benchmark", "operation", "machine"]].copy()
    head["fold_group"] = head["benchmark"] + "/" + head["operation"]
    head["status"] = judged.loc[kept, "status"].to_numpy()
    parts = parted(chosen, many)
    where = compute if compute is not None and len(parts) > 1 else Compute()
    sides = side_by_side(Sides.of, of_rows(tables, chosen, parts), where, "samples of comparisons")
    spread = usual_spread(np.concatenate([known_spreads(one) for one in sides]))
    tasks = [(one, features, spread) for one in sides]
    computed_of = side_by_side(_with_and_without_past, tasks, where, "vectors of comparisons")
    found, changes, bare, moved = (together(frames, parts) for frames in zip(*computed_of, strict=True))
    return {
        "features": pd.concat([head, found], axis=1),
        "changes": pd.concat([head[["comparison_id"]], changes], axis=1),
        "bare": pd.concat([head, bare, moved], axis=1),
        "runs": pd.DataFrame({"spread": [spread]}),
    }


def _with_and_without_past(task: tuple[Sides, FeatureSet, float]) -> tuple[pd.DataFrame, ...]:
    sides, features, spread = task
    return *_asked(sides, features, spread), *_asked(without_past(sides), features, spread)


def _asked(sides: Sides, features: FeatureSet, spread: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the feature vectors of comparisons, and the worst change of their medians."""
    asked = PreparedComparisons.of(sides, spread)
    values = vectors(asked.sides, features, spread, asked.steps)
    found = pd.DataFrame(values, columns=[*described(features)])
    return found, pd.DataFrame({"worst_change": asked.worst_change})


def featurize_stage() -> None:
    """Stage featurize: write features, changes of medians, and unlabelled vectors for training."""
    knobs = load(Comparisons)
    how = knobs.section.featurize
    tables, valid = ComparisonTables.read(PLACES.interim), Valid.read(PLACES.valid).comparisons
    alike = partial(featurize, features=computed(how.set), compute=knobs.compute)
    found = alike(tables, valid)
    found["unlabelled"] = unlabelled(tables, valid, alike)
    if how.start_from == "champion":
        found["start"] = shipped(found["features"], alike)
    write_tables(PLACES.processed, found, "zstd")
