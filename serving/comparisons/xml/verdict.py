"""All that answers in JSON say of a comparison, as an element ``verdict``, which other readers pass over."""

from __future__ import annotations

import json
import re
from typing import Any

from serving.comparisons import render
from serving.comparisons.judge import Judgement

#: Elements bear the names that JSON has, but for lists: each stands for one of its parts.
ELEMENTS = {"reasons": "reason", "remarks": "remark", "examples": "example", "words": "words"}
#: What the comparison has as attributes of its own.
_ELSEWHERE = ("comparison_id", "benchmark", "operation", "verdict")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdict_elements(judgement: Judgement, *, flipped: bool = True) -> list[Any]:
    """Return an element for every comparison: numbers and names as attributes, sentences as text.

    Parameters
    ----------
    judgement : Judgement
    flipped : bool
        Whether to look for what would flip the verdicts.
    """
    from lxml import etree

    content = json.loads(render.as_json(judgement, flipped=flipped))
    model = {"model": content["model"]["uri"], "decided": content["model"]["decided"]["told"]}
    return [_verdict(etree, model | one) for one in content["verdicts"]]


def verdicts_written(judgement: Judgement, *, flipped: bool = True) -> dict[str, bytes]:
    """Return the same as bytes, by comparison_id; in ASCII, which any document may hold."""
    from lxml import etree

    elements = verdict_elements(judgement, flipped=flipped)
    return {
        one.comparison_id: etree.tostring(element)
        for one, element in zip(judgement.verdicts, elements, strict=True)
    }


def printable(text: str) -> str:
    """Replace what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _verdict(etree: Any, content: dict[str, Any]) -> Any:
    element = etree.Element("verdict")
    _fill(etree, element, {name: value for name, value in content.items() if name not in _ELSEWHERE})
    return element


def _fill(etree: Any, element: Any, content: dict[str, Any]) -> None:
    """Write what is known: what is null or empty in JSON is left out."""
    for name, value in content.items():
        if isinstance(value, dict):
            _fill(etree, etree.SubElement(element, name), value)
        elif isinstance(value, list):
            for one in value:
                _add(etree, etree.SubElement(element, ELEMENTS[name]), one)
        elif value not in (None, ""):
            element.set(name, printable(str(value)))


def _add(etree: Any, element: Any, content: str | dict[str, Any]) -> None:
    if isinstance(content, str):
        element.text = printable(content)
    else:
        _fill(etree, element, content)
