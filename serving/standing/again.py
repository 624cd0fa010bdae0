"""What was judged is judged again by the same version, and held against the answer that was given."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.tables.xml_stream import Document, Element, WholeDocument
from serving.answering import Wanted
from serving.doors.bodies import JSON
from serving.doors.problems import RefusedError
from serving.standing.answers import GivenAnswer
from serving.supply import Door, Judging, door_of, supplies

_XML = "application/xml"
#: The options that an answer tells itself, of what its verdicts were to keep.
_KEPT = ("missed", "false_alarms")
#: How many differences are told.
TOLD = 10


@dataclass(frozen=True)
class Again:
    """Both answers, held against each other.

    Attributes
    ----------
    values : int
        How many numbers and words the first one has.
    differences : tuple of str
        Where they are not the same, and what stands there.
    """

    values: int
    differences: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was found, a line each."""
        if not self.differences:
            return f"judged again: all {self.values:,} values are the same"
        some = self.differences[:TOLD]
        head = f"judged again: {len(self.differences):,} of {self.values:,} values differ"
        left = len(self.differences) - len(some)
        return "\n  ".join([head, *some, *([f"and {left:,} more"] if left else [])])


def again(given: GivenAnswer, source: Path, options: Mapping[str, Any]) -> Again:
    """Judge a source by the version that gave an answer, in the way in which the answer was asked for.

    Parameters
    ----------
    given : GivenAnswer
    source : Path
        The body of the request, or what ``perfjudge judge`` was given.
    options : mapping
        With which it was judged; what the answer says itself need not be given.

    Raises
    ------
    InputError
        If the source cannot be judged, or the version cannot be loaded.
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
    """Return the options that the answer itself tells of."""
    decided = given.model.get("decided") or {}
    told = {"floor": given.model.get("floor"), **{name: decided.get(name) for name in _KEPT}}
    if costs := decided.get("costs"):
        told["costs"] = ":".join(repr(costs[name]) for name in ("miss", "false_alarm", "look"))
    return {name: value for name, value in told.items() if value is not None}


def _ways(
    given: GivenAnswer, door: Door, source: Path, options: Mapping[str, Any], refused: list[Exception]
) -> Iterator[bytes]:
    """Yield what the source is answered with: as a request at the door, and by ``perfjudge judge``."""
    for way in (_posted, _judged):
        try:
            content = way(given, door, source, options)
        except (InputError, RefusedError) as exc:
            refused.append(exc)
        else:
            if content is not None:
                yield content


def _posted(given: GivenAnswer, door: Door, source: Path, options: Mapping[str, Any]) -> bytes | None:
    handler = door.handlers.get({"json": JSON, "xml": _XML}.get(given.shown, ""))
    if handler is None or door.loader is None or not source.is_file() or source.stat().st_size > door.limit:
        return None
    knobs = {} if door.model is None else door.model.knobs
    model = door.loader.load(given.uri, **{name: options[name] for name in knobs if name in options})
    return handler(source.read_bytes(), model).content


def _judged(given: GivenAnswer, door: Door, source: Path, options: Mapping[str, Any]) -> bytes | None:
    judging = _judging(door)
    if judging is None:
        return None
    taken = {name: options[name] for name in judging.options if name in options}
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "answer"
        wanted = Wanted(given.shown, output, fail_on_regression=False)
        judging.judge(source, given.uri, wanted, keep_going=False, **taken)
        return output.read_bytes()


def _judging(door: Door) -> Judging | None:
    """Return how the family of a door judges a source."""
    own = (one for one in supplies() if any(door.path == other.path for other in one.doors()))
    return next(own).judging


def _compared(given: GivenAnswer, content: bytes) -> Again:
    was, now = (dict(_values(given.shown, one)) for one in (given.content, content))
    differ = [
        f"{place}: was {_shown(was, place)}, is {_shown(now, place)}"
        for place in {**was, **now}
        if _shown(was, place) != _shown(now, place)
    ]
    return Again(len(was), tuple(differ))


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
