"""What ``perfjudge irup profile`` and ``irup diff`` do: read, learn, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data.errors import InputError
from data.fingerprints import formats as fingerprint_formats
from data.fingerprints.formats.machines_csv import RUNNING_TIME, Measure
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from features.fingerprints.matrix import Measured
from serving.answering import tell_skipped, write
from serving.fingerprints import json as irup_json
from serving.fingerprints import profile_page as irup_page
from serving.fingerprints import text as irup_text
from serving.fingerprints.inputs import Asked, asked, read_machines, with_application
from serving.supply import Counts
from training.fingerprints.differences import Difference, difference
from training.fingerprints.prediction import Prediction, predict
from training.fingerprints.profiles import Profile, profile

#: The seed of all that is drawn at random, unless another is given.
SEED = 20261121


@dataclass(frozen=True)
class Learning:
    """How profiles are learned.

    Attributes
    ----------
    measure : Measure
        What the values of a user's own file are.
    keep_going : bool
        Skip what is bad in the fingerprints, and say so on stderr.
    seed : int
    section : Fingerprints
        The knobs, which have the same defaults as in params.yaml.
    """

    measure: Measure = field(default_factory=lambda: Measure("", *RUNNING_TIME))
    keep_going: bool = False
    seed: int = SEED
    section: Fingerprints = field(default_factory=Fingerprints)


def learning(metric: str, better: str, seed: int | None, *, keep_going: bool) -> Learning:
    """Return how to learn, from what the user said.

    Raises
    ------
    InputError
        If the metric is empty.
    """
    if not metric.strip():
        raise InputError('--metric="" must say what the values are, such as "seconds"')
    return Learning(Measure("", metric.strip(), better), keep_going, SEED if seed is None else seed)


@dataclass(frozen=True)
class Shown:
    """How the answer is given.

    Attributes
    ----------
    form : {"text", "json", "html"}
    output : Path or None
        The file; None = standard output.
    """

    form: str
    output: Path | None


def profile_machines(
    machines: Path, application: str, learning: Learning, shown: Shown, *, predicting: bool
) -> int:
    """Tell what an application leans on, and return the exit code.

    Parameters
    ----------
    machines : Path
        Fingerprints in any format.
    application : str
        A CSV file, or the name of an application that was measured with the fingerprints.
    predicting : bool
        Also predict it on the machines that were only fingerprinted.

    Raises
    ------
    InputError
        If something cannot be read, or too little is left to learn from.
    """
    tables = _tables(machines, learning)
    question = asked(with_application(tables, application, learning.measure), learning.section)
    found = learned(question.measured, learning)
    predictions = predicted(question, learning) if predicting else ()
    if shown.form == "json":
        _give(irup_json.file_text(found, predictions, question.warnings), shown)
        return 0
    _tell(question.briefly)
    if shown.form == "html":
        _give(irup_page.profile_page(found, predictions, question.warnings), shown)
    else:
        _give(irup_text.profile_text(found, predictions, predicting=predicting), shown)
    return 0


def compare_profiles(
    a: str, b: str, machines: Path | None, learning: Learning, shown: Shown, *, fail_on_regression: bool
) -> int:
    """Tell whether two profiles differ, and return the exit code.

    Parameters
    ----------
    a, b : str
        Files that ``irup profile --json`` wrote, which hold what was learned from; or, with `machines`,
        applications as there.
    fail_on_regression : bool
        Exit with 1 if a stressor really moved and both profiles can be trusted.

    Raises
    ------
    InputError
        If something cannot be read, or too little is left to learn from.
    """
    first, second = _pair(a, b, machines, learning)
    found = difference(first, second, learning.section.profile, learning.seed)
    _give(_DIFFERENCES[shown.form](found), shown)
    return 1 if fail_on_regression and relied_upon(found) else 0


_DIFFERENCES: dict[str, Callable[[Difference], str]] = {
    "text": irup_text.difference_text,
    "json": irup_json.difference_text,
    "html": irup_page.difference_page,
}


def relied_upon(found: Difference) -> bool:
    """Tell whether something moved, and nothing speaks against the test."""
    return found.significant and not found.reasons


def learned(measured: Measured, learning: Learning) -> Profile:
    """Learn what the application leans on."""
    return profile(measured, learning.section.profile, learning.seed)


def predicted(question: Asked, learning: Learning) -> Sequence[Prediction]:
    """Predict the application on the machines that have no value of it.

    Raises
    ------
    InputError
        If there are such machines, and the application was measured on one CPU model only.
    """
    machines, rates = question.only_fingerprinted()
    if not len(machines):
        return ()
    confidence = learning.section.profile.confidence
    return predict(question.measured, machines, rates, confidence, learning.seed)


def _pair(a: str, b: str, machines: Path | None, learning: Learning) -> tuple[Profile, Profile]:
    """Learn both profiles, over the stressors that both have."""
    if machines is None:
        pair = irup_json.read(Path(a)), irup_json.read(Path(b))
    else:
        pair = _measured_pair(a, b, _tables(machines, learning), learning)
    common = [column for column in pair[0].columns if column in pair[1].columns]
    if not common:
        raise InputError("the two profiles have no stressor in common", place=f'"{a}" and "{b}"')
    first, second = (
        learned(side.only([side.columns.index(column) for column in common]), learning) for side in pair
    )
    return first, second


def _measured_pair(
    a: str, b: str, tables: FingerprintTables, learning: Learning
) -> tuple[Measured, Measured]:
    questions = [asked(with_application(tables, name, learning.measure), learning.section) for name in (a, b)]
    _tell(tuple(dict.fromkeys(line for question in questions for line in question.briefly)))
    return questions[0].measured, questions[1].measured


def _tables(machines: Path, learning: Learning) -> FingerprintTables:
    tables, skipped = read_machines(machines, keep_going=learning.keep_going)
    tell_skipped(skipped)
    return tables


def _tell(warnings: Sequence[str]) -> None:
    for warning in warnings:
        sys.stderr.write(f"{warning}\n")


def _give(text: str, shown: Shown) -> None:
    write(text.encode(), shown.output)


def imported(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the tables of fingerprints to `directory`; errors as of `data.fingerprints.formats.read`."""
    reading = fingerprint_formats.read(kind, sources, keep_going=keep_going)
    reading.tables.write(directory)
    tables = reading.tables
    rows = {
        "machines": tables.machines["machine"].nunique(),
        "rates": len(tables.machines),
        "applications": tables.applications["application"].nunique(),
        "values": len(tables.applications),
    }
    return Counts(rows, reading.skipped)
