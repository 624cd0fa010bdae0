"""How a server loads the model that judges comparisons, and what it says of it."""

from __future__ import annotations

import json
from typing import Any

from data.comparisons.request import EXAMPLE
from serving.comparisons.body import answer_json
from serving.comparisons.model import Judge, load, registered
from serving.comparisons.schemas import ServedJudge
from serving.supply import Loader


def warmed_up(uri: str | None = None, floor: float | None = None) -> Judge:
    """Load the model, and what its first answer would otherwise wait for; see `load`."""
    served = load(uri, floor)
    answer_json(json.dumps(EXAMPLE).encode(), served)
    return served


def _told(served: Judge) -> dict[str, Any]:
    card = served.model.card
    return {
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.threshold,
        "floor": card.floor,
        "features": card.features,
        "data_digest": card.data_digest,
    }


LOADER = Loader(registered, warmed_up, _told, ServedJudge)
