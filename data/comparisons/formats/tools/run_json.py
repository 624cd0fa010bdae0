"""The results of one run in JSON of our own: what whoever has no such tool writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from pydantic import Field, FiniteFloat, ValidationError

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, bytes_of
from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.documents import AS_WHOLE, Given, require_unique_keys, said
from data.tables.files import json_content

_EXPECTED = '{"results": [{"benchmark", "operation", "machine", "unit", "better", "configurations": [...]}]}'


class _RunConfiguration(Given):
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS), AS_WHOLE] = 1
    samples: Annotated[list[FiniteFloat], Field(min_length=1)]


class _Result(Given):
    benchmark: str
    operation: str
    machine: str = "unknown"
    unit: str = "unknown"
    better: Literal["lower", "higher"]
    configurations: Annotated[list[_RunConfiguration], Field(min_length=1)]


class _RunDocument(Given):
    results: Annotated[list[_Result], Field(min_length=1)]


class RunPart(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part of a run that is whole and right, as it mostly is."""


class RunSamples(RunPart):
    """The samples at one number of threads."""

    samples: Annotated[list[float], msgspec.Meta(min_length=1)]
    threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_THREADS)] = 1


class RunResult(RunPart):
    """One operation."""

    benchmark: str
    operation: str
    better: Literal["lower", "higher"]
    configurations: Annotated[list[RunSamples], msgspec.Meta(min_length=1)]
    machine: str = "unknown"
    unit: str = "unknown"


class RunDocument(RunPart):
    """A run."""

    results: Annotated[list[RunResult], msgspec.Meta(min_length=1)]


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every configuration."""
    for path in source.files:
        content = bytes_of(path)
        for result in _quickly(content) or _carefully(path, content):
            names = (result.unit, result.better, result.benchmark, result.machine)
            for one in result.configurations:
                yield Measurement(result.operation, one.samples, *names, one.threads)


def _quickly(content: bytes) -> list[RunResult] | None:
    """Return what stands there; None if anything may be wrong with it."""
    try:
        results = msgspec.json.decode(content, type=RunDocument).results
        require_unique_keys(content)
    except (ValueError, RecursionError, InputError):
        return None
    return results


def _carefully(path: Path, content: bytes) -> list[_Result]:
    """Return the same, slowly; or say what is wrong."""
    try:
        return _RunDocument.model_validate(json_content(content.decode())).results
    except ValidationError as exc:
        raise InputError(f"{said(exc)} (expected {_EXPECTED})", file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    except InputError as exc:
        raise exc.within(path) from exc
