"""An engine learns from runs of any number: one piece at a time, and one group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.chunks import PART, RUNS, Cleaned, cleaned, dataset, part
from data.matrices.tables import MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.files import digest_of, replacing
from features.matrices.chunks import CleanPieces, learned, rows_of
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
class Shaping:
    """A piece whose pairs are to become rows, a `share` of which is returned."""

    pieces: CleanPieces
    known: Sequence[Known]
    number: int
    share: float
    seed: int


@dataclass(frozen=True)
class ShapedPiece:
    """What came of a piece.

    Attributes
    ----------
    file : Path
        All of its rows.
    some : Rows
        Some of them.
    moments : RowMoments or None
        None where there is no row.
    counted : DataFrame
        ``abnormal, rows`` by group.
    """

    file: Path
    some: Rows
    moments: RowMoments | None
    counted: pd.DataFrame


@dataclass(frozen=True)
class Contrasts:
    """All pairs as rows: where they lie, and what is known of them together."""

    known: Known
    pieces: Sequence[ShapedPiece]

    @property
    def some(self) -> Rows:
        """Some rows of all pieces."""
        return joined([one.some for one in self.pieces])

    @property
    def moments(self) -> RowMoments:
        """The moments of all rows."""
        return reduce(add, [one.moments for one in self.pieces if one.moments is not None])

    @property
    def counted(self) -> pd.DataFrame:
        """``abnormal, rows`` by group."""
        found = pd.concat([one.counted for one in self.pieces]).groupby(level=0).sum()
        abnormal, rows = int(found["abnormal"].sum()), int(found["rows"].sum())
        if abnormal in {0, rows}:
            told = "abnormal" if abnormal else "normal"
            raise InputError(f"there is none to learn from but what is {told}; expected both", place="runs")
        return found


def shape(task: Shaping) -> ShapedPiece:
    """Write the rows of a piece beside it."""
    place = task.pieces.files[task.number]
    rows, file = rows_of(task.pieces, task.known, place), place.with_name(_ROWS)
    with replacing(file) as path:
        numbers = pd.DataFrame(rows.x, columns=[*rows.columns])
        whole = pd.concat([rows.about, numbers], axis="columns").assign(**{_LABEL: rows.y})
        whole.to_parquet(path, index=False)
    draw = np.random.default_rng([task.seed, task.number]).random(len(rows.y))
    counted = counts(rows.about["group"].to_numpy(object), rows.y.astype(np.int64))
    return ShapedPiece(
        file, rows.of(draw < task.share), RowMoments.of(rows.x) if len(rows.y) else None, counted
    )


def read_group(files: Sequence[Path], group: str, like: Rows) -> Rows:
    """Read the rows of a group, which have the columns of others."""
    wanted = [("group", "==", group)]
    whole = pd.concat([pd.read_parquet(file, filters=wanted) for file in files], ignore_index=True)
    x: NDArray[np.float64] = whole[[*like.columns]].to_numpy(np.float64)
    y = whole[_LABEL].to_numpy(np.float64)
    return Rows(x, like.columns, whole[[*ABOUT]], y, like.blocks, like.beside)


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
        Its workers must see the directory of the pieces under the same name.
    runs : int
        Of a piece.
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
        pieces, found = self.cleaned(source, work)
        engine = self.learned(self.shaped(pieces))
        some = MatrixTables.joined([one.some for one in found])
        by_analysts = any(one.by_analysts for one in found)
        card = EngineCard(
            entry=self.cell.entry,
            model=self.cell.model,
            scheme=asdict(self.cell.scheme),
            metrics=described(some.metrics),
            groups=pieces.groups,
            own=tuple(sorted(engine.judges.own)),
            threshold=engine.threshold,
            params=dict(engine.found.params),
            missing=self.missing,
            data_digest=digest_of(*map(Path, sorted(dataset(source).files))),
            seed=self.seed,
        )
        return TrainedEngine(engine, ValidityTree.fit(some, self.seed) if by_analysts else None, card)

    def cleaned(self, source: Path, work: Path) -> tuple[CleanPieces, list[Cleaned]]:
        """Part the runs of `source`, and leave those that can be learned from."""
        pieces = part(source, work.resolve(), self.runs)
        parts = PARTS if len(pieces.workloads) >= PARTS else 1
        of_part = parted(pieces.workloads, self.seed) % parts
        found = cleaned(
            source, pieces, of_part, self.compute, missing=self.missing, some=VALIDATED, seed=self.seed
        )
        files = tuple(one.file for one in found if one.valid)
        groups = tuple(sorted(pieces.workloads["group"].unique()))
        rows, pairs = (sum(getattr(one, name) for one in found) for name in ("valid", "pairs"))
        metrics = tuple(found[0].some.raw)
        return CleanPieces(files, metrics, groups, rows, pairs, PART, parts), found

    def shaped(self, pieces: CleanPieces) -> Contrasts:
        """Learn what the form needs from all pieces, and contrast all pairs; see `Shape.of`."""
        known = learned(pieces, self.compute)
        share = min(1.0, SEARCHED / max(1, pieces.pairs))
        tasks = [Shaping(pieces, known, number, share, self.seed) for number in range(len(pieces.files))]
        return Contrasts(known[0], side_by_side(shape, tasks, self.compute, "contrast pairs"))

    def learned(self, shaped: Contrasts) -> FittedEngine:
        """Fit the engine: what all groups share to some of the pairs, and each group's own to all of its."""
        scheme, model, seed = self.cell.scheme, CATALOGUE[self.cell.model], self.seed
        rows, groups = shaped.some, with_cases(shaped.counted)
        projection = Projection.of_moments(shaped.moments, rows.beside, scheme.components or 0)
        cases = Cases.of(rows, projection, plain=scheme.tuned)
        question = SearchQuestion(
            model, cases, groups, scheme.components, scheme.balance, scheme.tuned, {}, seed
        )
        chosen = search(question, self.trials)
        params, everything = chosen.params, cases.y >= 0
        own = self._own(params, groups if params["share"] else (), projection, shaped)
        shared = Judges.fit(model, params, cases, chosen=everything, groups=(), seed=seed)
        judges = Judges(own, shared.fallback, float(params["share"]), params["components"])
        fitting = (shaped.known, Grouping("given"), projection, judges, chosen)
        return FittedEngine(scheme, self.cell.model, scheme.form, *fitting)

    def _own(
        self, params: Params, groups: Sequence[str], projection: Projection, shaped: Contrasts
    ) -> dict[str, Any]:
        """Fit the classifiers of groups."""
        files, like = tuple(one.file for one in shaped.pieces), shaped.some.of(shaped.some.y > 1)
        tasks = [GroupFit(group, files, self.cell, params, projection, like, self.seed) for group in groups]
        return dict(zip(groups, side_by_side(fit_group, tasks, self.compute, "fit groups"), strict=True))


@dataclass(frozen=True)
class GroupFit:
    """A group's classifier to be fitted to all rows of the group in `files`."""

    group: str
    files: tuple[Path, ...]
    cell: Cell
    params: Params
    projection: Projection
    like: Rows
    seed: int


def fit_group(task: GroupFit) -> Any:
    """Return the fitted classifier."""
    rows = read_group(task.files, task.group, task.like)
    cases = Cases.of(rows, task.projection, plain=task.cell.scheme.tuned)
    x = cases.leading(task.params["components"])
    return fitted(CATALOGUE[task.cell.model], task.params, x, cases.y, task.seed)
