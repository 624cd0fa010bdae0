"""Train an engine on data larger than memory, by chunks of runs and by workload group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.chunks import RUNS, Cleaned, cleaned, dataset, part
from data.matrices.tables import MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.files import digest_of, replacing
from features.matrices.chunks import CleanChunks, learned, rows_of
from features.matrices.forms import ABOUT, Known, Rows, joined
from features.matrices.projection import Projection, RowMoments
from training.estimators.catalogue import Params
from training.matrices.engine.engine import FittedEngine, counts, with_cases
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases, Judges, fitted
from training.matrices.engine.models import CATALOGUE, PAIRED
from training.matrices.engine.search import SearchQuestion, search
from training.matrices.engine.shape import PARTS, parted
from training.matrices.engine.stored import EngineCard, TrainedEngine, described
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.schemes import Cell

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


def shape(
    numbered: tuple[int, Path], *, chunks: CleanChunks, known: Sequence[Known], share: float, seed: int
) -> ShapedChunk:
    """Write a chunk's feature rows to a file next to it; keep an expected `share` of them in memory."""
    number, source = numbered
    rows, file = rows_of(chunks, known, source), source.with_name(_ROWS)
    with replacing(file) as path:
        numbers = pd.DataFrame(rows.x, columns=[*rows.columns])
        whole = pd.concat([rows.about, numbers], axis="columns").assign(**{_LABEL: rows.y})
        whole.to_parquet(path, index=False)
    draw = np.random.default_rng([seed, number]).random(len(rows.y))
    counted = counts(rows.about["group"].to_numpy(object), rows.y.astype(np.int64))
    moments = RowMoments.of(rows.x) if len(rows.y) else None
    return ShapedChunk(file, rows.of(draw < share), moments, counted)


def group_counts(shaped: Sequence[ShapedChunk]) -> pd.DataFrame:
    """Return ``abnormal, rows`` by group; raise InputError if all rows have the same label."""
    found = pd.concat([chunk.counted for chunk in shaped]).groupby(level=0).sum()
    abnormal, rows = int(found["abnormal"].sum()), int(found["rows"].sum())
    if abnormal in {0, rows}:
        told = "abnormal" if abnormal else "normal"
        raise InputError(f"there is none to learn from but what is {told}; expected both", place="runs")
    return found


#: SEARCHED: approximate number of pairs for the search and for the fallback classifier. VALIDATED:
#: approximate number of runs for the validity tree. All are used if there are fewer.
SEARCHED, VALIDATED = 50_000, 30_000


@dataclass(frozen=True)
class LargeRecipe:
    """Training settings for data larger than memory.

    Attributes
    ----------
    cell : Cell
        Its scheme must have given groups, contrasted pairs and pruned invalid runs.
    trials : int
        Number of search trials.
    missing : float
        Largest share of the raw metrics that may be missing from a run.
    compute : Compute
        Its workers must see the directory of the chunks under the same path.
    runs : int
        Number of runs in a chunk.
    """

    cell: Cell
    trials: int
    seed: int
    missing: float
    compute: Compute
    runs: int = RUNS

    def train(self, source: Path, work: Path) -> TrainedEngine:
        """Train on the runs in `source`; intermediate files are written to `work`.

        Raises
        ------
        InputError
            If the model is unknown or takes two runs as one row, the runs are malformed, or all remaining
            rows have the same label.
        """
        if self.cell.model not in CATALOGUE or self.cell.model in PAIRED:
            known = ", ".join(name for name in CATALOGUE if name not in PAIRED)
            raise InputError(f'model="{self.cell.model}"; expected one of: {known}')
        chunks, found = self.cleaned(source, work)
        # scales are learned from all chunks before pairs are contrasted; see `Shape.of`
        learnt = learned(chunks, self.compute)
        share = min(1.0, SEARCHED / max(1, chunks.pairs))
        task = partial(shape, chunks=chunks, known=learnt, share=share, seed=self.seed)
        shaped = side_by_side(task, list(enumerate(chunks.files)), self.compute, "contrast pairs")
        engine = self.learned(learnt[0], shaped)
        some = MatrixTables.joined([one.some for one in found])
        by_analysts = any(one.by_analysts for one in found)
        card = EngineCard(
            entry=self.cell.entry,
            model=self.cell.model,
            scheme=asdict(self.cell.scheme),
            metrics=described(some.metrics),
            groups=chunks.groups,
            own=tuple(sorted(engine.judges.own)),
            threshold=engine.threshold,
            params=dict(engine.found.params),
            missing=self.missing,
            data_digest=digest_of(*map(Path, sorted(dataset(source).files))),
            seed=self.seed,
        )
        return TrainedEngine(engine, ValidityTree.fit(some, self.seed) if by_analysts else None, card)

    def cleaned(self, source: Path, work: Path) -> tuple[CleanChunks, list[Cleaned]]:
        """Split the runs of `source` into chunks and drop invalid runs.

        Returns the chunks to learn from, and the result of cleaning each chunk.
        """
        chunks = part(source, work.resolve(), self.runs)
        parts = PARTS if len(chunks.workloads) >= PARTS else 1
        of_part = parted(chunks.workloads, self.seed) % parts
        found = cleaned(
            source, chunks, of_part, self.compute, missing=self.missing, some=VALIDATED, seed=self.seed
        )
        files = tuple(one.file for one in found if one.valid)
        groups = tuple(sorted(chunks.workloads["group"].unique()))
        rows, pairs = (sum(getattr(one, name) for one in found) for name in ("valid", "pairs"))
        metrics = tuple(found[0].some.raw)
        return CleanChunks(files, metrics, groups, rows, pairs, parts), found

    def learned(self, known: Known, shaped: Sequence[ShapedChunk]) -> FittedEngine:
        """Fit the shared parts to a sample of the pairs, and each group's classifier to all its pairs."""
        scheme, model, seed = self.cell.scheme, CATALOGUE[self.cell.model], self.seed
        rows, groups = joined([chunk.some for chunk in shaped]), with_cases(group_counts(shaped))
        moments = reduce(add, [chunk.moments for chunk in shaped if chunk.moments is not None])
        projection = Projection.of_moments(moments, rows.beside, scheme.components or 0)
        cases = Cases.of(rows, projection, plain=scheme.tuned)
        question = SearchQuestion(
            model, cases, groups, scheme.components, scheme.balance, scheme.tuned, {}, seed
        )
        chosen = search(question, self.trials)
        params, everything = chosen.params, cases.y >= 0
        task = partial(
            fit_group,
            files=tuple(chunk.file for chunk in shaped),
            cell=self.cell,
            params=params,
            projection=projection,
            like=rows.of(rows.y > 1),
            seed=seed,
        )
        apart = groups if params["share"] else ()
        own = dict(zip(apart, side_by_side(task, apart, self.compute, "fit groups"), strict=True))
        shared = Judges.fit(model, params, cases, chosen=everything, groups=(), seed=seed)
        judges = Judges(own, shared.fallback, float(params["share"]), params["components"])
        return FittedEngine(
            scheme, self.cell.model, scheme.form, known, Grouping("given"), projection, judges, chosen
        )


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
    """Return a classifier fitted to all rows of a group in `files`; `like` has the columns of these rows."""
    wanted = [("group", "==", group)]
    whole = pd.concat([pd.read_parquet(file, filters=wanted) for file in files], ignore_index=True)
    x: NDArray[np.float64] = whole[[*like.columns]].to_numpy(np.float64)
    y = whole[_LABEL].to_numpy(np.float64)
    rows = Rows(x, like.columns, whole[[*ABOUT]], y, like.blocks, like.beside)
    cases = Cases.of(rows, projection, plain=cell.scheme.tuned)
    return fitted(CATALOGUE[cell.model], params, cases.leading(params["components"]), cases.y, seed)
