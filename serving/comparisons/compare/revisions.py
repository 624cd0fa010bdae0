"""Which revision holds which change, by the names of runs and by git where it knows them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Fewer letters of a commit's name may be another's.
_TELLING = 7
#: Git answers at once, or something is wrong.
_SECONDS = 20


@dataclass(frozen=True)
class Revision:
    """What was measured: the versions that its runs name, and the commit that was built.

    Attributes
    ----------
    names : tuple of str
    where : Path
        A directory of the repository, if it is one.
    """

    names: tuple[str, ...]
    where: Path

    def holds(self, change: str) -> bool:
        """Tell whether a version or commit is this one, or lies before it."""
        return any(_same(change, name) or _before(change, name, self.where) for name in self.names)

    @property
    def known(self) -> bool:
        """Whether git knows any of the names."""
        return any(_commit(name, self.where) is not None for name in self.names)


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
