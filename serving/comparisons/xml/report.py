"""A judgement in the XML layout of seed 000, figure 6.1, with all that it takes to judge the same again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.formats.comparison_xml import (
    ATTRIBUTES,
    BASE,
    EARLIER,
    LABEL,
    LATER,
    TARGET,
    UUIDS,
    VERDICT,
)
from data.comparisons.sides import Samples, Sides
from data.comparisons.tables import OPERATION, ComparisonTables
from data.comparisons.units import UNKNOWN
from data.errors import visible_xml
from features.comparisons.history import siblings_worse
from serving.comparisons import render
from serving.comparisons.judge import Judgement

#: Elements bear the names that JSON has, but for lists: each stands for one of its parts.
ELEMENTS = {"reasons": "reason", "remarks": "remark", "examples": "example", "words": "words"}
#: What the comparison has as attributes of its own.
_ELSEWHERE = ("comparison_id", "benchmark", "operation", "verdict")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdict_elements(judgement: Judgement, *, flipped: bool = True) -> list[Any]:
    """Return an element for every comparison: numbers and names as attributes, sentences as text.

    `flipped`: whether to look for what would flip the verdicts.
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


Floats = NDArray[np.float64]

#: What a report compares: a machine's two versions, or ranges of them.
_PAIR = ("machine", "baseline_from", "baseline_to", "target_from", "target_to")
_OF_LABEL = ("status", "annotator", "labelled_by", "labelled_at")
#: So many samples stand in one element: parsers bound the length of an attribute.
_AT_ONCE = 10_000


def as_xml(judgement: Judgement, tables: ComparisonTables) -> bytes:
    """Write what was judged, and the verdicts as ``result_status``, in the layout of figure 6.1.

    Reading it (`data.comparisons.formats.comparison_xml`) and judging it again gives the same verdicts and
    probabilities, and the same labels.

    `judgement`: its notes become elements ``note``.
    `tables`: what the judgement was made from. Samples are written beside the numbers of the figure, and the
    versions before the baseline and after the target that features look at; summaries stay summaries.
    Returns: one ``comparison_results`` for every machine and pair of versions, in ``reports`` where there are
    several. XML has no numbers that are not finite: a comparison with one is written without its sides, which
    is invalid likewise.
    """
    statuses = [verdict.verdict for verdict in judgement.verdicts]
    return written(tables, statuses, lambda: verdict_elements(judgement), judgement.notes)


def written(
    tables: ComparisonTables,
    statuses: Sequence[str],
    verdicts: Callable[[], Sequence[Any]] | None = None,
    notes: Sequence[str] = (),
) -> bytes:
    """Write comparisons in the layout of figure 6.1; see `as_xml`.

    `statuses`: what ``result_status`` is of each; empty: there is none.
    `verdicts`: returns an element for each.
    """
    from lxml import etree

    comparisons = tables.comparisons
    columns = [name for name in (*_PAIR, *UUIDS) if name in comparisons]
    report = comparisons.groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    root = etree.Element("reports")
    nodes = [
        etree.SubElement(root, "comparison_results", _about(row))
        for _, row in comparisons[~pd.Series(report).duplicated().to_numpy()].iterrows()
    ]
    # what overflows is not written
    with np.errstate(over="ignore", invalid="ignore"):
        content = _Content(tables)
        told = None if verdicts is None else verdicts()
        for row, status in enumerate(statuses):
            content.add(etree, nodes[report[row]], row, status, None if told is None else told[row])
    root = nodes[0] if len(nodes) == 1 else root
    for note in notes:
        etree.SubElement(root, "note").text = printable(note)
    document: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return visible_xml(document)


class _Content:
    """What is written of the comparisons of tables, by their rows."""

    def __init__(self, tables: ComparisonTables) -> None:
        self.sides = sides = Sides.of(tables)
        self.moments = _moments(sides.baseline), _moments(sides.target)
        self.first = np.searchsorted(sides.comparison, np.arange(sides.n_comparisons + 1))
        known = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit"]]
        units = tables.comparisons[OPERATION].merge(known, on=OPERATION, how="left")["unit"]
        self.units = units.fillna(UNKNOWN).tolist()
        identifiers = tables.comparisons["comparison_id"].map(printable)
        self.identifiers = identifiers.where(~identifiers.duplicated(), "").tolist()
        self.labels = _labels(tables)
        self.names = tables.comparisons[["benchmark", "operation"]].to_numpy().tolist()
        self.siblings_worse = siblings_worse(sides)

    def add(self, etree: Any, report: Any, row: int, status: str, told: Any) -> None:
        """Add a comparison to its report, and in it the element that says what is `told`, if any."""
        configurations = range(self.first[row], self.first[row + 1])
        lower = any(self.sides.sign[configuration] < 0 for configuration in configurations)
        attributes = {
            "comparison_id": self.identifiers[row],
            "benchmark_name": printable(self.names[row][0]),
            "operation_name": printable(self.names[row][1]),
            "unit": printable(self.units[row]),
            "better": "lower" if lower else "higher",
            **({"result_status": status} if status else {}),
        }
        if np.isfinite(self.siblings_worse[row]):
            attributes["siblings_worse"] = repr(float(self.siblings_worse[row]))
        node = etree.SubElement(report, "comparison_result", attributes)
        if told is not None:
            node.append(told)
        for label in self.labels[row]:
            etree.SubElement(node, LABEL, label)
        if all(self._is_finite(configuration) for configuration in configurations):
            for configuration in configurations:
                self._configuration(etree, node, configuration)

    def _is_finite(self, row: int) -> bool:
        return all(
            np.isfinite(five[row]).all() or (not samples.lengths[row] and np.isnan(five[row]).all())
            for _, samples, five in self.sides.both
        )

    def _configuration(self, etree: Any, parent: Any, row: int) -> None:
        node = etree.SubElement(parent, "result", threads_no=str(self.sides.threads[row]))
        before, after = self.sides.baseline_five[row, 2], self.sides.target_five[row, 2]
        if before and np.isfinite(after / before):
            node.set("median_diff", f"{100 * (after / before - 1):.0f}")
        for tag, (_, samples, five), moments in zip(
            (BASE, TARGET), self.sides.both, self.moments, strict=True
        ):
            named = dict(zip(ATTRIBUTES.values(), (*five[row], *moments[row]), strict=True))
            given = {name: repr(float(value)) for name, value in sorted(named.items()) if np.isfinite(value)}
            if given:
                _add_samples(etree, etree.SubElement(node, tag, given), samples, row)
        for tag, samples in ((EARLIER, self.sides.history), (LATER, self.sides.later)):
            if samples.lengths[row]:
                _add_samples(etree, etree.SubElement(node, tag), samples, row)


def _add_samples(etree: Any, node: Any, samples: Samples, row: int) -> None:
    for order, values in samples.versions(row):
        if not np.isfinite(values).all():  # of a version before: the comparison itself has none
            continue
        for start in range(0, len(values), _AT_ONCE):
            text = " ".join(map(repr, values[start : start + _AT_ONCE].tolist()))
            etree.SubElement(node, "samples", order=str(order), values=text)


def _labels(tables: ComparisonTables) -> list[list[dict[str, str]]]:
    """Return what people say of every comparison, as attributes: what is known."""
    given: dict[str, list[dict[str, str]]] = {}
    for label in tables.labels[["comparison_id", *_OF_LABEL]].to_dict("records"):
        known = {name: str(label[name]) for name in _OF_LABEL if not pd.isna(label[name])}
        if "labelled_at" in known:
            known["labelled_at"] = label["labelled_at"].isoformat()
        if known.get("labelled_by") in {known.get("annotator"), UNKNOWN}:
            del known["labelled_by"]
        own = given.setdefault(str(label["comparison_id"]), [])
        own.append({name: printable(value) for name, value in known.items()})
    return [given.get(key, []) for key in tables.comparisons["comparison_id"]]


def _about(row: pd.Series) -> dict[str, str]:
    """Return the attributes of a report: those of figure 6.1 where they are known, and the machine."""
    known = {name: row[name] for name in (*UUIDS, "machine") if name in row and not pd.isna(row[name])}
    return {name: printable(value) for name, value in known.items()}


def _moments(samples: Samples) -> Floats:
    """Return mean and standard deviation of every list, NaN where there is none."""
    found = np.full((len(samples.starts), 2), np.nan)
    for rows, matrix in samples.matrices():
        found[rows, 0] = matrix.mean(axis=1)
        if matrix.shape[1] > 1:
            found[rows, 1] = matrix.std(axis=1, ddof=1)
    return found


def xml_schema(*, answered: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a body in the layout of seed 000, figure 6.1, or of the answer to it.

    A body may be an earlier answer; what that says beside ``result_status`` is not read.
    """
    text = (files("serving.comparisons.xml") / "schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    if not answered:
        del schema["properties"]["comparison_result"]["items"]["properties"][VERDICT]
    return schema
