"""Comparisons in JSON, the format of requests to judge (``{"comparisons": [...]}`` in the design)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from data.comparisons.request import (
    Comparison,
    Configuration,
    FiveNumbers,
    JudgeRequest,
    PostedLabel,
    RequestPart,
    Version,
    versions_of,
)
from data.comparisons.tables import Builder, ComparisonTables, LabelRow, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN
from data.errors import InputError
from data.tables.documents import EXAMPLE_MOMENT, moment
from data.tables.problems import Problems, unknown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Given = TypeVar("Given", bound=RequestPart)
_QUOTED = 60
#: Pydantic's names of the two forms of samples.
_FORMS = ("list[float]", "list[list[float]]", "FiveNumbers")
#: The expected value by pydantic's error type; `_WRONG` has problems instead.
_EXPECTED = {
    "model_type": "an object",
    "list_type": "a list",
    "string_type": "a string",
    "literal_error": '"lower" or "higher"',
    "float_type": "a number",
    "finite_number": "a finite number",
} | dict.fromkeys(
    ("int_type", "int_from_float", "greater_than_equal", "less_than_equal"),
    f"a whole number from 1 to {MAX_THREADS}",
)
_OF_LABELS = {"status": '"pass", "fail" or "cannot_tell"', "labelled_at": f"a time like {EXAMPLE_MOMENT}"}
_WRONG = {
    "string_pattern_mismatch": "is empty",
    "string_unicode": "holds half a surrogate pair",
    "too_short": "is empty; expected at least one",
}


def tables_of(
    content: object, name: str = "request.json", problems: Problems | None = None, taken: Taken | None = None
) -> ComparisonTables:
    """Return the tables of a request that was loaded from JSON; `problems` receives skipped comparisons.

    The order of the baseline is the length of the longest history; the orders of its other versions, of the
    target's and of later versions follow. Versions have no names. Comparisons share no samples: from the
    second comparison of an operation on, the machine is called ``<machine> #2`` and so on. `taken` has the
    names that earlier requests used, and is extended.

    Raises
    ------
    InputError
        If there is no comparison, or, unless ``problems.keep_going``, at the first error.
    """
    taken, builder = taken or Taken(), Builder()
    request = _given(JudgeRequest, content, name, "")
    for place, comparison in _checked(request, name, problems or Problems(), taken):
        _add(comparison, f"{name} {place}", taken, builder)
    return builder.take()


def checked_request(content: object, name: str) -> JudgeRequest:
    """Return a request that was loaded from JSON, with each of its comparisons checked.

    Raises
    ------
    InputError
        At the first error.
    """
    request = _given(JudgeRequest, content, name, "")
    request.comparisons = [one for _, one in _checked(request, name, Problems(), None)]
    return request


def _checked(
    request: JudgeRequest, name: str, problems: Problems, taken: Taken | None
) -> Iterator[tuple[str, Comparison]]:
    """Yield each valid comparison of a request with its place; parameters and errors as of `tables_of`."""
    for index, given in enumerate(request.comparisons):
        place = f"comparisons[{index}]"
        try:
            comparison = _given(Comparison, given, name, place)
            # without `taken`, the caller handles repeated comparisons
            if taken is not None:
                _require_once(comparison, name, place, taken)
        except InputError as error:
            problems.add(error)
        else:
            yield place, comparison


@dataclass
class Taken:
    """The comparison ids and the machine names that are already in use."""

    identifiers: set[str] = field(default_factory=set)
    operations: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def machine(self, benchmark: str, operation: str, machine: str) -> str:
        """Return and reserve a name of `machine` that no earlier comparison of this operation uses."""
        key = name = (benchmark, operation, machine)
        while name in self.operations:
            self.operations[key] += 1
            name = (benchmark, operation, f"{machine} #{self.operations[key]}")
        self.operations[name] = 1
        return name[2]


def _require_once(comparison: Comparison, name: str, place: str, taken: Taken) -> None:
    """Raise an InputError for a repeated number of threads or identifier; else reserve the identifier."""
    seen: set[int] = set()
    for index, one in enumerate(comparison.configurations):
        if one.threads in seen:
            twice = f"{place}.configurations[{index}].threads {one.threads} stands twice"
            raise InputError(twice, file=name)
        seen.add(one.threads)
    identifier = comparison.comparison_id
    if identifier in taken.identifiers:
        raise InputError(f"{place}.comparison_id {_quoted(identifier)} stands twice", file=name)
    taken.identifiers.add(identifier)


def _add(comparison: Comparison, source: str, taken: Taken, builder: Builder) -> None:
    identifier, benchmark, operation = comparison.comparison_id, comparison.benchmark, comparison.operation
    machine = taken.machine(benchmark, operation, comparison.machine)
    configurations = comparison.configurations
    baseline = max((len(one.history) for one in configurations), default=0)
    target = baseline + max((len(versions_of(one.baseline)) for one in configurations), default=1)
    later = target + max((len(versions_of(one.target)) for one in configurations), default=1)
    last = max((len(one.later) for one in configurations), default=0)
    common = (benchmark, benchmark, operation, machine, comparison.unit, comparison.better)
    for one in configurations:
        series = Series(f"{identifier}/{one.threads}", *common, one.threads)
        for versions, first in (
            (one.history, baseline - len(one.history)),
            (versions_of(one.baseline), baseline),
            (versions_of(one.target), target),
            (one.later, later),
        ):
            for order, samples in enumerate(versions, first):
                _add_samples(samples, series, order, builder)
    orders = (baseline, target - 1, target, later - 1, later + last - 1 if last else None)
    worse = comparison.siblings_worse
    builder.comparisons.append((identifier, benchmark, operation, machine, *orders, source, worse))
    for label in comparison.labels:
        who, at = label.labelled_by or label.annotator or UNKNOWN, moment(label.labelled_at or "")
        builder.labels.append(LabelRow(identifier, label.status, who, label.annotator, at))


def _add_samples(samples: Version, series: Series, order: int, builder: Builder) -> None:
    if isinstance(samples, list):
        builder.results.samples(series, order, None, array("d", samples))
    else:
        builder.results.summary(series, order, None, samples.model_dump(exclude_unset=True))


def _given(kind: type[Given], content: object, name: str, place: str) -> Given:
    """Return `content` validated as `kind`; an InputError names the first error or a nearby unknown key."""
    try:
        return kind.model_validate(content)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        first = next(error for error in errors if not _other_form(error))
        strange = [error for error in errors if _beside(error, first)]
        worst = min(strange, key=lambda error: len(error["loc"]), default=first)
        raise InputError(_told(worst, kind, place), file=name) from exc


def _other_form(error: ErrorDetails) -> bool:
    """Return whether an error only rejects one of the two forms of samples although the other was meant."""
    *_, form, last = ("", "", *error["loc"])
    if isinstance(error["input"], dict):
        return last in _FORMS[:2]
    return form == _FORMS[0] and isinstance(error["input"], list)


def _beside(error: ErrorDetails, first: ErrorDetails) -> bool:
    """Return whether an error is an unknown key, possibly misspelt, in the object of the first error."""
    around = error["loc"][:-1]
    return error["type"] == "extra_forbidden" and first["loc"][: len(around)] == around


def _told(error: ErrorDetails, kind: type[RequestPart], place: str) -> str:
    """Return the message for a validation error in a `kind` at `place`."""
    what, loc, value = error["type"], error["loc"], error["input"]
    if what == "missing":
        return f"{_path(place, loc[:-1])} lacks {loc[-1]}".lstrip()
    if what == "extra_forbidden":
        key = str(loc[-1])[:_QUOTED]
        inside = PostedLabel if loc[0] == "labels" else Configuration
        parts: dict[int, type[RequestPart]] = {1: kind, 3: inside}
        part = parts.get(len(loc), FiveNumbers)
        return f"{_path(place, loc[:-1])}.{key} {unknown(key, part.model_fields)}".removeprefix(".")
    path = _path(place, loc)
    if what in _WRONG and loc[-1:] != ("labelled_at",):
        return f"{path} {_WRONG[what]}"
    return f"{path or 'the request'}={_quoted(value)} is not {_expected(what, loc, value)}"


def _path(place: str, loc: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc if step not in _FORMS)
    return f"{place}{''.join(steps)}".removeprefix(".")


def _expected(what: str, loc: tuple[int | str, ...], value: object) -> str:
    if loc and loc[-1] in _FORMS:
        return "a list of numbers or a five-number summary"
    if loc and loc[-1] in _OF_LABELS:
        return _OF_LABELS[str(loc[-1])]
    if what == "literal_error" and not isinstance(value, str):
        what = "string_type"
    if what in ("greater_than", "less_than"):
        return "a number above 0" if loc[0] == "costs" else "a share between 0 and 1"
    # an integer that is too large for a float
    if what == "float_type" and type(value) is int:
        what = "finite_number"
    return _EXPECTED[what]


def _quoted(value: object) -> str:
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 1 << _QUOTED else "a huge number"
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
