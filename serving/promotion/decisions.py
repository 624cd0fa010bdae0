"""A person decides which version of a model is champion, and says why."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from typing import Literal

from data.errors import InputError
from serving.shadow.figures import figures_of
from serving.supply import door_of
from training.registry.champions import CHAMPION, Version, registered, version_of
from training.registry.promotion_history import (
    LONGEST,
    ChampionRecord,
    before,
    promote_version,
    reigns,
    settled,
)


@dataclass(frozen=True)
class Decided:
    """A version that became champion, and the version it replaced; None if it is the first."""

    name: str
    version: str
    instead: str | None
    reign: ChampionRecord

    @property
    def told(self) -> str:
        """The same in words."""
        place = "" if self.instead is None else f" in place of v{self.instead}, which is challenger now"
        return f"{self.name} v{self.version} is champion{place}: {self.reign.told}"


def promote(name: str, version: str, because: str, by: str | None = None) -> Decided:
    """Make a version champion, with a reason; `by` defaults to the current user.

    Raises InputError if the version is missing, already champion, cannot be loaded or fails its trial
    request, the
    reason is empty, or another version has become champion meanwhile.
    """
    door_of(name)
    settled(name)
    champion, found = version_of(name, CHAMPION), registered(f"models:/{name}/{_number(name, version)}")
    if found is None:
        instead = "" if champion is None else f"; its champion is v{champion.version}"
        raise InputError(f"there is no v{version} of {name}{instead}")
    if champion is not None and champion.version == found.version:
        raise InputError(f"v{found.version} is champion of {name} already")
    return _crowned(found, champion, "promote", because, by)


def rollback(name: str, because: str, by: str | None = None) -> Decided:
    """Make the previous champion champion again; InputError if it is missing, and as of `promote`."""
    door_of(name)
    settled(name)
    champion = version_of(name, CHAMPION)
    if champion is None:
        raise InputError(f"{name} has no champion; make one with: perfjudge promote {name} VERSION")
    former = before(reigns(name))
    if former is None:
        raise InputError(f"there was no champion of {name} before v{champion.version}")
    found = registered(f"models:/{name}/{former}")
    if found is None:
        told = f"v{former} of {name}, the champion before v{champion.version}, is not there any more"
        raise InputError(f"{told}; expected another one: perfjudge promote {name} VERSION")
    return _crowned(found, champion, "rollback", because, by)


def _number(name: str, version: str) -> str:
    number = version.removeprefix("v")
    if not number.isascii() or not number.isdigit():
        raise InputError(f'version "{version}" of {name} is no number, such as 2')
    return str(int(number))


def _crowned(
    found: Version,
    champion: Version | None,
    way: Literal["promote", "rollback"],
    because: str,
    by: str | None,
) -> Decided:
    said = " ".join(because.split())
    if champion is not None and said:
        # verdicts of both on the same requests, if there are any
        known = figures_of(found.name, {found.version, champion.version})
        said = f"{said} ({'; '.join(one.told for one in known)})" if known else said
    if not 0 < len(said) <= LONGEST:
        told = f"1 to {LONGEST} letters that say what speaks for v{found.version}"
        raise InputError(f"--because: {len(said)} letters; expected {told}")
    loader = door_of(found.name).loader
    assert loader is not None
    loader.tried(found)
    reign = ChampionRecord(found.version, way, said, by or getpass.getuser())
    instead = "" if champion is None else champion.version
    promote_version(found.name, found.version, reign, instead)
    return Decided(found.name, found.version, instead or None, reign)
