"""Champion and challenger judge what a file or directory holds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import Wanted, refuse_others, supply_of
from serving.http.bodies import JSON
from serving.reports.text_tables import printed, shown
from serving.shadow import kept
from serving.shadow.held import Contenders, Disagreement, HeldTogether
from serving.shadow.kept import ShadowFigures
from serving.supply import Door, Opinion
from training.registry.champions import CHALLENGER, CHAMPION, Version, version_of

#: How many disagreements are told.
TOLD = 20


def shadow(source: Path, options: Mapping[str, Any], *, keep_going: bool, as_json: bool) -> str:
    """Judge a source by champion and challenger, and keep what both say in place of what was kept of it.

    Parameters
    ----------
    source : Path
    options : mapping
        Those that were given of the families' own.
    keep_going : bool
        Skip what is bad in the source.
    as_json : bool

    Returns
    -------
    str
        How often both say the same, and of what they don't.

    Raises
    ------
    InputError
        If the source cannot be judged, or one of both is missing.
    """
    supplied = supply_of(source)
    judging = supplied.judging
    door = next((one for one in supplied.doors() if one.beside is not None), None)
    if judging is None or door is None or door.loader is None:
        raise InputError("holds nothing that challengers judge", file=source)
    refuse_others(options, judging, source)
    champion, challenger = (_bearer(door.loader.name(), alias) for alias in (CHAMPION, CHALLENGER))
    judged, held = partial(judging.judge, source, keep_going=keep_going, **options), HeldTogether()
    held.add(*(_said(door, one, judged) for one in (champion, challenger)))
    contenders = Contenders(champion.name, champion.version, challenger.version, str(source))
    kept.replace(kept.place(), contenders, held)
    (found,) = (one for one in kept.report(kept.place()).figures if _of(one) == contenders)
    if as_json:
        return json.dumps(asdict(found) | {"disagreements": [asdict(one) for one in held.disagreements]})
    return "\n".join(_lines(found, held.disagreements))


def _bearer(name: str, alias: str) -> Version:
    found = version_of(name, alias)
    if found is None:
        raise InputError(f"{name} has no {alias}; dvc repro makes one of a candidate")
    return found


def _said(door: Door, model: Version, judged: Callable[[str, Wanted], int]) -> list[Opinion]:
    assert door.beside is not None
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "answer.json"
        judged(model.uri, Wanted("json", output, fail_on_regression=False))
        return list(door.beside.given(JSON, output.read_bytes()))


def _of(figures: ShadowFigures) -> Contenders:
    return Contenders(figures.name, figures.champion, figures.challenger, figures.source)


def _lines(found: ShadowFigures, disagreements: list[Disagreement]) -> Iterator[str]:
    yield f"{found.name} v{found.champion}, and v{found.challenger} beside it: {found.told}"
    if disagreements:
        yield printed(_table(found, disagreements[:TOLD])).rstrip()
    if len(disagreements) > TOLD:
        yield f"and {len(disagreements) - TOLD} more (--json)"


def _table(found: ShadowFigures, some: list[Disagreement]) -> Any:
    from rich.table import Table

    table = Table("comparison", "of", f"v{found.champion}", f"v{found.challenger}")
    for one in some:
        said = (one.champion, one.champion_probability), (one.challenger, one.challenger_probability)
        table.add_row(*map(shown, (one.case, one.about, *(_told(*each) for each in said))))
    return table


def _told(verdict: str, probability: float | None) -> str:
    return verdict if probability is None else f"{verdict} {probability:.3f}"
