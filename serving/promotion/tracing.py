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

from fastapi import FastAPI

from data.errors import InputError
from data.tables.files import naming_unreadable
from data.tables.xml_stream import Document, Element, WholeDocument
from serving.answering import rejudge_source
from serving.http import schemas
from serving.http.bodies import JSON
from serving.http.schemas import RefusedError
from serving.plugins import MEBIBYTE, Endpoint, all_plugins, endpoint_of_model
from training.registry.origins import NoVersionError, Origin, trace_version

#: Patterns of the model's name in answers that are not JSON: its address, or the summary line.
_NAMED = (
    re.compile(r"models:/(?P<name>[^/@\"\s]+)/(?P<version>\d+)"),
    re.compile(r"\(model (?P<name>\S+) (?P<version>\d+)[,;)]"),
)


@dataclass(frozen=True)
class GivenAnswer:
    """An answer, its form (`shown`), its model's name and version, and the field `model` of JSON."""

    name: str
    version: str
    shown: str
    content: bytes
    model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model_uri(self) -> str:
        """The address of the model."""
        return f"models:/{self.name}/{self.version}"

    @classmethod
    def from_file(cls, path: Path) -> GivenAnswer:
        """Return the answer in a file; InputError if it cannot be read or names no registered version."""
        with naming_unreadable(path):
            content = path.read_bytes()
        text = content.decode(errors="replace").lstrip("\ufeff \t\r\n")
        if text.startswith("{"):
            return cls._from_json(text, content, path)
        match = next((match for pattern in _NAMED if (match := pattern.search(text))), None)
        if match is None:
            raise InputError("names no model; expected an answer with models:/NAME/VERSION", file=path)
        form = "markdown" if "| verdict |" in text else "table"
        if text.startswith("<"):
            form = "junit" if "<testsuites" in text else "xml"
        return cls(match["name"], match["version"], form, content)

    @classmethod
    def _from_json(cls, text: str, content: bytes, path: Path) -> GivenAnswer:
        try:
            model = json.loads(text)["model"]
            match = _NAMED[0].fullmatch(model["uri"])
        except (ValueError, LookupError, TypeError, RecursionError) as exc:
            problem = 'is not an answer; expected {"model": {"name", "version", "uri"}, ...}'
            raise InputError(problem, file=path) from exc
        if match is None:
            problem = f"model.uri={model['uri']!r} is not a registered version; expected models:/NAME/VERSION"
            raise InputError(problem, file=path)
        return cls(match["name"], match["version"], "json", content, model)


#: Options that are recorded in an answer, the limits of a decision, and costs in the order of ``costs``.
_RECORDED = ("min_effect_size", "max_false_negative_rate", "max_false_positive_rate")
_POLICY = ("max_false_negative_rate", "max_false_positive_rate", "max_review_rate", "costs")
_COSTS = ("false_negative", "false_positive", "review")
#: Maximum number of differences in the text.
TOLD = 10


@dataclass(frozen=True)
class ReplayCheck:
    """The number of values of an answer, and the differences of a second one: place and both values."""

    values: int
    differences: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The differences, one per line, or a statement that all values are equal."""
        if not self.differences:
            return f"judged again: all {self.values:,} values are the same"
        lines = [f"judged again: {len(self.differences):,} of {self.values:,} values differ"]
        lines += self.differences[:TOLD]
        if len(self.differences) > TOLD:
            lines.append(f"and {len(self.differences) - TOLD:,} more")
        return "\n  ".join(lines)


def replay_answer(original: GivenAnswer, source: Path, options: Mapping[str, Any]) -> ReplayCheck:
    """Judge a source again by the version that gave an answer, and return how the second answer differs.

    `source` is the body of the request or the input of ``perfjudge judge``, `options` are those of the
    original answer; those that a JSON answer records may be missing. The source is judged by the HTTP
    endpoint, if it can be a request and the answer is JSON or XML, and by the command, unless the first
    answer is equal; the answer with fewer differences counts. InputError if neither can judge the source;
    ModelError if the model fails.
    """
    endpoint = endpoint_of_model(original.name)
    with naming_unreadable(source):
        source.stat()
    checks, refusals = [], list[Exception]()
    for replay in (_replay_by_endpoint, _replay_by_command):
        try:
            content = replay(original, endpoint, source, {**_recorded_options(original), **options})
        except (InputError, RefusedError) as exc:
            refusals.append(exc)
            continue
        if content is not None:
            checks.append(_compare_answers(original, content))
            if not checks[-1].differences:
                return checks[-1]
    if not checks:
        size = f"a file of at most {endpoint.limit // MEBIBYTE} MiB"
        reason = f"expected a request to {endpoint.path}, {size}, with an answer in JSON"
        # the command's error names the place in the file; endpoints only know a body
        match refusals[-1:]:
            case [InputError(file=file) as error] if file is not None:
                raise error
            case [RefusedError(detail=detail)]:
                reason = f"as a request to {endpoint.path}: {detail}"
            case [error]:
                reason = str(error)
        raise InputError(f"cannot be judged again ({reason})", file=source)
    return min(checks, key=lambda check: len(check.differences))


def _recorded_options(original: GivenAnswer) -> dict[str, Any]:
    decided = original.model.get("decided") or {}
    recorded = {**original.model, **decided}
    options = {name: recorded[name] for name in _RECORDED if recorded.get(name) is not None}
    if costs := recorded.get("costs"):
        options["costs"] = ":".join(repr(costs[name]) for name in _COSTS)
    if decided and all(decided.get(name) is None for name in _POLICY):
        # no limit was wanted, not even that of the model
        options["max_false_negative_rate"] = 0.0
    return options


def _replay_by_endpoint(
    original: GivenAnswer, endpoint: Endpoint, source: Path, options: Mapping[str, Any]
) -> bytes | None:
    """Return the answer of the endpoint; None if the source cannot be the body of such a request."""
    handler = endpoint.handlers.get({"json": JSON, "xml": "application/xml"}.get(original.shown, ""))
    is_body = source.is_file() and source.stat().st_size <= endpoint.limit
    if handler is None or endpoint.loader is None or not is_body:
        return None
    names = {} if endpoint.model is None else endpoint.model.params
    applicable = {name: options[name] for name in names if name in options}
    return handler(source.read_bytes(), endpoint.loader.load(original.model_uri, **applicable)).content


def _replay_by_command(
    original: GivenAnswer, model_endpoint: Endpoint, source: Path, options: Mapping[str, Any]
) -> bytes | None:
    """Return the answer of ``perfjudge judge``; None if it does not judge sources of the family."""
    paths = {endpoint.path: plugin for plugin in all_plugins() for endpoint in plugin.endpoints()}
    judging = paths[model_endpoint.path].judging
    if judging is None:
        return None
    applicable = {name: options[name] for name in judging.options if name in options}
    return rejudge_source(judging, source, original.model_uri, original.shown, **applicable)


def _compare_answers(original: GivenAnswer, content: bytes) -> ReplayCheck:
    before, after = (
        {place: repr(value) for place, value in _answer_values(original.shown, answer)}
        for answer in (original.content, content)
    )
    differences = [
        f"{place}: was {before.get(place, 'not there')}, is {after.get(place, 'not there')}"
        for place in {**before, **after}
        if before.get(place) != after.get(place)
    ]
    return ReplayCheck(len(before), tuple(differences))


def _answer_values(shown: str, content: bytes) -> Iterator[tuple[str, Any]]:
    if shown == "json":
        yield from _json_values(json.loads(content), "")
    elif shown in {"xml", "junit"}:
        root = WholeDocument(Document.from_bytes(content, "the answer")).root
        yield from _xml_values(root, f"/{root.tag}")
    else:
        lines = content.decode(errors="replace").splitlines()
        yield from ((f"line {number}", line) for number, line in enumerate(lines, 1))


def _xml_values(element: Element, path: str) -> Iterator[tuple[str, Any]]:
    yield from ((f"{path}/@{name}", value) for name, value in element.attrib.items())
    yield path, (element.text or "").strip()
    totals, counts = Counter(child.tag for child in element), Counter[str]()
    for child in element:
        counts[child.tag] += 1
        number = f"[{counts[child.tag]}]" if totals[child.tag] > 1 else ""
        yield from _xml_values(child, f"{path}/{child.tag}{number}")


def _json_values(content: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _json_values(value, f"{place}.{key}" if place else key)
    elif isinstance(content, list):
        yield f"{place} length", len(content)
        for number, value in enumerate(content):
            yield from _json_values(value, f"{place}[{number}]")
    else:
        yield place, content


def add_origin_endpoint(app: FastAPI) -> None:
    """Add ``GET /v1/models/NAME/VERSION``: an `Origin`; 404 without the version, 503 without the registry."""

    @app.get("/v1/models/{name}/{version}", responses=schemas.refusal_responses(404, 503))
    def model(name: str, version: str) -> Origin:
        """Return the origin of a version: data, code, parameters, figures, and its promotion."""
        try:
            return trace_version(name, version)
        except NoVersionError as exc:
            raise RefusedError(HTTPStatus.NOT_FOUND, str(exc)) from exc
        except InputError as exc:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc


#: Maximum number of parameters and scores in a line.
_SOME = 12
_DIRTY = {True: ", and changes that are in no commit", False: ", nothing changed"}


def trace_answer(
    answer_or_name: str,
    version: str | None,
    source: Path | None,
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> tuple[str, bool]:
    """Return a text on the origin of a model version (JSON: `as_json`), and whether nothing has changed.

    `answer_or_name` is the path of a file with an answer; if `version` is given (a number, with or without
    "v"), it is a registered name. `source` is the input of the answer, which is judged again with `options`
    (see `replay_answer`). The second result is False if the repeated answer differs, or if a JSON answer has
    another digest than the registered files. JSON has the fields of `Origin`, ``same_files``, and
    ``repeated`` (``values, differences``, or null). InputError if the answer or version does not exist, the
    answer names no registered version, `source` is given with `version` or cannot be judged, or the registry
    does not answer; ModelError if the model fails.
    """
    if version is not None:
        if source is not None:
            raise InputError("--input: is the input of an answer; expected a file with the answer")
        described, same_files, check = trace_version(answer_or_name, version), True, None
    else:
        original = GivenAnswer.from_file(Path(answer_or_name))
        described = trace_version(original.name, original.version)
        same_files = original.model.get("digest") in {None, "", described.digest}
        check = None if source is None else replay_answer(original, source, options)
    same = same_files and (check is None or not check.differences)
    if as_json:
        judged = None if check is None else asdict(check)
        return json.dumps(asdict(described) | {"same_files": same_files, "repeated": judged}, indent=1), same
    return "\n".join(_origin_lines(described, same_files, check)), same


def _origin_lines(described: Origin, same_files: bool, check: ReplayCheck | None) -> Iterator[str]:
    data, code = described.data, described.code
    version = f"{described.name} v{described.version}"
    yield f"{version} ({described.model or 'unknown'}), {described.role or 'no alias'}"
    other_files = "" if same_files else ", not those of the answer"
    yield f"  files       sha256 {described.digest or 'unknown'}{other_files}"
    run = f" by run {described.run}" if described.run else ", without a run"
    yield f"  registered  {described.registered_at}{run}"
    kind = f" ({data.format})" if data.format else ""
    yield f"  data        {data.path or 'unknown'}{kind}, sha256 {data.digest or 'unknown'}"
    if counts := ", ".join(f"{value} {name}" for name, value in data.counts.items() if value):
        yield f"              {counts}"
    commit = "unknown"
    if code.commit:
        dirty = "" if code.dirty is None else _DIRTY[code.dirty]
        commit = f"commit {code.commit} ({code.branch}){dirty}; run by {code.by or 'somebody'}"
    yield f"  code        {commit}"
    yield f"  parameters  {_first_values(described.params)}"
    # of the deciding folds; others are named by their split
    figures = {name: f"{value:.4g}" for name, value in described.metrics.items() if "/" not in name}
    yield f"  figures     {_first_values(figures)}"
    if described.reason:
        yield f"  compared    {described.reason}"
    if described.promotion is not None:
        yield f"  champion    {described.promotion.summary_line}"
    commands = f"git checkout {code.commit[:12]} && uv run dvc repro"
    yield f"  reproduce   {f'not possible: {code.obstacle}' if code.obstacle else commands}"
    if check is not None:
        yield check.summary


def _first_values(values: Mapping[str, str]) -> str:
    texts = [f"{name} {value}" for name, value in list(values.items())[:_SOME]]
    if len(values) > _SOME:
        texts.append(f"and {len(values) - _SOME} more (--json)")
    return ", ".join(texts) or "unknown"
