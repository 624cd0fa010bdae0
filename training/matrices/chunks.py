"""Train an engine on data larger than memory, by chunks of runs and by workload group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.errors import InputError
from data.matrices.chunks import RUNS, Cleaned, clean_chunks, open_runs, split_into_chunks
from data.matrices.tables import Floats, MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.files import digest_of, replacing
from features.matrices.chunks import CleanChunks, contrasted_rows, statistics_without_parts
from features.matrices.forms import ABOUT, MetricStatistics, Rows, concat_rows
from features.matrices.projection import Projection, RowMoments
from training.estimators.catalogue import Params
from training.matrices.engine.engine import FittedEngine, count_by_group, groups_with_cases
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases, fit_classifier
from training.matrices.engine.models import CATALOGUE, PAIRED
from training.matrices.engine.search import SearchInput, search_params
from training.matrices.engine.shape import PARTS, deal_to_parts, require_both_labels
from training.matrices.engine.stored import EngineRecipe, TrainedEngine
from training.matrices.schemes import BLENDS, Cell

_ROWS, _LABEL = "rows.parquet", "abnormal"


@dataclass(frozen=True)
class ShapedChunk:
    """The feature rows of a chunk's pairs: all of them in `file`, a random sample in memory (`some`).

    `moments` is None where the chunk has no rows; `counted` has ``abnormal, rows`` by group.
    """

    file: Path
    some: Rows
    moments: RowMoments | None
    counted: pd.DataFrame


def shape_chunk(
    numbered: tuple[int, Path],
    *,
    chunks: CleanChunks,
    scales: Sequence[MetricStatistics],
    share: float,
    seed: int,
) -> ShapedChunk:
    """Write a chunk's feature rows to rows.parquet in its folder; return a summary and a random sample.

    There is one row per labelled pair with values on both sides. The result has the ``file``, the sample
    ``some``, ``moments`` (None without rows) and ``counted``, the numbers ``abnormal, rows`` by group.
    `numbered` is the number and the file of the chunk; the sample, about the share `share` of the rows,
    depends on the number and `seed`. `scales` are `statistics_without_parts`: first of all runs, then, by
    part (fold of test cases), of the runs outside it, which scale the pairs of that part; with a single part,
    the first scale all pairs.
    """
    number, source = numbered
    rows, file = contrasted_rows(chunks, scales, source), source.with_name(_ROWS)
    with replacing(file) as path:
        numbers = pd.DataFrame(rows.x, columns=[*rows.columns])
        whole = pd.concat([rows.about, numbers], axis="columns").assign(**{_LABEL: rows.y})
        whole.to_parquet(path, index=False)
    draw = np.random.default_rng([seed, number]).random(len(rows.y))
    counted = count_by_group(rows.about["group"].to_numpy(object), rows.y.astype(np.int64))
    moments = RowMoments.from_rows(rows.x) if len(rows.y) else None
    return ShapedChunk(file, rows.select_rows(draw < share), moments, counted)


#: SEARCHED: approximate number of pairs for the search and for the fallback classifier. VALIDATED:
#: approximate number of runs for the validity tree. All are used if there are fewer.
SEARCHED, VALIDATED = 50_000, 30_000


@dataclass(frozen=True)
class LargeRecipe:
    """Training settings for data larger than memory, in chunks of `runs` runs.

    The scheme of `cell` must have given groups, contrasted pairs and pruned invalid runs. `missing` is the
    largest share of the raw metrics that may be missing from a run. The workers of `compute` must see the
    directory of the chunks under the same path.
    """

    cell: Cell
    trials: int
    seed: int
    missing: float
    compute: Compute
    runs: int = RUNS

    def train(self, source: Path, work: Path) -> TrainedEngine:
        """Return an engine trained on the runs in `source`; intermediate files are written to `work`.

        Raises InputError if the model is unknown or needs rows of another form, the runs are malformed, or
        all remaining rows have the same label.
        """
        supported = [name for name in CATALOGUE if name not in PAIRED | BLENDS.keys()]
        if self.cell.model not in supported:
            supported_models = ", ".join(supported)
            raise InputError(f'model="{self.cell.model}"; expected one of: {supported_models}')
        chunks, cleaned_chunks = self.clean_chunks(source, work)
        # scales are learned from all chunks before pairs are contrasted; see `RowSettings.make_rows`
        learnt = statistics_without_parts(chunks, self.compute)
        share = min(1.0, SEARCHED / max(1, chunks.pairs))
        task = partial(shape_chunk, chunks=chunks, scales=learnt, share=share, seed=self.seed)
        shaped = side_by_side(task, list(enumerate(chunks.files)), self.compute, "contrast pairs")
        engine = self.fit_engine(learnt[0], shaped)
        some = MatrixTables.join_tables([chunk.some for chunk in cleaned_chunks])
        by_analysts = any(chunk.by_analysts for chunk in cleaned_chunks)
        digest = digest_of(*map(Path, sorted(open_runs(source).files)))
        recipe = EngineRecipe(self.cell, self.trials, self.seed, by_analysts, self.missing, digest)
        return recipe.train(some, engine, chunks.groups)

    def clean_chunks(self, source: Path, work: Path) -> tuple[CleanChunks, list[Cleaned]]:
        """Split the runs of `source` into chunks in `work`, without invalid runs.

        Returns the chunks to learn from, and the result of cleaning each chunk.
        """
        files, workloads = split_into_chunks(source, work.resolve(), self.runs)
        parts = PARTS if len(workloads) >= PARTS else 1
        of_part = deal_to_parts(workloads, self.seed) % parts
        clean = clean_chunks(
            source, files, of_part, self.compute, missing=self.missing, some=VALIDATED, seed=self.seed
        )
        files = tuple(chunk.file for chunk in clean if chunk.valid)
        metrics, groups = tuple(clean[0].some.raw_metrics), tuple(sorted(workloads["group"].unique()))
        rows, pairs = sum(chunk.valid for chunk in clean), sum(chunk.pairs for chunk in clean)
        return CleanChunks(files, metrics, groups, rows, pairs, parts), clean

    def fit_engine(self, scales: MetricStatistics, shaped: Sequence[ShapedChunk]) -> FittedEngine:
        """Fit the shared parts to a sample of the pairs, and each group's classifier to all its pairs.

        `scales` are the statistics of all chunks. Raises InputError without normal or without abnormal rows.
        """
        scheme, seed = self.cell.scheme, self.seed
        counted = pd.concat([chunk.counted for chunk in shaped]).groupby(level=0).sum()
        require_both_labels(int(counted["abnormal"].sum()), int(counted["rows"].sum()))
        rows, groups = concat_rows([chunk.some for chunk in shaped]), groups_with_cases(counted)
        moments = reduce(add, [chunk.moments for chunk in shaped if chunk.moments is not None])
        projection = Projection.from_moments(moments, rows.n_other_columns, scheme.components or 0)
        cases = Cases.from_rows(rows, projection, plain=scheme.tuned)
        chosen = search_params(SearchInput(self.cell, cases, groups, seed), self.trials)
        params = chosen.params
        files, like = tuple(chunk.file for chunk in shaped), rows.select_rows(rows.y > 1)
        task = partial(
            fit_group, files=files, cell=self.cell, params=params, projection=projection, like=like, seed=seed
        )
        own_groups = groups if params["share"] else ()
        fitted = side_by_side(task, own_groups, self.compute, "fit groups")
        shared = SearchInput(self.cell, cases, (), seed).fit_classifiers(params, cases.y >= 0)
        judges = replace(shared, of_groups=dict(zip(own_groups, fitted, strict=True)))
        learned = (scales, Grouping("given"), projection, judges, chosen)
        return FittedEngine(scheme, self.cell.model, scheme.form, *learned)


def fit_group(
    group: str,
    *,
    files: Sequence[Path],
    cell: Cell,
    params: Params,
    projection: Projection,
    like: Rows,
    seed: int,
) -> Any:
    """Return the fitted classifier of one workload group, learned from the group's rows in `files`.

    `files`, at least one, are Parquet files that `shape_chunk` wrote; all rows of the group are read into
    memory. The features are projected by `projection`. `like` names their columns; its rows are not used.
    `cell` names the model and scheme, `params` are the searched parameters, including those of resampling.
    Labels are not checked: the group must have rows of both labels, or some models raise ValueError.
    """
    wanted = [("group", "==", group)]
    whole = pd.concat([pd.read_parquet(file, filters=wanted) for file in files], ignore_index=True)
    x: Floats = whole[[*like.columns]].to_numpy(np.float64)
    y = whole[_LABEL].to_numpy(np.float64)
    rows = Rows(x, like.columns, whole[[*ABOUT]], y, like.blocks, like.n_other_columns)
    cases = Cases.from_rows(rows, projection, plain=cell.scheme.tuned)
    x = cases.leading_columns(params["components"])
    return fit_classifier(CATALOGUE[cell.model], params, x, cases.y, seed)
