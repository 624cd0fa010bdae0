"""Verdicts on matrices as XML: an element a pair, with what drove it and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from serving.matrices.schemas import MatricesAnswer
from serving.pages.verdict_lines import printable


def as_xml(found: MatricesAnswer) -> bytes:
    """Return ``matrix_results``; an attribute that is not known is left out."""
    from lxml import etree

    ref = {"model": found.model.name} | found.model.model_dump(exclude={"name"})
    root = etree.Element("matrix_results", _attributes(ref))
    for one in found.verdicts:
        node = etree.SubElement(root, "matrix_result", _attributes(one))
        for driver in one.drivers:
            etree.SubElement(node, "driver", _attributes(driver))
        for run in one.invalid_runs:
            etree.SubElement(node, "invalid_run", _attributes(run))
        _add_notes(etree, node, one.notes)
    _add_notes(etree, root, found.notes)
    written: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return written


def _attributes(told: Mapping[str, Any] | BaseModel) -> dict[str, str]:
    """Return what is said in single words and numbers."""
    return {
        name: printable(str(value))
        for name, value in dict(told).items()
        if value is not None and not isinstance(value, list)
    }


def _add_notes(etree: Any, parent: Any, notes: Sequence[str]) -> None:
    for note in notes:
        etree.SubElement(parent, "note").text = printable(note)
