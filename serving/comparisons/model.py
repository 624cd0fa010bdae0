"""The model that judges comparisons: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import astuple, replace
from math import inf

from data.comparisons.params import Comparisons
from data.errors import InputError
from serving.models import Served, Source
from training.comparisons.stored import Card, ReadyModel
from training.evaluation.thresholds import DecisionPolicy, VerdictCosts
from training.registry.champions import Address, project_params, served_version

Judge = Served[ReadyModel]


def registered_name() -> str:
    """Return the name under which models of comparisons are registered, from the project's ``params.yaml``.

    Without that file, it is the name for new projects. InputError if the file is invalid.
    """
    return project_params(Comparisons).section.promote.name


def retrospective_name() -> str:
    """Return the name in the registry of models that also use versions after the target.

    It is in the project's ``params.yaml``; without the file, it is that for new projects. InputError if it is
    invalid.
    """
    return project_params(Comparisons).section.retrospective_name


def load_judge(
    uri: Address = None,
    min_effect_size: float | None = None,
    max_false_negative_rate: float | None = None,
    max_false_positive_rate: float | None = None,
    costs: str | None = None,
    *,
    base_rate: float | None = None,
    retrospective: bool = False,
) -> Judge:
    """Return the model that gives the verdicts, with its origin.

    `uri`: a directory with a model, ``models:/name@alias`` or ``models:/name/version``; None: the champion.
    `min_effect_size`: the smallest change of a median that may be called a regression, as a share, unchecked;
    None: the model's.
    `max_false_negative_rate`, `max_false_positive_rate`: largest shares of wrong verdicts. A rate of 0, or
    None while the other rate is given, has no guarantee.
    `costs`: of a missed regression, a false alarm and a review, such as "100:10:1", in place of the two
    rates. Without rates and costs, the model's own policy decides; else its limit on reviews is dropped.
    `base_rate`: the share of regressions where the model is used, below 1; 0 or None: that of the training
    data.
    `retrospective`: load the champion of the models that also use versions after the target; ignored with
    `uri`.
    Raises InputError if the model is missing or unreadable, costs and a rate (even 0) are both given, a cost
    is not finite and above 0, the model does not guarantee a rate, or it has no training scores for
    `base_rate`; ValueError or TypeError if `costs` are not three numbers.
    """
    champion = f"models:/{retrospective_name()}@champion" if retrospective and uri is None else None
    try:
        served = JUDGES.load(champion or uri)
    except InputError as exc:
        if champion is None or served_version(champion) is not None:
            raise
        command = "dvc exp run -S comparisons.featurize.feature_set=retrospective"
        raise InputError(f"{exc}; make one with: {command}") from exc
    if min_effect_size is not None:
        served = with_card(served, replace(served.model.card, min_effect_size=min_effect_size))
    parsed = None if costs is None else VerdictCosts(*map(float, costs.split(":")))
    served = with_policy(served, max_false_negative_rate, max_false_positive_rate, parsed)
    return with_card(served, served.model.card.at_base_rate(base_rate)) if base_rate else served


def with_policy(
    served: Judge,
    max_false_negative_rate: float | None,
    max_false_positive_rate: float | None,
    costs: VerdictCosts | None,
) -> Judge:
    """Return a copy of the model with another decision policy, or the model itself if all are None.

    `max_false_negative_rate`, `max_false_positive_rate`: the largest shares of wrong verdicts; 0 or None: no
    guarantee, the model's usual threshold decides. The model's limit on reviews is dropped. Raises InputError
    if costs and a share (even 0) are both given, a cost is not finite and above 0, or the model's guarantee
    does not cover a share.
    """
    if (max_false_negative_rate, max_false_positive_rate, costs) == (None, None, None):
        return served
    if costs is not None and (max_false_negative_rate, max_false_positive_rate) != (None, None):
        rates = "max_false_negative_rate and max_false_positive_rate"
        raise InputError(f"costs: decide in place of {rates}; expected one or the other")
    if costs is not None and not all(0 < cost < inf for cost in astuple(costs)):
        raise InputError(f"costs: {':'.join(map(str, astuple(costs)))} are not finite numbers above 0")
    policy = DecisionPolicy(max_false_negative_rate or None, max_false_positive_rate or None, None, costs)
    return with_card(served, served.model.card.with_policy(policy))


def with_card(served: Judge, card: Card) -> Judge:
    """Return a copy of the model with `card`, its metadata (thresholds, decision policy, ...)."""
    return replace(served, model=replace(served.model, card=card))


JUDGES = Source(registered_name, ReadyModel.read, Card.read)
