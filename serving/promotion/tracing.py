"""Trace the model version that gave an answer, or a named version, to its origin."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from anyio import to_thread
from fastapi import FastAPI

from data.errors import InputError
from data.tables.xml_stream import Document, Element, WholeDocument
from serving.answering import judged_again
from serving.http import schemas
from serving.http.bodies import JSON
from serving.http.schemas import RefusedError
from serving.supply import Endpoint, door_of, supplies
from training.registry.origins import NoVersionError, Origin, origin

#: How answers that are not JSON name the model: by its address, or in the line that sums up.
_NAMED = (
    re.compile(r"models:/(?P<name>[^/@\"\s]+)/(?P<version>\d+)"),
    re.compile(r"\(model (?P<name>\S+) (?P<version>\d+)[,)]"),
)


@dataclass(frozen=True)
class GivenAnswer:
    """An answer, its form (`shown`), and its model; `model` is that entry of a JSON answer."""

    name: str
    version: str
    shown: str
    content: bytes
    model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The address of the model."""
        return f"models:/{self.name}/{self.version}"

    @classmethod
    def read(cls, path: Path) -> GivenAnswer:
        """Read an answer; InputError if the file cannot be read or names no registered version."""
        try:
            content = path.read_bytes()
        except OSError as exc:
            raise InputError(exc.strerror or "cannot be read", file=path) from exc
        text = content.decode(errors="replace").lstrip("\ufeff \t\r\n")
        if text.startswith("{"):
            return cls._of_json(text, content, path)
        found = next((match for one in _NAMED if (match := one.search(text))), None)
        if found is None:
            raise InputError("names no model; expected an answer with models:/NAME/VERSION", file=path)
        form = "markdown" if "| verdict |" in text else "table"
        if text.startswith("<"):
            form = "junit" if "<testsuites" in text else "xml"
        return cls(found["name"], found["version"], form, content)

    @classmethod
    def _of_json(cls, text: str, content: bytes, path: Path) -> GivenAnswer:
        try:
            model = json.loads(text)["model"]
            named = _NAMED[0].fullmatch(model["uri"])
        except (ValueError, LookupError, TypeError) as exc:
            told = 'is no answer; expected {"model": {"name", "version", "uri"}, ...}'
            raise InputError(told, file=path) from exc
        if named is None:
            told = f"model.uri={model['uri']!r} is no registered version; expected models:/NAME/VERSION"
            raise InputError(told, file=path)
        return cls(named["name"], named["version"], "json", content, model)


_XML = "application/xml"
#: Options of the risk guarantee that are recorded in an answer.
_KEPT = ("missed", "false_alarms")
#: Maximal number of differences shown.
TOLD = 10


@dataclass(frozen=True)
class ReplayCheck:
    """Numbers and words of an answer, and the `differences` of a second one: where, and both values."""

    values: int
    differences: tuple[str, ...]

    @property
    def told(self) -> str:
        """The differences, one per line, or a statement that all values are equal."""
        if not self.differences:
            return f"judged again: all {self.values:,} values are the same"
        some = self.differences[:TOLD]
        head = f"judged again: {len(self.differences):,} of {self.values:,} values differ"
        left = len(self.differences) - len(some)
        return "\n  ".join([head, *some, *([f"and {left:,} more"] if left else [])])


def again(given: GivenAnswer, source: Path, options: Mapping[str, Any]) -> ReplayCheck:
    """Judge a source again by the version that gave an answer, with the same options.

    `source` is the body of the request or the input of ``perfjudge judge``; options that the answer itself
    states need not be given. Raises InputError if the source cannot be judged, or the version cannot be
    loaded.
    """
    door, known = door_of(given.name), {**_said(given), **options}
    found, refused = [], list[Exception]()
    for content in _ways(given, door, source, known, refused):
        compared = _compared(given, content)
        if not compared.differences:
            return compared
        found.append(compared)
    if not found:
        raise InputError(f"cannot be judged again ({refused[0]})", file=source)
    return min(found, key=lambda one: len(one.differences))


def _said(given: GivenAnswer) -> dict[str, Any]:
    """Return the options that are recorded in the answer."""
    decided = given.model.get("decided") or {}
    told = {"floor": given.model.get("floor"), **{name: decided.get(name) for name in _KEPT}}
    if costs := decided.get("costs"):
        told["costs"] = ":".join(repr(costs[name]) for name in ("miss", "false_alarm", "look"))
    return {name: value for name, value in told.items() if value is not None}


def _ways(
    given: GivenAnswer, door: Endpoint, source: Path, options: Mapping[str, Any], refused: list[Exception]
) -> Iterator[bytes]:
    """Yield the answers to the source as a request to the endpoint and by ``perfjudge judge``."""
    for way in (_posted, _judged):
        try:
            content = way(given, door, source, options)
        except (InputError, RefusedError) as exc:
            refused.append(exc)
        else:
            if content is not None:
                yield content


def _posted(given: GivenAnswer, door: Endpoint, source: Path, options: Mapping[str, Any]) -> bytes | None:
    handler = door.handlers.get({"json": JSON, "xml": _XML}.get(given.shown, ""))
    if handler is None or door.loader is None or not source.is_file() or source.stat().st_size > door.limit:
        return None
    knobs = {} if door.model is None else door.model.knobs
    model = door.loader.load(given.uri, **{name: options[name] for name in knobs if name in options})
    return handler(source.read_bytes(), model).content


def _judged(given: GivenAnswer, door: Endpoint, source: Path, options: Mapping[str, Any]) -> bytes | None:
    family = next(one for one in supplies() if any(door.path == other.path for other in one.doors()))
    judging = family.judging
    if judging is None:
        return None
    taken = {name: options[name] for name in judging.options if name in options}
    return judged_again(judging, source, given.uri, given.shown, **taken)


def _compared(given: GivenAnswer, content: bytes) -> ReplayCheck:
    was, now = (dict(_values(given.shown, one)) for one in (given.content, content))
    differ = [
        f"{place}: was {_shown(was, place)}, is {_shown(now, place)}"
        for place in {**was, **now}
        if _shown(was, place) != _shown(now, place)
    ]
    return ReplayCheck(len(was), tuple(differ))


def _shown(values: Mapping[str, Any], place: str) -> str:
    return repr(values[place]) if place in values else "not there"


def _values(shown: str, content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield places and values of an answer: of JSON and XML each one, of other text the lines."""
    if shown == "json":
        yield from _of_json(json.loads(content), "")
    elif shown in {"xml", "junit"}:
        root = WholeDocument(Document.of_bytes(content, "the answer")).root
        yield from _of_xml(root, f"/{root.tag}")
    else:
        lines = content.decode(errors="replace").splitlines()
        yield from ((f"line {number}", line) for number, line in enumerate(lines, 1))


def _of_xml(element: Element, path: str) -> Iterator[tuple[str, Any]]:
    yield from ((f"{path}/@{name}", value) for name, value in element.attrib.items())
    yield path, (element.text or "").strip()
    alike, passed = Counter(child.tag for child in element), Counter[str]()
    for child in element:
        passed[child.tag] += 1
        number = f"[{passed[child.tag]}]" if alike[child.tag] > 1 else ""
        yield from _of_xml(child, f"{path}/{child.tag}{number}")


def _of_json(content: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _of_json(value, f"{place}.{key}" if place else key)
    elif isinstance(content, list):
        yield f"{place} length", len(content)
        for number, value in enumerate(content):
            yield from _of_json(value, f"{place}[{number}]")
    else:
        yield place, content


def install(app: FastAPI) -> None:
    """Add the endpoint for the origin of a version to `app`."""

    @app.get("/v1/models/{name}/{version}", responses=schemas.responses(404, 503))
    async def model(name: str, version: str) -> Origin:
        """Tell where a version comes from: data, code, parameters, figures, and who made it champion."""
        return await to_thread.run_sync(_origin, name, version)


def _origin(name: str, version: str) -> Origin:
    try:
        return origin(name, version)
    except NoVersionError as exc:
        raise RefusedError(HTTPStatus.NOT_FOUND, str(exc)) from exc
    except InputError as exc:
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc


#: Maximal number of parameters and scores in a line.
_SOME = 12


def trace(
    of: str, version: str | None, source: Path | None, options: Mapping[str, Any], *, as_json: bool
) -> tuple[str, bool]:
    """Describe the origin of a version, and judge a source by it again.

    `of` is a file with an answer, or with `version` a registered name; `options` as of `again`. Returns the
    text, and whether files and answers are equal. Raises InputError without such an answer or version, or if
    the source cannot be judged.
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


def _answer(found: Origin, same: bool, compared: ReplayCheck | None) -> dict[str, Any]:
    judged = None if compared is None else asdict(compared)
    return asdict(found) | {"same_files": same, "again": judged}


def _lines(found: Origin, same: bool, compared: ReplayCheck | None) -> Iterator[str]:
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
    # of the deciding folds; others are named by their split
    figures = {name: f"{value:.4g}" for name, value in found.metrics.items() if "/" not in name}
    yield f"  figures     {_some(figures)}"
    if found.reason:
        yield f"  contest     {found.reason}"
    if found.reign is not None:
        yield f"  champion    {found.reign.told}"
    code = found.code
    again = f"git checkout {code.commit[:12]} && uv run dvc repro"
    yield f"  make again  {f'not possible: {code.obstacle}' if code.obstacle else again}"
    if compared is not None:
        yield compared.told


def _commit(found: Origin) -> str:
    code = found.code
    if not code.commit:
        return "unknown"
    dirty = {True: ", and changes that are in no commit", False: ", nothing changed", None: ""}[code.dirty]
    return f"commit {code.commit} ({code.branch}){dirty}; run by {code.by or 'somebody'}"


def _some(values: Mapping[str, str]) -> str:
    told = [f"{name} {value}" for name, value in list(values.items())[:_SOME]]
    left = len(values) - len(told)
    return ", ".join([*told, *([f"and {left} more (--json)"] if left else [])]) or "unknown"
