"""A trained model as it lies on disk: a pipeline, and a card that says what it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.files import replacing, write_json
from training import frozen


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

    @classmethod
    def read(cls, directory: Path) -> Card:
        """Read ``card.json``.

        Raises
        ------
        InputError
            If it is missing.
        """
        content = card_content(directory)
        content["features"] = tuple(content["features"])
        return cls(**content)


@dataclass(frozen=True)
class TrainedModel:
    """A fitted pipeline and its card."""

    pipeline: Any
    card: Card

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`, and ``model.npz`` if arrays can answer."""
        import skops.io

        with replacing(directory / "model.skops") as path:
            skops.io.dump(self.pipeline, path)
        arrays = frozen.freeze(self.pipeline)
        if arrays is not None:
            frozen.write(directory / frozen.FILE, arrays, directory / "model.skops")
        write_json(directory / "card.json", asdict(self.card))

    @classmethod
    def read(cls, directory: Path) -> TrainedModel:
        """Read what `write` wrote, trusting only the types of `training.trusted`.

        Raises
        ------
        InputError
            If a file is missing or the model holds a type that is not trusted.
        """
        return cls(loaded(directory), Card.read(directory))


def loaded(directory: Path) -> Any:
    """Read ``model.skops``, trusting only the types of `training.trusted`.

    Raises
    ------
    InputError
        If it is missing or holds a type that is not trusted.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    from training.trusted import TRUSTED_TYPES

    path = directory / "model.skops"
    try:
        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=exc.filename) from exc
    except UntrustedTypesFoundException as exc:
        raise InputError(f"holds types that are not trusted ({exc})", file=path) from exc


def card_content(directory: Path) -> dict[str, Any]:
    """Return what ``card.json`` beside a model says.

    Raises
    ------
    InputError
        If it is missing.
    """
    path = beside_model(directory, "card.json")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    return content


def beside_model(directory: Path, name: str) -> Path:
    """Return the path of a file that came with a model: MLflow keeps it in ``extra_files``."""
    tracked = directory / "extra_files" / name
    return tracked if tracked.is_file() else directory / name
