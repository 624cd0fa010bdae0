"""A request for a profile becomes its answer."""

from __future__ import annotations

from collections.abc import Sequence

from data.errors import InputError
from serving.doors.bodies import Answered, request_of
from serving.fingerprints.command import Learning, predicted
from serving.fingerprints.inputs import asked, tables_of
from serving.fingerprints.json import answer
from serving.fingerprints.schemas import IrupRequest
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import profile


def answer_irup(body: bytes) -> Answered:
    """Profile the application of a request, and predict it on the machines that have no value of it.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    InputError
        If too little is left of the machines, the stressors or the application.
    """
    learning = Learning()
    question = asked(tables_of(request_of(body, IrupRequest)), learning.section)
    found = profile(question.measured, learning.section.profile, learning.seed)
    predictions: Sequence[Prediction] = ()
    warnings = list(question.warnings)
    try:
        predictions = predicted(question, learning)
    except InputError as exc:
        warnings.append(f"nothing is predicted: {exc}")
    return Answered.of(answer(found, predictions, warnings))
