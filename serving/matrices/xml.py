"""Verdicts on matrices as XML: an element a pair, with what drove it and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serving.matrices.json import about, driver_told, run_told
from serving.matrices.judge import Judged
from serving.pages.verdict_lines import printable


def as_xml(found: Judged) -> bytes:
    """Return ``matrix_results``; an attribute that is not known is left out."""
    from lxml import etree

    ref = found.model
    root = etree.Element(
        "matrix_results", _attributes({"model": ref.name, "version": ref.version, "uri": ref.uri})
    )
    for one in found.verdicts:
        node = etree.SubElement(root, "matrix_result", _attributes(about(one)))
        for driver in one.drivers:
            etree.SubElement(node, "driver", _attributes(driver_told(driver)))
        for run in one.invalid_runs:
            etree.SubElement(node, "invalid_run", _attributes(run_told(run)))
        _add_notes(etree, node, one.notes)
    _add_notes(etree, root, found.notes)
    written: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return written


def _attributes(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: printable(str(value)) for name, value in values.items() if value is not None}


def _add_notes(etree: Any, parent: Any, notes: Sequence[str]) -> None:
    for note in notes:
        etree.SubElement(parent, "note").text = printable(note)
