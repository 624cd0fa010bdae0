"""Pairs of matrices become verdicts: validity, group, probability, and the raw metrics that drove it."""

from __future__ import annotations

from dataclasses import dataclass

from data.matrices.tables import MatrixTables
from serving.matrices.model import Engine
from serving.models import ModelRef
from serving.pages.verdict_lines import Answer
from training.matrices import judging as matrix_judging
from training.matrices.judging import MatrixVerdict

#: How many raw metrics a verdict names.
DRIVERS = 5


@dataclass(frozen=True)
class Judged:
    """Verdicts on pairs of matrices.

    Attributes
    ----------
    model : ModelRef
        Which gave them.
    verdicts : tuple of MatrixVerdict
        In the order of the pairs.
    notes : tuple of str
        What to know about all of them.
    """

    model: ModelRef
    verdicts: tuple[MatrixVerdict, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.verdicts)

    def count(self, answer: Answer) -> int:
        """Return how many pairs got this verdict."""
        return sum(one.verdict == answer for one in self.verdicts)


def judge(tables: MatrixTables, served: Engine) -> Judged:
    """Give a verdict on every pair of `tables`.

    Raises
    ------
    InputError
        If more metrics are missing than the model can do without.
    """
    found = matrix_judging.judge(served.model, tables, DRIVERS)
    return Judged(served.ref, found.verdicts, found.notes)
