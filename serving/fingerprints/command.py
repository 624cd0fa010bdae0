"""What ``perfjudge irup profile`` and ``irup diff`` do: read, learn, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import data.fingerprints.formats as fingerprint_formats
from data.errors import InputError, one_line
from data.fingerprints.formats.typed_csv import RUNNING_TIME, ValueColumn
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.tables.problems import Problems
from serving.answering import tell_skipped, write
from serving.fingerprints import json as irup_json
from serving.fingerprints import profile_bars as irup_page
from serving.fingerprints.inputs import AskedApplication, asked, read_machines, tables_of, with_application
from serving.fingerprints.json import answer, nothing_learned
from serving.fingerprints.schemas import IrupRequest, ProfileAnswer
from serving.http.bodies import JSON, Answered, request_of
from serving.http.schemas import RefusedError
from serving.supply import MEBIBYTE, Counts, Endpoint
from training.fingerprints.differences import ProfileDifference, difference
from training.fingerprints.prediction import Prediction, predict
from training.fingerprints.profiles import Profile, profile

#: The seed of all that is drawn at random, unless another is given.
SEED = 20261121


@dataclass(frozen=True)
class Learning:
    """How profiles are learned."""

    measure: ValueColumn = field(default_factory=lambda: ValueColumn("", *RUNNING_TIME))
    keep_going: bool = False
    seed: int = SEED
    section: Fingerprints = field(default_factory=Fingerprints)


def learning(metric: str, better: str, seed: int | None, *, keep_going: bool) -> Learning:
    """Return the learning settings from the options; InputError if `metric` is empty."""
    if not metric.strip():
        raise InputError('--metric="" must say what the values are, such as "seconds"')
    return Learning(ValueColumn("", metric.strip(), better), keep_going, SEED if seed is None else seed)


def profile_machines(
    machines: Path, application: str, learning: Learning, *, form: str, output: Path | None, predicting: bool
) -> int:
    """Write the profile of an application as text, json or html, and return the exit code."""
    tables = _tables(machines, learning)
    question = asked(with_application(tables, application, learning.measure), learning.section)
    found = profile(question.measured, learning.section.profile, learning.seed)
    predictions = predicted(question, learning) if predicting else ()
    if form == "json":
        text = irup_json.file_text(found, predictions, question.warnings)
    else:
        _tell(question.briefly)
        if form == "html":
            text = irup_page.profile_page(found, predictions, question.warnings)
        else:
            text = irup_json.profile_text(found, predictions, predicting=predicting)
    write(text.encode(), output)
    return 0


def compare_profiles(
    a: str,
    b: str,
    machines: Path | None,
    learning: Learning,
    *,
    form: str,
    output: Path | None,
    fail_on_regression: bool,
) -> int:
    """Write the difference of two profiles as text, json or html, and return the exit code."""
    first, second = _pair(a, b, machines, learning)
    found = difference(first, second, learning.section.profile, learning.seed)
    write(_DIFFERENCES[form](found).encode(), output)
    return 1 if fail_on_regression and found.significant and not found.reasons else 0


_DIFFERENCES: dict[str, Callable[[ProfileDifference], str]] = {
    "text": irup_json.difference_lines,
    "json": irup_json.difference_text,
    "html": irup_page.difference_page,
}


def predicted(question: AskedApplication, learning: Learning) -> Sequence[Prediction]:
    """Predict the application on the machines that have no value of it."""
    machines, rates = question.only_fingerprinted()
    if not len(machines):
        return ()
    confidence = learning.section.profile.confidence
    return predict(question.measured, machines, rates, confidence, learning.seed)


def _pair(a: str, b: str, machines: Path | None, learning: Learning) -> tuple[Profile, Profile]:
    """Learn both profiles, over the stressors that both have."""
    if machines is None:
        sides = [irup_json.read(Path(name)) for name in (a, b)]
    else:
        tables = _tables(machines, learning)
        questions = [
            asked(with_application(tables, name, learning.measure), learning.section) for name in (a, b)
        ]
        _tell(dict.fromkeys(line for question in questions for line in question.briefly))
        sides = [question.measured for question in questions]
    common = [column for column in sides[0].columns if column in sides[1].columns]
    if not common:
        raise InputError("the two profiles have no stressor in common", place=f'"{a}" and "{b}"')
    alike = [side.only([side.columns.index(column) for column in common]) for side in sides]
    first, second = (profile(side, learning.section.profile, learning.seed) for side in alike)
    return first, second


def _tables(machines: Path, learning: Learning) -> FingerprintTables:
    tables, skipped = read_machines(machines, keep_going=learning.keep_going)
    tell_skipped(skipped)
    return tables


def _tell(warnings: Iterable[str]) -> None:
    sys.stderr.writelines(f"{one_line(warning)}\n" for warning in warnings)


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


def answer_irup(body: bytes) -> Answered:
    """Profile the application of a request, and predict it on the machines that have no value of it."""
    request, problems = request_of(body, IrupRequest), Problems(keep_going=True)
    try:
        tables = tables_of(request, problems)
    except InputError as exc:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(exc)) from exc
    warnings = [f"left out: {told}" for told in problems.skipped]
    try:
        return Answered.of(_learned(tables, warnings))
    except InputError as exc:
        return Answered.of(nothing_learned(request, str(exc), warnings))


def _learned(tables: FingerprintTables, warnings: Sequence[str]) -> ProfileAnswer:
    """Learn a profile; InputError if too little is left of the machines, the stressors or the application."""
    learning = Learning()
    question = asked(tables, learning.section)
    found = profile(question.measured, learning.section.profile, learning.seed)
    predictions: Sequence[Prediction] = ()
    told = [*warnings, *question.warnings]
    try:
        predictions = predicted(question, learning)
    except InputError as exc:
        told.append(f"nothing is predicted: {exc}")
    return answer(found, predictions, told)


def doors() -> list[Endpoint]:
    """Return the endpoint for profiles."""
    return [
        Endpoint(
            "/v1/irup",
            "profile_application",
            "Tell what an application leans on, how far that can be trusted, and predict it elsewhere.",
            IrupRequest,
            ProfileAnswer,
            {JSON: lambda body, _: answer_irup(body)},
            16 * MEBIBYTE,
            alone=True,
        )
    ]
