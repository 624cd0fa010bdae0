"""Pairs of matrices become verdicts, and the verdicts answers: JSON, lines of a table, XML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from data.matrix_tables import MatrixTables
from serving.matrices_model import ServedEngine
from serving.matrices_schemas import MatricesAnswer
from serving.model import ModelRef
from serving.verdict_lines import Answer, Line, Lines, printable
from training.matrix_judging import Driver, InvalidRun, MatrixVerdict
from training.matrix_judging import judge as judged

#: How many raw metrics a verdict names, and how many of them a line shows.
DRIVERS, SHOWN = 5, 3
#: Runs that were left out are told one by one up to so many; ``--json`` has them all.
TOLD = 20


@dataclass(frozen=True)
class Judged:
    """Verdicts on pairs of matrices.

    Attributes
    ----------
    model : ModelRef
        Which gave them.
    verdicts : tuple of MatrixVerdict
        In the order of the pairs.
    notes : tuple of str
        What to know about all of them.
    """

    model: ModelRef
    verdicts: tuple[MatrixVerdict, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.verdicts)

    def count(self, answer: Answer) -> int:
        """Return how many pairs got this verdict."""
        return sum(one.verdict == answer for one in self.verdicts)


def judge(tables: MatrixTables, served: ServedEngine) -> Judged:
    """Give a verdict on every pair of `tables`.

    Raises
    ------
    InputError
        If more metrics are missing than the model can do without.
    """
    found = judged(served.engine, tables, DRIVERS)
    return Judged(served.ref, found.verdicts, found.notes)


def answer(found: Judged) -> MatricesAnswer:
    """Return what HTTP answers."""
    return MatricesAnswer.model_validate(
        {
            "model": {"name": found.model.name, "version": found.model.version, "uri": found.model.uri},
            "verdicts": [_verdict(one) for one in found.verdicts],
            "notes": list(found.notes),
        }
    )


def as_json(found: Judged) -> str:
    """Return the answer as one JSON document."""
    return f"{answer(found).model_dump_json(indent=1)}\n"


def summary(found: Judged) -> str:
    """Return how many pairs got which verdict, in one line."""
    counted = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in ("fail", "pass", "invalid"))
    number = len(found)
    return f"{number} pair{'' if number == 1 else 's'}: {counted} (model {found.model.name} {found.model.version})"


def lines(found: Judged) -> Lines:
    """Return the verdicts as lines of a table, a group a suite."""
    rows = [Line(one.verdict, one.probability, _group(one), one.pair_id, _why(one)) for one in found.verdicts]
    return Lines(rows, ("group", "pair", "what drove it"), summary(found), tuple(_notes(found)))


def as_xml(found: Judged) -> bytes:
    """Return the verdicts as XML: an element a pair, with what drove it and what was left out."""
    from lxml import etree

    ref = found.model
    root = etree.Element("matrix_results", model=printable(ref.name), version=ref.version, uri=printable(ref.uri))
    for one in found.verdicts:
        node = _element(etree, root, "matrix_result", _pair(one) | {"status": one.verdict} | _judged(one))
        for driver in one.drivers:
            _element(etree, node, "driver", _driver(driver))
        for run in one.invalid_runs:
            _element(etree, node, "invalid_run", _run(run))
        for note in one.notes:
            etree.SubElement(node, "note").text = printable(note)
    for note in found.notes:
        etree.SubElement(root, "note").text = printable(note)
    text: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text


def _element(etree: Any, parent: Any, name: str, values: dict[str, Any]) -> Any:
    """Add an element; a value that is not known becomes no attribute."""
    told = {key: printable(str(value)) for key, value in values.items() if value is not None}
    return etree.SubElement(parent, name, told)


def _verdict(one: MatrixVerdict) -> dict[str, Any]:
    return {
        **_pair(one),
        "verdict": one.verdict,
        **_judged(one),
        "invalid_runs": [_run(run) for run in one.invalid_runs],
        "drivers": [_driver(driver) for driver in one.drivers],
        "notes": list(one.notes),
    }


def _pair(one: MatrixVerdict) -> dict[str, Any]:
    return {"pair_id": one.pair_id, "workload": one.workload, "group": one.group, "group_used": one.group_used}


def _judged(one: MatrixVerdict) -> dict[str, Any]:
    return {
        "probability": one.probability,
        "threshold": one.threshold,
        "invalid_reason": one.reason or None,
        "baseline_runs": one.baseline_runs,
        "target_runs": one.target_runs,
    }


def _run(run: InvalidRun) -> dict[str, Any]:
    return {"run_id": run.run_id, "side": run.side, "by": run.by, "rule": run.rule, "reason": run.reason}


def _driver(driver: Driver) -> dict[str, Any]:
    return {
        "metric": driver.metric,
        "unit": driver.unit,
        "baseline": _finite(driver.baseline),
        "target": _finite(driver.target),
        "contribution": driver.contribution,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _group(one: MatrixVerdict) -> str:
    """Name the group, and whose model answered if it is another."""
    return one.group if one.group_used in {"", one.group} else f"{one.group} ({one.group_used})"


def _why(one: MatrixVerdict) -> str:
    if one.verdict == "invalid":
        return one.reason
    return ", ".join(_moved(driver) for driver in one.drivers[:SHOWN])


def _moved(driver: Driver) -> str:
    unit = f" {driver.unit}" if driver.unit else ""
    before, after = (_number(value) for value in (driver.baseline, driver.target))
    return f"{driver.metric} {before} \N{RIGHTWARDS ARROW} {after}{unit} ({driver.contribution:+.2g})"


def _number(value: float | None) -> str:
    return "unknown" if _finite(value) is None else f"{value:.4g}"


def _notes(found: Judged) -> list[str]:
    """Tell what is to be known of all, of single pairs, and which runs were left out."""
    own = [f'note: pair "{one.pair_id}": {note}' for one in found.verdicts for note in one.notes]
    left = [
        f'left out: run "{run.run_id}": {run.reason}' for one in found.verdicts for run in one.invalid_runs
    ]
    return [*(f"note: {note}" for note in found.notes), *_some(own, "notes"), *_some(left, "runs left out")]


def _some(told: Sequence[str], what: str) -> list[str]:
    rest = len(told) - TOLD
    return [*told[:TOLD], *([f"... and {rest} more {what}; --json has all"] if rest > 0 else [])]
