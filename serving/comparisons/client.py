"""Comparisons, asked of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from serving.asking import Answers, Asking, Batched
from serving.supply import MEBIBYTE

if TYPE_CHECKING:
    from data.comparisons.request import Comparison
    from serving.comparisons.schemas import VerdictAnswer

#: Most comparisons of one request.
MOST = 10_000


class AsksComparisons(Asking):
    """A server that judges comparisons."""

    def comparisons(self, comparisons: Iterable[Comparison | Mapping[str, Any]]) -> Answers[VerdictAnswer]:
        """Have comparisons judged.

        Parameters
        ----------
        comparisons : iterable of Comparison or mapping
            As docs/http.md has them; however many.

        Returns
        -------
        Answers of VerdictAnswer
            In the order of the comparisons.

        Raises
        ------
        JudgeError
            If the server refuses one of them, or does not answer.
        """
        from serving.comparisons.schemas import JudgeAnswer

        question = Batched(
            "/v1/comparisons/judge",
            "comparisons",
            JudgeAnswer,
            lambda told: Answers.of(told.verdicts, told.model, told.notes),
            MOST,
            32 * MEBIBYTE,
        )
        return self.ask_each(question, comparisons)
