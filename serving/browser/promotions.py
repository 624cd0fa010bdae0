"""Who is champion and why, and which challenger was refused and why, as the registry keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from data.errors import InputError
from serving.supply import doors
from training.registry.champions import CHALLENGER, CHAMPION, Version, version_of
from training.registry.succession import why, why_not


@dataclass(frozen=True)
class Contender:
    """A version, its model, and what the contest found; ``against`` is the version it was compared with."""

    version: str
    model: str
    reason: str
    against: str

    @classmethod
    def of(cls, found: Version | None, *, leads: bool) -> Self | None:
        """Take what the tags of a version say, the champion's or not; None if there is no version."""
        if found is None:
            return None
        model, against = (found.tags.get(name, "") for name in ("model", "judged_against"))
        return cls(found.version, model, why(found) if leads else why_not(found), against)


@dataclass(frozen=True)
class Promotion:
    """What became of the last candidates for one registered name."""

    name: str
    champion: Contender | None
    challenger: Contender | None

    @property
    def refused(self) -> Contender | None:
        """The challenger, if the champion of now, or the lack of one, is what it was judged against."""
        standing = "" if self.champion is None else self.champion.version
        if self.challenger is None or self.challenger.against != standing:
            return None
        return self.challenger


def promotions() -> Iterator[Promotion]:
    """Yield what is known of every registered name of which there is a version; nothing if none answers."""
    for name in dict.fromkeys(door.loader.name() for door in doors() if door.loader is not None):
        # a registry that does not answer is told with the models
        with suppress(InputError):
            champion = Contender.of(version_of(name, CHAMPION), leads=True)
            promotion = Promotion(name, champion, Contender.of(version_of(name, CHALLENGER), leads=False))
            if promotion.champion is not None or promotion.refused is not None:
                yield promotion
