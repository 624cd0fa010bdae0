"""Comparisons in JSON, the format of requests to judge (``{"comparisons": [...]}`` in the design)."""

from __future__ import annotations

import json
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
    add_settings_note,
    version_orders,
    versions_of,
)
from data.comparisons.tables import Builder, ComparisonTables, LabelRow, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN
from data.errors import InputError
from data.tables.documents import EXAMPLE_MOMENT, parse_moment
from data.tables.problems import Problems, unknown_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Part = TypeVar("Part", bound=RequestPart)
_QUOTED = 60
#: Pydantic's names of the two forms of samples.
_FORMS = ("list[float]", "list[list[float]]", "FiveNumbers")
#: The expected value by pydantic's error type; `_PROBLEMS` has problems instead.
_EXPECTED = {
    "model_type": "an object",
    "list_type": "a list",
    "string_type": "a string",
    "bool_type": "true or false",
    "literal_error": '"lower" or "higher"',
    "float_type": "a number",
    "finite_number": "a finite number",
} | dict.fromkeys(
    ("int_type", "int_from_float", "greater_than_equal", "less_than_equal"),
    f"a whole number from 1 to {MAX_THREADS}",
)
_OF_LABELS = {"status": '"pass", "fail" or "cannot_tell"', "labelled_at": f"a time like {EXAMPLE_MOMENT}"}
_PROBLEMS = {
    "string_pattern_mismatch": "is empty",
    "string_unicode": "holds half a surrogate pair",
    "too_short": "is empty; expected at least one",
}


def tables_of(
    content: object,
    name: str = "request.json",
    problems: Problems | None = None,
    used_names: UsedNames | None = None,
) -> ComparisonTables:
    """Return the tables of a request that was loaded from JSON; `problems` receives errors of skipped parts.

    `name` is its file in messages. Versions are unnamed; their orders are those of `version_orders`.
    `used_names` has the comparison ids and machine names of earlier requests, and receives those of this one:
    from the second comparison of an operation on a machine on, the machine is called ``<machine> #2`` and so
    on. Keys that decide over HTTP only are noted in `problems`.
    InputError if the request has no comparison, or an unknown key or invalid value outside of them; and,
    unless ``problems.keep_going``, at the first invalid comparison, repeated id or repeated threads.
    """
    used_names, problems, builder = used_names or UsedNames(), problems or Problems(), Builder()
    request = _validate_part(JudgeRequest, content, name, "")
    add_settings_note(request, name, problems)
    for index, part in enumerate(request.comparisons):
        place = f"comparisons[{index}]"
        with problems.collecting():
            comparison = _validate_part(Comparison, part, name, place)
            _require_once(comparison, name, place, used_names)
            _add_comparison(comparison, f"{name} {place}", used_names, builder)
    return builder.take_tables()


def checked_request(content: object, name: str) -> JudgeRequest:
    """Return a request to judge with typed comparisons; `content` is the value that was loaded from JSON.

    Optional values that the request does not have get their defaults. InputError, with the file's `name`, at
    the first missing required value, unknown key or wrong value, and if there are no comparisons; repeated
    ids and threads are accepted.
    """
    request = _validate_part(JudgeRequest, content, name, "")
    request.comparisons = [
        _validate_part(Comparison, part, name, f"comparisons[{index}]")
        for index, part in enumerate(request.comparisons)
    ]
    return request


@dataclass
class UsedNames:
    """The comparison ids and the machine names that are already in use."""

    identifiers: set[str] = field(default_factory=set)
    operations: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def reserve_machine(self, benchmark: str, operation: str, machine: str) -> str:
        """Reserve and return an unused machine name: `machine`, else ``machine #2`` and so on."""
        key = name = (benchmark, operation, machine)
        while name in self.operations:
            self.operations[key] += 1
            name = (benchmark, operation, f"{machine} #{self.operations[key]}")
        self.operations[name] = 1
        return name[2]


def _require_once(comparison: Comparison, name: str, place: str, used_names: UsedNames) -> None:
    """Raise an InputError for a repeated number of threads or identifier; else reserve the identifier."""
    seen: set[int] = set()
    for index, configuration in enumerate(comparison.configurations):
        threads = configuration.threads
        if threads in seen:
            problem = f"{place}.configurations[{index}].threads {threads} appears twice"
            raise InputError(problem, file=name)
        seen.add(threads)
    identifier = comparison.comparison_id
    if identifier in used_names.identifiers:
        raise InputError(f"{place}.comparison_id {_quote_value(identifier)} appears twice", file=name)
    used_names.identifiers.add(identifier)


def _add_comparison(comparison: Comparison, source: str, used_names: UsedNames, builder: Builder) -> None:
    identifier, benchmark, operation = comparison.comparison_id, comparison.benchmark, comparison.operation
    machine = used_names.reserve_machine(benchmark, operation, comparison.machine)
    baseline, target, later, stop = version_orders(comparison)
    common = (benchmark, benchmark, operation, machine, comparison.unit, comparison.better)
    for configuration in comparison.configurations:
        series = Series(f"{identifier}/{configuration.threads}", *common, configuration.threads)
        parts = (
            (configuration.history, baseline - len(configuration.history)),
            (versions_of(configuration.baseline), baseline),
            (versions_of(configuration.target), target),
            (configuration.later, later),
        )
        for versions, first in parts:
            for order, samples in enumerate(versions, first):
                values = samples if isinstance(samples, list) else samples.model_dump(exclude_unset=True)
                builder.results.add_values(series, order, None, values)
    orders = (baseline, target - 1, target, later - 1, stop - 1 if stop > later else None)
    worse = comparison.siblings_worse
    builder.comparisons.append((identifier, benchmark, operation, machine, *orders, source, worse))
    for label in comparison.labels:
        labelled_by = label.labelled_by or label.annotator or UNKNOWN
        labelled_at = parse_moment(label.labelled_at or "")
        builder.labels.append(LabelRow(identifier, label.status, labelled_by, label.annotator, labelled_at))


def _validate_part(kind: type[Part], content: object, name: str, place: str) -> Part:
    """Return `content` validated as `kind`.

    An InputError names the first error, or an unknown key near it, which may be a misspelt missing key.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        first = next(error for error in errors if not _rejects_other_form(error))
        unknown_keys = [error for error in errors if error["type"] == "extra_forbidden"]
        near = [error for error in unknown_keys if first["loc"][: len(error["loc"]) - 1] == error["loc"][:-1]]
        worst = min(near, key=lambda error: len(error["loc"]), default=first)
        raise InputError(_error_message(worst, kind, place), file=name) from exc


def _rejects_other_form(error: ErrorDetails) -> bool:
    """Return whether an error only rejects one form of samples although the other was meant."""
    *_, form, last = ("", "", *error["loc"])
    if isinstance(error["input"], dict):
        return last in _FORMS[:2]
    return form == _FORMS[0] and isinstance(error["input"], list)


def _error_message(error: ErrorDetails, kind: type[RequestPart], place: str) -> str:
    error_type, loc, value = error["type"], error["loc"], error["input"]
    path, parent = _key_path(place, loc), _key_path(place, loc[:-1])
    if error_type == "missing":
        return f"{parent} lacks {loc[-1]}".lstrip()
    if error_type == "extra_forbidden":
        key = str(loc[-1])[:_QUOTED]
        inside = PostedLabel if loc[0] == "labels" else Configuration
        parts: dict[int, type[RequestPart]] = {1: kind, 3: inside}
        known_keys = parts.get(len(loc), FiveNumbers).model_fields
        return f"{parent}.{key} {unknown_message(key, known_keys)}".removeprefix(".")
    if loc[:1] == ("base_rate",):
        return f'base_rate={_quote_value(value)} is not a share between 0 and 1 or "estimate"'
    if error_type in _PROBLEMS and loc[-1:] != ("labelled_at",):
        return f"{path} {_PROBLEMS[error_type]}"
    return f"{path or 'the request'}={_quote_value(value)} is not {_expected_value(error_type, loc, value)}"


def _key_path(place: str, loc: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc if step not in _FORMS)
    return f"{place}{''.join(steps)}".removeprefix(".")


def _expected_value(error_type: str, loc: tuple[int | str, ...], value: object) -> str:
    if loc and loc[-1] in _FORMS:
        return "a list of numbers or a five-number summary"
    if loc and loc[-1] in _OF_LABELS:
        return _OF_LABELS[str(loc[-1])]
    if error_type == "literal_error" and not isinstance(value, str):
        error_type = "string_type"
    if loc and loc[0] == "siblings_worse" and error_type in ("greater_than_equal", "less_than_equal"):
        return "a share from 0 to 1"
    if error_type in ("greater_than", "less_than"):
        return "a number above 0" if loc[0] == "costs" else "a share between 0 and 1"
    # an integer that is too large for a float
    if error_type == "float_type" and type(value) is int:
        error_type = "finite_number"
    return _EXPECTED[error_type]


def _quote_value(value: object) -> str:
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 1 << _QUOTED else "a huge number"
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
