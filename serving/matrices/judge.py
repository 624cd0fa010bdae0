"""Pairs of matrices become verdicts: validity, group, probability, and the raw metrics that drove it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from data.matrices.tables import MatrixTables
from data.sidebyside import watched
from serving.matrices.model import Engine
from serving.matrices.schemas import MatricesAnswer
from training.matrices import judging as matrix_judging

if TYPE_CHECKING:
    from training.matrices.engine.engine import ToldPair

#: How many raw metrics a verdict names.
DRIVERS = 5


#: A bar is shown after so many seconds.
LONG = 2.0


def judge(tables: MatrixTables, served: Engine, *, shown: bool = False) -> MatricesAnswer:
    """Give a verdict on every pair of `tables`, in their order.

    Parameters
    ----------
    tables : MatrixTables
    served : Engine
    shown : bool
        Whether a bar on a terminal shows how far it is, if it takes `LONG`.

    Raises
    ------
    InputError
        If more metrics are missing than the model can do without.
    """
    watch = _shown if shown else matrix_judging.unwatched
    found = matrix_judging.judge(served.model, tables, DRIVERS, watch)
    content = {
        "model": served.ref,
        "verdicts": found.verdicts,
        "notes": found.notes,
        "promise": served.model.card.promise,
    }
    return MatricesAnswer.model_validate(content, from_attributes=True)


def _shown(told: Iterable[ToldPair], total: int) -> Iterable[ToldPair]:
    return watched(told, total, "pairs of matrices", after=LONG)
