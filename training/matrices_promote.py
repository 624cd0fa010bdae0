"""Stage promote of the family ``matrices``; who stands is said without importing what a contest needs."""

from __future__ import annotations

import sys
from pathlib import Path

from data import params
from training.digest import digest_of
from training.promote import standing
from training.written import written

MODELS, REPORTS = Path("models/matrices"), Path("reports/matrices")
#: The name of the split.
SPLIT = "test-cases"


def promote_stage() -> None:
    """Stage promote: the best engine is registered, and becomes champion unless it is found worse."""
    from rich.console import Console

    from training.opponents import opponents

    knobs, metrics = params.load(), written(REPORTS / "metrics.json", "evaluate")
    evidence = digest_of(REPORTS / "metrics.json", MODELS / "card.json")
    outcome = standing(knobs.matrices.promote.name, evidence)
    if outcome is None:
        from training.matrix_contest import promote

        outcome = promote(knobs, metrics, REPORTS, MODELS)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(opponents(metrics, SPLIT, "pairs"))
    console.print(outcome, highlight=False, markup=False)
