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
from numpy.typing import NDArray

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
    """The functions of a family for a champion/challenger test.

    Attributes
    ----------
    read : callable
        Reads a model from a directory, or raises.
    compare : callable
        Compares the candidate with the champion in a directory; None without a common case.
    track : callable
        Logs the candidate in MLflow, with these tags.
    refused : callable
        Returns why a candidate in a directory cannot be champion at all; empty if it can.
    """

    read: Callable[[Path], object]
    compare: Callable[[Path], Compared | None]
    track: Callable[[dict[str, str]], Tracked]
    refused: Callable[[Path], str] = lambda _: ""


@dataclass(frozen=True)
class Candidate:
    """A model that may become champion.

    Attributes
    ----------
    name, model : str
        The registered name, and the name in the family's catalogue.
    directory, metrics : Path
        Its files, and its family's metrics.json.
    means : callable
        Returns `Means`; called only if there is a test, as its imports are slow.
    """

    name: str
    model: str
    directory: Path
    metrics: Path
    means: Callable[[], Means]

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
        if reason is not None and _stays_readable(candidate, champion):
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


def _stays_readable(candidate: Candidate, champion: Version) -> bool:
    """Return whether the champion can be read; only tried if a dependency of reading has changed."""
    if champion.tags.get("readable") == _reading(candidate, champion):
        return True
    if _flaw(candidate.means().read, champion.files):
        return False
    _note_readable(candidate, champion)
    return True


def _reading(candidate: Candidate, champion: Version) -> str:
    """Return a digest of all that reading the champion depends on; files change with the code."""
    directories = [candidate.directory, *([champion.directory] if champion.directory else [])]
    files = [path for one in directories for path in sorted(one.rglob("*")) if path.is_file()]
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
    tags = _tags(candidate, champion, reason)
    tracked = means.track(tags)
    with downloaded(tracked.model_uri) as kept:
        # part of the tags from the start, because readers that follow the alias check it
        tags[DIGEST] = files_digest(kept)
        alias = register(candidate.name, tracked, tags, alias, champion.version if champion else "")
    found = version_of(candidate.name, alias)
    if found is None:
        raise InputError(f"MLflow does not know {candidate.name}@{alias}, which it was just told")
    reason = found.tags["reason"]
    if alias == CHAMPION:
        _note_readable(candidate, found)
        return f"{_called(found)} is champion: {reason}"
    # a person may have made another one champion meanwhile
    champion = version_of(candidate.name, CHAMPION)
    if champion is None:
        return f"there is no champion, {_called(found)} is challenger: {reason}"
    challenger = f"v{found.version} ({candidate.model}) is challenger"
    return f"{_called(champion)} stays champion, {challenger}: {reason}"


def _tags(candidate: Candidate, champion: Version | None, reason: str) -> dict[str, str]:
    metrics: dict[str, Any] = written(candidate.metrics, "evaluate")
    return {
        "evidence": candidate.evidence,
        "model": candidate.model,
        "data_digest": metrics["data"]["digest"],
        "seed": str(metrics["seed"]),
        "reason": reason,
        "judged_against": champion.version if champion and champion.present else "",
    }


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
    return CHALLENGER if compared.difference.worse else CHAMPION, _reason(compared, champion)


def _reason(compared: Compared, champion: Version) -> str:
    difference = compared.difference
    return (
        f"{'worse' if difference.worse else 'not worse'} than v{champion.version} on {compared.cases} "
        f"({compared.measure} {difference.observed:+.4f}, {difference.confidence:.0%} interval "
        f"{difference.low:+.4f} to {difference.high:+.4f})"
    )


#: The file next to a registered model with its out-of-fold predictions.
OOF = "oof.parquet"


@dataclass(frozen=True)
class Kept:
    """The log of a candidate, and of the models that it was chosen from.

    Attributes
    ----------
    data : dict
        The entry ``data`` of metrics.json.
    vectors : Path
        The training table.
    directory : Path
        The candidate's files.
    runs : sequence of TrackedRun
        The candidate's first, then the others, best first.
    oof : DataFrame
        The candidate's out-of-fold predictions.
    """

    family: str
    data: dict[str, Any]
    vectors: Path
    directory: Path
    runs: Sequence[TrackedRun]
    oof: pd.DataFrame

    def means(
        self, read: Callable[[Path], object], compare: Callable[[pd.DataFrame, pd.DataFrame], Compared | None]
    ) -> Means:
        """Return the functions for a test; `compare` takes the predictions of candidate and champion."""
        return Means(read, lambda champion: compare(self.oof, pd.read_parquet(champion / OOF)), self.track)

    def track(self, tags: dict[str, str]) -> Tracked:
        """Log the candidate with its files, and the other models that are not logged yet."""
        book = Logbook(self.family, self.data, self.vectors, tags["evidence"])
        known = book.known()
        for run in reversed(self.runs[1:]):
            if run.name not in known:
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

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
        both = own.merge(theirs[[*keys, "verdict"]], on=list(keys), suffixes=("", "_theirs"))
        failed, mine, other = (
            (both[column] == "fail").to_numpy(bool) for column in ("status", "verdict", "verdict_theirs")
        )
        if failed.all() or not failed.any():
            return None
        difference = paired_difference(failed, mine, other, _groups(both), **_drawn(how, seed))
        return Compared(difference, cases, "balanced accuracy")

    return compare


def by_errors(keys: Sequence[str], how: Promote, seed: int, cases: str) -> Compare:
    """Return a comparison by mean relative error; None without a common case.

    As `by_verdicts`; both frames have ``predicted``, the candidate's ``measured`` and ``group``.
    """

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
        both = own.merge(theirs[[*keys, "predicted"]], on=list(keys), suffixes=("", "_theirs"))
        if both.empty:
            return None
        mine, other = (
            (both[column] / both["measured"] - 1).abs().to_numpy(np.float64)
            for column in ("predicted", "predicted_theirs")
        )
        difference = paired_gain(mine, other, _groups(both), **_drawn(how, seed))
        return Compared(difference, cases, "mean error smaller by")

    return compare


def _groups(both: pd.DataFrame) -> NDArray[np.str_]:
    return both["group"].to_numpy(np.str_)


def _drawn(how: Promote, seed: int) -> dict[str, Any]:
    return {"resamples": how.resamples, "confidence": how.confidence, "seed": seed}
