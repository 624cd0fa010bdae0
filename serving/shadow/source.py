"""``perfjudge shadow``: champion and challenger judge a file or directory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import judged_again, refuse_others, supply_of
from serving.http.bodies import JSON
from serving.reports.text_tables import tabulated
from serving.shadow import figures
from serving.shadow.figures import Contenders, Disagreement, OpinionCounts, ShadowFigures
from serving.supply import Opinion
from training.registry.champions import CHALLENGER, CHAMPION, version_of

#: Disagreements in the text.
TOLD = 20


def shadow(source: Path, options: Mapping[str, Any], *, keep_going: bool, as_json: bool) -> str:
    """Judge a source by champion and challenger, record the figures, and return them as text or JSON.

    Parameters
    ----------
    options : mapping
        The family-specific options that were given.
    keep_going : bool
        Skip bad data in the source.

    Raises
    ------
    InputError
        If the source cannot be judged, or the champion or challenger is missing.
    """
    supplied = supply_of(source)
    judging = supplied.judging
    door = next((one for one in supplied.doors() if one.beside is not None), None)
    if judging is None or door is None or door.loader is None or door.beside is None:
        raise InputError("holds nothing that challengers judge", file=source)
    refuse_others(options, judging, source)
    versions, opinions = [], list[list[Opinion]]()
    for alias in (CHAMPION, CHALLENGER):
        version = version_of(door.loader.name(), alias)
        if version is None:
            raise InputError(f"{door.loader.name()} has no {alias}; dvc repro makes one of a candidate")
        versions.append(version)
    for version in versions:
        answer = judged_again(judging, source, version.uri, "json", keep_going=keep_going, **options)
        opinions.append(list(door.beside.given(JSON, answer)))
    found = OpinionCounts()
    found.add(*opinions)
    champion, challenger = versions
    contenders = Contenders(champion.name, champion.version, challenger.version, str(source))
    figures.record(figures.figures_file(), contenders, found, replace=True)
    (told,) = (
        one
        for one in figures.report(figures.figures_file()).figures
        if Contenders(one.name, one.champion, one.challenger, one.source) == contenders
    )
    if as_json:
        return json.dumps(asdict(told) | {"disagreements": [asdict(one) for one in found.disagreements]})
    return "\n".join(_lines(told, found.disagreements))


def _lines(found: ShadowFigures, disagreements: list[Disagreement]) -> Iterator[str]:
    yield f"{found.name} v{found.champion}, and v{found.challenger} beside it: {found.told}"
    if disagreements:
        columns = ("comparison", "of", f"v{found.champion}", f"v{found.challenger}")
        rows = [
            (
                one.case,
                one.about,
                _verdict(one.champion, one.champion_probability),
                _verdict(one.challenger, one.challenger_probability),
            )
            for one in disagreements[:TOLD]
        ]
        yield tabulated(columns, rows).rstrip()
    if len(disagreements) > TOLD:
        yield f"and {len(disagreements) - TOLD} more (--json)"


def _verdict(verdict: str, probability: float | None) -> str:
    return verdict if probability is None else f"{verdict} {probability:.3f}"
