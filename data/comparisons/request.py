"""Schema of requests to judge comparisons, used to decode, to validate and for OpenAPI.

Most requests are valid: msgspec decodes them in one step, with types derived from the schema. All others are
validated by pydantic (`data.comparisons.formats.comparison_json`), which explains the errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PlainValidator
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.documents import AS_WHOLE, EXAMPLE_MOMENT, MOMENT, require_unique_keys
from data.tables.problems import Problems

#: The characters that `str.isspace` accepts: ``\\s`` differs between dialects of regular expressions.
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
#: Text with at least one character that is not a space.
Name = Annotated[str, Field(pattern=f"[^{_SPACES}]")]


class RequestPart(BaseModel):
    """A part of a request: unknown keys and numbers in quotes are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FiveNumbers(RequestPart):
    """A summary in place of samples."""

    min: FiniteFloat
    q1: FiniteFloat
    median: FiniteFloat
    q3: FiniteFloat
    max: FiniteFloat
    mean: FiniteFloat = Field(default_factory=float, description="Optional, like `stdev`.")
    stdev: FiniteFloat = Field(default_factory=float)


# fail fast: millions of errors, each with its place, would exhaust memory
SampleList = Annotated[list[FiniteFloat], Field(fail_fast=True)]
Version = Annotated[SampleList | FiveNumbers, Field(union_mode="left_to_right")]
Versions = Annotated[list[Version], Field(fail_fast=True)]
Side = Annotated[
    SampleList | Annotated[list[SampleList], Field(fail_fast=True)] | FiveNumbers,
    Field(
        union_mode="left_to_right",
        description="Samples; or, where the side has several versions, a list per version, oldest first.",
    ),
]


def versions_of(side: list[float] | list[list[float]] | FiveNumbers) -> list[list[float] | FiveNumbers]:
    """Return the versions of one side, in the order of the request (oldest first).

    A list of lists is returned as it is. Samples (even an empty list) or five numbers become the single
    version of the result.
    """
    has_versions = isinstance(side, list) and side and isinstance(side[0], list)
    return cast(list[list[float] | FiveNumbers], side if has_versions else [side])


def version_orders(comparison: Comparison) -> tuple[int, int, int, int]:
    """Return the orders of the first baseline, target and later version, and the next free order.

    A request names no versions, so orders count up from 0 for the oldest version of the longest history. Each
    part takes as many orders as the longest of its configurations has versions: history and later versions
    may take none, baseline and target take at least one each, also without samples or configurations.
    """
    configurations = comparison.configurations
    lists = [(c.history, versions_of(c.baseline), versions_of(c.target), c.later) for c in configurations]
    longest = [max(map(len, versions)) for versions in zip(*lists, strict=True)] or [0, 1, 1, 0]
    baseline, target, later, stop = accumulate(longest)
    return baseline, target, later, stop


class Configuration(RequestPart):
    """The samples of both sides at one number of threads."""

    threads: Annotated[int, Field(ge=1, le=MAX_THREADS), AS_WHOLE] = 1
    baseline: Side
    target: Side
    history: Versions = Field(default=[], description="One list per earlier version, oldest first.")
    later: Versions = Field(
        default=[],
        description="One list per version after the target, oldest first; used only by models that judge in"
        " hindsight.",
    )


class PostedLabel(RequestPart):
    """A label of a comparison, for training; judging ignores it."""

    status: Literal["pass", "fail", "cannot_tell"]
    annotator: Name | None = Field(
        default=None, description="The person whose verdict it is; without a name, the label is settled."
    )
    labelled_by: Name | None = Field(
        default=None, description="Source of the label, if it is not an annotator's."
    )
    labelled_at: Annotated[str, Field(pattern=f"^{MOMENT}$", examples=[EXAMPLE_MOMENT])] | None = None


class Comparison(RequestPart):
    """One operation, measured before and after."""

    comparison_id: Name
    benchmark: Name = "unknown"
    operation: Name
    machine: Name = "unknown"
    unit: Name = "unknown"
    better: Literal["lower", "higher"] = Field(description="Direction of better values; never assumed.")
    siblings_worse: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Share of the benchmark's other operations that got worse at the target's first version."
        " It is not computed from other comparisons of the request.",
    )
    configurations: Annotated[list[Configuration], Field(fail_fast=True)]
    labels: Annotated[list[PostedLabel], Field(fail_fast=True)] = []


#: Comparisons are not validated with the request but one by one, so that wrong ones can be skipped.
AsGiven = PlainValidator(lambda content: content, json_schema_input_type=Comparison)


#: Example of a request in OpenAPI.
EXAMPLE: JsonDict = json.loads("""
{"comparisons": [{"comparison_id": "bt_C_x-42", "benchmark": "NASParallel", "operation": "bt_C_x",
  "machine": "m1", "unit": "Mop/s", "better": "higher", "configurations": [
    {"threads": 4,
     "baseline": [7406.4, 7409.2, 7456.5, 7479.3, 7507.0],
     "target": [6604.8, 6703.0, 6722.2, 6737.8, 6797.5]},
    {"threads": 8,
     "baseline": {"min": 14325.9, "q1": 14330.8, "median": 14469.1, "q3": 14517.2, "max": 14740.1},
     "target": [12833.7, 13044.4, 13071.6, 13086.5, 13219.3]}]}]}
""")
_Cost = Annotated[FiniteFloat, Field(gt=0)]
ErrorLimit = Annotated[FiniteFloat, Field(gt=0, lt=1)]


class RequestCosts(RequestPart):
    """Costs of a missed regression, a false alarm and a review by a person, in the same unit."""

    false_negative: _Cost
    false_positive: _Cost
    review: _Cost


class JudgeRequest(RequestPart):
    """Comparisons to be judged, and limits of the errors of their verdicts."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    comparisons: Annotated[list[Annotated[Comparison, AsGiven]], Field(min_length=1)]
    max_false_negative_rate: ErrorLimit | None = Field(
        default=None, description="Maximum share of the regressions that pass."
    )
    max_false_positive_rate: ErrorLimit | None = Field(
        default=None, description="Maximum share of the other comparisons that fail."
    )
    costs: RequestCosts | None = Field(default=None, description="Costs of errors, instead of both limits.")
    base_rate: ErrorLimit | Literal["estimate"] | None = Field(
        default=None,
        description="Share of regressions that probabilities and thresholds are corrected for, or `estimate`"
        " from the comparisons of this request. Default: that of the training data.",
    )
    explain: bool = Field(
        default=False,
        description="Also return the contributions of features, the evidence, nearest labelled comparisons"
        " and counterfactuals.",
    )


#: Options of ``perfjudge judge``, by the keys of a request that they replace.
OPTIONS = {
    "max_false_negative_rate": "--max-false-negative-rate",
    "max_false_positive_rate": "--max-false-positive-rate",
    "costs": "--costs",
    "base_rate": "--base-rate",
    "explain": "--why",
}


def add_settings_note(request: JudgeRequest, name: str, problems: Problems) -> None:
    """Note in `problems` which keys of a request in the file `name` apply over HTTP only, if it has any."""
    if ignored := [key for key in OPTIONS if getattr(request, key)]:
        keys, options = ", ".join(ignored), ", ".join(OPTIONS[key] for key in ignored)
        problems.add_note(f"{name}: {keys} apply over HTTP only; `perfjudge judge` has {options}")


Part = TypeVar("Part", bound=BaseModel)
_BOUNDS = ("ge", "le", "gt", "lt", "min_length", "pattern")


def quick_reader(model: type[Part], left_out: Collection[str] = ()) -> Callable[[bytes], Part | None]:
    """Return a function that decodes JSON several times as fast as `model` validates it.

    It returns an object of another class with the attributes of `model`, or None if the JSON may be invalid,
    or has a repeated or an unknown key. Fields in `left_out`, of `model` or its parts, are no attributes, and
    their keys are unknown. Where a value may be a list of either of two types, lists may mix both, which the
    caller must check.
    """
    decoder = msgspec.json.Decoder(_quick_type(model, left_out))

    def decode_or_none(content: bytes) -> Part | None:
        try:
            decoded = decoder.decode(content)
            require_unique_keys(content)
        except (ValueError, RecursionError, InputError):
            return None
        return cast(Part, decoded)

    return decode_or_none


def _quick_type(kind: Any, left_out: Collection[str]) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _with_bounds(_quick_type(arguments[0], left_out), arguments[1:])
    if origin is list:
        return list[_quick_type(arguments[0], left_out)]  # type: ignore[misc] # a computed type
    if origin in {Union, UnionType}:
        kinds = [_quick_type(argument, left_out) for argument in arguments]
        # msgspec accepts only one list type in a union
        items = [get_args(member)[0] for member in kinds if get_origin(member) is list]
        lists = [list[reduce(or_, items)]] if items else []  # type: ignore[misc] # a computed type
        return reduce(or_, [*(member for member in kinds if get_origin(member) is not list), *lists])
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return kind
    fields = [
        (name, _with_bounds(_quick_type(field.annotation, left_out), field.metadata), _default_value(field))
        for name, field in kind.model_fields.items()
        if name not in left_out
    ]
    return msgspec.defstruct(kind.__name__, fields, kw_only=True, gc=False, forbid_unknown_fields=True)


def _with_bounds(kind: Any, metadata: Sequence[Any]) -> Any:
    parts = [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
    bounds = {name: getattr(part, name) for part in parts for name in _BOUNDS if hasattr(part, name)}
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind


def _default_value(field: FieldInfo) -> Any:
    if field.default_factory is not None:
        return msgspec.field(default_factory=cast(Callable[[], Any], field.default_factory))
    return msgspec.NODEFAULT if field.is_required() else field.default


# judging needs no labels: requests that have some are left to pydantic
_DECODE_QUICKLY = quick_reader(JudgeRequest, left_out={"labels"})


def read_request(body: bytes) -> JudgeRequest | None:
    """Decode the JSON body of a request to judge; None if it may be invalid or has labels.

    A result is valid, but repeated ids and threads are not checked; it has the attributes of `JudgeRequest`
    and its parts, except labels, but is not an instance of it. After None, the caller validates `body` in
    full (`data.comparisons.formats.comparison_json`), which explains errors.
    """
    request = _DECODE_QUICKLY(body)
    for comparison in () if request is None else request.comparisons:
        for configuration in comparison.configurations:
            for side in (configuration.baseline, configuration.target):
                if isinstance(side, list) and len(set(map(type, side))) > 1:
                    return None  # both samples and lists of samples
    return request
