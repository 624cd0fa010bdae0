"""What the last evaluation of a family says of its champion, in a few figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class ChampionFigures:
    """The champion of a family, and on each split what its figures are called, and their values in words."""

    family: str
    champion: str
    splits: Mapping[str, Sequence[tuple[str, str]]]
    report: bool


def figures_of(family: str, root: Path) -> ChampionFigures:
    """Read the figures of a family's champion; InputError if there are none."""
    places = Places(family, root)
    metrics: Mapping[str, Any] = written(places.metrics, "evaluate")
    champion = str(metrics["champion"])
    splits = {
        f"{name}: {split['scheme']}": _figures(split["entries"][champion])
        for name, split in metrics["splits"].items()
        if champion in split["entries"]
    }
    return ChampionFigures(family, champion, splits, places.page.is_file())


def _figures(scores: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    known = {key: _value(scores[key]) for key in _CALLED if key in scores}
    return [(_CALLED[key], _words(key, value)) for key, value in known.items() if value is not None][:_MOST]


def _value(score: Any) -> float | None:
    """Return a score over all folds at once; where that is none, its mean over them."""
    if isinstance(score, Mapping):
        pooled = score.get("pooled")
        return score.get("mean") if pooled is None else pooled
    return None if score is None else float(score)


def _words(key: str, value: float) -> str:
    return f"{value:.3f}" if key in _PLAIN else percent(value)
