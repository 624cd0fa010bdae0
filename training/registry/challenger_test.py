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
from data.tables.documents import written
from data.tables.files import digest_of
from training.evaluation.paired_bootstrap import BootstrapSettings, Difference, paired_difference, paired_gain
from training.registry.champions import (
    CHALLENGER,
    CHAMPION,
    DIGEST,
    FOREIGN,
    Tracked,
    Version,
    client,
    download_files,
    files_digest,
    version_of,
)
from training.registry.promotion_history import (
    challenger_reason,
    champion_reason,
    register_version,
    sync_if_moved,
)
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
class ChallengerTest:
    """The functions of a family that read, compare and log a candidate for a champion/challenger test."""

    read: Callable[[Path], object]  # reads a model from a directory, or raises
    #: Compares the candidate with the champion in a directory; None without a common case, or else why the
    #: common cases cannot be compared.
    compare: Callable[[Path], Compared | str | None]
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
    means: Callable[[], ChallengerTest]  # called only if there is a test, as its imports are slow

    @property
    def evidence_digest(self) -> str:
        """SHA-256 of the candidate's metrics.json and card.json, and of the version `RUNS`."""
        spoken = digest_of(self.metrics, self.directory / "card.json")
        return hashlib.sha256(f"{RUNS} {spoken}".encode()).hexdigest()


def promote_candidate(candidate: Candidate) -> str:
    """Make the candidate champion if it is better; return the outcome and its reason in one line.

    It becomes champion if the whole interval of the difference is above zero; also if there is no champion,
    if the champion's files are gone or unreadable, or if both have no common cases. Otherwise, or if the
    family refuses it, it becomes challenger. Each test logs and registers the candidate in MLflow.

    The same evidence (card.json and metrics.json) is tested only once against a champion that can still be
    read, or without a champion if the challenger has it; then the earlier outcome is returned, as every
    ``dvc repro`` runs the stage. InputError if the candidate or metrics.json cannot be read, or the registry
    does not answer.
    """
    sync_if_moved(candidate.name)
    champion, challenger = (version_of(candidate.name, alias) for alias in (CHAMPION, CHALLENGER))
    evidence = candidate.evidence_digest
    if challenger and not (challenger.has_files and challenger.tags.get("evidence") == evidence):
        challenger = None
    if champion is None:
        if challenger is not None:
            return _without_champion(challenger)
    elif champion.has_files:
        earlier_reason = None
        if champion.tags.get("evidence") == evidence:
            earlier_reason = champion_reason(champion)
        elif challenger is not None and challenger.tags.get("judged_against") == champion.version:
            earlier_reason = challenger_reason(challenger)
        if earlier_reason is not None and _is_readable(candidate, champion):
            return f"{_version_title(champion)} stays champion: {earlier_reason}"
    return _run_challenger_test(candidate, champion)


def _without_champion(challenger: Version) -> str:
    return f"there is no champion, {_version_title(challenger)} is challenger: {challenger.tags['reason']}"


def _version_title(version: Version) -> str:
    return f"{version.name} v{version.version} ({version.tags['model']})"


def _is_readable(candidate: Candidate, champion: Version) -> bool:
    if champion.tags.get("readable") == _reading_digest(candidate, champion):
        return True
    if _reading_problem(candidate.means().read, champion.open_files):
        return False
    _note_readable(candidate, champion)
    return True


def _reading_digest(candidate: Candidate, champion: Version) -> str:
    """Return a digest of all that reading the champion depends on; files change with the code."""
    directories = filter(None, (candidate.directory, champion.directory))
    files = [path for folder in directories for path in sorted(folder.rglob("*")) if path.is_file()]
    rest = [digest_of(*files), *TRUSTED_TYPES, *map(version_of_library, _LIBRARIES)]
    return hashlib.sha256("\n".join(rest).encode()).hexdigest()


def _note_readable(candidate: Candidate, champion: Version) -> None:
    reading = _reading_digest(candidate, champion)
    client().set_model_version_tag(champion.name, champion.version, "readable", reading)


def _reading_problem(
    read: Callable[[Path], object], files: Callable[[], AbstractContextManager[Path]]
) -> str:
    try:
        with files() as directory:
            read(directory)
    except UNREADABLE as exc:
        return _one_line(exc)
    return ""


def _one_line(exc: BaseException) -> str:
    return " ".join(f"{exc}".split()) or type(exc).__name__


def _run_challenger_test(candidate: Candidate, champion: Version | None) -> str:
    means = candidate.means()
    flaw = _reading_problem(means.read, lambda: nullcontext(candidate.directory))
    if flaw:
        raise InputError(f"cannot be read; run train again ({flaw})", file=candidate.directory)
    alias, reason = _decide_alias(candidate, means, champion)
    metrics: dict[str, Any] = written(candidate.metrics, "evaluate")
    tags = {
        "evidence": candidate.evidence_digest,
        "model": candidate.model,
        "data_digest": metrics["data"]["digest"],
        "seed": str(metrics["seed"]),
        "reason": reason,
        "judged_against": champion.version if champion and champion.has_files else "",
    }
    tracked = means.track(tags)
    with download_files(tracked.model_uri) as copy:
        # part of the tags from the start, because readers that follow the alias check it
        tags[DIGEST] = files_digest(copy)
        alias = register_version(candidate.name, tracked, tags, alias, champion.version if champion else "")
    version = version_of(candidate.name, alias)
    if version is None:
        raise InputError(f"MLflow has no {candidate.name}@{alias}, although it was registered just now")
    reason = version.tags["reason"]
    if alias == CHAMPION:
        _note_readable(candidate, version)
        return f"{_version_title(version)} is champion: {reason}"
    # a person may have made another one champion meanwhile
    champion = version_of(candidate.name, CHAMPION)
    if champion is None:
        return _without_champion(version)
    challenger = f"v{version.version} ({candidate.model}) is challenger"
    advice = f"perfjudge promote {candidate.name} {version.version} --reason ... replaces it nevertheless"
    return f"{_version_title(champion)} stays champion, {challenger}: {reason}; {advice}"


def _decide_alias(candidate: Candidate, means: ChallengerTest, champion: Version | None) -> tuple[str, str]:
    refused = means.refused(candidate.directory)
    if refused:
        return CHALLENGER, refused
    if champion is None or not champion.has_files:
        gone = f"the files of v{champion.version} are gone" if champion else ""
        return CHAMPION, gone or "no champion was registered before"
    try:
        with champion.open_files() as directory:
            means.read(directory)
            compared = means.compare(directory)
    except UNREADABLE as exc:
        return CHAMPION, f"v{champion.version} cannot be read any more ({_one_line(exc)})"
    if compared is None:
        return CHAMPION, f"v{champion.version} was judged on other cases"
    if isinstance(compared, str):
        return CHALLENGER, f"cannot be compared with v{champion.version}: {compared}"
    difference = compared.difference
    word = "better" if difference.is_better else "not significantly better"
    reason = (
        f"{'worse' if difference.is_worse else word} than v{champion.version} on {compared.cases} "
        f"({compared.measure} {difference.observed:+.4f}, {difference.confidence:.0%} interval "
        f"{difference.low:+.4f} to {difference.high:+.4f})"
    )
    return CHAMPION if difference.is_better else CHALLENGER, reason


#: The file next to a registered model with its out-of-fold predictions.
OOF = "oof.parquet"
Compare = Callable[[pd.DataFrame, pd.DataFrame], Compared | str | None]


@dataclass(frozen=True)
class CandidateLog:
    """The data to log in MLflow about a candidate, and about the models that it was chosen from."""

    family: str
    data: dict[str, Any]  # the entry ``data`` of metrics.json
    vectors: Path  # the training table
    directory: Path  # the candidate's files
    runs: Sequence[TrackedRun]  # the candidate's first, then the others, best first
    oof: pd.DataFrame  # the candidate's out-of-fold predictions

    def make_test(self, read: Callable[[Path], object], compare: Compare) -> ChallengerTest:
        """Return the functions for a test: `read` reads a model from a directory, `compare` is called below.

        `compare` takes the out-of-fold predictions of the candidate, then of the champion. It returns None if
        they have no common case, and text if these cannot be compared.
        """
        from data.tables.parquet import read_written_table

        return ChallengerTest(
            read, lambda champion: compare(self.oof, read_written_table(champion / OOF)), self.log_candidate
        )

    def log_candidate(self, tags: dict[str, str]) -> Tracked:
        """Log the candidate with its files and `tags`, and the other models not logged yet on this evidence.

        Returns the candidate's run and the address of its files; `tags` must have ``evidence``.
        """
        book = Logbook(self.family, self.data, self.vectors, tags["evidence"])
        logged = book.logged_tags()
        for run in reversed(self.runs[1:]):
            if run.name not in logged:
                with book.log_run(run):
                    pass
        with book.log_run(self.runs[0]) as run_id, tempfile.TemporaryDirectory() as temporary:
            book.store.log_artifacts(run_id, str(self.directory), "model")
            path = Path(temporary) / OOF
            self.oof.to_parquet(path, index=False)
            book.store.log_artifact(run_id, str(path), "model")
        return Tracked(run_id, f"{book.store.get_run(run_id).info.artifact_uri}/model")


def compare_by_verdicts(keys: Sequence[str], how: BootstrapSettings, cases: str) -> Compare:
    """Return a function of two tables, (candidate, champion), that compares their balanced accuracy.

    It compares the rows that both have, by the columns `keys`, and returns None if there are no such rows, or
    text that names the missing label if all have the same one. Both tables have ``verdict``, the candidate's
    also ``status`` (the label), each "fail" or not, and ``group``, whose rows are drawn together. `cases` are
    the rows in words. The function raises IndexError if no draw has both labels.
    """

    def compare_tables(candidate: pd.DataFrame, champion: pd.DataFrame) -> Compared | str | None:
        rows = candidate.merge(champion[[*keys, "verdict"]], on=list(keys), suffixes=("", "_champion"))
        if rows.empty:
            return None
        failed, mine, other = (rows[["status", "verdict", "verdict_champion"]] == "fail").to_numpy(bool).T
        if failed.all() or not failed.any():
            return f'none of {cases} is labelled "{"pass" if failed.all() else "fail"}"'
        difference = paired_difference(failed, mine, other, rows["group"].to_numpy(np.str_), how)
        return Compared(difference, cases, "balanced accuracy")

    return compare_tables


def compare_by_errors(keys: Sequence[str], how: BootstrapSettings, cases: str) -> Compare:
    """Return a function of two tables, (candidate, champion), that compares mean relative errors.

    It compares the rows that both have, by the columns `keys`, and returns None if there are no such rows;
    the difference is the champion's mean error minus the candidate's. An error is the absolute value of
    predicted / measured - 1. Both tables have ``predicted``; the candidate's also has ``measured`` and
    ``group``, whose rows are drawn together. `cases` are the rows in words.
    """

    def compare_tables(candidate: pd.DataFrame, champion: pd.DataFrame) -> Compared | None:
        rows = candidate.merge(champion[[*keys, "predicted"]], on=list(keys), suffixes=("", "_champion"))
        if rows.empty:
            return None
        mine, other = (
            (rows[column] / rows["measured"] - 1).abs().to_numpy(np.float64)
            for column in ("predicted", "predicted_champion")
        )
        difference = paired_gain(mine, other, rows["group"].to_numpy(np.str_), how)
        return Compared(difference, cases, "mean error smaller by")

    return compare_tables
