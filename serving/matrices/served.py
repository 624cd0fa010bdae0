"""The model of matrices that a server answers with: its card at once, itself when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data.errors import InputError
from serving.doors.lazy import Lazy
from serving.matrices.model import ServedEngine, described, load, told


@dataclass(frozen=True)
class MatrixModels:
    """The model.

    Attributes
    ----------
    engine : Lazy
    card : dict or None
        What ``/v1/models`` says of the model that was there at the start; the engine is of the same version.
    uri : str or None
        Its address, with the version; None: there was none.
    """

    engine: Lazy[ServedEngine]
    card: dict[str, Any] | None
    uri: str | None

    @classmethod
    def of(cls, uri: str | None = None) -> MatrixModels:
        """Name the model: an address as `serving.matrices.model.load` takes it, by default the champion.

        Raises
        ------
        InputError
            If one that is named does not exist; without a champion, only asking for it is refused.
        """
        try:
            card = described(uri)
        except InputError:
            if uri is not None:
                raise
            return cls(Lazy(load), None, None)
        # by its version: who is promoted meanwhile is another model
        return cls(Lazy(lambda: load(card["uri"])), card, card["uri"])

    @property
    def cards(self) -> tuple[dict[str, Any], ...]:
        """What ``/v1/models`` says: of the model that answered, else of that which will; empty if none."""
        served = self.engine.loaded
        if served is not None:
            return (told(served.engine.card, served.ref),)
        return () if self.card is None else (self.card,)
