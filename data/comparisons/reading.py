"""What a reader gives: pieces of tables as it goes."""

from __future__ import annotations

from collections.abc import Sequence

from data.comparisons.columns import Records, Results
from data.comparisons.tables import COMPARISON_DTYPES, LABEL_DTYPES, ComparisonTables
from data.tables.specs import typed

#: Rows of results in a piece.
PIECE = 50_000


class Builder:
    """The three tables on their way.

    Parameters
    ----------
    piece : int or None
        Rows of results after which `is_full`; None: never.
    further_results, further_comparisons : sequence of str
        Columns beyond those of the contract.
    """

    def __init__(
        self,
        piece: int | None = None,
        *,
        further_results: Sequence[str] = (),
        further_comparisons: Sequence[str] = (),
    ) -> None:
        self._piece = piece
        self.results = Results(further_results)
        self.comparisons = Records(*COMPARISON_DTYPES, *further_comparisons)
        self.labels = Records("comparison_id", "status", "labelled_by")

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take` a piece."""
        return self._piece is not None and len(self.results) >= self._piece

    def take(self) -> ComparisonTables:
        """Return what is there as tables, and begin anew."""
        tables = ComparisonTables(
            self.results.frame(),
            typed(self.comparisons.frame(), COMPARISON_DTYPES),
            typed(self.labels.frame(), LABEL_DTYPES),
        )
        for part in (self.results, self.comparisons, self.labels):
            part.clear()
        return tables
