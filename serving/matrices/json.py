"""Verdicts on matrices as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from serving.doors.schemas import finite
from serving.matrices.judge import Judged
from serving.matrices.schemas import MatricesAnswer
from training.matrices.judging import Driver, InvalidRun, MatrixVerdict


def answer(found: Judged) -> MatricesAnswer:
    """Return what HTTP answers."""
    return MatricesAnswer.model_validate(
        {
            "model": asdict(found.model),
            "verdicts": [_verdict(one) for one in found.verdicts],
            "notes": list(found.notes),
        }
    )


def as_json(found: Judged) -> str:
    """Return the answer as one JSON document."""
    return f"{answer(found).model_dump_json(indent=1)}\n"


def about(one: MatrixVerdict) -> dict[str, Any]:
    """Return what is said of a pair in single words and numbers; None where it is not known."""
    return {
        "pair_id": one.pair_id,
        "workload": one.workload,
        "group": one.group,
        "group_used": one.group_used,
        "verdict": one.verdict,
        "probability": one.probability,
        "threshold": one.threshold,
        "invalid_reason": one.reason or None,
        "baseline_runs": one.baseline_runs,
        "target_runs": one.target_runs,
    }


def run_told(run: InvalidRun) -> dict[str, Any]:
    """Return what is said of a run that was left out."""
    return {"run_id": run.run_id, "side": run.side, "by": run.by, "rule": run.rule, "reason": run.reason}


def driver_told(driver: Driver) -> dict[str, Any]:
    """Return what is said of a metric that drove a verdict."""
    return {
        "metric": driver.metric,
        "unit": driver.unit,
        "baseline": finite(driver.baseline),
        "target": finite(driver.target),
        "contribution": driver.contribution,
    }


def _verdict(one: MatrixVerdict) -> dict[str, Any]:
    return {
        **about(one),
        "invalid_runs": [run_told(run) for run in one.invalid_runs],
        "drivers": [driver_told(driver) for driver in one.drivers],
        "notes": list(one.notes),
    }
