"""The stages of this room, the same for every family: what it supplies is read, told and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from data.errors import one_line
from data.params import FamilySection, Ingest, load
from data.paths import Places
from data.tables.formats import Reading, Sources
from data.tables.problems import told
from data.tables.specs import Tables

SectionType = TypeVar("SectionType", bound=FamilySection)
TablesType = TypeVar("TablesType", bound=Tables)


def ingest(section: type[SectionType], read: Callable[[SectionType], Reading[TablesType]]) -> None:
    """Stage ingest: the source that params.yaml names becomes the family's tables."""
    reading = read(load(section).section)
    reading.tables.write(Places(section.family).interim)
    sys.stderr.write(told(reading.skipped))
    sys.stderr.writelines(f"{one_line(f'note: {note}')}\n" for note in reading.notes)
    print(reading.tables.counted())  # noqa: T201


def validate(
    section: type[SectionType],
    tables: type[TablesType],
    decide: Callable[[TablesType, SectionType], Tables],
) -> None:
    """Stage validate: what of the family's tables can be learned from."""
    places = Places(section.family)
    decisions = decide(tables.read(places.interim), load(section).section)
    decisions.write(places.valid)
    sys.stderr.writelines(f"{line}\n" for line in decisions.explained())
    print(decisions.counted())  # noqa: T201


def named(sources: Sources[TablesType], source: Ingest) -> Reading[TablesType]:
    """Read what params.yaml names."""
    return sources.read(source.format, [source.path], keep_going=source.keep_going)
