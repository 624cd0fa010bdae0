"""Profiles, predictions and differences as JSON, and profiles back from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from data.errors import InputError
from data.tables.given import said
from features.fingerprints.matrix import Measured
from serving.doors.schemas import finite
from serving.fingerprints.schemas import Measurements, ProfileAnswer, ProfileFile
from training.fingerprints.differences import Difference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile


def answer(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> ProfileAnswer:
    """Return what HTTP answers."""
    return ProfileAnswer.model_validate(_content(profile, predictions, warnings))


def file_text(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> str:
    """Return what ``irup profile --json`` writes: the answer, and the measurements behind it."""
    measured = profile.measured
    measurements = Measurements(
        columns=list(measured.columns),
        machines=measured.machines.tolist(),
        cpus=measured.cpus.tolist(),
        rates=[[finite(rate) for rate in row] for row in measured.x.tolist()],
        values=measured.y.tolist(),
    )
    content = _content(profile, predictions, warnings) | {"measured": measurements}
    told = ProfileFile.model_validate(content).model_dump()
    rows = json.dumps(told.pop("measured"), allow_nan=False, ensure_ascii=False)
    text = json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False).removesuffix("\n}")
    return f'{text},\n "measured": {rows}\n}}\n'


def read(path: Path) -> Measured:
    """Return what a profile in a file of ``irup profile --json`` was learned from.

    Raises
    ------
    InputError
        If the file cannot be read or is something else.
    """
    try:
        told = ProfileFile.model_validate_json(path.read_bytes())
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    except ValidationError as exc:
        problem = f"is no profile of `perfjudge irup profile --json` ({said(exc)})"
        raise InputError(f"{problem}; applications need --machines", file=path) from exc
    measured = told.measured
    machines, columns = len(measured.machines), len(measured.columns)
    shape = (len(measured.cpus), len(measured.values), len(measured.rates), *map(len, measured.rates))
    if shape != (machines, machines, machines, *[columns] * machines):
        problem = f"measured: the rows don't fit {machines} machines and {columns} columns"
        raise InputError(problem, file=path)
    return Measured(
        told.application,
        told.metric,
        told.better,
        tuple(measured.columns),
        np.array(measured.rates, np.float64),
        np.array(measured.values, np.float64),
        np.array(measured.machines),
        np.array(measured.cpus),
    )


def difference_text(difference: Difference) -> str:
    """Return what ``irup diff --json`` writes."""
    content = {
        "a": difference.a,
        "b": difference.b,
        "paired": difference.paired,
        "significant": difference.significant,
        "moved": list(difference.moved),
        "reasons": list(difference.reasons),
        "seed_algorithm": {
            "equivalent": difference.stops_at is None,
            "stops_at": difference.stops_at,
            "tolerance": difference.tolerance,
        },
        "features": _records(difference.features),
        "categories": _records(difference.categories),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _content(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> dict[str, Any]:
    trust = profile.trust
    return {
        "application": profile.application,
        "metric": profile.measured.metric,
        "better": profile.measured.better,
        "trust": {
            "verdict": "trusted" if trust.enough else "not enough diversity",
            "reasons": list(trust.reasons),
            "machines": trust.machines,
            "cpus": trust.cpus,
            "r2": finite(trust.r2),
            "median_error": finite(trust.median_error),
            "stability": finite(trust.stability),
        },
        "features": _records(profile.features, "categories"),
        "clusters": _records(profile.clusters, "stressors"),
        "categories": _records(profile.categories),
        "predictions": [
            {
                "machine": one.machine,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "confidence": one.confidence,
                "reasons": list(one.reasons),
            }
            for one in predictions
        ],
        "warnings": list(warnings),
    }


def _records(table: pd.DataFrame, listed: str = "") -> list[dict[str, Any]]:
    """Return plain rows; NaN becomes None, and the column `listed` a list."""
    rows = [
        {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]
    if listed:
        for row in rows:
            row[listed] = [part.strip() for part in str(row[listed]).split(",") if part.strip()]
    return rows
