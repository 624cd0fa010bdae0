"""What searches chose and tried: tuned.json and trials.parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.files import replacing, write_json
from data.tables.written import written


@dataclass(frozen=True)
class Tuned:
    """What a search chose.

    Attributes
    ----------
    params : dict
        As the model's space has them.
    score : float
        The best trial's value.
    """

    params: dict[str, Any]
    score: float


T = TypeVar("T", bound=Tuned)


@dataclass(frozen=True)
class TrialRow:
    """One trial of a search, as trials.parquet holds it.

    Attributes
    ----------
    part, model : str
    trial : int
    state : {"complete", "pruned", "fail"}
    value : float or None
        None unless it is complete.
    params : str
        As JSON.
    reported : str
        What it was worth after each step, as a list in JSON: all that is known of one that was pruned.
    """

    part: str
    model: str
    trial: int
    state: str
    value: float | None
    params: str
    reported: str = "[]"


@dataclass(frozen=True)
class Found(Generic[T]):
    """The outcome of the search for a model in a part.

    Attributes
    ----------
    part, model : str
    tuned : Tuned
    trials : list of TrialRow
    held : ndarray of shape (n_training_rows,) or None
        What inner folds' models said of the training rows that they had not seen.
    """

    part: str
    model: str
    tuned: T
    trials: list[TrialRow]
    held: NDArray[np.float64] | None = field(default=None, compare=False)


def write_found(directory: Path, found: Sequence[Found[Any]]) -> None:
    """Write tuned.json and trials.parquet to `directory`."""
    tuned: dict[str, dict[str, object]] = {}
    for one in found:
        tuned.setdefault(one.part, {})[one.model] = asdict(one.tuned)
    write_json(directory / "tuned.json", tuned)
    trials = pd.DataFrame([asdict(row) for one in found for row in one.trials])
    with replacing(directory / "trials.parquet") as path:
        trials.sort_values(["part", "model", "trial"], ignore_index=True).to_parquet(path, index=False)


def read_tuned(directory: Path, kind: type[T]) -> dict[str, dict[str, T]]:
    """Read tuned.json: what was chosen, by part and model.

    Raises
    ------
    InputError
        If the file is missing or is no such JSON.
    """
    path = directory / "tuned.json"
    try:
        return {
            part: {name: kind(**tuned) for name, tuned in models.items()}
            for part, models in written(path, "tune").items()
        }
    except (TypeError, AttributeError) as exc:
        raise InputError(f"is not what tune writes ({exc})", file=path) from exc


def require_parts(directory: Path, tuned: dict[str, Any], parts: Iterable[str]) -> None:
    """Raise an InputError if a part of the table was not searched."""
    missing = [name for name in parts if name not in tuned]
    if missing:
        raise InputError(f"lacks the part {missing[0]!r}; run tune first", file=directory / "tuned.json")


def slowest_first(models: Iterable[str], slowest: Sequence[str]) -> list[str]:
    """Sort so that searches that take longest begin first, and no process is left with one at the end."""
    return sorted(models, key=lambda name: slowest.index(name) if name in slowest else len(slowest))


def require_known(models: Iterable[str], known: Iterable[str], place: str) -> None:
    """Raise an InputError if params.yaml names at `place` a model that is not known."""
    unknown = [name for name in models if name not in known]
    if unknown:
        told = f"models={unknown[0]!r} is none of {', '.join(known)}"
        raise InputError(told, file="params.yaml", place=place)
