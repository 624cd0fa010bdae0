"""The risk guarantees and costs behind a model's verdicts, in words and in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from training.comparisons.base_rate import BaseRate
    from training.comparisons.stored import Card
    from training.evaluation.thresholds import GuaranteedRate, RiskGuarantee


class CostsAnswer(BaseModel):
    """Costs of a missed regression, a false alarm and a person's review, in one unit."""

    false_negative: float = Field(gt=0)
    false_positive: float = Field(gt=0)
    review: float = Field(gt=0)


class DecidedAnswer(BaseModel):
    """The guarantee or the costs that the verdicts follow."""

    max_false_negative_rate: float | None = Field(description="Largest share of regressions that pass.")
    max_false_positive_rate: float | None = Field(description="Largest share of other comparisons that fail.")
    max_review_rate: float | None = Field(description="Largest share of comparisons that are unsure.")
    costs: CostsAnswer | None
    confidence: float | None = Field(description="Confidence level of the shares; null without a guarantee.")
    summary: str = Field(description="A summary in one line.")


class GuaranteedRateAnswer(BaseModel):
    """One share of wrong verdicts that may be requested."""

    share: float
    possible: bool = Field(description="Whether the training labels suffice to guarantee the share.")
    measured: float | None = Field(description="Mean share of wrong verdicts on held-out groups.")
    empirical_coverage: float | None = Field(
        description="Share of bootstrap repetitions that did not exceed the share."
    )


class GuaranteeAnswer(BaseModel):
    """The risk guarantees that a model offers."""

    confidence: float
    fails: int = Field(description="Number of regressions that the guarantee is based on.")
    groups: int = Field(description="Number of operations that the regressions belong to.")
    max_false_negative_rate: list[GuaranteedRateAnswer]
    max_false_positive_rate: list[GuaranteedRateAnswer]
    guarantee: str = Field(description="The random event that the confidence refers to.")


def decided_answer(card: Card) -> dict[str, Any]:
    """Return the decision policy of `card` as JSON content, with the fields of `DecidedAnswer`.

    Rates and costs are None if not requested, ``confidence`` if the model has no risk guarantee.
    """
    confidence = None if card.risk_guarantee is None else card.risk_guarantee.confidence
    return {**asdict(card.policy), "confidence": confidence, "summary": decision_summary(card)}


def base_rate_notes(base_rate: BaseRate) -> Iterator[str]:
    """Yield a sentence with the base rate of corrected verdicts, and a second if an estimate is doubtful."""
    share = _percentage(base_rate.rate)
    if base_rate.low is None or base_rate.high is None or base_rate.black_box is None:
        yield f"probabilities and thresholds are corrected for {share} % regressions"
        return
    ends = f"{_percentage(base_rate.low)} to {_percentage(base_rate.high)} %"
    yield (
        f"an estimated {share} % of these comparisons are regressions (95 % interval {ends}; by black-box "
        f"shift estimation {_percentage(base_rate.black_box)} %): probabilities and thresholds are corrected "
        "for it"
    )
    if not base_rate.explains_scores:
        distances = f"distance {base_rate.distance:.3f}, by chance at most {base_rate.max_distance:.3f}"
        yield (
            "the estimate may be wrong: no mixture of regressions and others of the training data explains "
            f"these probabilities ({distances})"
        )


def _percentage(share: float) -> str:
    # with as many digits as distinguish the share from 100 %; 100 has three
    digits = max(2, math.ceil(-math.log10(1 - share or 1e-3)))
    return f"{100 * share:.{digits}g}"


def guarantee_answer(risk_guarantee: RiskGuarantee) -> dict[str, Any]:
    """Return a risk guarantee as JSON content, with the fields of `GuaranteeAnswer`.

    ``measured`` and ``empirical_coverage`` of a rate are None unless it is possible.
    """
    answer = asdict(risk_guarantee)
    for limit in ("max_false_negative_rate", "max_false_positive_rate"):
        for level in answer[limit]:
            level["possible"] = level.pop("cut") is not None
    return answer


def decision_summary(card: Card) -> str:
    """Return one line on the basis of the verdicts of `card`: costs, or guarantees and the limit on reviews.

    With costs, it has nothing else. Otherwise it has a part for each limit that is set on regressions that
    pass, false alarms and reviews; the first two are left out if the model has no risk guarantee. If a rate
    cannot be guaranteed, its part states how many labelled operations a guarantee takes, and the verdict
    (``pass`` or ``fail``) that is never given. The last part is "corrected for the base rate" if the
    thresholds are. Parts are joined by "; ". Without parts it is "nothing is promised". StopIteration if the
    guarantee does not contain a requested rate.
    """
    policy, risk_guarantee, costs = card.policy, card.risk_guarantee, card.policy.costs
    if costs is not None:
        return (
            f"cheapest where a miss costs {costs.false_negative:g}, a false alarm {costs.false_positive:g} "
            f"and a review {costs.review:g}"
        )
    parts = []
    for limit, which, verdict in (
        ("max_false_negative_rate", "regressions", "pass"),
        ("max_false_positive_rate", "others", "fail"),
    ):
        share = getattr(policy, limit)
        if risk_guarantee is not None and share is not None:
            levels = getattr(risk_guarantee, limit)
            parts.append(_guarantee_line(risk_guarantee, levels, share, which, verdict))
    if policy.max_review_rate is not None:
        parts.append(f"at most {100 * policy.max_review_rate:g} % of the comparisons are unsure")
    if card.odds_factor != 1:
        parts.append("corrected for the base rate")
    return "; ".join(parts) or "nothing is promised"


def _guarantee_line(
    risk_guarantee: RiskGuarantee, levels: Sequence[GuaranteedRate], share: float, which: str, verdict: str
) -> str:
    cut = next(level.cut for level in levels if abs(level.share - share) < 1e-9)  # noqa: PLR2004
    if cut is not None:
        confidence = f"{100 * risk_guarantee.confidence:g} % confidence"
        return f"at most {100 * share:g} % of the {which} {verdict} ({confidence})"
    fails, groups = risk_guarantee.fails, risk_guarantee.groups
    labels = f"{fails} of {groups} operations" if verdict == "pass" else "the passes"
    needed = f"it takes at least {risk_guarantee.needed_fails(share)} of as many operations"
    return f"{100 * share:g} % cannot be promised with {labels}, {needed}: no verdict is {verdict}"
