"""Pairs of matrices in JSON become tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

import data.matrices.formats as matrix_formats
from data.errors import InputError
from data.matrices.limits import MOST_METRICS
from data.matrices.tables import METADATA, SIDES, MatrixTables, StackedSides
from data.tables.documents import said
from data.tables.files import content_of
from data.tables.formats import Reading
from data.tables.problems import Problems
from serving.http.bodies import JSON, NAME, Answered, request_of
from serving.http.schemas import RefusedError
from serving.matrices.judge import LOADER, Engine, judge
from serving.matrices.schemas import MatricesAnswer, MatricesRequest, Matrix, MatrixVerdictAnswer, Pair
from serving.supply import MEBIBYTE, Endpoint, Opinion, Registered, ShadowSupply

#: Most numbers of a request once it is a table, since a metric of one pair is a column of all.
MOST_NUMBERS = 10_000_000


def read_request(path: Path) -> MatrixTables:
    """Read a file with a request."""
    try:
        return tables_of(MatricesRequest.model_validate(content_of(path)))
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc


def tables_of(request: MatricesRequest) -> MatrixTables:
    """Turn a request into tables; runs are called by pair, side and number."""
    seen = set[str]()
    for place, pair in enumerate(request.pairs):
        if pair.pair_id in seen:
            raise InputError(f'pair_id="{pair.pair_id}" stands twice', place=f"pairs[{place}]")
        seen.add(pair.pair_id)
        require_sides(pair, f"pairs[{place}]")
    require_bearable(request)
    return stacked(request)


def stacked(request: MatricesRequest) -> MatrixTables:
    """Turn a request into tables; its pairs must have distinct names and both sides."""
    names, sides = _names(request.pairs), StackedSides(_names(request.pairs))
    for pair in request.pairs:
        for side in SIDES:
            matrix: Matrix = getattr(pair, side)
            sides.add(_values(matrix, names), pair.pair_id, side, **metadata(pair, matrix))
    units = [{"metric": name, "unit": request.units[name]} for name in names if name in request.units]
    return MatrixTables.of_rows(sides.frame(), None, units)


def _names(pairs: Sequence[Pair]) -> list[str]:
    """Return all metric names, in order of first occurrence."""
    found: dict[str, None] = {}
    for matrix in (matrix for pair in pairs for matrix in (pair.baseline, pair.target)):
        found |= dict.fromkeys(matrix.metrics or {})
        for run in matrix.runs or ():
            found |= dict.fromkeys(run)
    return list(found)


def metadata(pair: Pair, side: Matrix) -> dict[str, str]:
    """Return the metadata of a side, with the pair's values as defaults."""
    return {field: getattr(side, field) or getattr(pair, field) or "" for field in METADATA}


def require_sides(pair: Pair, place: str) -> None:
    """Raise an InputError if a pair has no run at all, or columns that differ in length."""
    if not _count(pair.baseline) and not _count(pair.target):
        told = f'pair_id="{pair.pair_id}" has no run at all; expected those of both sides'
        raise InputError(told, place=place)
    for side in SIDES:
        matrix: Matrix = getattr(pair, side)
        for name, given in (matrix.metrics or {}).items():
            if len(given) != _count(matrix):
                told = f"has {len(given)} values, where others have {_count(matrix)}; expected one per run"
                raise InputError(told, place=f'{place}.{side}.metrics["{name}"]')


def require_bearable(request: MatricesRequest) -> None:
    """Raise an InputError if a request has too many metrics or numbers for memory."""
    pairs, metrics = request.pairs, len(_names(request.pairs))
    if metrics > MOST_METRICS:
        raise InputError(f"have {metrics} metrics; expected {MOST_METRICS} at most", place="pairs")
    runs = sum(_count(matrix) for pair in pairs for matrix in (pair.baseline, pair.target))
    if runs * metrics > MOST_NUMBERS:
        told = f"have {runs} runs of {metrics} metrics; expected {MOST_NUMBERS} numbers at most"
        raise InputError(told, place="pairs")


def _count(matrix: Matrix) -> int:
    """Return how many runs a side has."""
    if matrix.runs is not None:
        return len(matrix.runs)
    assert matrix.metrics, "the schema wants columns where there are no rows"
    return len(next(iter(matrix.metrics.values())))


def _values(matrix: Matrix, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the runs of one side, runs x metrics; NaN where one was not measured."""
    column = {name: number for number, name in enumerate(names)}
    values = np.full((_count(matrix), len(names)), np.nan)
    for row, run in enumerate(matrix.runs or ()):
        values[row, [column[name] for name in run]] = np.array(list(run.values()), np.float64)
    for name, given in (matrix.metrics or {}).items():
        values[:, column[name]] = np.array(given, np.float64)
    return values


#: How the JSON of a request begins; that of comparisons begins with other keys.
_REQUEST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:pairs|units)"')
_BEGIN = 4096


def recognised(source: Path) -> bool:
    """Tell whether `source` holds matrices, in any format, or is a request."""
    if matrix_formats.sniff(source) is not None:
        return True
    try:
        with source.open("rb") as file:
            return _REQUEST.match(file.read(_BEGIN)) is not None
    except OSError:
        return False


def read(source: Path, *, keep_going: bool) -> Reading[MatrixTables]:
    """Read matrices that `recognised` found, as they are to be judged."""
    try:
        if kind := matrix_formats.sniff(source):
            return matrix_formats.read_asked(kind, source, keep_going=keep_going)

        return matrix_formats.asked(read_request(source), source, Problems(keep_going))
    except InputError as exc:
        raise exc.within(source) from exc


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
    """Return the verdict of an answer on each pair."""
    verdicts = MatricesAnswer.model_validate_json(content).verdicts
    return [Opinion(one.pair_id, one.workload, one.verdict, one.probability) for one in verdicts]


def asked(media_type: str, body: bytes, served: Engine) -> list[Opinion]:
    """Return a model's verdict on each pair of a request; raises as `answer_matrices`."""
    return given(media_type, answer_matrices(body, served).content)


def _wrong(pairs: Sequence[Pair]) -> Iterator[tuple[int, str]]:
    """Yield the places of pairs that have no place in tables, and why."""
    for place, pair in enumerate(pairs):
        try:
            require_sides(pair, f"pairs[{place}]")
        except InputError as exc:
            yield place, str(exc)


def _judged(request: MatricesRequest, served: Engine) -> MatricesAnswer:
    """Judge pairs that have both sides; all are invalid if the model cannot use their metrics."""
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
    """Return pairs with distinct names: a second "a" becomes "a #2"."""
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


def doors(model: Registered) -> list[Endpoint]:
    """Return the endpoint for pairs of matrices."""
    return [
        Endpoint(
            "/v1/matrices/judge",
            "judge_matrices",
            "Judge pairs of matrices: validity, group, verdict, and the raw metrics that drove it.",
            MatricesRequest,
            MatricesAnswer,
            {JSON: answer_matrices},
            32 * MEBIBYTE,
            model,
            LOADER,
            beside=ShadowSupply(given, asked),
        )
    ]
