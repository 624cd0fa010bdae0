"""The stages of this room, the same for every family: what it supplies is read, told and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from data.params import FamilySection, Ingest, load
from data.places import Places
from data.tables.formats import Formats, Reading
from data.tables.problems import told
from data.tables.specs import Tables

SectionType = TypeVar("SectionType", bound=FamilySection)
TablesType = TypeVar("TablesType", bound=Tables)


@dataclass(frozen=True)
class Stages(Generic[SectionType, TablesType]):
    """The stages of a family.

    Attributes
    ----------
    section, tables : type
        The family's section of params.yaml, and its tables.
    read : callable
        Reads what the section names.
    decide : callable
        Says what of the tables can be learned from; an InputError if a table is wrong or too little is left.
    """

    section: type[SectionType]
    tables: type[TablesType]
    read: Callable[[SectionType], Reading[TablesType]]
    decide: Callable[[TablesType, SectionType], Tables]

    def ingest(self) -> None:
        """Stage ingest: the source that params.yaml names becomes the family's tables."""
        reading = self.read(load(self.section).section)
        reading.tables.write(Places(self.section.family).interim)
        sys.stderr.write(told(reading.skipped))
        sys.stderr.writelines(f"note: {note}\n" for note in reading.notes)
        print(reading.tables.counted())  # noqa: T201

    def validate(self) -> None:
        """Stage validate: what of the family's tables can be learned from."""
        places = Places(self.section.family)
        decisions = self.decide(self.tables.read(places.interim), load(self.section).section)
        decisions.write(places.valid)
        sys.stderr.writelines(f"{line}\n" for line in decisions.explained())
        print(decisions.counted())  # noqa: T201


def named(formats: Formats[TablesType], source: Ingest) -> Reading[TablesType]:
    """Read what params.yaml names."""
    return formats.read(source.format, [source.path], keep_going=source.keep_going)
