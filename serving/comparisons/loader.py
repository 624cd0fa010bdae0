"""How a server loads the model that judges comparisons, and what it says of it."""

from __future__ import annotations

import json
from typing import Any

from data.comparisons.request import EXAMPLE
from serving.comparisons.body import answer_json
from serving.comparisons.model import Judge, load, registered, retrospective
from serving.comparisons.promises import decided_answer, promise_answer
from serving.comparisons.schemas import ServedJudge
from serving.supply import Loader


def _told(served: Judge) -> dict[str, Any]:
    card = served.model.card
    return {
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.deciding.high,
        "unsure_from": card.deciding.low,
        "floor": card.floor,
        "set": card.set,
        "decided": decided_answer(card),
        "promise": None if card.promise is None else promise_answer(card.promise),
        "features": card.features,
        "data_digest": card.data_digest,
    }


def _trial(served: Judge) -> None:
    """Ask what the first question would otherwise wait for; ValueError if the answer is no probability."""
    answer_json(json.dumps(EXAMPLE).encode(), served)
    (probability,) = served.model.probability(served.model.reference[None])
    if not 0 <= probability <= 1:
        raise ValueError(f"probability of {probability}")


LOADER = Loader(registered, load, _told, ServedJudge, trial=_trial, others=lambda: (retrospective(),))
