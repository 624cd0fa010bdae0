"""The model that judges comparisons: the registry's champion, or the one that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from data.comparisons.params import Comparisons
from data.errors import InputError
from serving.models import Served, Source
from training.comparisons.stored import Card, ReadyModel
from training.evaluation.thresholds import DecisionPolicy, VerdictCosts
from training.registry.champions import Address, project_params

Judge = Served[ReadyModel]


def registered() -> str:
    """Return the registered name of the models of comparisons."""
    return project_params(Comparisons).section.promote.name


def retrospective() -> str:
    """Return the registered name of the models that also use versions after the target."""
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

    `uri`: as of `serving.models.loaded`; None: the champion.
    `floor`: the smallest change of a median that may be called a regression, as a share; None: the model's.
    `missed`, `false_alarms`: as of `wishing`.
    `costs`: the costs of `wishing` as text, separated by colons.
    `retrospective`: load the champion of the models that also use versions after the target.
    Raises InputError as `serving.models.loaded` and `wishing`.
    """
    if retrospective and uri is None:
        uri = f"models:/{project_params(Comparisons).section.retrospective}@champion"
    served = JUDGES.load(uri)
    if floor is not None:
        served = _with_card(served, replace(served.model.card, floor=floor))
    if costs is None:
        return wishing(served, missed, false_alarms, None)
    values = map(float, costs.split(":"))
    return wishing(
        served, missed, false_alarms, dict(zip(("miss", "false_alarm", "look"), values, strict=True))
    )


def wishing(
    served: Judge, missed: float | None, false_alarms: float | None, costs: Mapping[str, float] | None
) -> Judge:
    """Return a copy of the model with another decision policy, or the model itself if all are None.

    `missed`, `false_alarms`: the largest shares of wrong verdicts; 0: no guarantee, the threshold decides.
    `costs`: ``miss, false_alarm, look``, in place of the two shares.
    Raises InputError if shares and costs are both given, or if the model's guarantee does not cover a share.
    """
    if (missed, false_alarms, costs) == (None, None, None):
        return served
    if costs is not None and (missed, false_alarms) != (None, None):
        raise InputError("costs: decide in place of missed and false_alarms; expected one or the other")
    policy = DecisionPolicy(
        missed or None, false_alarms or None, None, None if costs is None else VerdictCosts(**costs)
    )
    return _with_card(served, served.model.card.wishing(policy))


def _with_card(served: Judge, card: Card) -> Judge:
    return replace(served, model=replace(served.model, card=card))


JUDGES = Source(registered, ReadyModel.read, Card.read)
