"""Stage promote of the family ``matrices``; who stands is said without importing what a contest needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from data import params
from data.tables.written import written
from training.evaluation.opponents import show
from training.registry.contest import Candidate, promoted

if TYPE_CHECKING:
    from training.registry.contest import Means

MODELS, REPORTS = Path("models/matrices"), Path("reports/matrices")
#: The name of the split.
SPLIT = "test-cases"


def promote_stage() -> None:
    """Stage promote: the best engine is registered, and becomes champion unless it is found worse."""
    knobs, metrics = params.load(), written(REPORTS / "metrics.json", "evaluate")

    def means() -> Means:
        from training.matrices.contest import means

        return means(knobs, metrics, REPORTS, MODELS)

    name, entry = knobs.matrices.promote.name, metrics["champion"]
    outcome = promoted(Candidate(name, entry, MODELS, REPORTS / "metrics.json", means))
    show(metrics, outcome, SPLIT, "pairs")
