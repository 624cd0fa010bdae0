"""Comparisons in JSON, the format of requests to judge (``{"comparisons": [...]}`` in the design)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from data.comparisons.request import (
    Comparison,
    Configuration,
    FiveNumbers,
    JudgeRequest,
    PostedLabel,
    RequestCosts,
    RequestPart,
    add_settings_note,
    version_orders,
    versions_of,
)
from data.comparisons.tables import Builder, ComparisonTables, LabelRow, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN
from data.errors import InputError
from data.tables.documents import (
    EXAMPLE_MOMENT,
    error_message,
    first_error,
    json_path,
    parse_moment,
    quote_value,
)
from data.tables.problems import Problems, unknown_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Part = TypeVar("Part", bound=RequestPart)
#: Pydantic's names of the forms of samples.
_FORMS = ("list[float]", "list[list[float]]", "FiveNumbers")
#: Types of errors of numbers that are too large or too small.
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
#: Maximum number of characters of a key that is compared with the known ones.
_QUOTED = 60
_THREADS = f"a whole number from 1 to {MAX_THREADS}"


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
        raise InputError(f"{place}.comparison_id {quote_value(identifier)} appears twice", file=name)
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
        first = first_error(exc)
        unknown_keys = [error for error in exc.errors() if error["type"] == "extra_forbidden"]
        near = [error for error in unknown_keys if first["loc"][: len(error["loc"]) - 1] == error["loc"][:-1]]
        worst = min(near, key=lambda error: len(error["loc"]), default=first)
        raise InputError(_part_message(worst, kind, place), file=name) from exc


def _part_message(error: ErrorDetails, kind: type[RequestPart], place: str) -> str:
    loc = error["loc"]
    error["loc"] = steps = tuple(step for step in loc if step != FiveNumbers.__name__)
    if error["type"] == "extra_forbidden":
        inside = PostedLabel if loc[0] == "labels" else Configuration
        parts: dict[int, type[RequestPart]] = {1: kind, 2: RequestCosts, 3: inside}
        known_keys = parts.get(len(loc), FiveNumbers).model_fields
        return f"{json_path(steps, place)} {unknown_message(str(loc[-1])[:_QUOTED], known_keys)}"
    if error["type"] == "string_pattern_mismatch" and loc[-1] != "labelled_at":
        return f"{json_path(steps, place)} is empty"
    return error_message(error, "the request", place, _expected_value(error["type"], loc))


def _expected_value(error_type: str, loc: tuple[int | str, ...]) -> str | None:
    """Return the expected value; None: the usual one of this type of error."""
    first, last = (loc[0], loc[-1]) if loc else ("", "")
    if last in _FORMS:
        return "a list of numbers or a five-number summary"
    if first == "base_rate":
        return 'a share between 0 and 1 or "estimate"'
    if error_type in _BOUNDS and first != "costs" and last != "threads":
        return "a share from 0 to 1" if first == "siblings_worse" else "a share between 0 and 1"
    return {"threads": _THREADS, "labelled_at": f"a time like {EXAMPLE_MOMENT}"}.get(str(last))
