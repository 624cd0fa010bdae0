"""An engine learns from runs of any number: one piece at a time, and one group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pandas as pd

from data.errors import InputError
from data.matrices.pieces.cleaning import PART, Cleaned, cleaned
from data.matrices.pieces.parting import RUNS, dataset, part
from data.matrices.tables import MatrixTables
from data.sidebyside import Compute, side_by_side
from data.tables.digest import digest_of
from features.matrices.forms import Rows, joined
from features.matrices.pieces import CleanPieces, learned
from features.matrices.projection import Projection
from training.estimators.catalogue import Params
from training.matrices.engine.engine import PARTS, FittedEngine, parted, with_cases
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases, Judges, fitted
from training.matrices.engine.models import CATALOGUE, PAIRED
from training.matrices.engine.search import SearchQuestion, search
from training.matrices.engine.stored import EngineCard, TrainedEngine, described
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.pieces.shaping import Shaping, read_group, shape
from training.matrices.schemes import Cell

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
    seed : int
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
        pieces = part(source, work.resolve(), self.runs)
        parts = PARTS if len(pieces.workloads) >= PARTS else 1
        of_part = parted(pieces.workloads, self.seed) % parts
        found = cleaned(
            source, pieces, of_part, self.compute, missing=self.missing, some=VALIDATED, seed=self.seed
        )
        some = MatrixTables.joined([one.some for one in found])
        groups = tuple(sorted(pieces.workloads["group"].unique()))
        valid = sum(one.valid for one in found)
        files = tuple(one.file for one in found if one.valid)
        clean = CleanPieces(files, tuple(some.raw), groups, valid, PART, parts)
        return self._trained(clean, some, found, digest_of(*map(Path, sorted(dataset(source).files))))

    def _trained(
        self, pieces: CleanPieces, some: MatrixTables, found: Sequence[Cleaned], digest: str
    ) -> TrainedEngine:
        engine = self.fit(pieces, sum(one.pairs for one in found))
        validity = None
        if any(one.by_analysts for one in found):
            validity = ValidityTree.fit(some, self.seed)
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
            data_digest=digest,
            seed=self.seed,
        )
        return TrainedEngine(engine, validity, card)

    def fit(self, pieces: CleanPieces, pairs: int) -> FittedEngine:
        """Fit the engine: what all groups share to some of the pairs, and each group's own to all of its."""
        known, seed = learned(pieces, self.compute), self.seed
        share = min(1.0, SEARCHED / max(1, pairs))
        tasks = [Shaping(pieces, known, number, share, seed) for number in range(len(pieces.files))]
        shaped = side_by_side(shape, tasks, self.compute, "contrast pairs")
        rows = joined([one.some for one in shaped])
        counted = pd.concat([one.counted for one in shaped]).groupby(level=0).sum()
        abnormal = int(counted["abnormal"].sum())
        if abnormal in {0, int(counted["rows"].sum())}:
            told = "abnormal" if abnormal else "normal"
            raise InputError(f"there is none to learn from but what is {told}; expected both", place="runs")
        moments = reduce(add, [one.moments for one in shaped if one.moments is not None])
        scheme = self.cell.scheme
        projection = Projection.of_moments(moments, rows.beside, scheme.components or 0)
        cases, groups = Cases.of(rows, projection, plain=scheme.tuned), with_cases(counted)
        model = CATALOGUE[self.cell.model]
        question = SearchQuestion(
            model, cases, groups, scheme.components, scheme.balance, scheme.tuned, {}, seed
        )
        chosen = search(question, self.trials)
        alone = groups if chosen.params["share"] else ()
        own = self._own(chosen.params, alone, [one.file for one in shaped], projection, rows)
        everything = cases.y >= 0
        shared = Judges.fit(model, chosen.params, cases, chosen=everything, groups=(), seed=seed)
        judges = Judges(own, shared.fallback, float(chosen.params["share"]), chosen.params["components"])
        grouping = Grouping("given")
        form = scheme.form
        return FittedEngine(scheme, self.cell.model, form, known[0], grouping, projection, judges, chosen)

    def _own(
        self, params: Params, groups: Sequence[str], files: Sequence[Path], projection: Projection, like: Rows
    ) -> dict[str, Any]:
        """Fit the classifiers of groups."""
        empty = like.of(like.y > 1)
        tasks = [
            GroupFit(group, tuple(files), self.cell, params, projection, empty, self.seed) for group in groups
        ]
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
