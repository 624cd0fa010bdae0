"""The properties of a benchmark run (seed 000, figure 4.3): in the result file itself, or beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data.tables.xml_stream import Document, Element, WholeDocument

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


def properties_in(tree: WholeDocument, settings: Element) -> dict[str, str]:
    """Return the properties below an element ``settings``.

    Raises
    ------
    InputError
        If a property has no value.
    """
    properties = {}
    for element in list(settings.iter())[1:]:
        tree.here, value = element, element.get("value")
        if value is None:
            raise tree.error(f"<{element.tag}> lacks the attribute value", place=ROOT)
        properties[str(element.tag)] = value.strip()
    return properties


def beside(path: Path) -> dict[str, str]:
    """Return the properties of ``<stem>.settings.xml`` or else ``settings.xml`` beside a result file, if any.

    Raises
    ------
    InputError
        If it is there but cannot be read.
    """
    for candidate in (path.with_name(f"{path.stem}.settings.xml"), path.with_name("settings.xml")):
        if candidate.is_file() and candidate != path:
            tree = WholeDocument(Document.of_path(candidate))
            inside = [properties_in(tree, one) for one in tree.root.iter(ROOT)]
            return {name: value for found in inside for name, value in found.items()}
    return {}


def is_settings(path: Path) -> bool:
    """Tell from its name whether a file holds only settings."""
    return path.name == "settings.xml" or path.name.endswith(".settings.xml")
