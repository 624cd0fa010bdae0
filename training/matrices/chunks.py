"""An engine learns from runs of any number: one chunk at a time, and one group at a time."""

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
    """A chunk's pairs as rows: all in `file`, some in memory, and their moments (None without rows)."""

    file: Path
    some: Rows
    moments: RowMoments | None
    counted: pd.DataFrame


def shape(
    numbered: tuple[int, Path], *, chunks: CleanChunks, known: Sequence[Known], share: float, seed: int
) -> ShapedChunk:
    """Write the rows of a numbered chunk beside it; keep about `share` of them in memory."""
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
    """Return ``abnormal, rows`` by group; InputError if all rows are normal, or all abnormal."""
    found = pd.concat([chunk.counted for chunk in shaped]).groupby(level=0).sum()
    abnormal, rows = int(found["abnormal"].sum()), int(found["rows"].sum())
    if abnormal in {0, rows}:
        told = "abnormal" if abnormal else "normal"
        raise InputError(f"there is none to learn from but what is {told}; expected both", place="runs")
    return found


#: About so many pairs are searched on, and teach who judges where a group has no judge of its own.
#: About so many runs teach what is invalid. All of them, if there are fewer.
SEARCHED, VALIDATED = 50_000, 30_000


@dataclass(frozen=True)
class LargeRecipe:
    """How an engine learns from what is larger than memory.

    Attributes
    ----------
    cell : Cell
        Of a scheme with given groups and contrasted pairs, whose invalid runs are pruned.
    trials : int
        Of the search.
    missing : float
        The share of the raw metrics that a run may lack.
    compute : Compute
        Its workers must see the directory of the chunks under the same name.
    runs : int
        Of a chunk.
    """

    cell: Cell
    trials: int
    seed: int
    missing: float
    compute: Compute
    runs: int = RUNS

    def train(self, source: Path, work: Path) -> TrainedEngine:
        """Learn from the runs of `source`; what is between lies in `work`.

        Raises
        ------
        InputError
            If the model compares single runs, the runs are wrong, or all that is left is normal, or abnormal.
        """
        if self.cell.model not in CATALOGUE or self.cell.model in PAIRED:
            known = ", ".join(name for name in CATALOGUE if name not in PAIRED)
            raise InputError(f'model="{self.cell.model}"; expected one of: {known}')
        chunks, found = self.cleaned(source, work)
        # the form learns from all chunks, then all pairs are contrasted; see `Shape.of`
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
        """Part the runs of `source`, and leave those that can be learned from."""
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
        """Fit what groups share to some of the pairs, and each group's own judge to all of its pairs."""
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
    """Return a classifier fitted to all rows of a group in `files`, which have the columns of `like`."""
    wanted = [("group", "==", group)]
    whole = pd.concat([pd.read_parquet(file, filters=wanted) for file in files], ignore_index=True)
    x: NDArray[np.float64] = whole[[*like.columns]].to_numpy(np.float64)
    y = whole[_LABEL].to_numpy(np.float64)
    rows = Rows(x, like.columns, whole[[*ABOUT]], y, like.blocks, like.beside)
    cases = Cases.of(rows, projection, plain=cell.scheme.tuned)
    return fitted(CATALOGUE[cell.model], params, cases.leading(params["components"]), cases.y, seed)
