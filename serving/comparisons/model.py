"""Which model judges comparisons: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import replace

from data.comparisons.params import Comparisons
from serving.models import Served, Source
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card
from training.registry.champions import Address, project_params

Judge = Served[ReadyModel]


def registered() -> str:
    """Return the name under which models of comparisons are registered."""
    return project_params(Comparisons).section.promote.name


def load(uri: Address = None, floor: float | None = None, *, retrospective: bool = False) -> Judge:
    """Load the model that gives the verdicts.

    Parameters
    ----------
    uri : str or Version, optional
        As of `serving.models.loaded`. By default the champion.
    retrospective : bool
        Whether the champion of those that look at versions after the target is meant.
    floor : float, optional
        The smallest change of a median that may be called a regression, as a share; by default its own.

    Raises
    ------
    InputError
        As of `serving.models.loaded`.
    """
    served = JUDGES.load(_in_hindsight() if retrospective and uri is None else uri)
    if floor is None:
        return served
    model = replace(served.model, card=replace(served.model.card, floor=floor))
    return replace(served, model=model)


def _in_hindsight() -> str:
    return f"models:/{project_params(Comparisons).section.retrospective}@champion"


JUDGES = Source(registered, ReadyModel.read, Card.read)
