"""Read perfjudge's JSON format for the results of one run, for users without a known tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat, ValidationError

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, read_content
from data.comparisons.formats.tools.recognition import Keys, tool_format
from data.comparisons.request import quick_reader
from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.documents import AS_WHOLE, JsonSection, validation_message
from data.tables.files import json_content, line_of_constant

_EXPECTED = '{"results": [{"benchmark", "operation", "machine", "unit", "better", "configurations": [...]}]}'


def _require_unicode(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds half a surrogate pair")
    return text


_Name = Annotated[str, AfterValidator(_require_unicode)]


class _RunConfiguration(JsonSection):
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS), AS_WHOLE] = 1
    samples: Annotated[list[FiniteFloat], Field(min_length=1)]


class _Result(JsonSection):
    benchmark: _Name
    operation: _Name
    machine: _Name = "unknown"
    unit: _Name = "unknown"
    better: Literal["lower", "higher"]
    configurations: Annotated[list[_RunConfiguration], Field(min_length=1)]


class _RunDocument(JsonSection):
    results: Annotated[list[_Result], Field(min_length=1)]


_decode_fast = quick_reader(_RunDocument)


@tool_format("run-json", Keys("results.configurations", "results.operation"))
def read_run_json(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of each configuration in perfjudge's own JSON format, in the order of the file.

    InputError if a file cannot be read, is not JSON or has a key twice; and, with the expected form in the
    message, if a key is unknown or a field is missing or invalid.
    """
    for path in source.files:
        content = read_content(path)
        for result in (_decode_fast(content) or _validate_document(path, content)).results:
            names = (result.unit, result.better, result.benchmark, result.machine)
            for configuration in result.configurations:
                threads = configuration.threads
                yield Measurement(result.operation, configuration.samples, *names, threads)


def _validate_document(path: Path, content: bytes) -> _RunDocument:
    try:
        return _RunDocument.model_validate(json_content(content.decode()))
    except ValidationError as exc:
        raise InputError(f"{validation_message(exc)} (expected {_EXPECTED})", file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"is not JSON ({exc})", file=path, line=line_of_constant(content, exc)) from exc
    except InputError as exc:
        raise exc.with_file(path) from exc
