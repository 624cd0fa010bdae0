"""Pairs of pieces become rows on disk; what is needed of all of them at once is summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.files import replacing
from features.matrices.forms import ABOUT, Known, Rows, joined
from features.matrices.pieces import CleanPieces, rows_of
from features.matrices.projection import RowMoments
from training.matrices.engine.engine import counts

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
    """All pairs as rows: where they lie, and what is known of them together.

    Attributes
    ----------
    known : Known
    pieces : sequence of ShapedPiece
    """

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
        """``abnormal, rows`` by group.

        Raises
        ------
        InputError
            If all rows are normal, or all abnormal.
        """
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
