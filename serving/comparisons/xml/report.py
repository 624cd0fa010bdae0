"""Comparisons and verdicts as XML (scheduler thesis, figure 6.1), with all data to judge them again."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

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
from data.comparisons.sides import Floats, Samples, Sides
from data.comparisons.tables import OPERATION, ComparisonTables
from data.comparisons.units import UNKNOWN
from data.errors import escape_invisible_xml
from features.comparisons.history import siblings_worse
from serving.comparisons import render
from serving.comparisons.judge import Judgement

#: Names of the elements in lists, by the name of the list in JSON; all other names are those of JSON.
ELEMENTS = {"reasons": "attribution", "remarks": "remark", "examples": "example", "words": "words"}
#: Fields of a verdict that are attributes of the comparison.
_OF_COMPARISON = ("comparison_id", "benchmark", "operation", "verdict")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Columns whose values identify a report: a machine and two versions or ranges of versions.
_REPORT = ("machine", "baseline_from", "baseline_to", "target_from", "target_to")
_LABEL_COLUMNS = ("status", "annotator", "labelled_by", "labelled_at")
#: Most samples in one element, because parsers bound the length of attributes.
_SAMPLES_PER_ELEMENT = 10_000


def verdict_elements(judgement: Judgement, *, flipped: bool = True) -> list[Any]:
    """Return an lxml element ``verdict`` per comparison, in order, with the values of the JSON answer.

    The comparison's id, benchmark, operation and verdict are left out; ``model`` (the address of the model)
    and ``decided`` (the `decision_summary`) are added. Names are those of the JSON answer. Numbers and texts
    are attributes. Objects are child elements, and so are items of lists, with a name from `ELEMENTS`
    (``reasons`` has ``attribution``); an item that is a text becomes the element's text. None and empty
    values are omitted.
    `flipped`: whether to compute counterfactuals. ModelError if a contribution is not finite.
    """
    from lxml import etree

    content = json.loads(render.as_json(judgement, flipped=flipped))
    model = {"model": content["model"]["uri"], "decided": content["model"]["decided"]["summary"]}
    elements = []
    for verdict in content["verdicts"]:
        elements.append(etree.Element("verdict"))
        _fill_element(elements[-1], model | {k: v for k, v in verdict.items() if k not in _OF_COMPARISON})
    return elements


def verdict_xml_bytes(judgement: Judgement, *, flipped: bool = True) -> dict[str, bytes]:
    """Return each verdict as an XML element ``verdict``, in ASCII without a declaration, by comparison_id.

    Of equal ids, the last one counts. With counterfactuals if `flipped`. Raises ModelError if a contribution
    is not finite.
    """
    from lxml import etree

    elements = map(etree.tostring, verdict_elements(judgement, flipped=flipped))
    return dict(zip((verdict.comparison_id for verdict in judgement.verdicts), elements, strict=True))


def replace_unprintable(text: str) -> str:
    """Return text with U+FFFD for each character that XML cannot contain, such as most control characters."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _fill_element(element: Any, content: Mapping[str, Any]) -> None:
    from lxml import etree

    for name, value in content.items():
        if isinstance(value, dict):
            _fill_element(etree.SubElement(element, name), value)
        elif isinstance(value, list):
            for item in value:
                child = etree.SubElement(element, ELEMENTS[name])
                if isinstance(item, str):
                    child.text = replace_unprintable(item)
                else:
                    _fill_element(child, item)
        elif value not in (None, ""):
            element.set(name, replace_unprintable(str(value)))


def as_xml(judgement: Judgement, tables: ComparisonTables) -> bytes:
    """Return comparisons, their verdicts and notes as XML in the layout of the scheduler thesis, figure 6.1.

    The attribute ``result_status`` holds the verdict; `write_comparisons` describes all else. Judging the
    result again with the same model and options gives equal verdicts and probabilities, except after
    `judge_runs`, which adjusts verdicts to whole runs. `tables`: the judged comparisons. ModelError if a
    contribution is not finite.
    """
    statuses = [verdict.verdict for verdict in judgement.verdicts]
    return write_comparisons(tables, statuses, verdict_elements(judgement), judgement.notes)


def write_comparisons(
    tables: ComparisonTables,
    statuses: Sequence[str],
    verdicts: Sequence[Any] | None = None,
    notes: Sequence[str] = (),
) -> bytes:
    """Return comparisons as XML in the layout of the scheduler thesis, figure 6.1, with samples and labels.

    The result is in UTF-8: an element ``comparison_results`` per machine and pair of versions; it is the root
    if it is the only one, else they are in ``reports``. Samples, earlier and later versions are written in
    addition to the numbers of the figure. A comparison whose id occurred before has the id "", and one with
    an infinite number in baseline or target has no results, which makes it invalid when it is read; earlier
    and later versions with one are left out. Characters that XML cannot contain become U+FFFD.
    `statuses`: the ``result_status`` of each comparison; an empty text omits the attribute.
    `verdicts`: an lxml element per comparison to add.
    `notes`: texts that become elements ``note`` at the end of the root element.
    """
    from lxml import etree

    comparisons = tables.comparisons
    columns = [name for name in (*_REPORT, *UUIDS) if name in comparisons]
    report = comparisons.groupby(columns, sort=False, dropna=False).ngroup()
    root, nodes = etree.Element("reports"), []
    for row in comparisons[~report.duplicated()].to_dict("records"):
        names = {name: row.get(name) for name in (*UUIDS, "machine")}
        attributes = {name: replace_unprintable(text) for name, text in names.items() if not pd.isna(text)}
        nodes.append(etree.SubElement(root, "comparison_results", attributes))
    # numbers that overflow are not written
    with np.errstate(over="ignore", invalid="ignore"):
        writer = _ComparisonWriter(tables)
        for row, (place, status) in enumerate(zip(report.tolist(), statuses, strict=True)):
            writer.add_comparison(nodes[place], row, status, verdicts[row] if verdicts else None)
    root = nodes[0] if len(nodes) == 1 else root
    for note in notes:
        etree.SubElement(root, "note").text = replace_unprintable(note)
    document: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return escape_invisible_xml(document)


class _ComparisonWriter:
    def __init__(self, tables: ComparisonTables) -> None:
        from lxml import etree

        self.add_element = etree.SubElement
        self.sides = sides = Sides.from_tables(tables)
        self.moments = _sample_moments(sides.baseline), _sample_moments(sides.target)
        self.first = np.searchsorted(sides.comparison, np.arange(sides.n_comparisons + 1))
        units = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit"]]
        named = tables.comparisons[["comparison_id", *OPERATION]].merge(units, on=OPERATION, how="left")
        named = named.drop(columns="machine").fillna({"unit": UNKNOWN}).map(replace_unprintable)
        named = named.rename(columns={"benchmark": "benchmark_name", "operation": "operation_name"})
        named["comparison_id"] = named["comparison_id"].where(~named["comparison_id"].duplicated(), "")
        self.names = named.to_dict("records")
        self.labels = _label_attributes(tables)
        self.siblings_worse = siblings_worse(sides)

    def add_comparison(self, report: Any, row: int, status: str, verdict: Any) -> None:
        configurations = range(self.first[row], self.first[row + 1])
        lower = any(self.sides.sign[at] < 0 for at in configurations)
        attributes = self.names[row] | {"better": "lower" if lower else "higher"}
        if status:
            attributes["result_status"] = status
        if np.isfinite(self.siblings_worse[row]):
            attributes["siblings_worse"] = repr(float(self.siblings_worse[row]))
        node = self.add_element(report, "comparison_result", attributes)
        if verdict is not None:
            node.append(verdict)
        for label in self.labels[row]:
            self.add_element(node, LABEL, label)
        if all(self._is_finite(at) for at in configurations):
            for at in configurations:
                self._add_configuration(node, at)

    def _is_finite(self, at: int) -> bool:
        return all(
            np.isfinite(five[at]).all() or (not samples.lengths[at] and np.isnan(five[at]).all())
            for _, samples, five in self.sides.both_sides
        )

    def _add_configuration(self, parent: Any, at: int) -> None:
        node = self.add_element(parent, "result", threads_no=str(self.sides.threads[at]))
        before, after = self.sides.baseline_five[at, 2], self.sides.target_five[at, 2]
        if before and np.isfinite(after / before):
            node.set("median_diff", f"{100 * (after / before - 1):.0f}")
        sides = zip((BASE, TARGET), self.sides.both_sides, self.moments, strict=True)
        for tag, (_, samples, five), moments in sides:
            numbers = zip(ATTRIBUTES.values(), (*five[at], *moments[at]), strict=True)
            finite = {name: repr(float(value)) for name, value in sorted(numbers) if np.isfinite(value)}
            if finite:
                self._add_samples(self.add_element(node, tag, finite), samples, at)
        for tag, samples in ((EARLIER, self.sides.history), (LATER, self.sides.later)):
            if samples.lengths[at]:
                self._add_samples(self.add_element(node, tag), samples, at)

    def _add_samples(self, node: Any, samples: Samples, at: int) -> None:
        for order, values in samples.iterate_versions(at):
            # in earlier and later versions, infinite numbers are possible
            texts = list(map(repr, values.tolist())) if np.isfinite(values).all() else []
            for start in range(0, len(texts), _SAMPLES_PER_ELEMENT):
                text = " ".join(texts[start : start + _SAMPLES_PER_ELEMENT])
                self.add_element(node, "samples", order=str(order), values=text)


def _label_attributes(tables: ComparisonTables) -> list[list[dict[str, str]]]:
    labels = defaultdict[str, list[dict[str, str]]](list)
    for label in tables.labels[["comparison_id", *_LABEL_COLUMNS]].to_dict("records"):
        texts = {name: str(label[name]) for name in _LABEL_COLUMNS if not pd.isna(label[name])}
        if "labelled_at" in texts:
            texts["labelled_at"] = label["labelled_at"].isoformat()
        if texts.get("labelled_by") in {texts.get("annotator"), UNKNOWN}:
            del texts["labelled_by"]
        attributes = {name: replace_unprintable(text) for name, text in texts.items()}
        labels[str(label["comparison_id"])].append(attributes)
    return [labels.get(key, []) for key in tables.comparisons["comparison_id"]]


def _sample_moments(samples: Samples) -> Floats:
    """Return mean and standard deviation of every list, shape (n_lists, 2), NaN if undefined."""
    moments = np.full((len(samples.starts), 2), np.nan)
    for rows, matrix in samples.iterate_matrices():
        moments[rows, 0] = matrix.mean(axis=1)
        if matrix.shape[1] > 1:
            moments[rows, 1] = matrix.std(axis=1, ddof=1)
    return moments


def xml_schema(*, answered: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of an XML request (scheduler thesis, figure 6.1); if `answered`, of an answer.

    Its key ``xml`` marks the properties that are attributes, as in OpenAPI. A request may be an earlier
    answer: its elements ``verdict`` are ignored; a ``result_status`` must be valid, and is replaced in the
    new answer.
    """
    text = (files("serving.comparisons.xml") / "schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    if not answered:
        del schema["properties"]["comparison_result"]["items"]["properties"][VERDICT]
    return schema
