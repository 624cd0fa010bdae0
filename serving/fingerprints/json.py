"""Profiles, predictions and differences as text and JSON, and measurements from JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from data.errors import InputError
from data.tables.documents import validation_message
from data.tables.files import content_of
from features.fingerprints.matrix import Measured
from serving.fingerprints.schemas import IrupRequest, ProfileAnswer, ProfileFile, TrustAnswer
from serving.http.schemas import finite_or_none
from serving.reports.text_tables import text_table
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile

#: Maximal number of printed stressors; ``--json`` has all.
SHOWN = 10
_UNKNOWN = "-"


def profile_text(profile: Profile, predictions: Sequence[Prediction], *, predicting: bool) -> str:
    """Return a profile as text: verdict, figures, first ten stressors, and predictions if `predicting`."""
    measured, trust = profile.measured, profile.trust
    error = _UNKNOWN if math.isnan(trust.median_error) else f"{trust.median_error:.1%}"
    parts = [
        f"{profile.application} ({measured.metric}, {measured.better} is better): {trust.ranking_verdict}",
        (
            f"{trust.machines} machines of {trust.cpus} CPU models; with whole CPU models held out R2 "
            f"{_number_text(trust.r2)}, median error {error}: {trust.prediction_verdict}\n"
        ),
        _ranking_table(profile),
    ]
    if predicting:
        nothing = "Every machine with a fingerprint has a value: nothing to predict.\n"
        parts.append(_predictions_table(predictions) if predictions else nothing)
    return "\n".join(parts)


def difference_lines(difference: ProfileDifference) -> str:
    """Return as text the significant changes, the verdict of the quiho paper's algorithm, and a table.

    If the test is unreliable, the reasons replace the changes. The table has the ten stressors with the
    smallest p-values.
    """
    if difference.reasons:
        summary = "unknown, because"
    elif difference.moved_stressors:
        summary = f"changed significantly: {', '.join(difference.moved_stressors)}"
    else:
        summary = "no stressor changed significantly"
    stops = difference.stops_at
    above = f"change above {difference.tolerance:g} points"
    seed = f"the first {above} is at {stops}: not equivalent" if stops else f"no {above}: equivalent"
    first = f"{difference.a} -> {difference.b}: {summary}"
    algorithm = f"the quiho paper's algorithm: {seed}"
    return "\n".join([first, *difference.reasons, algorithm, "", _changes_table(difference)])


def _ranking_table(profile: Profile) -> str:
    enough = profile.trust.enough
    captions = [] if enough else ["not enough diversity: this order is not reliable"]
    if len(profile.features) > SHOWN:
        captions.append(f"{len(profile.features) - SHOWN} more with --json")
    numbers = "importance", "interval", "permutation"
    rows = [
        (
            str(row["stressor"]),
            str(row["categories"]),
            _number_text(row["importance"], 0),
            _UNKNOWN if math.isnan(row["low"]) else f"{row['low']:.0f} to {row['high']:.0f}",
            _number_text(row["permutation"], 0),
            *(() if enough else ("no",)),
        )
        for row in profile.features.head(SHOWN).to_dict("records")
    ]
    columns = ("stressor", "categories", *numbers, *(() if enough else ("trusted",)))
    return text_table(columns, rows, numbers=numbers, caption="; ".join(captions) or None)


def _predictions_table(predictions: Sequence[Prediction]) -> str:
    first = predictions[0]
    reasons = dict.fromkeys(reason for prediction in predictions for reason in prediction.reasons)
    caption = "; ".join(f"do not rely on it: {reason}" for reason in reasons)
    numbers = f"predicted {first.metric}", f"{first.confidence:.0%} interval"
    rows = [(row.machine, f"{row.value:.4g}", f"{row.low:.4g} to {row.high:.4g}") for row in predictions]
    return text_table(("machine", *numbers), rows, numbers=numbers, caption=caption or None)


def _changes_table(difference: ProfileDifference) -> str:
    numbers = "before", "after", "change", "p"
    rows = [
        (
            str(row["stressor"]),
            _number_text(row["importance_a"], 0),
            _number_text(row["importance_b"], 0),
            f"{row['change']:+.0f}",
            _number_text(row["p_value"], 3),
            "unknown" if difference.reasons else "yes" if row["moved"] else "no",
        )
        for row in difference.features.head(SHOWN).to_dict("records")
    ]
    caption = "importances: most important = 100; p is adjusted for all stressors"
    return text_table(("stressor", *numbers, "significant"), rows, numbers=numbers, caption=caption)


def _number_text(value: float, digits: int = 2) -> str:
    return _UNKNOWN if math.isnan(value) else f"{value:.{digits}f}"


NOT_ENOUGH: Final = "not enough diversity"


def profile_answer(
    profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]
) -> ProfileAnswer:
    """Return the HTTP answer for a profile; ``trust.verdict`` is "trusted" or "not enough diversity"."""
    return ProfileAnswer.model_validate(_answer_fields(profile, predictions, warnings))


def nothing_learned(request: IrupRequest, reason: str, warnings: Sequence[str]) -> ProfileAnswer:
    """Return the HTTP answer for insufficient data: no features or predictions, and the given `warnings`.

    ``trust`` has `reason` in ``reasons`` and ``unpredicted``, and no figures.
    """
    about, reasons = request.application, [reason]
    unknown = dict.fromkeys(TrustAnswer.model_fields)
    trust = unknown | {"verdict": NOT_ENOUGH, "reasons": reasons, "unpredicted": reasons, "leaders": ()}
    trust |= {"machines": 0, "cpus": 0}
    content = {"application": about.name, "metric": about.metric, "better": about.better, "trust": trust}
    empty = dict.fromkeys(("features", "clusters", "categories", "predictions"), ())
    return ProfileAnswer.model_validate(content | empty | {"warnings": warnings})


def file_text(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> str:
    """Return the JSON of ``irup profile --json``: the fields of the HTTP answer, and ``measured``.

    These are the measurements: ``columns``, and ``machines, cpus, rates, values``, one entry per machine.
    InputError if a name is longer than `read_measurements` accepts.
    """
    measured = profile.measured
    measurements = {
        "columns": list(measured.columns),
        "machines": measured.machines.tolist(),
        "cpus": measured.cpus.tolist(),
        "rates": [[finite_or_none(rate) for rate in row] for row in measured.x.tolist()],
        "values": measured.y.tolist(),
    }
    content = _answer_fields(profile, predictions, warnings) | {"measured": measurements}
    try:
        fields = ProfileFile.model_validate(content).model_dump()
    except ValidationError as exc:
        raise InputError(f"cannot be written as JSON: {validation_message(exc)}") from exc
    rows = json.dumps(fields.pop("measured"), allow_nan=False, ensure_ascii=False)
    text = json.dumps(fields, indent=1, allow_nan=False, ensure_ascii=False).removesuffix("\n}")
    return f'{text},\n "measured": {rows}\n}}\n'


def read_measurements(path: Path) -> Measured:
    """Return the measurements in a file of ``irup profile --json``; a missing rate is NaN.

    InputError for other and missing files, or if the numbers of rows and columns differ.
    """
    try:
        profile = ProfileFile.model_validate(content_of(path))
    except ValidationError as exc:
        problem = f"is no profile of `perfjudge irup profile --json` ({validation_message(exc)})"
        raise InputError(f"{problem}; applications need --machines", file=path) from exc
    measured = profile.measured
    machines, columns = len(measured.machines), len(measured.columns)
    shape = (len(measured.cpus), len(measured.values), len(measured.rates), *map(len, measured.rates))
    if shape != (machines, machines, machines, *[columns] * machines):
        problem = f"measured: the rows don't fit {machines} machines and {columns} columns"
        raise InputError(problem, file=path)
    about = profile.application, profile.metric, profile.better, tuple(measured.columns)
    rates, values = np.array(measured.rates, np.float64), np.array(measured.values, np.float64)
    return Measured(*about, rates, values, np.array(measured.machines), np.array(measured.cpus))


def difference_text(difference: ProfileDifference) -> str:
    """Return the JSON of ``irup diff --json``, with null for NaN and a line break at the end.

    Its keys are ``a, b, paired, significant, moved`` (the significant stressors, least p-value first),
    ``reasons``, ``seed_algorithm``, ``features`` and ``categories``. The last two are lists of objects with
    the columns of `ProfileDifference`. ``seed_algorithm`` has ``equivalent, tolerance`` and ``stops_at``: the
    most important stressor of a whose importances differ by more than ``tolerance`` points of 100, or null.
    """
    stops_at = difference.stops_at
    algorithm = {"equivalent": stops_at is None, "stops_at": stops_at, "tolerance": difference.tolerance}
    content: dict[str, Any] = {
        "a": difference.a,
        "b": difference.b,
        "paired": difference.paired,
        "significant": difference.significant,
        "moved": difference.moved_stressors,
        "reasons": difference.reasons,
        "seed_algorithm": algorithm,
    }
    for name, table in (("features", difference.features), ("categories", difference.categories)):
        content[name] = table.astype(object).where(table.notna(), None).to_dict("records")
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _answer_fields(
    profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]
) -> dict[str, Any]:
    trust = profile.trust
    return {
        "application": profile.application,
        "metric": profile.measured.metric,
        "better": profile.measured.better,
        "trust": vars(trust) | {"verdict": "trusted" if trust.enough else NOT_ENOUGH},
        **{name: _records(columns) for name, columns in profile.columns.items()},
        "predictions": [vars(prediction) for prediction in predictions],
        "warnings": warnings,
    }


def _records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
