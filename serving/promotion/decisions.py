"""Promotion and rollback of a model version by a person, with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from data.errors import InputError
from data.people import require_person
from serving.plugins import endpoint_of_model
from serving.shadow.figures import figures_of
from training.registry.champions import CHAMPION, Version, find_version, version_of
from training.registry.promotion_history import (
    LONGEST,
    ChampionRecord,
    current_user,
    promote_version,
    read_promotions,
    rollback_target,
    sync_if_moved,
)


@dataclass(frozen=True)
class PromotionDecision:
    """A version that became champion, and the version it replaced; None if it is the first."""

    name: str
    version: str
    instead: str | None
    promotion: ChampionRecord

    @property
    def summary(self) -> str:
        """The decision in one line."""
        replaced = "" if self.instead is None else f" in place of v{self.instead}, which is challenger now"
        return f"{self.name} v{self.version} is champion{replaced}: {self.promotion.summary_line}"


def promote(name: str, version: str, reason: str, by: str | None = None) -> PromotionDecision:
    """Make a version of the registered model `name` champion, and return the decision.

    `version` is a number, with or without "v"; `by` is the deciding person, by default the current user. The
    former champion becomes challenger. Stored figures on how often both agree in shadow mode are added to the
    reason. InputError if no endpoint uses `name`, `by` has not 1 to 64 visible characters, the version is no
    number, missing, already champion, cannot be loaded or fails its test request, the reason is empty or has
    (with figures) over 2000 characters, the champion has changed meanwhile, or the registry does not answer.
    """
    by = _begin_decision(name, by)
    number = version.removeprefix("v")
    if not number.isascii() or not number.isdigit():
        raise InputError(f'version "{version}" of {name} is not a number, such as 2')
    champion, candidate = version_of(name, CHAMPION), find_version(f"models:/{name}/{int(number)}")
    if candidate is None:
        current = "" if champion is None else f"; its champion is v{champion.version}"
        raise InputError(f"v{int(number)} of {name} does not exist{current}")
    if champion is not None and champion.version == candidate.version:
        raise InputError(f"v{candidate.version} is champion of {name} already")
    return _make_champion(candidate, champion, "promote", reason, by)


def rollback(name: str, reason: str, by: str | None = None) -> PromotionDecision:
    """Make the previous champion of the registered model `name` champion again, and return the decision.

    A second rollback goes one champion further back. `by`, `reason` and errors are those of `promote`;
    InputError, too, if the model has no champion or had none before, or if that version does not exist.
    """
    by = _begin_decision(name, by)
    champion = version_of(name, CHAMPION)
    if champion is None:
        raise InputError(f"{name} has no champion; make one with: perfjudge promote {name} VERSION")
    number = rollback_target(read_promotions(name))
    if number is None:
        raise InputError(f"{name} had no champion before v{champion.version}")
    former = find_version(f"models:/{name}/{number}")
    if former is None:
        problem = f"v{number} of {name}, the champion before v{champion.version}, does not exist any more"
        raise InputError(f"{problem}; expected another one: perfjudge promote {name} VERSION")
    return _make_champion(former, champion, "rollback", reason, by)


def _begin_decision(name: str, by: str | None) -> str:
    endpoint_of_model(name)
    person = (by or "").strip() or current_user()
    require_person(person, "--by")
    sync_if_moved(name)
    return person


def _make_champion(
    version: Version,
    champion: Version | None,
    way: Literal["promote", "rollback"],
    stated_reason: str,
    by: str,
) -> PromotionDecision:
    reason = " ".join(stated_reason.split())
    if champion is not None and reason:
        # agreement of both versions in shadow mode, if any
        agreement = figures_of(version.name, {version.version, champion.version})
        reason += f" ({'; '.join(pair.summary for pair in agreement)})" if agreement else ""
    if not 0 < len(reason) <= LONGEST:
        expected = f"the reasons for v{version.version} in 1 to {LONGEST} letters"
        raise InputError(f"--reason: {len(reason)} letters; expected {expected}")
    loader = endpoint_of_model(version.name).loader
    assert loader is not None
    loader.load_and_test(version)
    promotion = ChampionRecord(version.version, way, reason, by)
    replaced = None if champion is None else champion.version
    promote_version(version.name, version.version, promotion, replaced or "")
    return PromotionDecision(version.name, version.version, replaced, promotion)
