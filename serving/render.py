"""A judgement as text: JSON, Markdown, JUnit XML, or a table for a terminal."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from serving.judge import Judgement, Reason, Verdict
from serving.tables import printed

if TYPE_CHECKING:
    from rich.table import Table

_MARK = {"fail": "red", "pass": "green", "invalid": "yellow"}


def as_json(judgement: Judgement) -> str:
    """Return the answer of the design's contract as one JSON document, a verdict a line."""
    model = json.dumps(_model(judgement), allow_nan=False)
    encode = json.JSONEncoder(allow_nan=False).encode
    verdicts = ",\n  ".join(encode(_verdict(verdict)) for verdict in judgement.verdicts)
    listed = f"[\n  {verdicts}\n]" if verdicts else "[]"
    return f'{{"model": {model},\n"verdicts": {listed}}}\n'


def summary(judgement: Judgement) -> str:
    """Return how many comparisons got which verdict, in one line."""
    counted = ", ".join(f"{judgement.count(answer)} {answer}" for answer in ("fail", "pass", "invalid"))
    model, number = judgement.model, len(judgement)
    return (
        f"{number} comparison{'' if number == 1 else 's'}: {counted} (model {model.name} {model.version}, "
        f"fail from a probability of {judgement.threshold:.3f})"
    )


def as_terminal(judgement: Judgement) -> str:
    """Return the verdicts as a table in the colours and the width of this terminal."""
    from rich.console import Console

    console = Console()
    with console.capture() as captured:
        console.print(_table(judgement))
    return captured.get()


def as_plain(judgement: Judgement) -> str:
    """Return the verdicts as a table for a file or a pipe: wide, without colours."""
    return printed(_table(judgement))


def _table(judgement: Judgement) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("verdict", "probability", "benchmark", "operation", "reasons", caption=summary(judgement))
    for verdict in judgement.verdicts:
        table.add_row(
            Text(verdict.verdict, style=_MARK[verdict.verdict]),
            _probability(verdict),
            Text(verdict.benchmark),
            Text(verdict.operation),
            Text(_why(verdict)),
        )
    return table


def as_markdown(judgement: Judgement) -> str:
    """Return the verdicts as a Markdown table, the regressions first."""
    order = {"fail": 0, "invalid": 1, "pass": 2}
    lines = [
        summary(judgement),
        "",
        "| verdict | probability | benchmark | operation | reasons |",
        "| --- | ---: | --- | --- | --- |",
    ]
    for verdict in sorted(judgement.verdicts, key=lambda verdict: order[verdict.verdict]):
        cells = (verdict.benchmark, verdict.operation, _why(verdict))
        shown = " | ".join(_cell(cell) for cell in cells)
        lines.append(f"| {_bold(verdict)} | {_probability(verdict)} | {shown} |")
    return "\n".join(lines) + "\n"


def as_junit(judgement: Judgement) -> str:
    """Return JUnit XML: a test suite a benchmark, a failure a regression, skipped what is invalid."""
    from lxml import etree

    root = etree.Element("testsuites", name="perfjudge", tests=str(len(judgement)))
    root.set("failures", str(judgement.count("fail")))
    ordered = sorted(judgement.verdicts, key=lambda verdict: verdict.benchmark)
    for benchmark, group in groupby(ordered, key=lambda verdict: verdict.benchmark):
        verdicts = list(group)
        suite = etree.SubElement(root, "testsuite", name=_xml(benchmark), tests=str(len(verdicts)))
        suite.set("failures", str(sum(verdict.verdict == "fail" for verdict in verdicts)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(verdict.verdict == "invalid" for verdict in verdicts)))
        for verdict in verdicts:
            _case(etree, suite, verdict)
    text: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text.decode()


def _case(etree: Any, suite: Any, verdict: Verdict) -> None:
    case = etree.SubElement(
        suite, "testcase", classname=_xml(verdict.benchmark), name=_xml(verdict.operation)
    )
    if verdict.verdict == "fail":
        message = f"regression with probability {_probability(verdict)}"
        etree.SubElement(case, "failure", type="regression", message=message).text = _xml(_why(verdict))
    elif verdict.verdict == "invalid":
        etree.SubElement(case, "skipped", message=_xml(_why(verdict)))


def _model(judgement: Judgement) -> dict[str, str]:
    model = judgement.model
    return {
        "name": model.name,
        "version": model.version,
        "uri": model.uri,
        "contribution_unit": judgement.unit,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "comparison_id": verdict.comparison_id,
        "benchmark": verdict.benchmark,
        "operation": verdict.operation,
        "verdict": verdict.verdict,
        "probability": verdict.probability,
        "threshold": verdict.threshold,
        "reasons": [
            {"feature": reason.feature, "value": reason.value, "contribution": reason.contribution}
            for reason in verdict.reasons
        ],
        "invalid_reason": verdict.invalid_reason,
    }


def _probability(verdict: Verdict) -> str:
    return "" if verdict.probability is None else f"{verdict.probability:.3f}"


def _why(verdict: Verdict) -> str:
    if verdict.invalid_reason is not None:
        return verdict.invalid_reason
    return ", ".join(_reason(reason) for reason in verdict.reasons)


def _reason(reason: Reason) -> str:
    value = "unknown" if reason.value is None else f"{reason.value:.3g}"
    return f"{reason.feature} = {value} ({reason.contribution:+.2g})"


def _bold(verdict: Verdict) -> str:
    return verdict.verdict if verdict.verdict == "pass" else f"**{verdict.verdict}**"


def _cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def _xml(text: str) -> str:
    """Replace what XML cannot hold, such as control characters."""
    return "".join(char if char.isprintable() or char in "\t\n" else "�" for char in text)
