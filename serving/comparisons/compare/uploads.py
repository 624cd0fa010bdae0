"""The endpoint ``/v1/comparisons/compare``: files of results, compared as by ``perfjudge compare``."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from data.comparisons.params import Measure
from data.comparisons.request import RequestPart
from data.errors import InputError, escape_invisible
from serving.comparisons.compare.command import CompareRequest
from serving.comparisons.compare.page import as_fragment
from serving.comparisons.compare.rows import ComparedSides, as_comment, as_compare_json
from serving.comparisons.model import Judge
from serving.http.bodies import Answered, request_of
from serving.http.schemas import Better, example_config

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


class ResultFile(RequestPart):
    """A file of results, in any format of ``perfjudge compare``."""

    name: Annotated[str, PlainValidator(_decode_name, json_schema_input_type=_Name)] = Field(
        description="Without directories; it is the version of the results if the content names none."
    )
    content: Annotated[bytes, PlainValidator(_decode_content, json_schema_input_type=_Base64)] = Field(
        description="Content of the file, in base64."
    )


_Files = Annotated[list[ResultFile], Field(max_length=MOST_FILES)]


class UploadedResults(RequestPart):
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
    content = json.loads(as_compare_json(compared))
    for form in uploaded.forms:
        text = as_comment(compared, "") if form == "markdown" else as_fragment(compared, "")
        content[form] = escape_invisible(text)
    judgement = compared.weighed.judgement
    return Answered(
        json.dumps(content, allow_nan=False).encode(),
        judgement,
        vectors=judgement.model_vectors,
        n_out_of_distribution=int(judgement.out_of_distribution().sum()),
    )


def compare_uploads(uploaded: UploadedResults, served: Judge) -> ComparedSides:
    """Return the result of ``perfjudge compare`` on uploaded files, without a file of acknowledgements.

    In messages, a file is ``baseline/NAME``, ``target/NAME`` or ``history/NAME``; the temporary copies are
    deleted. InputError if a file cannot be read, or the sides have nothing in common or cannot be compared;
    ModelError if the model computes a number that is not finite.
    """
    with TemporaryDirectory(prefix="perfjudge-") as scratch:

        def without_scratch(text: str) -> str:
            return re.sub(rf"{re.escape(scratch)}/(\w+)/\d+/", r"\1/", text)

        baseline, target, history = (
            _write_files(Path(scratch, side), getattr(uploaded, side))
            for side in ("baseline", "target", "history")
        )
        measure = Measure(better=uploaded.better)
        comparing = CompareRequest(
            baseline=baseline, target=target, history=history, served=served, measure=measure
        )
        try:
            compared = comparing.compare_sides()
        except InputError as exc:
            raise InputError(without_scratch(str(exc))) from exc
    sides = (without_scratch(compared.sides[0]), without_scratch(compared.sides[1]))
    return replace(compared, sides=sides, notes=tuple(map(without_scratch, compared.notes)))


def _write_files(directory: Path, uploaded: Sequence[ResultFile]) -> list[Path]:
    """Write each file into a new directory of its own, since names may occur twice; return their paths."""
    paths = []
    for number, file in enumerate(uploaded):
        path = directory / str(number) / file.name
        path.parent.mkdir(parents=True)
        path.write_bytes(file.content)
        paths.append(path)
    return paths
