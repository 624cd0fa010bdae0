"""A trained engine as it lies on disk: what answers, and a card that says what it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EngineCard:
    """What must be known beside an engine to use it.

    Attributes
    ----------
    entry : str
        Its name in metrics.json, such as ``xgboost contrasted``.
    model : str
        Its name in the catalogue, such as ``xgboost``.
    scheme : dict
        The fields of `training.engine.Scheme`.
    metrics : tuple of dict
        ``metric, unit, signed, note`` of every metric that it takes, raw and summary.
    groups : tuple of str
        That it was trained on.
    own_models : tuple of str
        Groups with a model of their own; all others are answered by the fallback.
    chosen : dict
        What was tuned.
    threshold : float
        Of the fallback: ``fail`` from this probability on.
    missing : float
        The share of the raw metrics that a run, or all runs, may lack.
    data_digest : str
        SHA-256 of the training tables.
    seed : int
    """

    entry: str
    model: str
    scheme: dict[str, Any]
    metrics: tuple[dict[str, Any], ...]
    groups: tuple[str, ...]
    own_models: tuple[str, ...]
    chosen: dict[str, Any]
    threshold: float
    missing: float
    data_digest: str
    seed: int

    @classmethod
    def read(cls, directory: Path) -> EngineCard:
        """Read ``card.json``.

        Raises
        ------
        InputError
            If it is missing.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class TrainedEngine:
    """A fitted engine, the validity tree (None where nobody flagged invalid runs), and the card."""

    engine: Any
    validity: Any
    card: EngineCard

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        raise NotImplementedError

    @classmethod
    def read(cls, directory: Path) -> TrainedEngine:
        """Read what `write` wrote, trusting only the types of `training.trusted`.

        Raises
        ------
        InputError
            If a file is missing or the model holds a type that is not trusted.
        """
        raise NotImplementedError
