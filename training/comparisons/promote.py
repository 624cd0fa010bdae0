"""Stage ``promote``: the best model is registered, and becomes champion unless it is found worse."""

from __future__ import annotations

from data.tables.written import written
from training.comparisons.family import Family
from training.evaluation.opponents import show
from training.registry.contest import Candidate, Means, promoted


def promote(family: Family) -> None:
    """Bring the registry up to date with what DVC holds, then print the opponents' table."""
    scores = family.places.metrics
    metrics, name = written(scores, "evaluate"), family.section.registered
    model = metrics["champion"]

    def means() -> Means:
        from training.comparisons.contest import means

        return means(family, metrics)

    show(metrics, promoted(Candidate(name, model, family.places.models / model, scores, means)))
