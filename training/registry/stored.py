"""Storage of a trained model: the model, a card that describes it, and the files next to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.errors import InputError
from data.families import FAMILIES
from data.stage import missing_package
from data.tables.files import read_json, replacing, write_json
from training.plugins import family_plugin

_SHARED = Path(__file__).with_name("trusted_types.txt").read_text("utf-8").split()
_OF_FAMILIES = {type_name for family in FAMILIES for type_name in family_plugin(family).trusted}
#: The types that a stored model may contain: the shared ones, and those of the families.
TRUSTED_TYPES = tuple(sorted({*_SHARED, *_OF_FAMILIES}))


_PARTS = 10
#: Relative distance from a frequent value within which values are equal.
_SAME = 1e-9


@dataclass(frozen=True)
class Deciles:
    """Bins of one feature, with equally many rows between `edges`, and a bin per frequent value.

    `shares`, length len(edges) + 2, are of rows up to each edge (inclusive), beyond the last, and without a
    finite value; half a row is added to each, so that all are above 0 (Jeffreys).
    """

    edges: tuple[FiniteFloat, ...]
    shares: tuple[FiniteFloat, ...]

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.edges) + 2:
            raise ValueError(f"{len(self.shares)} shares for {len(self.edges)} edges")

    @classmethod
    def from_values(cls, values: NDArray[np.float64]) -> Self:
        """Return the bins of `values`, shape (n_rows,); NaN and infinity count as without a value."""
        finite = values[np.isfinite(values)]
        edges = _decile_edges(finite) if len(finite) else np.zeros(0)
        bins = np.searchsorted(edges, finite)
        counts = np.append(np.bincount(bins, minlength=len(edges) + 1), len(values) - len(finite))
        return cls(tuple(edges.tolist()), tuple(smooth_counts(counts).tolist()))


def deciles_of_features(names: Sequence[str], values: NDArray[np.float64]) -> dict[str, Deciles]:
    """Return the bins of the columns of `values`, shape (n_rows, n_features), by as many `names`."""
    return {name: Deciles.from_values(column) for name, column in zip(names, values.T, strict=True)}


def smooth_counts(counts: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return `counts`, shape (..., n_bins), plus 0.5 each, as shares that add up to 1 in the last axis."""
    raised = counts + 0.5
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True), np.float64)


def _decile_edges(finite: NDArray[np.float64]) -> NDArray[np.float64]:
    inner = np.quantile(finite, np.arange(1, _PARTS) / _PARTS, method="inverted_cdf")
    values, times = np.unique(inner, return_counts=True)
    often = values[(times > 1) | (finite.min() == finite.max())]
    near = _SAME * np.maximum(np.abs(often), 1.0)
    alone = values[~np.isin(values, often)]
    return np.unique(np.concatenate([alone, often - near, often + near]))


MODEL, CARD = "model.skops", "card.json"
_SCHEMA = "schema.json"
#: Addresses of objects in the schema of skops, and their random names.
_ADDRESS = re.compile(r'(?<="__id__": )\d+|(?<="file": ")[^".]+')
#: Exceptions that skops raises at files that it did not write.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError, BadZipFile)


@dataclass(frozen=True)
class StoredCard:
    """The metadata of a model; a family adds fields."""

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read ``card.json``; InputError if it is missing or a key is wrong."""
        return read_json(beside_model(directory, CARD), cls)


CardType = TypeVar("CardType", bound=StoredCard)


@dataclass(frozen=True)
class StoredModel(Generic[CardType]):
    """A fitted model and its card, of the type `CARD`."""

    CARD: ClassVar[type[Any]]

    model: Any
    card: CardType

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        store_model(directory, self.model, self.card)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the files of `write`; InputError if a file is missing or damaged, or a type is not trusted."""
        return cls(load_model(directory), cls.CARD.read(directory))


def store_model(directory: Path, model: Any, card: StoredCard) -> Path:
    """Write ``model.skops``, whose path is returned, and ``card.json``; equal models give equal bytes."""
    import skops.io

    with replacing(directory / MODEL) as path:
        path.write_bytes(_reproducible_archive(skops.io.dumps(model)))
    write_json(directory / CARD, asdict(card))
    return directory / MODEL


def _reproducible_archive(archive: bytes) -> bytes:
    """Remove differences between archives of equal models: times, addresses (numbered), padding."""
    numbers: dict[str, str] = {}

    def number_of(address: str) -> str:
        return numbers.setdefault(address, str(len(numbers)))

    written = BytesIO()
    with ZipFile(BytesIO(archive)) as old, ZipFile(written, "w", ZIP_STORED) as new:
        schema = _ADDRESS.sub(lambda address_match: number_of(address_match[0]), old.read(_SCHEMA).decode())
        contents = {_SCHEMA: schema.encode()}
        for name in old.namelist():
            if name != _SCHEMA:
                address, dot, suffix = name.partition(".")
                content = old.read(name)
                clean = _without_padding(content) if suffix == "npy" else content
                contents[number_of(address) + dot + suffix] = clean
        for name in sorted(contents):
            new.writestr(ZipInfo(name), contents[name])
    return written.getvalue()


def _without_padding(content: bytes) -> bytes:
    """Zero the bytes between the fields of an array in NPY format; scikit-learn leaves them unset."""
    array = np.load(BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    written, clean = BytesIO(), np.zeros(array.shape, array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(written, clean, allow_pickle=False)
    return written.getvalue()


def load_model(directory: Path) -> Any:
    """Return the model in ``model.skops``; InputError if it, its types or its packages cannot be used."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    path = directory / MODEL
    try:
        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=exc.filename) from exc
    except UntrustedTypesFoundException as exc:
        raise InputError(f"contains untrusted types ({exc})", file=path) from exc
    except _UNREADABLE as exc:
        problem = missing_package(exc) or f"is not a model that training wrote ({exc})"
        raise InputError(problem, file=path) from exc


def require_width(directory: Path, features: tuple[str, ...], width: int | None) -> None:
    """Raise InputError unless a model's number of inputs `width` is that of `features` in its card."""
    if width != len(features):
        problem = f"features: names {len(features)}, but the model takes {width}"
        raise InputError(problem, file=beside_model(directory, CARD))


def beside_model(directory: Path, name: str) -> Path:
    """Return the path of a model's file `name`; MLflow writes some files to the folder ``extra_files``."""
    tracked = directory / "extra_files" / name
    return tracked if tracked.is_file() else directory / name
