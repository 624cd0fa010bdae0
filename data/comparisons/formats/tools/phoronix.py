"""Read results of the Phoronix Test Suite: ``composite.xml`` or the output of ``result-file-to-json``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, decode_json, read_json
from data.comparisons.formats.tools.recognition import Keys, tool_format
from data.errors import InputError
from data.tables.files import naming_unreadable
from data.tables.xml_stream import Document, Element, WholeDocument

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


@tool_format(
    "phoronix",
    Keys("results.*.results", "results.*.scale"),
    Keys("title", "systems", "results"),
    root="PhoronixTestSuite",
    versions=True,
)
def read_phoronix(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per test and system; the systems of a file are its versions.

    The operation is ``title[description]`` (the title alone without a description), the unit the test's
    scale; values are the raw values, else the single value. Better values are those of the file (LIB: lower,
    HIB: higher), else the user's choice, else higher is assumed, with a note. A system without values for a
    test is skipped, with a note, as is a single value that is text, such as a series of a monitor; text among
    the raw values in XML is an InputError. InputError also if a file is invalid or cannot be read.
    """
    for path in source.files:
        with naming_unreadable(path), path.open("rb") as file:
            is_xml = file.read(64).lstrip(b"\xef\xbb\xbf\xff\xfe \r\n\t\0")[:1] == b"<"
        yield from (_read_phoronix_xml if is_xml else _read_phoronix_json)(source, path)


def _read_phoronix_json(source: SourceFiles, path: Path) -> Iterator[Measurement]:
    content = read_json(path, _PhoronixFile)
    for key, raw in content.results.items():
        test = decode_json(raw, _PhoronixTest, path, f"results.{key}")
        better = source.better_direction(_BETTER.get(test.proportion))
        name = _test_name(test.title or test.identifier, test.description)
        for system, entry in test.results.items():
            single = [entry.value] if isinstance(entry.value, float) else []
            values = entry.raw_values or single
            when = content.systems[system].timestamp if system in content.systems else ""
            if values:
                yield Measurement(name, values, test.scale, better, version=system, when=when)
            else:
                source.note_omission(f"{test.title or key} of {system}", "it has no number")


def _read_phoronix_xml(source: SourceFiles, path: Path) -> Iterator[Measurement]:
    root = WholeDocument(Document.from_path(path)).root
    times = {_child_text(part, "Identifier"): _child_text(part, "TimeStamp") for part in root.iter("System")}
    for result in root.iter("Result"):
        title = _child_text(result, "Title") or _child_text(result, "Identifier")
        name, scale = _test_name(title, _child_text(result, "Description")), _child_text(result, "Scale")
        better = source.better_direction(_BETTER.get(_child_text(result, "Proportion")))
        for entry in result.iter("Entry"):
            system = _child_text(entry, "Identifier")
            raw = _child_text(entry, "RawString")
            try:
                values = [float(part) for part in (raw or _child_text(entry, "Value")).split(":") if part]
            except ValueError as exc:
                if raw:
                    problem = f'RawString "{raw[:60]}" is not a list of numbers'
                    raise InputError(problem, file=path, place=f'result "{name}"') from exc
                values = []
            if values:
                when = times.get(system, "")
                yield Measurement(name, values, scale, better, version=system, when=when)
            else:
                source.note_omission(f"{name} of {system}", "it has no number")


def _test_name(title: str, description: str) -> str:
    return f"{title}[{description}]" if description else title


def _child_text(element: Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()
