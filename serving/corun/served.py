"""The models of co-runs that a server answers with: their cards at once, themselves when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data.errors import InputError
from serving.comparisons.model import ModelRef
from serving.corun.model import (
    Online,
    Static,
    load_online,
    load_static,
    online_card,
    online_name,
    static_card,
    static_name,
)
from serving.doors.lazy import Lazy
from training.corun.stored import ImpactCard, OnlineCard


@dataclass(frozen=True)
class CorunModels:
    """Both models.

    Attributes
    ----------
    static, online : Lazy
    cards : tuple of dict
        What ``/v1/models`` says of those that exist.
    """

    static: Lazy[Static]
    online: Lazy[Online]
    cards: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, static: str | None = None, online: str | None = None) -> CorunModels:
        """Name the models: addresses as `load_static` takes them, by default the champions.

        Raises
        ------
        InputError
            If one that is named does not exist; without a champion, only asking for it is refused.
        """
        cards = []
        for serves, uri, read in ((static_name, static, static_card), (online_name, online, online_card)):
            try:
                cards.append(_told(serves(), *read(uri)))
            except InputError:
                if uri is not None:
                    raise
        return cls(Lazy(lambda: load_static(static).ready()), Lazy(lambda: load_online(online)), tuple(cards))


def _told(serves: str, card: ImpactCard | OnlineCard, ref: ModelRef) -> dict[str, Any]:
    return {
        "name": ref.name,
        "version": ref.version,
        "uri": ref.uri,
        "estimator": card.model,
        "features": list(card.features if isinstance(card, ImpactCard) else card.events),
        "data_digest": card.data_digest,
        "serves": serves,
        "machines": list(card.machines),
        "confidence": card.confidence,
    }
