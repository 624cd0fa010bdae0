"""The champion/challenger test, on out-of-fold predictions of both.

A champion can only be compared if its out-of-fold predictions are complete, and if the candidate's code and
the installed libraries can read it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version as version_of_library
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.errors import InputError
from data.params import Promote
from data.tables.documents import written
from data.tables.files import digest_of
from training.evaluation.paired_bootstrap import Difference, paired_difference, paired_gain
from training.registry.champions import (
    CHALLENGER,
    CHAMPION,
    DIGEST,
    FOREIGN,
    Tracked,
    Version,
    client,
    downloaded,
    files_digest,
    version_of,
)
from training.registry.promotion_history import register, settled, why, why_not
from training.registry.runs import Logbook, TrackedRun
from training.registry.stored import TRUSTED_TYPES

#: Exceptions from reading a model that is damaged, missing, or from other code.
UNREADABLE = (*FOREIGN, InputError, OSError)
#: Version of the content of runs in MLflow; with another number every model is logged and registered again.
RUNS = 2
_LIBRARIES = ("numpy", "scikit-learn", "skops", "xgboost-cpu")


@dataclass(frozen=True)
class Compared:
    """The difference between candidate and champion on the same cases; cases and measure in words."""

    difference: Difference
    cases: str
    measure: str


@dataclass(frozen=True)
class Means:
    """The functions of a family for a champion/challenger test."""

    read: Callable[[Path], object]  # reads a model from a directory, or raises
    #: Compares the candidate with the champion in a directory; None without a common case.
    compare: Callable[[Path], Compared | None]
    track: Callable[[dict[str, str]], Tracked]  # logs the candidate in MLflow, with these tags
    #: Returns why a candidate in a directory cannot be champion at all; empty if it can.
    refused: Callable[[Path], str] = lambda _: ""


@dataclass(frozen=True)
class Candidate:
    """A model that may become champion."""

    name: str  # the registered name
    model: str  # the name in the family's catalogue
    directory: Path
    metrics: Path  # metrics.json of its family
    means: Callable[[], Means]  # called only if there is a test, as its imports are slow

    @property
    def evidence(self) -> str:
        """Digest of the candidate's metrics and card, and of the format of its runs."""
        spoken = digest_of(self.metrics, self.directory / "card.json")
        return hashlib.sha256(f"{RUNS} {spoken}".encode()).hexdigest()


def promoted(candidate: Candidate) -> str:
    """Make the candidate champion unless it is worse; return the outcome and its reason in words.

    It takes milliseconds if this evidence was judged before, because the stage runs with every ``dvc repro``.
    Raises InputError if the candidate itself cannot be read.
    """
    settled(candidate.name)
    champion = version_of(candidate.name, CHAMPION)
    if champion is not None and champion.present:
        reason = _judged(candidate, champion)
        # the champion is only read if something that reading depends on has changed
        readable = reason is not None and champion.tags.get("readable") == _reading(candidate, champion)
        if reason is not None and not readable and not _flaw(candidate.means().read, champion.files):
            readable = True
            _note_readable(candidate, champion)
        if readable:
            return f"{_called(champion)} stands: {reason}"
    elif champion is None:
        refused = version_of(candidate.name, CHALLENGER)
        if refused is not None and refused.present and refused.tags.get("evidence") == candidate.evidence:
            return f"there is no champion, {_called(refused)} is challenger: {refused.tags['reason']}"
    return _contest(candidate, champion)


def _called(version: Version) -> str:
    return f"{version.name} v{version.version} ({version.tags['model']})"


def _judged(candidate: Candidate, champion: Version) -> str | None:
    """Return the reason if this evidence was already judged against this champion, else None."""
    if champion.tags.get("evidence") == candidate.evidence:
        return why(champion)
    challenger = version_of(candidate.name, CHALLENGER)
    if challenger is None or not challenger.present:
        return None
    judged = (challenger.tags.get("evidence"), challenger.tags.get("judged_against"))
    return why_not(challenger) if judged == (candidate.evidence, champion.version) else None


def _reading(candidate: Candidate, champion: Version) -> str:
    """Return a digest of all that reading the champion depends on; files change with the code."""
    directories = [candidate.directory, *([champion.directory] if champion.directory else [])]
    files = [path for folder in directories for path in sorted(folder.rglob("*")) if path.is_file()]
    rest = [digest_of(*files), *TRUSTED_TYPES, *map(version_of_library, _LIBRARIES)]
    return hashlib.sha256("\n".join(rest).encode()).hexdigest()


def _note_readable(candidate: Candidate, champion: Version) -> None:
    reading = _reading(candidate, champion)
    client().set_model_version_tag(champion.name, champion.version, "readable", reading)


def _flaw(read: Callable[[Path], object], files: Callable[[], AbstractContextManager[Path]]) -> str:
    """Return why a model cannot be read; empty if it can."""
    try:
        with files() as directory:
            read(directory)
    except UNREADABLE as exc:
        return _told(exc)
    return ""


def _told(exc: BaseException) -> str:
    return " ".join(f"{exc}".split()) or type(exc).__name__


def _contest(candidate: Candidate, champion: Version | None) -> str:
    means = candidate.means()
    flaw = _flaw(means.read, lambda: nullcontext(candidate.directory))
    if flaw:
        raise InputError(f"cannot be read; run train again ({flaw})", file=candidate.directory)
    alias, reason = _decision(candidate, means, champion)
    metrics: dict[str, Any] = written(candidate.metrics, "evaluate")
    tags = {
        "evidence": candidate.evidence,
        "model": candidate.model,
        "data_digest": metrics["data"]["digest"],
        "seed": str(metrics["seed"]),
        "reason": reason,
        "judged_against": champion.version if champion and champion.present else "",
    }
    tracked = means.track(tags)
    with downloaded(tracked.model_uri) as copy:
        # part of the tags from the start, because readers that follow the alias check it
        tags[DIGEST] = files_digest(copy)
        alias = register(candidate.name, tracked, tags, alias, champion.version if champion else "")
    version = version_of(candidate.name, alias)
    if version is None:
        raise InputError(f"MLflow has no {candidate.name}@{alias}, although it was registered just now")
    reason = version.tags["reason"]
    if alias == CHAMPION:
        _note_readable(candidate, version)
        return f"{_called(version)} is champion: {reason}"
    # a person may have made another one champion meanwhile
    champion = version_of(candidate.name, CHAMPION)
    if champion is None:
        return f"there is no champion, {_called(version)} is challenger: {reason}"
    challenger = f"v{version.version} ({candidate.model}) is challenger"
    return f"{_called(champion)} stays champion, {challenger}: {reason}"


def _decision(candidate: Candidate, means: Means, champion: Version | None) -> tuple[str, str]:
    """Return the alias of the candidate, and why: champion unless it is refused or worse."""
    refused = means.refused(candidate.directory)
    if refused:
        return CHALLENGER, refused
    if champion is None:
        return CHAMPION, "it is the first one"
    if not champion.present:
        return CHAMPION, f"the files of v{champion.version} are gone"
    try:
        with champion.files() as directory:
            means.read(directory)
            compared = means.compare(directory)
    except UNREADABLE as exc:
        return CHAMPION, f"v{champion.version} cannot be read any more ({_told(exc)})"
    if compared is None:
        return CHAMPION, f"v{champion.version} was judged on other cases"
    difference = compared.difference
    reason = (
        f"{'worse' if difference.worse else 'not worse'} than v{champion.version} on {compared.cases} "
        f"({compared.measure} {difference.observed:+.4f}, {difference.confidence:.0%} interval "
        f"{difference.low:+.4f} to {difference.high:+.4f})"
    )
    return CHALLENGER if difference.worse else CHAMPION, reason


#: The file next to a registered model with its out-of-fold predictions.
OOF = "oof.parquet"


@dataclass(frozen=True)
class Kept:
    """The log of a candidate, and of the models that it was chosen from."""

    family: str
    data: dict[str, Any]  # the entry ``data`` of metrics.json
    vectors: Path  # the training table
    directory: Path  # the candidate's files
    runs: Sequence[TrackedRun]  # the candidate's first, then the others, best first
    oof: pd.DataFrame  # the candidate's out-of-fold predictions

    def means(
        self, read: Callable[[Path], object], compare: Callable[[pd.DataFrame, pd.DataFrame], Compared | None]
    ) -> Means:
        """Return the functions for a test; `compare` takes the predictions of candidate and champion."""
        return Means(read, lambda champion: compare(self.oof, pd.read_parquet(champion / OOF)), self.track)

    def track(self, tags: dict[str, str]) -> Tracked:
        """Log the candidate with its files, and the other models that are not logged yet."""
        book = Logbook(self.family, self.data, self.vectors, tags["evidence"])
        logged = book.known()
        for run in reversed(self.runs[1:]):
            if run.name not in logged:
                with book.logged(run):
                    pass
        with book.logged(self.runs[0]) as run_id, tempfile.TemporaryDirectory() as temporary:
            book.store.log_artifacts(run_id, str(self.directory), "model")
            path = Path(temporary) / OOF
            self.oof.to_parquet(path, index=False)
            book.store.log_artifact(run_id, str(path), "model")
        return Tracked(run_id, f"{book.store.get_run(run_id).info.artifact_uri}/model")


Compare = Callable[[pd.DataFrame, pd.DataFrame], Compared | None]


def by_verdicts(keys: Sequence[str], how: Promote, seed: int, cases: str) -> Compare:
    """Return a comparison by balanced accuracy; it returns None unless the common cases have both labels.

    `keys` identify a case; both frames have ``verdict``, the candidate's ``status`` and ``group``; the
    bootstrap draws whole groups. `cases` is a noun for the reason.
    """

    def compare_tables(candidate: pd.DataFrame, champion: pd.DataFrame) -> Compared | None:
        rows = candidate.merge(champion[[*keys, "verdict"]], on=list(keys), suffixes=("", "_champion"))
        failed, mine, other = (
            (rows[column] == "fail").to_numpy(bool) for column in ("status", "verdict", "verdict_champion")
        )
        if failed.all() or not failed.any():
            return None
        groups = rows["group"].to_numpy(np.str_)
        difference = paired_difference(failed, mine, other, groups, **_draws(how, seed))
        return Compared(difference, cases, "balanced accuracy")

    return compare_tables


def by_errors(keys: Sequence[str], how: Promote, seed: int, cases: str) -> Compare:
    """Return a comparison by mean relative error; None without a common case.

    As `by_verdicts`; both frames have ``predicted``, the candidate's ``measured`` and ``group``.
    """

    def compare_tables(candidate: pd.DataFrame, champion: pd.DataFrame) -> Compared | None:
        rows = candidate.merge(champion[[*keys, "predicted"]], on=list(keys), suffixes=("", "_champion"))
        if rows.empty:
            return None
        mine, other = (
            (rows[column] / rows["measured"] - 1).abs().to_numpy(np.float64)
            for column in ("predicted", "predicted_champion")
        )
        difference = paired_gain(mine, other, rows["group"].to_numpy(np.str_), **_draws(how, seed))
        return Compared(difference, cases, "mean error smaller by")

    return compare_tables


def _draws(how: Promote, seed: int) -> dict[str, Any]:
    return {"resamples": how.resamples, "confidence": how.confidence, "seed": seed}
