"""What people said beforehand: which regressions are known, what is unstable, which changes are meant.

It stands in a file that is reviewed like code, and no entry of it hides anything: what it excuses is told
with who and why.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from data.errors import InputError
from data.tables.documents import Section, TextLoader, said
from data.tables.files import yaml_content
from serving.comparisons.judge import Verdict

#: Fewer letters of a commit's name may be another's.
_TELLING = 7
#: Git answers at once, or something is wrong.
_SECONDS = 20


@dataclass(frozen=True)
class Revision:
    """What was measured: the versions that its runs name, and the commit that was built."""

    names: tuple[str, ...]
    where: Path  # a directory of the repository, if it is one

    def holds(self, change: str) -> bool:
        """Tell whether a version or commit is this one, or lies before it."""
        return any(_same(change, name) or _before(change, name, self.where) for name in self.names)


def head(where: Path) -> str | None:
    """Return the commit that is checked out; None outside a repository."""
    return _commit("HEAD", where)


def _same(change: str, name: str) -> bool:
    return change == name or (len(change) >= _TELLING and name.startswith(change))


@cache
def _before(change: str, name: str, where: Path) -> bool:
    known = _commit(change, where), _commit(name, where)
    if None in known:
        return False
    return _git(["merge-base", "--is-ancestor", *map(str, known)], where) is not None


@cache
def _commit(name: str, where: Path) -> str | None:
    if not name or name.startswith("-"):
        return None
    return _git(["rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"], where)


def _git(arguments: Sequence[str], where: Path) -> str | None:
    """Return what git says; None if it says no, or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(where), *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


#: Where it is looked for.
DEFAULT = Path(".perfjudge.yaml")

_Text = Annotated[str, Field(min_length=1)]


def _day_or_name(given: object) -> object:
    """Return a day in ISO 8601 as such, anything else as it is."""
    try:
        return date.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        return given


_Until = Annotated[date | _Text, BeforeValidator(_day_or_name)]
#: Verdicts that an entry may excuse.
EXCUSABLE = ("fail", "unsure")
_Kind = Literal["acknowledged", "unstable", "accepted"]


class Concerned(Section):
    """Which operations somebody speaks of, who, and why; names may hold ``*``, ``?`` and ``[...]``."""

    operation: _Text
    benchmark: _Text = "*"
    why: _Text
    by: _Text

    def concerns(self, benchmark: str, operation: str) -> bool:
        """Tell whether the entry speaks of an operation."""
        return fnmatchcase(operation, self.operation) and fnmatchcase(benchmark, self.benchmark)


class Acknowledged(Concerned):
    """A regression that is known: until a day (that day still), or until a version or commit is measured.

    ``at_most`` percent of the median; what is worse by more is not meant.
    """

    until: _Until
    at_most: Annotated[float, Field(gt=0)] | None = None


class Unstable(Concerned):
    """Operations that tell nothing: what they do never fails a build."""

    until: _Until | None = None


class Accepted(Concerned):
    """A change that was meant: from a version or commit on, what was measured before counts no more."""

    since: _Text


class AcknowledgedFile(Section):
    """The whole file."""

    acknowledged: tuple[Acknowledged, ...] = ()
    unstable: tuple[Unstable, ...] = ()
    accepted: tuple[Accepted, ...] = ()


@dataclass(frozen=True)
class Excuse:
    """Why a fail does not count."""

    kind: _Kind  # one of "acknowledged", "unstable", "accepted"
    by: str
    why: str
    until: str  # until, since: empty where it has no end, and no beginning
    since: str

    @property
    def told(self) -> str:
        """In words."""
        span = [f"{word} {one}" for word, one in (("until", self.until), ("since", self.since)) if one]
        how = {"acknowledged": "acknowledged", "unstable": "called unstable", "accepted": "accepted"}
        return f"{how[self.kind]} by {self.by}: {self.why}{f' ({span[0]})' if span else ''}"


@dataclass(frozen=True)
class Acknowledgements:
    """What the file says, for the revisions that are compared."""

    path: Path
    content: AcknowledgedFile
    baseline: Revision
    target: Revision
    today: date

    def excuse(self, verdict: Verdict) -> Excuse | None:
        """Return why this verdict need not fail a build; None if nothing excuses it."""
        for kind, one in self._entries():
            own = one.concerns(verdict.benchmark, verdict.operation)
            if own and not self._over(one) and _covers(one, verdict):
                until, since = (str(getattr(one, name, None) or "") for name in ("until", "since"))
                return Excuse(kind, one.by, one.why, until, since)
        return None

    def excuses(self, verdicts: Sequence[Verdict]) -> list[Excuse | None]:
        """Return the excuse of each verdict that is fail or unsure; None for all others."""
        return [self.excuse(one) if one.verdict in EXCUSABLE else None for one in verdicts]

    def notes(self, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """Yield what is to be tidied: entries that are over, and those that speak of nothing measured."""
        for kind, one in self._entries():
            told = f'{self.path}: {kind} "{one.operation}" by {one.by}'
            if not any(one.concerns(verdict.benchmark, verdict.operation) for verdict in verdicts):
                yield f"{told} speaks of no operation that was compared"
            elif not isinstance(one, Accepted):
                if self._over(one):
                    yield f"{told} is over (until {one.until})"
            elif not (self.baseline.holds(one.since) or self.target.holds(one.since)):
                yield f"{told} waits for {one.since}, which the target is not known to hold"

    def stale(self, operations: Sequence[tuple[str, str]], run: Revision) -> set[tuple[str, str]]:
        """Return the benchmarks and operations of an earlier run from before an accepted change."""
        resets = [
            one
            for one in self.content.accepted
            if self.baseline.holds(one.since) and not run.holds(one.since)
        ]
        return {named for named in operations if any(one.concerns(*named) for one in resets)}

    def _entries(self) -> Iterator[tuple[_Kind, Acknowledged | Unstable | Accepted]]:
        yield from (("acknowledged", one) for one in self.content.acknowledged)
        yield from (("unstable", one) for one in self.content.unstable)
        yield from (("accepted", one) for one in self.content.accepted)

    def _over(self, one: Acknowledged | Unstable | Accepted) -> bool:
        """Tell whether an entry speaks of it no more; one of a change that was meant, of its step only."""
        if isinstance(one, Accepted):
            return self.baseline.holds(one.since) or not self.target.holds(one.since)
        if isinstance(one.until, date):
            return self.today > one.until
        return one.until is not None and self.target.holds(one.until)


def read_acknowledged(path: Path | None) -> tuple[Path, AcknowledgedFile]:
    """Read the file that was named, or the one that is there; no file says nothing.

    Raises InputError if it cannot be read, or an entry is wrong.
    """
    found = path or DEFAULT
    if path is None and not DEFAULT.exists():
        return found, AcknowledgedFile()
    try:
        # as text: a commit of digits is no number
        return found, AcknowledgedFile.model_validate(yaml_content(found, TextLoader) or {})
    except ValidationError as exc:
        raise InputError(said(exc), file=found) from exc


def _covers(one: Acknowledged | Unstable | Accepted, verdict: Verdict) -> bool:
    limit = getattr(one, "at_most", None)
    return limit is None or verdict.moved is None or 100 * -verdict.moved.change <= limit
