"""Stage ``promote``: the best model is registered, and becomes champion unless it is found worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training.contest import Candidate, promoted
from training.family import Family, run
from training.opponents import show
from training.registry import refresh
from training.written import written

if TYPE_CHECKING:
    from training.contest import Means


def promote(family: Family) -> None:
    """Bring the registry up to date with what DVC holds, then print the opponents' table."""
    scores = family.reports / "metrics.json"
    metrics, name = written(scores, "evaluate"), family.section.promote.name
    model = metrics["champion"]

    def means() -> Means:
        from training.comparisons_contest import means

        return means(family, metrics)

    show(metrics, promoted(Candidate(name, model, family.models / model, scores, means)))


if __name__ == "__main__":
    run(promote)
    refresh()
