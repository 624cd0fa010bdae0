"""A trained model as it lies on disk and answers: a pipeline, and a card that says what it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.files import replacing, write_json


@dataclass(frozen=True)
class Card:
    """What must be known beside the pipeline to use it, and to judge what it is worth.

    Attributes
    ----------
    model : str
        Its name in the catalogue, for example ``random-forest``.
    features : tuple of str
        The columns that the pipeline takes, in this order.
    threshold : float
        ``fail`` from this probability on; chosen inside the training data.
    params : dict
        What the search chose.
    reference : dict of str to float
        The median of every feature over the training comparisons that passed: what a reason is measured from.
    data_digest : str
        SHA-256 of the training table.
    seed : int
        The seed of search and fit.
    """

    model: str
    features: tuple[str, ...]
    threshold: float
    params: dict[str, Any]
    reference: dict[str, float]
    data_digest: str
    seed: int


@dataclass(frozen=True)
class TrainedModel:
    """A fitted pipeline and its card."""

    pipeline: Any
    card: Card

    def probability(self, features: pd.DataFrame) -> NDArray[np.float64]:
        """Return the probability of ``fail``, shape (n_comparisons,).

        Parameters
        ----------
        features : DataFrame
            At least the card's columns, one row per comparison.
        """
        columns = features[list(self.card.features)].to_numpy(np.float64)
        return np.asarray(self.pipeline.predict_proba(columns)[:, 1], np.float64)

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        with replacing(directory / "model.skops") as path:
            _skops().dump(self.pipeline, path)
        write_json(directory / "card.json", asdict(self.card))

    @classmethod
    def read(cls, directory: Path) -> TrainedModel:
        """Read what `write` wrote, trusting only the types of `training.trusted`.

        MLflow keeps the card in a directory ``extra_files`` beside the model; that is read as well.

        Raises
        ------
        InputError
            If a file is missing or the model holds a type that is not trusted.
        """
        skops = _skops()
        from skops.io.exceptions import UntrustedTypesFoundException

        from training.trusted import TRUSTED_TYPES

        path = directory / "model.skops"
        try:
            content = json.loads(_card_of(directory).read_text(encoding="utf-8"))
            pipeline = skops.load(path, trusted=list(TRUSTED_TYPES))
        except OSError as exc:
            raise InputError(exc.strerror or "cannot be read", file=exc.filename) from exc
        except UntrustedTypesFoundException as exc:
            raise InputError(f"holds types that are not trusted ({exc})", file=path) from exc
        content["features"] = tuple(content["features"])
        return cls(pipeline, Card(**content))


def _skops() -> ModuleType:
    """Import ``skops.io`` without its list of all estimators of scikit-learn.

    To collect it, skops imports every module of scikit-learn, which takes longer than to judge. It would
    trust all of them; what a model may hold stands in `training.trusted`.
    """
    import sklearn.utils

    collect = sklearn.utils.all_estimators
    sklearn.utils.all_estimators = list
    try:
        import skops.io
    finally:
        sklearn.utils.all_estimators = collect
    return skops.io


def _card_of(directory: Path) -> Path:
    tracked = directory / "extra_files" / "card.json"
    return tracked if tracked.is_file() else directory / "card.json"
