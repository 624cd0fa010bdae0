"""A request to judge matrices becomes its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus

from data.errors import InputError
from data.matrices import formats as matrix_formats
from data.tables.problems import Problems
from serving.http.bodies import NAME, Answered, request_of
from serving.http.schemas import RefusedError
from serving.matrices.judge import Engine, judge
from serving.matrices.request import metadata, require_bearable, require_sides, stacked
from serving.matrices.schemas import MatricesAnswer, MatricesRequest, MatrixVerdictAnswer, Pair
from serving.supply import Opinion


def answer_matrices(body: bytes, served: Engine) -> Answered:
    """Judge the pairs of a request; one that cannot be judged is invalid.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request, 413 if it holds too much.
    """
    request = request_of(body, MatricesRequest)
    try:
        require_bearable(request)
    except InputError as exc:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(exc)) from exc
    wrong = dict(_wrong(request.pairs))
    sound = [pair for place, pair in enumerate(request.pairs) if place not in wrong]
    found = _judged(request.model_copy(update={"pairs": sound}), served)
    judged = iter(found.verdicts)
    told = [
        _invalid(pair, wrong[place]) if place in wrong else next(judged)
        for place, pair in enumerate(request.pairs)
    ]
    answer = found.model_copy(update={"verdicts": told})
    return Answered.of(answer, answer)


def given(_media_type: str, content: bytes) -> list[Opinion]:
    """Return what an answer says of each pair."""
    verdicts = MatricesAnswer.model_validate_json(content).verdicts
    return [Opinion(one.pair_id, one.workload, one.verdict, one.probability) for one in verdicts]


def asked(media_type: str, body: bytes, served: Engine) -> list[Opinion]:
    """Return what a model says of each pair of a request; raises as `answer_matrices`."""
    return given(media_type, answer_matrices(body, served).content)


def _wrong(pairs: Sequence[Pair]) -> Iterator[tuple[int, str]]:
    """Yield the places of pairs that have no place in tables, and why."""
    for place, pair in enumerate(pairs):
        try:
            require_sides(pair, f"pairs[{place}]")
        except InputError as exc:
            yield place, str(exc)


def _judged(request: MatricesRequest, served: Engine) -> MatricesAnswer:
    """Judge pairs with whole sides; all are invalid if the model can do nothing with what they have."""
    nothing = MatricesAnswer(model=served.ref.answer, verdicts=[], notes=[])
    if not request.pairs:
        return nothing
    tables = stacked(request.model_copy(update={"pairs": _apart(request.pairs)}))
    try:
        found = judge(matrix_formats.asked(tables, NAME, Problems()).tables, served)
    except InputError as exc:
        return nothing.model_copy(update={"verdicts": [_invalid(pair, str(exc)) for pair in request.pairs]})
    named = [
        one.model_copy(update={"pair_id": pair.pair_id})
        for one, pair in zip(found.verdicts, request.pairs, strict=True)
    ]
    return found.model_copy(update={"verdicts": named})


def _apart(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs of which no two have the same name: the second "a" is called "a #2"."""
    taken, found = {pair.pair_id for pair in pairs}, dict[str, Pair]()
    for pair in pairs:
        name, number = pair.pair_id, 1
        while name in found or (number > 1 and name in taken):
            number += 1
            name = f"{pair.pair_id} #{number}"
        found[name] = pair.model_copy(update={"pair_id": name})
    return list(found.values())


def _invalid(pair: Pair, reason: str) -> MatrixVerdictAnswer:
    about = metadata(pair, pair.target)
    return MatrixVerdictAnswer(
        pair_id=pair.pair_id,
        workload=about["workload"],
        group=about["group"],
        group_used="",
        verdict="invalid",
        probability=None,
        threshold=None,
        reason=reason,
        baseline_runs=0,
        target_runs=0,
        invalid_runs=[],
        drivers=[],
        notes=[],
    )
