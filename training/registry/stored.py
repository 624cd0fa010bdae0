"""A trained model as it lies on disk: a pipeline, and a card that says what it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from pydantic import FiniteFloat

from data.errors import InputError
from data.tables.files import read_json, replacing, write_json
from training.estimators import frozen

CARD = "card.json"
#: What skops raises at files that it did not write.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError, BadZipFile)


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
    floor : float
        The smallest change of a median that may be called a regression, as a share of the baseline's.
    """

    model: str
    features: tuple[str, ...]
    threshold: FiniteFloat
    params: dict[str, Any]
    reference: dict[str, FiniteFloat]
    data_digest: str
    seed: int
    #: Cards of before there was one have that of `data.params.Decide`, too.
    floor: float = 0.005

    def __post_init__(self) -> None:
        """Refuse a card whose parts don't belong together."""
        lost = [name for name in self.features if name not in self.reference]
        if lost:
            raise ValueError(f'reference lacks "{lost[0]}"')

    @classmethod
    def read(cls, directory: Path) -> Card:
        """Read ``card.json``.

        Raises
        ------
        InputError
            If it is missing, or a key is not as it should be.
        """
        return read_json(beside_model(directory, CARD), cls)


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
        write_json(directory / CARD, asdict(self.card))

    @classmethod
    def read(cls, directory: Path) -> TrainedModel:
        """Read what `write` wrote, trusting only the types of `training.registry.trusted`.

        Raises
        ------
        InputError
            If a file is missing or the model holds a type that is not trusted.
        """
        pipeline, card = loaded(directory), Card.read(directory)
        require_width(directory, card.features, getattr(pipeline, "n_features_in_", None))
        return cls(pipeline, card)


def loaded(directory: Path) -> Any:
    """Read ``model.skops``, trusting only the types of `training.registry.trusted`.

    Raises
    ------
    InputError
        If it is missing, unreadable, or holds a type that is not trusted.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    from training.registry.trusted import TRUSTED_TYPES

    path = directory / "model.skops"
    try:
        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=exc.filename) from exc
    except UntrustedTypesFoundException as exc:
        raise InputError(f"holds types that are not trusted ({exc})", file=path) from exc
    except _UNREADABLE as exc:
        raise InputError(f"is no model that training wrote ({exc})", file=path) from exc


def require_width(directory: Path, features: tuple[str, ...], width: int | None) -> None:
    """Raise an InputError if the model beside a card takes another number of features than the card names."""
    if width != len(features):
        told = f"features: names {len(features)}, but the model beside it takes {width}"
        raise InputError(told, file=beside_model(directory, CARD))


def beside_model(directory: Path, name: str) -> Path:
    """Return the path of a file that came with a model: MLflow keeps it in ``extra_files``."""
    tracked = directory / "extra_files" / name
    return tracked if tracked.is_file() else directory / name
