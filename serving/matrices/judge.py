"""Pairs of matrices become verdicts: validity, group, probability, and the raw metrics that drove it."""

from __future__ import annotations

from data.matrices.tables import MatrixTables
from serving.matrices.model import Engine
from serving.matrices.schemas import MatricesAnswer
from training.matrices import judging as matrix_judging

#: How many raw metrics a verdict names.
DRIVERS = 5


def judge(tables: MatrixTables, served: Engine) -> MatricesAnswer:
    """Give a verdict on every pair of `tables`, in their order.

    Raises
    ------
    InputError
        If more metrics are missing than the model can do without.
    """
    found = matrix_judging.judge(served.model, tables, DRIVERS)
    content = {
        "model": served.ref,
        "verdicts": found.verdicts,
        "notes": found.notes,
        "promise": served.model.card.promise,
    }
    return MatricesAnswer.model_validate(content, from_attributes=True)
