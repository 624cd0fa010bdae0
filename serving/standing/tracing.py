"""Where the version comes from that gave an answer, or that somebody names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.standing.again import Again, again
from serving.standing.answers import GivenAnswer
from training.registry.origins import Origin, origin

#: How many parameters and figures a line tells.
_SOME = 12


def trace(
    of: str, version: str | None, source: Path | None, options: Mapping[str, Any], *, as_json: bool
) -> tuple[str, bool]:
    """Tell where a version comes from, and judge a source by it again.

    Parameters
    ----------
    of : str
        A file with an answer; or the registered name, where there is a `version`.
    version : str or None
    source : Path or None
        What was judged.
    options : mapping
        As of `serving.standing.again.again`.
    as_json : bool

    Returns
    -------
    tuple of str and bool
        What is told, and whether all is as it was.

    Raises
    ------
    InputError
        If there is no such answer or version, or the source cannot be judged.
    """
    if version is not None:
        if source is not None:
            raise InputError("--input: is what an answer was about; expected a file with the answer")
        found, same, compared = origin(of, version.removeprefix("v")), True, None
    else:
        given = GivenAnswer.read(Path(of))
        found = origin(given.name, given.version)
        digest = given.model.get("digest")
        same = digest in {None, "", found.digest}
        compared = None if source is None else again(given, source, options)
    whole = same and (compared is None or not compared.differences)
    if as_json:
        return json.dumps(_answer(found, same, compared), indent=1), whole
    return "\n".join(_lines(found, same, compared)), whole


def _answer(found: Origin, same: bool, compared: Again | None) -> dict[str, Any]:
    judged = None if compared is None else asdict(compared)
    return asdict(found) | {"same_files": same, "again": judged}


def _lines(found: Origin, same: bool, compared: Again | None) -> Iterator[str]:
    counts = ", ".join(f"{value} {name}" for name, value in found.data.counts.items() if value)
    data = found.data
    yield f"{found.name} v{found.version} ({found.model or 'unknown'}), {found.standing or 'no alias'}"
    yield f"  files       sha256 {found.digest or 'unknown'}{'' if same else ', not those of the answer'}"
    yield f"  registered  {found.registered_at}{f' by run {found.run}' if found.run else ', without a run'}"
    kind = f" ({data.format})" if data.format else ""
    yield f"  data        {data.path or 'unknown'}{kind}, sha256 {data.digest or 'unknown'}"
    if counts:
        yield f"              {counts}"
    yield f"  code        {_commit(found)}"
    yield f"  parameters  {_some(found.params)}"
    yield f"  figures     {_some({name: f'{value:.4g}' for name, value in _headline(found).items()})}"
    if found.reason:
        yield f"  contest     {found.reason}"
    if found.reign is not None:
        yield f"  champion    {found.reign.told}"
    yield f"  make again  {_how_to_make(found)}"
    if compared is not None:
        yield compared.told


def _how_to_make(found: Origin) -> str:
    """Return the command that trains the version again, or why there is none and how to avoid that."""
    code = found.code
    if not code.obstacle:
        return f"git checkout {code.commit[:12]} && uv run dvc repro"
    return f"not possible: {code.obstacle}"


def _commit(found: Origin) -> str:
    code = found.code
    if not code.commit:
        return "unknown"
    dirty = {True: ", and changes that are in no commit", False: ", nothing changed", None: ""}[code.dirty]
    return f"commit {code.commit} ({code.branch}){dirty}; run by {code.by or 'somebody'}"


def _headline(found: Origin) -> dict[str, float]:
    """Return the figures of the deciding folds; others are named by their split."""
    return {name: value for name, value in found.metrics.items() if "/" not in name}


def _some(values: Mapping[str, str]) -> str:
    told = [f"{name} {value}" for name, value in list(values.items())[:_SOME]]
    left = len(values) - len(told)
    return ", ".join([*told, *([f"and {left} more (--json)"] if left else [])]) or "unknown"
