"""Stage promote of the family ``matrices``; who stands is said without importing what a contest needs."""

from __future__ import annotations

from data.matrices.params import Matrices
from data.params import load
from data.places import Places
from data.tables.written import written
from training.evaluation.opponents import show
from training.matrices.choice import CASES
from training.registry.contest import Candidate, Means, promoted

PLACES = Places("matrices")
#: The name of the split.
SPLIT = CASES


def promote_stage() -> None:
    """Stage promote: the best engine is registered, and becomes champion unless it is found worse."""
    knobs, metrics = load(Matrices), written(PLACES.metrics, "evaluate")

    def means() -> Means:
        from training.matrices.contest import means

        return means(knobs, metrics, SPLIT, PLACES)

    name, entry = knobs.section.promote.name, metrics["champion"]
    outcome = promoted(Candidate(name, entry, PLACES.models, PLACES.metrics, means))
    show(metrics, outcome, SPLIT, "pairs")
