"""Which model judges comparisons: the registry's champion, or the one that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from data.comparisons.params import Comparisons
from data.errors import InputError
from serving.comparisons.promises import costs_of
from serving.models import Served, Source
from training.comparisons.stored import Card, ReadyModel
from training.evaluation.thresholds import DecisionPolicy, VerdictCosts
from training.registry.champions import Address, project_params

Judge = Served[ReadyModel]


def registered() -> str:
    """Return the name under which models of comparisons are registered."""
    return project_params(Comparisons).section.promote.name


def retrospective() -> str:
    """Return the name of those that look at versions after the target."""
    return project_params(Comparisons).section.retrospective


def load(
    uri: Address = None,
    floor: float | None = None,
    missed: float | None = None,
    false_alarms: float | None = None,
    costs: str | None = None,
    *,
    retrospective: bool = False,
) -> Judge:
    """Load the model that gives the verdicts.

    Parameters
    ----------
    uri : str or Version, optional
        As of `serving.models.loaded`. By default the champion.
    retrospective : bool
        Whether the champion of those that look at versions after the target is meant.
    floor : float, optional
        The smallest change of a median that may be called a regression, as a share; by default its own.
    missed, false_alarms, costs : optional
        As of `wishing`, but for costs, which are the text of the option.

    Raises
    ------
    InputError
        As of `serving.models.loaded` and `wishing`.
    """
    if retrospective and uri is None:
        uri = f"models:/{project_params(Comparisons).section.retrospective}@champion"
    served = JUDGES.load(uri)
    if floor is not None:
        served = _with(served, replace(served.model.card, floor=floor))
    return wishing(served, missed, false_alarms, None if costs is None else costs_of(costs))


def wishing(
    served: Judge, missed: float | None, false_alarms: float | None, costs: Mapping[str, float] | None
) -> Judge:
    """Return the model, deciding as somebody wants it; as its card does if nothing is wanted.

    Parameters
    ----------
    served : Judge
    missed, false_alarms : float or None
        The shares that may be wrong; 0: none is wanted, the threshold decides.
    costs : mapping or None
        ``miss, false_alarm, look``, in place of both.

    Raises
    ------
    InputError
        If the model cannot say what keeps that, or both are given.
    """
    if (missed, false_alarms, costs) == (None, None, None):
        return served
    if costs is not None and (missed, false_alarms) != (None, None):
        raise InputError("costs: decide in place of missed and false_alarms; expected one or the other")
    wish = DecisionPolicy(
        missed or None, false_alarms or None, None, None if costs is None else VerdictCosts(**costs)
    )
    return _with(served, served.model.card.wishing(wish))


def _with(served: Judge, card: Card) -> Judge:
    return replace(served, model=replace(served.model, card=card))


JUDGES = Source(registered, ReadyModel.read, Card.read)
