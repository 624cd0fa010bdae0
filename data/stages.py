"""The stages of this room, the same for every family: what it supplies is read, told and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from data.params import FamilySection, load
from data.places import Places
from data.tables.formats import Reading
from data.tables.problems import told
from data.tables.specs import Tables

SectionType = TypeVar("SectionType", bound=FamilySection)
TablesType = TypeVar("TablesType", bound=Tables)


class Decided(Protocol):
    """What can be learned from."""

    def write(self, directory: Path) -> None:
        """Write the decisions to `directory`."""

    def explained(self) -> list[str]:
        """Tell what was left out and why, a line each."""

    def counted(self) -> str:
        """Say how much can be learned from."""


def ingest(
    section: type[SectionType],
    read: Callable[[SectionType], Reading[TablesType]],
    counted: Callable[[TablesType], str],
) -> None:
    """Stage ingest: the source that params.yaml names becomes the family's tables.

    Parameters
    ----------
    section : type
        The family's section of params.yaml.
    read : callable
        Reads what the section names.
    counted : callable
        Says how much is in the tables.
    """
    reading = read(load(section).section)
    reading.tables.write(Places(section.family).interim)
    sys.stderr.write(told(reading.skipped))
    sys.stderr.writelines(f"note: {note}\n" for note in reading.notes)
    print(counted(reading.tables))  # noqa: T201


def validate(
    section: type[SectionType],
    tables: type[TablesType],
    decide: Callable[[TablesType, SectionType], Decided],
) -> None:
    """Stage validate: what of the family's tables can be learned from.

    Parameters
    ----------
    section, tables : type
        The family's.
    decide : callable
        Makes the decisions; an InputError if a table is wrong or too little is left.
    """
    places = Places(section.family)
    decisions = decide(tables.read(places.interim), load(section).section)
    decisions.write(places.valid)
    sys.stderr.writelines(f"{line}\n" for line in decisions.explained())
    print(decisions.counted())  # noqa: T201
