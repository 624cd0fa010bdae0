"""The properties of a benchmark run (seed 000, figure 4.3): in the result file itself, or beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data.tables.xml_stream import Document, Walk

ROOT = "settings"


@dataclass(frozen=True)
class Settings:
    """What the tables take over from a run's properties.

    Attributes
    ----------
    machine, version, benchmark : str or None
        The properties ``Hostname``, ``Kernel`` and ``BenchmarkName``; None where they are not given.
    """

    machine: str | None = None
    version: str | None = None
    benchmark: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Settings:
        """Pick them out of all properties, in whatever case they are written."""
        found = {name.lower(): value for name, value in properties.items() if value}
        return cls(found.get("hostname"), found.get("kernel"), found.get("benchmarkname"))


class Collector:
    """The properties met on a walk over a document."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._inside = False
        self.properties: dict[str, str] = {}

    def take(self, opened: bool, tag: str, value: str | None) -> bool:
        """Look at the beginning or the end of an element; tell whether it belongs to the settings.

        Raises
        ------
        InputError
            If a property has no value.
        """
        if tag == ROOT:
            self._inside = opened
            return True
        if self._inside and opened:
            if value is None:
                raise self._walk.error(f"<{tag}> lacks the attribute value", place=ROOT)
            self.properties[tag] = value.strip()
        return self._inside


def beside(path: Path) -> Settings:
    """Read ``<stem>.settings.xml`` or else ``settings.xml`` that lies beside a result file, if one does.

    Raises
    ------
    InputError
        If it is there but cannot be read.
    """
    for candidate in (path.with_name(f"{path.stem}.settings.xml"), path.with_name("settings.xml")):
        if candidate.is_file() and candidate != path:
            walk = Walk(Document.of_path(candidate))
            collector = Collector(walk)
            for opened, element in walk:
                collector.take(opened, str(element.tag), element.get("value"))
            return Settings.of(collector.properties)
    return Settings()


def is_settings(path: Path) -> bool:
    """Tell from its name whether a file holds only settings."""
    return path.name == "settings.xml" or path.name.endswith(".settings.xml")
