"""The model of matrices that a server answers with: its card at once, itself when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data.errors import InputError
from serving.lazy import Lazy
from serving.matrices_model import ServedEngine, described, load


@dataclass(frozen=True)
class MatrixModels:
    """The model.

    Attributes
    ----------
    engine : Lazy
    cards : tuple of dict
        What ``/v1/models`` says of it; empty where there is none.
    """

    engine: Lazy[ServedEngine]
    cards: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, uri: str | None = None) -> MatrixModels:
        """Name the model: an address as `serving.matrices_model.load` takes it, by default the champion.

        Raises
        ------
        InputError
            If one that is named does not exist; without a champion, only asking for it is refused.
        """
        engine = Lazy(lambda: load(uri))
        try:
            return cls(engine, (described(uri),))
        except InputError:
            if uri is not None:
                raise
            return cls(engine, ())
