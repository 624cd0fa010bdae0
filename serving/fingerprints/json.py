"""Profiles, predictions and differences as JSON, and profiles back from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from data.errors import InputError
from data.tables.files import content_of
from data.tables.given import said
from features.fingerprints.matrix import Measured
from serving.doors.schemas import finite
from serving.fingerprints.schemas import IrupRequest, Measurements, ProfileAnswer, ProfileFile, TrustAnswer
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile

NOT_ENOUGH: Final = "not enough diversity"


def answer(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> ProfileAnswer:
    """Return what HTTP answers."""
    return ProfileAnswer.model_validate(_content(profile, predictions, warnings))


def nothing_learned(request: IrupRequest, reason: str, warnings: Sequence[str]) -> ProfileAnswer:
    """Return what HTTP answers where too little was given to learn anything, and why."""
    about = request.application
    trust = TrustAnswer(
        verdict=NOT_ENOUGH,
        reasons=[reason],
        leaders=[],
        leading=None,
        by=None,
        chance=None,
        unpredicted=[reason],
        machines=0,
        cpus=0,
        r2=None,
        median_error=None,
        stability=None,
    )
    return ProfileAnswer(
        application=about.name,
        metric=about.metric,
        better=about.better,
        trust=trust,
        features=[],
        clusters=[],
        categories=[],
        predictions=[],
        warnings=list(warnings),
    )


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
        told = ProfileFile.model_validate(content_of(path))
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


def difference_text(difference: ProfileDifference) -> str:
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
    } | {
        name: table.astype(object).where(table.notna(), None).to_dict("records")
        for name, table in (("features", difference.features), ("categories", difference.categories))
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _content(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> dict[str, Any]:
    trust = profile.trust
    return {
        "application": profile.application,
        "metric": profile.measured.metric,
        "better": profile.measured.better,
        "trust": asdict(trust) | {"verdict": "trusted" if trust.enough else NOT_ENOUGH},
        "features": profile.features.to_dict("records"),
        "clusters": profile.clusters.to_dict("records"),
        "categories": profile.categories.to_dict("records"),
        "predictions": [asdict(one) for one in predictions],
        "warnings": warnings,
    }
