"""A request for a profile becomes its answer."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from data.errors import InputError
from data.fingerprints.tables import FingerprintTables
from data.tables.problems import Problems
from serving.fingerprints.command import Learning, predicted
from serving.fingerprints.inputs import asked, tables_of
from serving.fingerprints.json import answer, nothing_learned
from serving.fingerprints.schemas import IrupRequest, ProfileAnswer
from serving.http.bodies import Answered, request_of
from serving.http.schemas import RefusedError
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import profile


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
