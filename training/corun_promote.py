"""Stage promote of the family ``corun``; who stands is said without importing what a contest needs."""

from __future__ import annotations

from pathlib import Path

from data import params
from training.digest import digest_of
from training.promote import standing
from training.written import written

MODELS, REPORTS, TUNED = Path("models/corun"), Path("reports/corun"), Path("models/tuned/corun")


def promote_stage() -> None:
    """Stage promote: the best models are registered, and become champions unless they are found worse."""
    knobs, metrics = params.load(), written(REPORTS / "metrics.json", "evaluate")
    names = [knobs.corun.promote.name, *([knobs.corun.online.name] if metrics["online"] else [])]
    evidence = digest_of(REPORTS / "metrics.json")
    lines = [standing(name, evidence) for name in names]
    if None in lines:
        from training.corun_contest import Places, promote

        lines = [*promote(knobs, metrics, Places(REPORTS, MODELS, TUNED))]
    for line in lines:
        print(line)  # noqa: T201
