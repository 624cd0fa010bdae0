"""Stage promote of the family ``corun``; who stands is said without importing what a contest needs."""

from __future__ import annotations

from typing import Any

from data.corun.params import Corun
from data.params import Params, load
from data.places import Places
from data.tables.written import written
from training.registry.contest import Candidate, Means, promoted

PLACES = Places("corun")


def candidates(knobs: Params[Corun], metrics: dict[str, Any], places: Places = PLACES) -> list[Candidate]:
    """Return the best static model, and the best online one if there are samples."""

    def static() -> Means:
        from training.corun.contest import static

        return static(knobs, metrics, places)

    def online() -> Means:
        from training.corun.contest import online

        return online(knobs, metrics, places)

    section, scores = knobs.section, places.metrics
    best, directory = metrics["champion"], places.models
    found = [Candidate(section.promote.name, best, directory / best, scores, static)]
    if metrics["online"] is not None:
        best = metrics["online"]["champion"]
        found.append(Candidate(section.online.name, best, directory / "online", scores, online))
    return found


def promote_stage() -> None:
    """Stage promote: the best models are registered, and become champions unless they are found worse."""
    for candidate in candidates(load(Corun), written(PLACES.metrics, "evaluate")):
        print(promoted(candidate))  # noqa: T201
