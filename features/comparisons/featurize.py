"""Stage featurize of the family ``comparisons``: tables of vectors for training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Comparisons, FeatureSet
from data.comparisons.sides import Sides
from data.comparisons.stages import Valid, validate_comparisons
from data.comparisons.tables import ComparisonTables
from data.parallel import Compute, side_by_side
from data.params import load
from data.paths import FamilyPaths
from data.tables.files import write_tables
from features.comparisons.history import usual_spread
from features.comparisons.vectors import PreparedComparisons, feature_vectors, vector_columns, without_past

RowIndices = NDArray[np.intp]

#: Comparisons per block, unless one benchmark has more; they take as long as starting a process.
BLOCK_SIZE = 20_000
#: Features of a comparison use only results of the same benchmark on the same machine.
_TOGETHER = ["benchmark", "machine"]


def split_blocks(comparisons: pd.DataFrame, block_size: int = BLOCK_SIZE) -> list[RowIndices]:
    """Return the ascending row numbers of each block of about `block_size` comparisons.

    All comparisons of one benchmark on one machine are in one block, so a block may be larger. Without
    comparisons, there is one empty block.
    """
    sizes = comparisons.groupby(_TOGETHER, sort=False, dropna=False).size()
    numbers = pd.Series(((sizes.cumsum() - sizes) // block_size).to_numpy(), sizes.index, dtype="int64")
    block = numbers.reindex(pd.MultiIndex.from_frame(comparisons[_TOGETHER])).to_numpy()
    return [np.flatnonzero(block == number) for number in np.unique(block)] or [np.arange(len(comparisons))]


def tables_of_blocks(
    tables: ComparisonTables, comparisons: pd.DataFrame, parts: Sequence[RowIndices]
) -> list[ComparisonTables]:
    """Return the tables of each block of `comparisons`: its comparisons, with all results that they use.

    `parts` has the row numbers of each block. A block has all results of its pairs of benchmark and machine,
    without labels; a single block has all results and labels.
    """
    if len(parts) == 1:
        return [ComparisonTables(tables.results, comparisons, tables.labels)]
    place = pd.MultiIndex.from_frame(tables.results[_TOGETHER])
    blocks = []
    for rows in parts:
        block = comparisons.iloc[rows].reset_index(drop=True)
        is_used = place.isin(pd.MultiIndex.from_frame(block[_TOGETHER].drop_duplicates()))
        results = tables.results[is_used].reset_index(drop=True)
        blocks.append(ComparisonTables(results, block, tables.labels[:0]))
    return blocks


PLACES = FamilyPaths("comparisons")
#: Training data of the shipped champion.
SHIPPED = Path("data/raw/measured")
_CHANGE = "worst_change"


def training_tables(
    tables: ComparisonTables,
    valid: pd.DataFrame,
    features: FeatureSet = "extended",
    compute: Compute | None = None,
    block_size: int = BLOCK_SIZE,
) -> dict[str, pd.DataFrame]:
    """Return the training tables, by name, of the comparisons that are valid and have a status.

    `valid` has ``comparison_id``, ``valid`` and ``status`` of every comparison, as the stage validate writes
    it; `features` is the feature set, "thesis" as "extended". If there are several blocks of about
    `block_size` comparisons, `compute` computes them in parallel (None: in this process); ClusterError if its
    Dask cluster cannot be used.

    The result has ``features``: ``comparison_id, benchmark, operation, machine, fold_group, status`` and the
    `vector_columns`; ``changes``: ``comparison_id, worst_change`` (the smallest change of a configuration's
    median, a share of the baseline's; negative is worse; changes for the worse within between-run variation
    count as 0); ``bare``: the columns of both tables, computed without earlier versions and without sibling
    operations; all in the order of the comparisons table. ``runs`` has one row: ``spread``, the median
    between-run standard deviation as a share of the level (see `usual_spread`).
    """
    judged = tables.comparisons[["comparison_id"]].merge(valid, on="comparison_id", how="left")
    is_used = judged["valid"].fillna(value=False).to_numpy(bool) & judged["status"].notna().to_numpy()
    chosen = tables.comparisons[is_used].reset_index(drop=True)
    head = chosen[["comparison_id", "benchmark", "operation", "machine"]].copy()
    head["fold_group"] = head["benchmark"] + "/" + head["operation"]
    head["status"] = judged.loc[is_used, "status"].to_numpy()
    parts = split_blocks(chosen, block_size)
    compute = compute if compute is not None and len(parts) > 1 else Compute()
    blocks = side_by_side(
        Sides.from_tables, tables_of_blocks(tables, chosen, parts), compute, "samples of comparisons"
    )
    spread = usual_spread(blocks)
    task = partial(_vectors_and_changes, features=features, spread=spread)
    frames = side_by_side(task, blocks, compute, "vectors of comparisons")
    # concatenated blocks, in the order of the comparisons
    order = np.argsort(np.concatenate(parts), kind="stable")
    vectors_and_changes, bare = (
        pd.concat(part, ignore_index=True).iloc[order].reset_index(drop=True)
        for part in zip(*frames, strict=True)
    )
    return {
        "features": pd.concat([head, vectors_and_changes.drop(columns=_CHANGE)], axis=1),
        "changes": pd.concat([head[["comparison_id"]], vectors_and_changes[[_CHANGE]]], axis=1),
        "bare": pd.concat([head, bare], axis=1),
        "runs": pd.DataFrame({"spread": [spread]}),
    }


def _vectors_and_changes(
    sides: Sides, features: FeatureSet, spread: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the vectors and worst changes of comparisons, with and without earlier versions."""
    frames = []
    for part in (sides, without_past(sides)):
        prepared = PreparedComparisons.from_sides(part, spread)
        values = feature_vectors(prepared.sides, features, spread, prepared.steps)
        frame = pd.DataFrame(values, columns=[*vector_columns(features)])
        frames.append(frame.assign(**{_CHANGE: prepared.worst_change}))
    return frames[0], frames[1]


def featurize_stage() -> None:
    """Run stage featurize: write labelled and unlabelled vectors, and changes of medians, for training.

    The Parquet files in ``data/processed/comparisons`` are ``features, changes, bare, runs``, the tables of
    `training_tables`, and ``unlabelled``, the vectors of valid comparisons without a label. If
    ``extra_training_data`` in params.yaml is "champion", the vectors that the shipped champion was trained
    on, but none of the project's own operations, are written to ``start``; else an existing file ``start`` is
    removed. InputError if params.yaml or a table is missing or invalid.
    """
    params = load(Comparisons)
    section = params.section.featurize
    tables, valid = ComparisonTables.read(PLACES.interim), Valid.read(PLACES.valid).comparisons
    compute_features = partial(training_tables, features=section.feature_set, compute=params.compute)
    frames = compute_features(tables, valid)
    without_status = valid["status"].isna().map({True: "unlabelled", False: None})
    frames["unlabelled"] = compute_features(tables, valid.assign(status=without_status))["features"]
    if section.extra_training_data == "champion":
        shipped = ComparisonTables.read(SHIPPED)
        start = compute_features(shipped, validate_comparisons(shipped).comparisons)["features"]
        # added to the training data of every fold, and no fold may be tested on operations in these
        is_new = ~start["fold_group"].isin(frames["features"]["fold_group"])
        frames["start"] = start[is_new].reset_index(drop=True)
    (PLACES.processed / "start.parquet").unlink(missing_ok=True)
    write_tables(PLACES.processed, frames, "zstd")
