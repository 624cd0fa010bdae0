"""Reviewed exceptions: acknowledged regressions, unstable operations and accepted changes.

The file is reviewed like code. It hides nothing: every excused verdict is shown with author and reason.
"""

from __future__ import annotations

import re
from calendar import month_abbr, month_name
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from data.comparisons.pair import list_names
from data.errors import InputError
from data.tables.documents import Section, TextLoader, validation_message
from data.tables.files import yaml_content
from serving.comparisons.explain.features import percent
from serving.comparisons.judge import Verdict
from training.registry.origins import git_output

#: Shorter prefixes of a commit's name may be ambiguous.
_MIN_PREFIX = 7
#: A change of a limit's size may be computed as slightly larger.
_ROUNDING = 1 + 1e-9
#: Output of git, which is considered broken after so many seconds.
_git = partial(git_output, timeout=20)


@dataclass(frozen=True)
class Revision:
    """The measured code: version names of its runs, and the commit that was built."""

    names: tuple[str, ...]
    directory: Path  # a directory of the repository; may be outside any repository

    def contains_change(self, change: str) -> bool:
        """Return whether `change`, a version or (short) commit, is this revision or an ancestor of it."""
        return self.is_at(change) or any(_is_ancestor(change, name, self.directory) for name in self.names)

    def is_at(self, change: str) -> bool:
        """Return whether `change` is a name of this revision, or the beginning of one."""
        is_prefix = len(change) >= _MIN_PREFIX
        return any(name == change or (is_prefix and name.startswith(change)) for name in self.names)

    @property
    def is_known(self) -> bool:
        """Whether a name is a commit, so that git can determine what it contains."""
        return any(_is_commit(name, self.directory) for name in self.names)


@cache
def _is_commit(name: str, directory: Path) -> bool:
    options = "--quiet", "--verify", "--end-of-options"
    return bool(_git(directory, "rev-parse", *options, f"{name}^{{commit}}"))


@cache
def head_commit(directory: Path) -> str | None:
    """Return the full hash of the commit checked out in `directory`; None without commit, repository or git.

    It is read once per process and directory.
    """
    return _git(directory, "rev-parse", "--quiet", "--verify", "HEAD^{commit}") or None


@cache
def _is_ancestor(change: str, name: str, directory: Path) -> bool:
    if not change or change.startswith("-"):
        return False
    # a prefix may be that of several objects, but of one commit
    missing = f"{name}^{{commit}}..{change}^{{commit}}"
    return _git(directory, "rev-list", "--count", "--max-count=1", missing) == "0"


@cache
def _is_branch(name: str, directory: Path) -> bool:
    """Return whether `name` is a branch, also a remote one, or relative to one, such as main~2."""
    branch = re.split(r"[~^]|@\{", name)[0]
    options = "--quiet", "--verify", "--symbolic-full-name"
    full = "" if branch.startswith("-") else _git(directory, "rev-parse", *options, branch)
    return full.startswith(("refs/heads/", "refs/remotes/"))


#: The file that is read by default, if it exists.
DEFAULT = Path(".perfjudge.yaml")

_Text = Annotated[str, Field(min_length=1)]


_YEAR, _MONTH = r"(19|20)\d\d", "|".join((*month_name[1:], *month_abbr[1:]))
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: A text that is meant as a day, although it may be none; a version such as 2026.1.2 is no such text.
_LIKE_A_DAY = re.compile(
    rf"{_YEAR}[-/]\d[-\d/ T:Z.+]*|0?[1-9]\d?([-/. ])0?[1-9]\d?\2{_YEAR}|.*\b({_MONTH})\b.*\b{_YEAR}|"
    rf"{_YEAR}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])|{_YEAR}-?W\d\d-?\d?",
    re.IGNORECASE,
)


#: Revisions that are another commit after the next commit or checkout, such as HEAD~2 and origin/HEAD.
_MOVING = re.compile(r"(.+/|[A-Z]+_)?HEAD([~^@].*)?|@([~^{].*)?")
_FIXED = "is another commit later; expected a version, or a commit such as 4f2c9d1"


def _fixed_name(value: object) -> object:
    if _MOVING.fullmatch(str(value)):
        raise ValueError(_FIXED)
    return value


def _day_or_name(value: object) -> object:
    if isinstance(value, str) and _DAY.fullmatch(value):
        with suppress(ValueError):
            return date.fromisoformat(value)
    if not isinstance(value, str) or not value or _LIKE_A_DAY.fullmatch(value):
        raise ValueError("expected a day such as 2026-12-31, or a version or commit")
    return _fixed_name(value)


_Until = Annotated[date | _Text, BeforeValidator(_day_or_name)]
_Kind = Literal["acknowledged", "unstable", "accepted"]


class ReviewedEntry(Section):
    """An entry: its operations (a name, or a pattern with ``*``, ``?`` and ``[...]``), author and reason."""

    operation: _Text
    benchmark: _Text = "*"
    reason: _Text
    by: _Text

    def covers_operation(self, benchmark: str, operation: str, measured: Collection[str]) -> bool:
        """Return whether the entry matches both names; case is significant.

        `measured`: the names of all operations. If ``self.operation`` is one of them, it is no pattern.
        """
        is_name = self.operation in measured
        covered = operation == self.operation if is_name else fnmatchcase(operation, self.operation)
        return covered and (benchmark == self.benchmark or fnmatchcase(benchmark, self.benchmark))


class Acknowledged(ReviewedEntry):
    """A known regression, until a day (inclusive), or until a version or commit is measured.

    `at_most`: the largest acknowledged loss, in percent of the median.
    """

    until: _Until
    at_most: Annotated[float, Field(gt=0)] | None = None


class Unstable(ReviewedEntry):
    """Operations that are too noisy to fail a build."""

    until: _Until | None = None


class Accepted(ReviewedEntry):
    """An intended change, since a version or commit; earlier measurements are no longer used as history."""

    since: Annotated[_Text, BeforeValidator(_fixed_name)]


class _AcknowledgedLoader(TextLoader):
    """Loads ``null`` and empty values as None, all others as text: a commit of digits is no number."""


_NULL = "tag:yaml.org,2002:null"
_AcknowledgedLoader.add_implicit_resolver(_NULL, re.compile("(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_AcknowledgedLoader.add_constructor(_NULL, lambda _loader, _node: None)


class AcknowledgedFile(Section):
    """The content of an acknowledgements file such as ``.perfjudge.yaml``: entries of three kinds."""

    acknowledged: tuple[Acknowledged, ...] = ()
    unstable: tuple[Unstable, ...] = ()
    accepted: tuple[Accepted, ...] = ()


@dataclass(frozen=True)
class Excuse:
    """The reason why a verdict does not fail a build."""

    kind: _Kind
    by: str
    reason: str
    until: str  # until, since: empty if unbounded
    since: str

    @property
    def summary(self) -> str:
        """The excuse as text, such as ``acknowledged by anna: known bug (until 2026-01-31)``."""
        # no entry has both
        span = f" (until {self.until})" if self.until else f" (since {self.since})" if self.since else ""
        verb = "called unstable" if self.kind == "unstable" else self.kind
        return f"{verb} by {self.by}: {self.reason}{span}"


@dataclass(frozen=True)
class Acknowledgements:
    """The entries of the file, applied to the compared revisions.

    `measured`: the names of the operations of all runs; see `ReviewedEntry.covers_operation`.
    InputError if an entry begins or ends at a branch of git that is no version of the compared runs.
    """

    path: Path
    content: AcknowledgedFile
    baseline: Revision
    target: Revision
    today: date
    measured: Collection[str]

    def __post_init__(self) -> None:
        versions = {*self.baseline.names, *self.target.names}
        for kind, entry in self._all_entries():
            for field in ("since", "until"):
                name = getattr(entry, field, None)
                may_be_branch = isinstance(name, str) and name not in versions
                if may_be_branch and _is_branch(name, self.target.directory):
                    place = f'{kind} "{entry.operation}" by {entry.by}'
                    raise InputError(f'{field}="{name}" {_FIXED}', file=self.path, place=place)

    def find_excuses(self, verdicts: Sequence[Verdict]) -> list[Excuse | None]:
        """Return the excuse of each verdict from the first entry that covers it, else None.

        A pass has none. Ignored are entries that have expired or do not apply to the compared revisions, and
        entries whose `at_most` is smaller than the loss of the worst median, as it is where that was 0.
        """
        return [None if verdict.verdict == "pass" else self._find_excuse(verdict) for verdict in verdicts]

    def _find_excuse(self, verdict: Verdict) -> Excuse | None:
        for kind, entry in self._all_entries():
            if not self._covers(entry, verdict.benchmark, verdict.operation) or self._is_over(entry):
                continue
            limit, moved = getattr(entry, "at_most", None), verdict.moved
            if limit is None or (moved is not None and 100 * -moved.change <= limit * _ROUNDING):
                until, since = (str(getattr(entry, name, None) or "") for name in ("until", "since"))
                return Excuse(kind, entry.by, entry.reason, until, since)
        return None

    def entry_notes(self, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """Yield notes on entries that match no operation, do not apply or end, or whose limit is exceeded."""
        for kind, entry in self._all_entries():
            name = f'{self.path}: {kind} "{entry.operation}" by {entry.by}'
            if not any(self._covers(entry, verdict.benchmark, verdict.operation) for verdict in verdicts):
                yield f"{name} matches no compared operation"
            elif not isinstance(entry, Accepted):
                if self._is_over(entry):
                    yield f"{name} has expired (until {entry.until})"
                    continue
                if isinstance(entry.until, str) and not self._is_known(entry.until):
                    yield f"{name} has not expired: {entry.until} is no compared version, and unknown to git"
                if isinstance(entry, Acknowledged) and (beyond := [*self._beyond_limit(entry, verdicts)]):
                    yield f"{name} does not cover {list_names(beyond)}: at_most is {entry.at_most:g}"
            elif not (self.baseline.contains_change(entry.since) or self.target.contains_change(entry.since)):
                yield f"{name} does not apply: neither side is known to contain {entry.since}"
            elif self._may_be_older(entry.since):
                yield f"{name} does not apply: the baseline's commit is unknown; --base-commit names it"

    def _beyond_limit(self, entry: Acknowledged, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """Yield operation and loss of each verdict that exceeds the `at_most` of `entry`, without excuse."""
        for verdict in verdicts:
            is_covered = self._covers(entry, verdict.benchmark, verdict.operation)
            if is_covered and verdict.verdict in {"fail", "unsure"} and self._find_excuse(verdict) is None:
                loss = "from 0" if verdict.moved is None else percent(-verdict.moved.change)
                yield f"{verdict.operation} ({loss})"

    def stale_operations(self, operations: Sequence[tuple[str, str]], run: Revision) -> set[tuple[str, str]]:
        """Return the `operations` whose results in `run`, an earlier run, predate an accepted change.

        `operations`: pairs of benchmark and operation. The baseline contains the change, `run` does not.
        """
        current = [entry for entry in self.content.accepted if self.baseline.contains_change(entry.since)]
        resets = [entry for entry in current if not run.contains_change(entry.since)]
        return {names for names in operations if any(self._covers(entry, *names) for entry in resets)}

    def _covers(self, entry: ReviewedEntry, benchmark: str, operation: str) -> bool:
        return entry.covers_operation(benchmark, operation, self.measured)

    def _all_entries(self) -> Iterator[tuple[_Kind, Acknowledged | Unstable | Accepted]]:
        return ((kind, entry) for kind in get_args(_Kind) for entry in getattr(self.content, kind))

    def _is_over(self, entry: Acknowledged | Unstable | Accepted) -> bool:
        """Return whether an entry does not apply; an accepted change applies only to its own step."""
        if isinstance(entry, Accepted):
            if self.baseline.contains_change(entry.since) or self._may_be_older(entry.since):
                return True
            return not self.target.contains_change(entry.since)
        if isinstance(entry.until, date):
            return self.today > entry.until
        return entry.until is not None and self.target.contains_change(entry.until)

    def _is_known(self, name: str) -> bool:
        """Return whether `name` is a version of a side, or a commit or tag of git."""
        is_version = self.baseline.is_at(name) or self.target.is_at(name)
        return is_version or _is_commit(name, self.target.directory)

    def _may_be_older(self, change: str) -> bool:
        """Return whether `change` is older than the target, and the commit of the baseline is unknown."""
        return not (self.baseline.is_known or self.baseline.is_at(change) or self.target.is_at(change))


def read_acknowledged(path: Path | None) -> tuple[Path, AcknowledgedFile]:
    """Return the path and the content of a YAML file of reviewed exceptions (acknowledged regressions, ...).

    `path` None: ``.perfjudge.yaml`` in the working directory. The content has entries of the kinds
    ``acknowledged, unstable, accepted``: none if the default file does not exist or a file is empty, and none
    of a kind that is missing or ``null``. InputError if a given file is missing, the file cannot be read, or
    an entry is wrong.
    """
    if path is None and not DEFAULT.exists():
        return DEFAULT, AcknowledgedFile()
    file = path or DEFAULT
    try:
        content = yaml_content(file, _AcknowledgedLoader) or {}
        if isinstance(content, dict):
            content = {kind: entries for kind, entries in content.items() if entries is not None}
        return file, AcknowledgedFile.model_validate(content)
    except ValidationError as exc:
        raise InputError(validation_message(exc), file=file) from exc
