"""What ``perfjudge experiments diff`` does: read two states, compare them, tell what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import write
from serving.experiments.page import page
from serving.experiments.text import text
from serving.supply import supply
from training.evaluation.paired_bootstrap import Paired
from training.registry.champions import project_root
from training.registry.experiments import ExperimentsDifference, differences, opened

#: Of so many cases it is said what was measured.
EXPLAINED = 200
_FORMS = {"text": text, "html": page}


def give_difference(before: str, after: str, shown: str, output: Path | None) -> int:
    """Write what two states differ in, and return the exit code.

    Raises
    ------
    InputError
        If there is no such state, or nothing in common.
    """
    found = compared(before, after, project_root())
    write(as_json(found) if shown == "json" else _FORMS[shown](found), output)
    return 0


def compared(before: str, after: str, project: Path) -> ExperimentsDifference:
    """Compare two states of a project by their names; say of cases that flipped what was measured."""
    with (
        _telling() as tell,
        opened(before, project, tell) as old,
        opened(after, project, tell) as new,
    ):
        tell("comparing")
        return _explained(differences(old, new), new.root)


@contextmanager
def _telling() -> Iterator[Any]:
    """Say on a terminal what takes its time."""
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update


def _explained(found: ExperimentsDifference, root: Path) -> ExperimentsDifference:
    """Add what was measured in the cases that flipped, as the files under `root` have it."""
    families, notes = [], list(found.notes)
    for one in found.families:
        words = supply(one.family).words
        named = [flip.case for best in one.champions for flip in best.flips[:EXPLAINED]]
        try:
            told = words(root, named) if words is not None and named else {}
        except InputError as error:
            told = {}
            notes.append(f"{one.family}: what was measured is not known ({error.problem})")
        families.append(replace(one, champions=tuple(_with_words(best, told) for best in one.champions)))
    return replace(found, families=tuple(families), notes=tuple(notes))


def _with_words(best: Paired, told: Mapping[str, tuple[str, ...]]) -> Paired:
    flips = (replace(flip, words=told.get(flip.case, flip.words)) for flip in best.flips)
    return replace(best, flips=tuple(flips))


def as_json(found: ExperimentsDifference) -> str:
    """Return what differs as JSON."""
    content = asdict(found)
    for family, own in zip(content["families"], found.families, strict=True):
        for kind in ("champions", "entries"):
            for told, one in zip(family[kind], getattr(own, kind), strict=True):
                for score, change in zip(told["scores"], one.scores, strict=True):
                    score["found"] = change.found
    return json.dumps(content, indent=2, default=str) + "\n"
