"""What is promised of the verdicts of a model, in words and in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from training.comparisons.stored import Card
    from training.evaluation.thresholds import Promised, RiskGuarantee


class CostsAnswer(BaseModel):
    """What a missed regression, a false alarm and a person's look cost, in one unit."""

    miss: float = Field(gt=0)
    false_alarm: float = Field(gt=0)
    look: float = Field(gt=0)


class DecidedAnswer(BaseModel):
    """What the verdicts of an answer keep."""

    missed: float | None = Field(description="Of the regressions, at most this share passes.")
    false_alarms: float | None = Field(description="Of the others, at most this share fails.")
    looks: float | None = Field(description="At most this share of comparisons is unsure.")
    costs: CostsAnswer | None
    confidence: float | None = Field(description="With which a share is kept; null without a promise.")
    told: str = Field(description="The same in one line.")


class PromisedAnswer(BaseModel):
    """A share that may be wrong."""

    share: float
    possible: bool = Field(description="Whether the model learned from enough labels to promise that.")
    measured: float | None = Field(description="What was wrong in the mean, on groups that had no say.")
    held: float | None = Field(description="The share of the rehearsals in which no more was wrong.")


class PromiseAnswer(BaseModel):
    """What can be asked of a model."""

    confidence: float
    fails: int = Field(description="The regressions that it rests on.")
    groups: int = Field(description="From how many operations they are.")
    missed: list[PromisedAnswer]
    false_alarms: list[PromisedAnswer]
    guarantee: str = Field(description="What the confidence is about.")


def decided_answer(card: Card) -> dict[str, Any]:
    """Return what the verdicts by `card` keep, as `DecidedAnswer` has it."""
    confidence = None if card.promise is None else card.promise.confidence
    return {**asdict(card.wish), "confidence": confidence, "told": line(card)}


def promise_answer(promise: RiskGuarantee) -> dict[str, Any]:
    """Return what can be asked of a model, as `PromiseAnswer` has it."""
    numbers = {name: getattr(promise, name) for name in ("confidence", "fails", "groups", "guarantee")}
    levels = {
        name: [
            {"share": one.share, "possible": one.cut is not None, "measured": one.measured, "held": one.held}
            for one in getattr(promise, name)
        ]
        for name in ("missed", "false_alarms")
    }
    return numbers | levels


def line(card: Card) -> str:
    """Describe in one line the guarantee or the costs that the verdicts by `card` keep."""
    wish, promise, costs = card.wish, card.promise, card.wish.costs
    if costs is not None:
        return (
            f"cheapest where a miss costs {costs.miss:g}, a false alarm {costs.false_alarm:g} "
            f"and a look {costs.look:g}"
        )
    kept = []
    if promise is not None and wish.missed is not None:
        kept.append(_promise(promise, promise.missed, wish.missed, "regressions", "pass"))
    if promise is not None and wish.false_alarms is not None:
        kept.append(_promise(promise, promise.false_alarms, wish.false_alarms, "others", "fail"))
    if wish.looks is not None:
        kept.append(f"at most {100 * wish.looks:g} % of the comparisons are unsure")
    return "; ".join(kept) or "nothing is promised"


def _promise(
    promise: RiskGuarantee, levels: Sequence[Promised], share: float, which: str, verdict: str
) -> str:
    cut = next(one.cut for one in levels if abs(one.share - share) < 1e-9)  # noqa: PLR2004
    if cut is not None:
        sure = f"{100 * promise.confidence:g} % confidence"
        return f"at most {100 * share:g} % of the {which} {verdict} ({sure})"
    known = f"{promise.fails} of {promise.groups} operations" if verdict == "pass" else "the passes"
    return (
        f"{100 * share:g} % cannot be promised with {known}, "
        f"it takes at least {promise.needed(share)} of as many operations: no verdict is {verdict}"
    )


def costs_of(text: str) -> Mapping[str, float]:
    """Return the costs that an option names, as a request has them."""
    return dict(zip(("miss", "false_alarm", "look"), map(float, text.split(":")), strict=True))
