"""Matrices, asked of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from serving.asking import Answers, Asking, Batched
from serving.supply import MEBIBYTE

if TYPE_CHECKING:
    from serving.matrices.schemas import MatrixVerdictAnswer, Pair


class AsksMatrices(Asking):
    """A server that judges matrices."""

    def matrices(
        self, pairs: Iterable[Pair | Mapping[str, Any]], units: Mapping[str, str] | None = None
    ) -> Answers[MatrixVerdictAnswer]:
        """Have pairs of matrices judged.

        Parameters
        ----------
        pairs : iterable of Pair or mapping
            As docs/http.md has them; however many.
        units : mapping, optional
            Of metrics.

        Returns
        -------
        Answers of MatrixVerdictAnswer
            In the order of the pairs.

        Raises
        ------
        JudgeError
            If the server refuses one of them, or does not answer.
        """
        from serving.matrices.schemas import PAIRS, MatricesAnswer

        question = Batched(
            "/v1/matrices/judge",
            "pairs",
            MatricesAnswer,
            lambda told: Answers.of(told.verdicts, told.model, told.notes),
            PAIRS,
            16 * MEBIBYTE,
            {"units": units} if units else {},
        )
        return self.ask_each(question, pairs)
