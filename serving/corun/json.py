"""Answers about co-runs as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from serving.corun.model import Online, Static
from serving.corun.online import Sampled
from serving.corun.place import Placed, Put, Saving
from serving.corun.schemas import OnlineAnswer, PlaceAnswer, StaticAnswer
from serving.corun.static import Driver, Explained, Predicted
from serving.doors.schemas import finite
from serving.models import ModelRef


def static_answer(found: Sequence[Predicted], static: Static) -> StaticAnswer:
    """Return what HTTP answers about co-runs before they run."""
    return StaticAnswer.model_validate(
        {"model": asdict(static.ref), "predictions": [_prediction(one, static) for one in found]}
    )


def online_answer(found: Sampled, online: Online) -> OnlineAnswer:
    """Return what HTTP answers from the first samples."""
    return OnlineAnswer.model_validate(
        {
            "model": asdict(online.ref),
            "impact": found.impact,
            "low": found.low,
            "high": found.high,
            "confidence": found.confidence,
            "sampled_seconds": found.seconds,
            "drivers": drivers(found.drivers),
            "notes": list(found.notes),
        }
    )


def place_answer(found: Placed, static: Static) -> PlaceAnswer:
    """Return what ``corun place --json`` prints."""
    low, high = np.quantile(found.random, (0.05, 0.95))
    shortest, longest = np.quantile(found.random_seconds, (0.05, 0.95))
    return PlaceAnswer.model_validate(
        {
            "model": asdict(static.ref),
            "machine": found.machine,
            "machines": found.room.machines,
            "slots": found.room.slots,
            "exact": found.exact,
            "saved_against_random": _saving(found.against_random),
            "saved_against_worst": _saving(found.against_worst),
            "random": {
                "draws": len(found.random),
                "mean": float(found.random.mean()),
                "low": float(low),
                "high": float(high),
                "seconds": finite(float(found.random_seconds.mean())),
                "seconds_low": finite(float(shortest)),
                "seconds_high": finite(float(longest)),
            },
            "placements": [_put(one) for one in (found.best, *found.drawn, found.worst)],
            "notes": list(found.notes),
        }
    )


def drivers(found: Sequence[Driver]) -> list[dict[str, Any]]:
    """Return what drives an answer."""
    return [
        {
            "feature": one.feature,
            "value": finite(one.value),
            "usual": finite(one.usual),
            "contribution": one.contribution,
        }
        for one in found
    ]


def _prediction(one: Predicted, static: Static) -> dict[str, Any]:
    return {
        "task": one.question.task,
        "corunners": list(one.question.beside),
        "machine": one.question.machine,
        "impact": one.impact,
        "low": one.low,
        "high": one.high,
        "confidence": one.confidence,
        "solo_seconds": finite(one.solo_seconds),
        "corun_seconds": finite(one.solo_seconds * one.impact),
        "corun_seconds_low": finite(one.solo_seconds * one.low),
        "corun_seconds_high": finite(one.solo_seconds * one.high),
        "drivers": drivers(one.drivers),
        "drivers_explain": _explained(one.explained, static.ref),
        "notes": list(one.notes),
    }


def _explained(one: Explained | None, ref: ModelRef) -> dict[str, Any] | None:
    if one is None:
        return None
    corun = one.question
    named = {"corunners": list(corun.beside), "machine": corun.machine}
    return {**named, "impact": one.impact, "model": f"{ref.name} {ref.version}"}


def _saving(found: Saving | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _put(one: Put) -> dict[str, Any]:
    return {
        "name": one.name,
        "groups": [list(group) for group in one.groups],
        "slowdown": one.slowdown,
        "seconds": finite(one.seconds),
    }
