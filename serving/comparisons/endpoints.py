"""The endpoints of comparisons and their model: verdicts in JSON or XML, and uploaded files of results."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from data.comparisons.params import Measure
from data.comparisons.posted import named_sides
from data.comparisons.request import EXAMPLE, JudgeRequest, read_request
from data.errors import InputError, MalformedError, ModelError, RepeatedError, escape_invisible
from data.tables.documents import JsonSection
from data.tables.problems import Problems
from data.tables.xml_stream import Document, WholeDocument
from serving.comparisons import MODEL, render
from serving.comparisons.compare.command import CompareRequest
from serving.comparisons.compare.rows import ComparedSides, as_comment, as_compare_json, as_fragment
from serving.comparisons.guarantees import decided_answer, guarantee_answer
from serving.comparisons.judge import Judgement, judge_sides, judge_tables
from serving.comparisons.model import Judge, load_judge, registered_name, retrospective_name, with_policy
from serving.comparisons.schemas import CompareAnswer, JudgeAnswer, ServedJudge
from serving.comparisons.xml.report import verdict_xml_bytes, xml_schema
from serving.http.bodies import (
    JSON,
    NAME,
    NOTES,
    Answered,
    limit_json_parts,
    limit_occurrences,
    parse_json,
    request_of,
    result_or_error,
)
from serving.http.schemas import Better, RefusedError, example_config
from serving.plugins import MEBIBYTE, Endpoint, Loader, Opinion, OpinionReaders
from training.evaluation.thresholds import VerdictCosts

#: Most values of a request that the fast decoder rejects: validating so many takes a second.
MOST_VALUES = 500_000
_UNUSUAL = (
    "values, and not all are as in most requests (a mistake, labels, numbers of threads with a decimal "
    "point, a byte order mark)"
)


class _RepeatedProblems(Problems):
    """Collects errors about repeated parts, which make comparisons invalid; raises all other errors."""

    def add(self, error: InputError) -> None:
        if not isinstance(error, RepeatedError):
            raise error
        self.skipped.append(error)


def answer_json(body: bytes, served: Judge) -> Answered:
    """Return the verdicts on the comparisons of a JSON request, as JSON, with explanations if requested.

    Answers of more than 100 comparisons have no counterfactuals. Raises RefusedError with status 400 if the
    body is not JSON, 413 if it is too large (see `limit_json_parts`, `MOST_VALUES`), 409 if the model cannot
    guarantee a requested rate, or correct for a base rate or estimate it; InputError if the request is
    invalid; ModelError if the model computes a number that is not finite.
    """
    return _answer_request(_read_body(body), served)


def answer_many(bodies: Sequence[bytes], served: Judge) -> list[Answered | Exception]:
    """Judge the comparisons of several JSON requests at once; return an answer or error for each, in order.

    An error is a RefusedError, InputError or ModelError, as `answer_json` would raise it; it does not affect
    the other requests.
    """
    requests = [result_or_error(partial(_read_body, body)) for body in bodies]
    readable = {row: request for row, request in enumerate(requests) if not isinstance(request, Exception)}
    # requests with their own decision policy are judged separately
    usual = {row: request for row, request in readable.items() if not _has_policy(request)}
    answers: dict[int, Answered | Exception] = {
        row: request for row, request in enumerate(requests) if isinstance(request, Exception)
    }
    for explain in (False, True):
        batch = {row: request for row, request in usual.items() if request.explain == explain}
        if not batch:
            continue
        comparisons = [comparison for request in batch.values() for comparison in request.comparisons]
        # comparisons that the model cannot judge must not fail the other requests
        with suppress(ModelError):
            judgement = judge_sides(named_sides(comparisons), served)
            model = render.model_json(judgement)
            parts = judgement.split_groups([len(request.comparisons) for request in batch.values()])
            answered = [_json_answer(part, explain=explain, model=model) for part in parts]
            answers |= zip(batch, answered, strict=True)
    for row in readable.keys() - answers.keys():
        answers[row] = result_or_error(partial(_answer_request, readable[row], served))
    return [answers[row] for row in range(len(requests))]


def _answer_request(request: JudgeRequest, served: Judge) -> Answered:
    return _json_answer(_judge_request(request, served), explain=request.explain)


def _judge_request(request: JudgeRequest, served: Judge) -> Judgement:
    posted, named = request.costs, named_sides(request.comparisons)
    costs = None
    if posted is not None:
        costs = VerdictCosts(posted.false_negative, posted.false_positive, posted.review)
    try:
        served = with_policy(served, request.max_false_negative_rate, request.max_false_positive_rate, costs)
        if request.base_rate is not None:
            return judge_sides(named, served, base_rate=request.base_rate)
    except InputError as exc:
        raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc
    return judge_sides(named, served)


def _has_policy(request: JudgeRequest) -> bool:
    limits = request.max_false_negative_rate, request.max_false_positive_rate
    return (*limits, request.costs, request.base_rate) != (None,) * 4


def _read_body(body: bytes) -> JudgeRequest:
    limit_json_parts(body)
    request = read_request(body)
    if request is None:
        from data.comparisons.formats.comparison_json import checked_request

        limit_occurrences(body, (b",",), MOST_VALUES, _UNUSUAL)
        request = checked_request(parse_json(body), NAME)
    return request


def _json_answer(judgement: Judgement, *, explain: bool, model: str | None = None) -> Answered:
    flipped = len(judgement) <= render.FLIPPED
    content = render.as_json(judgement, explain=explain, flipped=flipped, model=model)
    return _answered(content.encode(), judgement)


def _answered(
    content: bytes, judgement: Judgement, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Answered:
    strange, vectors = int(judgement.out_of_distribution().sum()), judgement.model_vectors
    return Answered(content, judgement, media_type, headers or {}, vectors, strange)


def answer_xml(body: bytes, served: Judge) -> Answered:
    """Return the XML document `body` with verdicts as ``result_status`` and as detailed elements ``verdict``.

    The layout is that of the scheduler thesis, figure 6.1; notes on the input are in the header
    ``Perfjudge-Notes``. Answers of more than 100 comparisons have no counterfactuals. If an id occurs several
    times, the first comparison is judged, and the later ones get the status ``invalid`` without ``verdict``,
    as does a comparison in which two baselines or two targets have the same number of threads. RefusedError
    with status 400 if the body is not XML; InputError if it is not a valid request; ModelError if the model
    computes a number that is not finite.
    """
    from data.comparisons.formats.comparison_xml import tables_of, with_status

    problems = _RepeatedProblems()
    try:
        tables = tables_of(body, NAME, problems)
        if problems.skipped:
            note = "what occurs twice in the body, or has a number of threads twice, is invalid"
            problems.add_note(f"{note} ({len(problems.skipped)})")
        flipped = len(tables.comparisons) <= render.FLIPPED
        if not flipped:
            problems.add_note(render.UNFLIPPED)
        judgement = judge_tables(tables, served, notes=problems.notes)
        elements = verdict_xml_bytes(judgement, flipped=flipped)
        content = with_status(body, judgement.verdict_by_id, NAME, "invalid", elements)
    except MalformedError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    headers = {NOTES: "; ".join(judgement.notes)} if judgement.notes else {}
    return _answered(content, judgement, "application/xml", headers)


PATH = "/v1/comparisons/compare"
#: Most files of one side.
MOST_FILES = 1000
#: Most bytes of a name in a file system.
_LONGEST_NAME = 255


def _decode_name(name: object) -> str:
    """Return the name of a file; ValueError unless it is the name of a new file inside any directory."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/\\\x00-\x1f\x7f\ud800-\udfff]+", name):
        raise ValueError("is not the name of a file, without directories")
    if name in {".", ".."} or len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"is not the name of a file, of up to {_LONGEST_NAME} bytes")
    return name


def _decode_content(text: object) -> bytes:
    try:
        return b64decode(text, validate=True)  # type: ignore[arg-type] # anything but text is a TypeError
    except (TypeError, ValueError):
        raise ValueError("is not base64") from None


_Name = Annotated[str, Field(max_length=_LONGEST_NAME, pattern=r"^[^/\\\x00-\x1f\x7f]+$")]
_Base64 = Annotated[
    str, Field(pattern="^([A-Za-z0-9+/]{4})*", json_schema_extra={"contentEncoding": "base64"})
]


class ResultFile(JsonSection):
    """A file of results, in any format of ``perfjudge compare``."""

    name: Annotated[str, PlainValidator(_decode_name, json_schema_input_type=_Name)] = Field(
        description="Without directories; it is the version of the results if the content names none."
    )
    content: Annotated[bytes, PlainValidator(_decode_content, json_schema_input_type=_Base64)] = Field(
        description="Content of the file, in base64."
    )


_Files = Annotated[list[ResultFile], Field(max_length=MOST_FILES)]


class UploadedResults(JsonSection):
    """Files of results of two sides, and how to compare them."""

    model_config = example_config("serving.comparisons.compare")

    baseline: Annotated[list[ResultFile], Field(min_length=1, max_length=MOST_FILES)] = Field(
        description="Results before the change; several files are several runs."
    )
    target: _Files = Field(
        default=[],
        description="Results after the change; if empty, the two commands of a hyperfine file are compared.",
    )
    history: _Files = Field(
        default=[],
        description="Earlier runs of the baseline's branch, oldest first, or one file of versions.",
    )
    better: Better | None = Field(
        default=None, description="Better values, where the files do not say; null: higher."
    )
    forms: list[Literal["markdown", "html"]] = Field(
        default=[],
        description="Additional forms of the answer: a comment for a pull request, a part of a page.",
    )


def answer_files(body: bytes, served: Judge) -> Answered:
    """Return an answer with the JSON of ``perfjudge compare --json`` on the files of a JSON request.

    Forms that the request lists are added to the object as texts, ``markdown`` and ``html``. The file of
    acknowledgements of the server's directory is not read. Raises RefusedError with status 400 if the body is
    not JSON, 413 if it has more than 1,000,000 lists, objects and keys, 422 if it is not a valid request;
    InputError with the message of ``perfjudge compare`` if the files cannot be read or compared; ModelError
    if the model computes a number that is not finite.
    """
    uploaded = request_of(body, UploadedResults)
    compared = compare_uploads(uploaded, served)
    content, writers = json.loads(as_compare_json(compared)), {"markdown": as_comment, "html": as_fragment}
    content |= {form: escape_invisible(writers[form](compared, "")) for form in uploaded.forms}
    return _answered(json.dumps(content, allow_nan=False).encode(), compared.weighed.judgement)


def compare_uploads(uploaded: UploadedResults, served: Judge) -> ComparedSides:
    """Return the result of ``perfjudge compare`` on uploaded files, without a file of acknowledgements.

    In messages, a file is ``baseline/NAME``, ``target/NAME`` or ``history/NAME``; the temporary copies are
    deleted. InputError if a file cannot be read, or the sides have nothing in common or cannot be compared;
    ModelError if the model computes a number that is not finite.
    """
    with TemporaryDirectory(prefix="perfjudge-") as scratch:

        def without_scratch(text: str) -> str:
            return re.sub(rf"{re.escape(scratch)}/(\w+)/\d+/", r"\1/", text)

        comparing = CompareRequest(
            baseline=_write_files(Path(scratch, "baseline"), uploaded.baseline),
            target=_write_files(Path(scratch, "target"), uploaded.target),
            history=_write_files(Path(scratch, "history"), uploaded.history),
            served=served,
            measure=Measure(better=uploaded.better),
        )
        try:
            compared = comparing.compare_sides()
        except InputError as exc:
            raise InputError(without_scratch(str(exc))) from exc
    sides = (without_scratch(compared.sides[0]), without_scratch(compared.sides[1]))
    return replace(compared, sides=sides, notes=tuple(map(without_scratch, compared.notes)))


def _write_files(directory: Path, uploaded: Sequence[ResultFile]) -> list[Path]:
    """Write each file into a new directory of its own, since names may occur twice; return their paths."""
    paths = [directory / str(number) / file.name for number, file in enumerate(uploaded)]
    for path, file in zip(paths, uploaded, strict=True):
        path.parent.mkdir(parents=True)
        path.write_bytes(file.content)
    return paths


def comparison_endpoints() -> Sequence[Endpoint]:
    """Return the endpoints ``/v1/comparisons/judge`` (JSON, XML) and ``/v1/comparisons/compare`` (JSON)."""
    return [
        Endpoint(
            "/v1/comparisons/judge",
            "judge_comparisons",
            "Judge comparisons: JSON is answered in JSON, XML with ``result_status``, ``verdict`` filled in.",
            JudgeRequest,
            JudgeAnswer,
            {JSON: answer_json, "application/xml": answer_xml, "text/xml": answer_xml},
            64 * MEBIBYTE,
            MODEL,
            LOADER,
            other_body_schema=xml_schema(),
            other_answer_schema=xml_schema(answered=True),
            handle_batch=answer_many,
            refusals=(409,),
            shadow=OpinionReaders(_champion_opinions, _challenger_opinions),
        ),
        Endpoint(
            PATH,
            "compare_results",
            "Compare files of results of two sides; the answer equals that of ``perfjudge compare --json``.",
            UploadedResults,
            CompareAnswer,
            {JSON: answer_files},
            64 * MEBIBYTE,
            MODEL,
        ),
    ]


def _champion_opinions(media_type: str, content: bytes) -> list[Opinion]:
    if media_type != JSON:
        return list(_xml_opinions(content))
    return list(map(_verdict_opinion, json.loads(content)["verdicts"]))


def _challenger_opinions(media_type: str, body: bytes, served: Judge) -> list[Opinion]:
    """Judge a body without computing explanations, which take most of the time."""
    if media_type != JSON:
        return list(_xml_opinions(answer_xml(body, served).content))
    verdicts = _judge_request(_read_body(body), served).iterate_verdicts()
    return [_verdict_opinion(verdict._asdict()) for verdict in verdicts]


def _verdict_opinion(verdict: Mapping[str, Any]) -> Opinion:
    about = f"{verdict['benchmark']} {verdict['operation']}"
    return Opinion(verdict["comparison_id"], about, verdict["verdict"], verdict["probability"])


def _xml_opinions(content: bytes) -> Iterator[Opinion]:
    for result in WholeDocument(Document.from_bytes(content, "answer")).root.iter("comparison_result"):
        about = f"{result.get('benchmark_name', '')} {result.get('operation_name', '')}"
        verdict = result.find("verdict")
        probability = None if verdict is None else verdict.get("probability")
        number = None if probability is None else float(probability)
        name = result.get("comparison_id") or about
        yield Opinion(name, about, result.get("result_status", ""), number)


def _card_answer(served: Judge) -> dict[str, Any]:
    card = served.model.card
    return {
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.decision_thresholds.high,
        "unsure_from": card.decision_thresholds.low,
        "min_effect_size": card.min_effect_size,
        "set": card.feature_set,
        "decided": decided_answer(card),
        "risk_guarantee": None if card.risk_guarantee is None else guarantee_answer(card.risk_guarantee),
        "features": card.features,
        "data_digest": card.data_digest,
    }


def _require_probability(served: Judge) -> None:
    """Judge an example to warm up; ValueError if the result is not a probability."""
    answer_json(json.dumps(EXAMPLE).encode(), served)
    (probability,) = served.model.predict_probability(served.model.reference_features[None])
    if not 0 <= probability <= 1:
        raise ValueError(f"probability of {probability}")


LOADER = Loader(
    registered_name,
    load_judge,
    _card_answer,
    ServedJudge,
    trial=_require_probability,
    others=lambda: (retrospective_name(),),
)
