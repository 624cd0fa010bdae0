"""A trained model as it lies on disk: the model, a card that says what it is, and what lies beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from zipfile import BadZipFile

from data.errors import InputError
from data.tables.files import read_json, replacing, write_json

MODEL, CARD = "model.skops", "card.json"
#: What skops raises at files that it did not write.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError, BadZipFile)


@dataclass(frozen=True)
class StoredCard:
    """What must be known beside a model to use it; a family adds what it has to say."""

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read ``card.json``.

        Raises
        ------
        InputError
            If it is missing, or a key is not as it should be.
        """
        return read_json(beside_model(directory, CARD), cls)


CardType = TypeVar("CardType", bound=StoredCard)


@dataclass(frozen=True)
class StoredModel(Generic[CardType]):
    """A fitted model and its card.

    Attributes
    ----------
    CARD : type
        Of the card.
    """

    CARD: ClassVar[type[Any]]

    model: Any
    card: CardType

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        store(directory, self.model, self.card)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what `write` wrote, trusting only the types of `training.registry.trusted`.

        Raises
        ------
        InputError
            If a file is missing or the model holds a type that is not trusted.
        """
        return cls(loaded(directory), cls.CARD.read(directory))


def store(directory: Path, model: Any, card: StoredCard) -> Path:
    """Write ``model.skops`` and ``card.json`` to `directory`; return the path of the former."""
    import skops.io

    with replacing(directory / MODEL) as path:
        skops.io.dump(model, path)
    write_json(directory / CARD, asdict(card))
    return directory / MODEL


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

    path = directory / MODEL
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
