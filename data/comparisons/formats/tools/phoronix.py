"""Read results of the Phoronix Test Suite: ``composite.xml`` or the output of ``result-file-to-json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, decoded, json_of, moment
from data.errors import InputError
from data.tables.xml_stream import Document, Element, WholeDocument

ROOT = "PhoronixTestSuite"
_BETTER = {"LIB": "lower", "HIB": "higher"}


class _PhoronixEntry(msgspec.Struct):
    value: float | str | None = None
    raw_values: list[float] = []


class _PhoronixTest(msgspec.Struct):
    identifier: str = ""
    title: str = ""
    description: str = ""
    scale: str = ""
    proportion: str = ""
    results: dict[str, _PhoronixEntry] = {}


class _PhoronixSystem(msgspec.Struct):
    """A system; its key is the name that the user gave to the run."""

    timestamp: str = ""


class _PhoronixFile(msgspec.Struct):
    results: dict[str, msgspec.Raw]
    systems: dict[str, _PhoronixSystem] = {}


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the runs of every test; the systems of a result are its versions."""
    for path in source.files:
        yield from (_xml(source, path) if _is_xml(path) else _json(source, path))


def _is_xml(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf\xff\xfe \r\n\t\0")[:1] == b"<"


def _json(source: SourceFiles, path: Path) -> Iterator[Measurement]:
    content = json_of(path, _PhoronixFile)
    for key, raw in content.results.items():
        test = decoded(raw, _PhoronixTest, path, f"results.{key}")
        better = source.better(_BETTER.get(test.proportion))
        for system, one in test.results.items():
            values = one.raw_values or ([float(one.value)] if isinstance(one.value, int | float) else [])
            when = moment(content.systems[system].timestamp) if system in content.systems else ""
            if values:
                name = _named(test.title or test.identifier, test.description)
                yield Measurement(name, values, test.scale, better, version=system, when=when)
            else:
                source.left_out(f"{test.title or key} of {system}", "it has no number")


def _xml(source: SourceFiles, path: Path) -> Iterator[Measurement]:
    document = WholeDocument(Document.of_path(path))
    root = document.root
    times = {_text(one, "Identifier"): moment(_text(one, "TimeStamp")) for one in root.iter("System")}
    for result in root.iter("Result"):
        name = _named(_text(result, "Title") or _text(result, "Identifier"), _text(result, "Description"))
        better = source.better(_BETTER.get(_text(result, "Proportion")))
        for entry in result.iter("Entry"):
            system = _text(entry, "Identifier")
            values = _numbers(_text(entry, "RawString") or _text(entry, "Value"), path, name)
            if values:
                when = times.get(system, "")
                scale = _text(result, "Scale")
                yield Measurement(name, values, scale, better, version=system, when=when)
            else:
                source.left_out(f"{name} of {system}", "it has no number")


def _named(title: str, description: str) -> str:
    return f"{title}[{description}]" if description else title


def _text(element: Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _numbers(text: str, path: Path, name: str) -> Sequence[float]:
    try:
        return [float(part) for part in text.split(":") if part]
    except ValueError as exc:
        problem = f'RawString "{text[:60]}" is no list of numbers'
        raise InputError(problem, file=path, place=f'result "{name}"') from exc
