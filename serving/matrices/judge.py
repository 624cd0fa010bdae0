"""Pairs of matrices become verdicts: validity, group, probability, and the raw metrics that drove it."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import training.matrices.judging as matrix_judging
from data.matrices.params import Matrices
from data.matrices.tables import MatrixTables
from data.parallel import watched
from serving.matrices.schemas import MatricesAnswer, ServedMatrix
from serving.models import Head, Served, Source
from serving.supply import Loader
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.champions import project_params

Engine = Served[TrainedEngine]


def registered() -> str:
    """Return the registered name of matrix models."""
    return project_params(Matrices).section.promote.name


def _told(known: Head | Engine) -> dict[str, Any]:
    card: EngineCard = known.card
    return {
        "estimator": card.entry,
        "features": [metric.metric for metric in card.metrics],
        "groups": card.groups,
        "own_models": card.own,
        "threshold": card.threshold,
        "promise": None if card.promise is None else asdict(card.promise),
        "data_digest": card.data_digest,
    }


ENGINES = Source(registered, TrainedEngine.read, EngineCard.read, called="entry")
load = ENGINES.load
LOADER = Loader(registered, load, _told, ServedMatrix, ENGINES.head)


#: How many raw metrics a verdict names.
DRIVERS = 5


#: A bar is shown after so many seconds.
LONG = 2.0


def judge(tables: MatrixTables, served: Engine, *, shown: bool = False) -> MatricesAnswer:
    """Give a verdict on every pair of `tables`, in their order.

    Parameters
    ----------
    shown : bool
        Whether a bar on a terminal shows how far it is, if it takes `LONG`.

    Raises
    ------
    InputError
        If more metrics are missing than the model can do without.
    """
    watch: matrix_judging.Watch = matrix_judging.unwatched
    if shown:
        watch = partial(watched, title="pairs of matrices", after=LONG)
    found = matrix_judging.judge(served.model, tables, DRIVERS, watch)
    content = {
        "model": served.ref,
        "verdicts": found.verdicts,
        "notes": found.notes,
        "promise": served.model.card.promise,
    }
    return MatricesAnswer.model_validate(content, from_attributes=True)
