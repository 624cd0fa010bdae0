"""The risk guarantees and costs behind a model's verdicts, in words and in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from training.comparisons.stored import Card
    from training.evaluation.thresholds import Promised, RiskGuarantee


class CostsAnswer(BaseModel):
    """Costs of a missed regression, a false alarm and a person's review, in one unit."""

    miss: float = Field(gt=0)
    false_alarm: float = Field(gt=0)
    look: float = Field(gt=0)


class DecidedAnswer(BaseModel):
    """The guarantee or the costs that the verdicts follow."""

    missed: float | None = Field(description="Largest share of regressions that pass.")
    false_alarms: float | None = Field(description="Largest share of other comparisons that fail.")
    looks: float | None = Field(description="Largest share of comparisons that are unsure.")
    costs: CostsAnswer | None
    confidence: float | None = Field(description="Confidence level of the shares; null without a guarantee.")
    told: str = Field(description="A summary in one line.")


class PromisedAnswer(BaseModel):
    """One share of wrong verdicts that may be requested."""

    share: float
    possible: bool = Field(description="Whether the training labels suffice to guarantee the share.")
    measured: float | None = Field(description="Mean share of wrong verdicts on held-out groups.")
    held: float | None = Field(description="Share of bootstrap repetitions that did not exceed the share.")


class PromiseAnswer(BaseModel):
    """The risk guarantees that a model offers."""

    confidence: float
    fails: int = Field(description="Number of regressions that the guarantee is based on.")
    groups: int = Field(description="Number of operations that the regressions belong to.")
    missed: list[PromisedAnswer]
    false_alarms: list[PromisedAnswer]
    guarantee: str = Field(description="The random event that the confidence refers to.")


def decided_answer(card: Card) -> dict[str, Any]:
    """Return the decision policy of `card` with the fields of `DecidedAnswer`."""
    confidence = None if card.promise is None else card.promise.confidence
    return {**asdict(card.wish), "confidence": confidence, "told": line(card)}


def promise_answer(promise: RiskGuarantee) -> dict[str, Any]:
    """Return a risk guarantee with the fields of `PromiseAnswer`."""
    numbers = {name: getattr(promise, name) for name in ("confidence", "fails", "groups", "guarantee")}
    levels = {
        name: [
            {
                "share": level.share,
                "possible": level.cut is not None,
                "measured": level.measured,
                "held": level.held,
            }
            for level in getattr(promise, name)
        ]
        for name in ("missed", "false_alarms")
    }
    return numbers | levels


def line(card: Card) -> str:
    """Describe in one line the guarantee or the costs that the verdicts of `card` follow."""
    policy, promise, costs = card.wish, card.promise, card.wish.costs
    if costs is not None:
        return (
            f"cheapest where a miss costs {costs.miss:g}, a false alarm {costs.false_alarm:g} "
            f"and a look {costs.look:g}"
        )
    parts = []
    if promise is not None and policy.missed is not None:
        parts.append(_promise_line(promise, promise.missed, policy.missed, "regressions", "pass"))
    if promise is not None and policy.false_alarms is not None:
        parts.append(_promise_line(promise, promise.false_alarms, policy.false_alarms, "others", "fail"))
    if policy.looks is not None:
        parts.append(f"at most {100 * policy.looks:g} % of the comparisons are unsure")
    return "; ".join(parts) or "nothing is promised"


def _promise_line(
    promise: RiskGuarantee, levels: Sequence[Promised], share: float, which: str, verdict: str
) -> str:
    cut = next(level.cut for level in levels if abs(level.share - share) < 1e-9)  # noqa: PLR2004
    if cut is not None:
        confidence = f"{100 * promise.confidence:g} % confidence"
        return f"at most {100 * share:g} % of the {which} {verdict} ({confidence})"
    labels = f"{promise.fails} of {promise.groups} operations" if verdict == "pass" else "the passes"
    return (
        f"{100 * share:g} % cannot be promised with {labels}, "
        f"it takes at least {promise.needed(share)} of as many operations: no verdict is {verdict}"
    )
