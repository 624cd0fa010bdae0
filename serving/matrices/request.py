"""Pairs of matrices: loading the model, judging, JSON requests as tables, and the endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

import data.matrices.formats as matrix_formats
import training.matrices.judging as matrix_judging
from data.errors import InputError, ModelError
from data.matrices.limits import MOST_METRICS
from data.matrices.params import Matrices
from data.matrices.tables import METADATA, SIDES, Floats, MatrixTables, StackedSides
from data.matrices.validity import TRANSACTIONS
from data.parallel import with_progress_bar
from data.tables.documents import validation_message
from data.tables.files import content_of
from data.tables.formats import Reading
from data.tables.problems import Problems, shorten_names
from serving.http.bodies import JSON, NAME, Answered, request_of, result_or_error
from serving.http.schemas import RefusedError
from serving.matrices.schemas import (
    MatricesAnswer,
    MatricesRequest,
    Matrix,
    MatrixVerdictAnswer,
    Pair,
    ServedMatrix,
)
from serving.models import Head, Served, Source
from serving.plugins import MEBIBYTE, Endpoint, Loader, Opinion, OpinionReaders, Registered
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.champions import project_params

Engine = Served[TrainedEngine]


def registered_name() -> str:
    """Return the name under which models of matrices are registered, from the project's params.yaml.

    It is the default if that file or its entry is missing. InputError if params.yaml is invalid.
    """
    return project_params(Matrices).section.promote.name


def _card_fields(described: Head | Engine) -> dict[str, Any]:
    card: EngineCard = described.card
    return {
        "estimator": card.entry,
        "features": [metric.metric for metric in card.metrics],
        "groups": card.groups,
        "own_models": card.own,
        "threshold": card.threshold,
        "risk_guarantee": None if card.risk_guarantee is None else asdict(card.risk_guarantee),
        "data_digest": card.data_digest,
    }


ENGINES = Source(registered_name, TrainedEngine.read, EngineCard.read, name_attribute="entry")
load = ENGINES.load
LOADER = Loader(registered_name, load, _card_fields, ServedMatrix, ENGINES.load_card)
#: Maximal number of raw metrics that a verdict names.
DRIVERS = 5
#: Seconds after which a progress bar is shown.
LONG = 2.0


def judge_tables(tables: MatrixTables, served: Engine, *, show_progress: bool = False) -> MatricesAnswer:
    """Return the answer with ``verdicts`` on all pairs of `tables`, in the order of their first runs.

    A pair that cannot be judged is ``invalid``. `show_progress`: show a progress bar on a terminal after two
    seconds. InputError if `tables` is empty, a run has no id, workload, group, pair or side, or repeats an
    id, or more metrics are missing than the model allows; ModelError if the model fails.
    """
    watch: matrix_judging.Watch = matrix_judging.without_progress
    if show_progress:
        watch = partial(with_progress_bar, title="pairs of matrices", after=LONG)
    judged = matrix_judging.judge_tables(served.model, tables, DRIVERS, watch)
    content = {"model": served.ref, **vars(judged), "risk_guarantee": served.model.card.risk_guarantee}
    return MatricesAnswer.model_validate(content, from_attributes=True)


#: Maximal numbers in the table of a request, which has a column per metric of any pair.
MOST_NUMBERS = 10_000_000


def read_request(path: Path) -> tuple[MatrixTables, list[str]]:
    """Return the matrices of a JSON file, and `unit_notes`.

    InputError if it is missing or not a valid request (see `tables_of`).
    """
    try:
        request = MatricesRequest.model_validate(content_of(path))
        return tables_of(request), unit_notes(request)
    except ValidationError as exc:
        raise InputError(validation_message(exc), file=path) from exc


def tables_of(request: MatricesRequest) -> MatrixTables:
    """Return the tables of a request; a pair may have runs on one side only.

    InputError if a pair's id is repeated, a pair has no run or its metrics differ in length
    (`require_sides`), or the request is too large (`require_bearable`).
    """
    seen = set[str]()
    for place, pair in enumerate(request.pairs):
        if pair.pair_id in seen:
            raise InputError(f'pair_id="{pair.pair_id}" occurs twice', place=f"pairs[{place}]")
        seen.add(pair.pair_id)
        require_sides(pair, f"pairs[{place}]")
    require_bearable(request)
    return stack_pairs(request)


def stack_pairs(request: MatricesRequest) -> MatrixTables:
    """Return the tables of a request; run ids are ``PAIR SIDE NUMBER``, numbered from 0 on each side.

    A metric that a run lacks is NaN. Not checked here: ids of pairs must be distinct, and each pair must pass
    `require_sides`.
    """
    names = _metric_names(request.pairs)
    sides = StackedSides(names)
    for pair, side, matrix in _sides(request.pairs):
        sides.add_side(_side_values(matrix, names), pair.pair_id, side, **side_metadata(pair, matrix))
    units = [{"metric": name, "unit": request.units[name]} for name in names if name in request.units]
    return MatrixTables.from_rows(sides.to_frame(), None, units)


def unit_notes(request: MatricesRequest) -> list[str]:
    """Return a note that names up to four units of metrics that no pair has; empty without such units."""
    # most requests have no units
    names = dict.fromkeys(_metric_names(request.pairs) if request.units else ())
    unused = [f'units["{name}"]' for name in request.units if name not in names]
    return [f"unused, as no pair has the metric: {shorten_names(unused)}"] if unused else []


def _metric_names(pairs: Sequence[Pair]) -> list[str]:
    names: dict[str, None] = {}
    for _, _, matrix in _sides(pairs):
        for columns in (matrix.metrics or {}, *(matrix.runs or ())):
            names |= dict.fromkeys(columns)
    return list(names)


def _sides(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, str, Matrix]]:
    return ((pair, side, getattr(pair, side)) for pair in pairs for side in SIDES)


def side_metadata(pair: Pair, side: Matrix) -> dict[str, str]:
    """Return workload, group, version and machine of a side, by default the pair's, else empty texts."""
    return {field: getattr(side, field) or getattr(pair, field) or "" for field in METADATA}


def require_sides(pair: Pair, place: str) -> None:
    """Raise an InputError with `place` if neither side has a run, or metrics of a side differ in length.

    `place` is the pair's place in the request, for the message.
    """
    if not _run_count(pair.baseline) and not _run_count(pair.target):
        problem = f'pair_id="{pair.pair_id}" has no run at all; expected those of both sides'
        raise InputError(problem, place=place)
    for _, side, matrix in _sides([pair]):
        runs = _run_count(matrix)
        for name, values in (matrix.metrics or {}).items():
            if len(values) != runs:
                problem = f"has {len(values)} values, where others have {runs}; expected one per run"
                raise InputError(problem, place=f'{place}.{side}.metrics["{name}"]')


def require_bearable(request: MatricesRequest) -> None:
    """Raise InputError if a request has over 10,000 metrics or 10,000,000 numbers (runs times metrics)."""
    metrics = len(_metric_names(request.pairs))
    if metrics > MOST_METRICS:
        raise InputError(f"have {metrics} metrics; expected {MOST_METRICS} at most", place="pairs")
    runs = sum(_run_count(matrix) for _, _, matrix in _sides(request.pairs))
    if runs * metrics > MOST_NUMBERS:
        problem = f"have {runs} runs of {metrics} metrics; expected {MOST_NUMBERS} numbers at most"
        raise InputError(problem, place="pairs")


def _run_count(matrix: Matrix) -> int:
    if matrix.runs is not None:
        return len(matrix.runs)
    assert matrix.metrics, "the schema requires rows or columns"
    # most metrics have a value of every run
    return Counter(map(len, matrix.metrics.values())).most_common(1)[0][0]


def _side_values(matrix: Matrix, names: Sequence[str]) -> Floats:
    """Return the values of one side, shape (n_runs, n_names); NaN: not measured."""
    column = {name: number for number, name in enumerate(names)}
    values = np.full((_run_count(matrix), len(names)), np.nan)
    for row, run in enumerate(matrix.runs or ()):
        values[row, [column[name] for name in run]] = np.array(list(run.values()), np.float64)
    if matrix.metrics:
        measured = np.array(list(matrix.metrics.values()), np.float64)
        values[:, [column[name] for name in matrix.metrics]] = measured.T
    return values


def read_source(source: Path, *, keep_going: bool) -> Reading[MatrixTables]:
    """Return the matrices of a source (``tables``) with the errors of ``skipped`` runs and ``notes``.

    A source of no known format is read as a JSON request. In the format ``tables``, analysts' flags are
    ignored. InputError that names the file if it cannot be read or has no valid run or no metric, and without
    `keep_going` at the first wrong run.
    """
    try:
        if kind := matrix_formats.sniff_format(source):
            return matrix_formats.read_for_judging(kind, source, keep_going=keep_going)
        tables, notes = read_request(source)
        reading = matrix_formats.judgeable_runs(tables, source, Problems(keep_going))
        return replace(reading, notes=tuple(notes))
    except InputError as exc:
        raise exc.with_file(source) from exc


def answer_matrices(body: bytes, served: Engine) -> Answered:
    """Return the JSON answer to a request to judge pairs: verdicts in their order; ids may be repeated.

    Pairs that cannot be judged are ``invalid``: all if the model cannot use their metrics. RefusedError: 400
    if the body is not JSON, 422 if it is not a request, 413 if it has too many metrics, numbers or keys (see
    `require_bearable` and `parse_json`). ModelError if the model fails.
    """
    return _CheckedRequest.from_body(body).judge(served)


def answer_matrices_batch(bodies: Sequence[bytes], served: Engine) -> list[Answered | Exception]:
    """Answer several requests to judge pairs; return for each its answer, or its RefusedError or ModelError.

    Requests are judged together if that changes none of their answers.
    """
    requests = [result_or_error(partial(_CheckedRequest.from_body, body)) for body in bodies]
    answers: dict[int, Answered | Exception] = {}
    alike: dict[object, dict[int, _CheckedRequest]] = {}
    for number, request in enumerate(requests):
        if isinstance(request, Exception):
            answers[number] = request
        else:
            alike.setdefault(_causes(request.complete, served), {})[number] = request
    for group in alike.values():
        try:
            answers |= zip(group, _answer_together([*group.values()], served), strict=True)
        except (InputError, ModelError):
            # pairs that the model cannot judge must not fail the other requests
            for number, request in group.items():
                answers[number] = result_or_error(partial(request.judge, served))
    return [answers[number] for number in range(len(requests))]


def _answer_together(requests: Sequence[_CheckedRequest], served: Engine) -> list[Answered]:
    """Return the answers to requests with equal `_causes`; InputError, ModelError as judging."""
    pairs = [pair for request in requests for pair in request.complete.pairs]
    judged = _judge_complete(requests[0].complete.model_copy(update={"pairs": pairs}), served)
    verdicts = iter(judged.verdicts)
    return [request.complete_answer(judged, verdicts) for request in requests]


@dataclass(frozen=True)
class _CheckedRequest:
    """A request, its complete pairs, and the verdicts on the other pairs by their place."""

    n_pairs: int
    complete: MatricesRequest
    invalid: Mapping[int, MatrixVerdictAnswer]
    notes: Sequence[str]

    @classmethod
    def from_body(cls, body: bytes) -> _CheckedRequest:
        """Return the request; RefusedError: 400 no JSON, 422 no request, 413 too much."""
        request = request_of(body, MatricesRequest)
        try:
            require_bearable(request)
        except InputError as exc:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(exc)) from exc
        complete, invalid = list[Pair](), dict[int, MatrixVerdictAnswer]()
        for place, pair in enumerate(request.pairs):
            try:
                require_sides(pair, f"pairs[{place}]")
            except InputError as exc:
                invalid[place] = _invalid_verdict(pair, str(exc))
            else:
                complete.append(pair)
        selected = request.model_copy(update={"pairs": complete})
        return cls(len(request.pairs), selected, invalid, unit_notes(request))

    def judge(self, served: Engine) -> Answered:
        """Return the answer; all pairs are invalid if the model cannot use their metrics."""
        try:
            judged = _judge_complete(self.complete, served)
        except InputError as exc:
            verdicts = [_invalid_verdict(pair, str(exc)) for pair in self.complete.pairs]
            promised = served.model.card.risk_guarantee
            judged = MatricesAnswer.model_validate(
                {"model": served.ref, "verdicts": verdicts, "notes": [], "risk_guarantee": promised},
                from_attributes=True,
            )
        return self.complete_answer(judged, iter(judged.verdicts))

    def complete_answer(self, judged: MatricesAnswer, verdicts: Iterator[MatrixVerdictAnswer]) -> Answered:
        """Return the answer with the verdicts on all pairs, of which `verdicts` has the complete ones."""
        ordered = [self.invalid.get(place) or next(verdicts) for place in range(self.n_pairs)]
        answer = judged.model_copy(update={"verdicts": ordered, "notes": [*judged.notes, *self.notes]})
        return Answered.from_schema(answer, answer)


def _causes(request: MatricesRequest, served: Engine) -> object:
    """Return all of a request that affects verdicts and notes on other pairs of the same table.

    Notes depend on metrics, units and unknown groups. The usual transaction count of a workload, and whether
    a metric without the flag ``signed`` may be negative, follow from all runs: a request in which a workload
    has several counts, or such a metric a negative value, is equal to no other.
    """
    card, names, measured = served.model.card, _metric_names(request.pairs), set[str]()
    flagged = {metric.metric for metric in card.metrics if metric.signed is not None}
    groups, counts, is_negative = dict[str, None](), set[tuple[str, float]](), False
    for pair, _, matrix in _sides(request.pairs):
        about = side_metadata(pair, matrix)
        values_of = {name: [v for v in values if v is not None] for name, values in _columns(matrix)}
        measured |= {name for name, values in values_of.items() if values}
        is_negative |= any(
            min(values, default=0) < 0 for name, values in values_of.items() if name not in flagged
        )
        counts |= {(about["workload"], count) for count in values_of.get(TRANSACTIONS, ())}
        if _run_count(matrix):
            groups[about["group"]] = None
    units = [(name, request.units[name]) for name in names if name in request.units]
    strange = [group for group in groups if group not in card.groups]
    is_alone = is_negative or len({workload for workload, _ in counts}) < len(counts)
    notes = tuple(names), tuple(units), frozenset(names) - measured, tuple(strange), not request.pairs
    return notes, frozenset(counts), id(request) if is_alone else None


def _columns(matrix: Matrix) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the values of each metric; a metric that a run lacks has fewer values."""
    by_name: dict[str, list[float | None]] = {}
    for run in matrix.runs or ():
        for name, value in run.items():
            by_name.setdefault(name, []).append(value)
    yield from (matrix.metrics or by_name).items()


def answer_opinions(_media_type: str, content: bytes) -> list[Opinion]:
    """Return an opinion on each pair in a JSON answer, in its order.

    It has the pair's id (``case``) and workload (``about``), ``verdict`` and ``probability``, None for
    ``invalid`` pairs. ValueError if `content` is no such answer.
    """
    verdicts = MatricesAnswer.model_validate_json(content).verdicts
    return [Opinion(pair.pair_id, pair.workload, pair.verdict, pair.probability) for pair in verdicts]


def request_opinions(media_type: str, body: bytes, served: Engine) -> list[Opinion]:
    """Return an opinion of `served` on each pair of a request, in its order.

    It has ``case`` (the pair's id), ``about`` (workload), ``verdict`` and ``probability``. `body` is JSON;
    `media_type` is ignored. Pairs that cannot be judged are ``invalid``, with the probability None.
    RefusedError: 400 if the body is not JSON, 422 if it is not a request, 413 if it has too many metrics,
    numbers or keys; ModelError if the model fails.
    """
    return answer_opinions(media_type, answer_matrices(body, served).content)


def _judge_complete(request: MatricesRequest, served: Engine) -> MatricesAnswer:
    """Judge complete pairs; InputError if the model cannot use their metrics."""
    # ids may be repeated
    numbered = [pair.model_copy(update={"pair_id": str(place)}) for place, pair in enumerate(request.pairs)]
    tables = stack_pairs(request.model_copy(update={"pairs": numbered}))
    judged = judge_tables(matrix_formats.judgeable_runs(tables, NAME, Problems()).tables, served)
    verdicts = map(_under_id, judged.verdicts, (pair.pair_id for pair in request.pairs))
    return judged.model_copy(update={"verdicts": list(verdicts)})


def _under_id(verdict: MatrixVerdictAnswer, pair_id: str) -> MatrixVerdictAnswer:
    """Return a copy with another id of the pair, also in the ids of its runs."""
    runs = [
        run.model_copy(update={"run_id": f"{pair_id}{run.run_id.removeprefix(verdict.pair_id)}"})
        for run in verdict.invalid_runs
    ]
    return verdict.model_copy(update={"pair_id": pair_id, "invalid_runs": runs})


def _invalid_verdict(pair: Pair, reason: str) -> MatrixVerdictAnswer:
    about = side_metadata(pair, pair.target)
    verdict = matrix_judging.MatrixVerdict(
        pair_id=pair.pair_id,
        workload=about["workload"],
        group=about["group"],
        reason=reason,
        baseline_runs=_run_count(pair.baseline),
        target_runs=_run_count(pair.target),
    )
    return MatrixVerdictAnswer.model_validate(verdict, from_attributes=True)


def matrix_endpoints(model: Registered) -> list[Endpoint]:
    """Return a list with the endpoint ``/v1/matrices/judge``, which uses this registered model."""
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
            handle_batch=answer_matrices_batch,
            batch_in_thread=True,
            shadow=OpinionReaders(answer_opinions, request_opinions),
        )
    ]
