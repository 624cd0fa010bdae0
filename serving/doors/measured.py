"""What the last evaluation of a family says of its champion, in a few figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.places import Places
from data.tables.written import written
from serving.pages.charts import percent

#: Scores in the order in which they are told, and what they are called.
_CALLED = {
    "balanced_accuracy": "balanced accuracy",
    "false_negative_rate": "missed",
    "false_positive_rate": "false alarms",
    "average_precision": "average precision",
    "within_tolerance": "within tolerance",
    "coverage": "intervals that hold",
    "median_error": "median error",
    "mape": "mean error",
    "r2": "R²",
}
_MOST = 4
_PLAIN = {"balanced_accuracy", "average_precision", "r2"}


@dataclass(frozen=True)
class Measured:
    """The champion of a family and its figures: what each is called, and its value in words."""

    family: str
    champion: str
    scheme: str
    figures: tuple[tuple[str, str], ...]
    report: bool


def measured(family: str, root: Path) -> Measured:
    """Read the figures of a family's champion on the first of its splits; InputError if there are none."""
    places = Places(family, root)
    metrics: Mapping[str, Any] = written(places.metrics, "evaluate")
    champion = str(metrics["champion"])
    name, split = next(iter(metrics["splits"].items()))
    scores = split["entries"].get(champion, {})
    known = {key: _value(scores[key]) for key in _CALLED if key in scores}
    told = ((_CALLED[key], _words(key, value)) for key, value in known.items() if value is not None)
    scheme = f"{name}: {split['scheme']}"
    return Measured(family, champion, scheme, tuple(told)[:_MOST], places.page.is_file())


def _value(score: Any) -> float | None:
    """Return a score over all folds at once; where that is none, its mean over them."""
    if isinstance(score, Mapping):
        pooled = score.get("pooled")
        return score.get("mean") if pooled is None else pooled
    return None if score is None else float(score)


def _words(key: str, value: float) -> str:
    return f"{value:.3f}" if key in _PLAIN else percent(value)
