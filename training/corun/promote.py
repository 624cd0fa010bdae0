"""Stage promote of the family ``corun``; who stands is said without importing what a contest needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from data import params
from data.tables.written import written
from training.registry.contest import Candidate, promoted

if TYPE_CHECKING:
    from training.registry.contest import Means

MODELS, REPORTS, TUNED = Path("models/corun"), Path("reports/corun"), Path("models/tuned/corun")


def candidates(knobs: params.Params, metrics: dict[str, Any], root: Path = Path()) -> list[Candidate]:
    """Return the best static model, and the best online one if there are samples."""

    def static() -> Means:
        from training.corun.contest import static

        return static(knobs, metrics, root)

    def online() -> Means:
        from training.corun.contest import online

        return online(knobs, metrics["online"], root)

    section, scores = knobs.corun, root / REPORTS / "metrics.json"
    best, directory = metrics["champion"], root / MODELS
    found = [Candidate(section.promote.name, best, directory / best, scores, static)]
    if metrics["online"] is not None:
        best = metrics["online"]["champion"]
        found.append(Candidate(section.online.name, best, directory / "online", scores, online))
    return found


def promote_stage() -> None:
    """Stage promote: the best models are registered, and become champions unless they are found worse."""
    for candidate in candidates(params.load(), written(REPORTS / "metrics.json", "evaluate")):
        print(promoted(candidate))  # noqa: T201
