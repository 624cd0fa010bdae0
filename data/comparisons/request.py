"""A request to judge comparisons: one declaration decodes and checks it, describes it in OpenAPI, types it.

Most requests are right. These are decoded by msgspec in one go, with types derived from the declaration. All
others are validated by pydantic (`data.comparisons.formats.comparison_json`), which explains what is wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from operator import attrgetter, or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PlainValidator
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from data.comparisons.labels.label_csv import EXAMPLE as EXAMPLE_MOMENT
from data.comparisons.labels.label_csv import MOMENT
from data.comparisons.sides import (
    HISTORY_VERSIONS,
    LATER_VERSIONS,
    NamedSides,
    Samples,
    Sides,
    five_numbers,
    stated_of,
)
from data.comparisons.tables import FIVE_NUMBERS
from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.documents import AS_WHOLE, require_unique_keys

#: What `str.isspace` knows: ``\\s`` is another set of letters in every dialect of regular expressions.
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
#: Text that holds more than spaces.
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
    mean: FiniteFloat = Field(default_factory=float, description="May be left out, as may the next.")
    stdev: FiniteFloat = Field(default_factory=float)


# lists end at their first mistake: millions of them, each with its place, would stop the process
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
    """Return the versions of a side, at least one, the oldest first."""
    has_versions = isinstance(side, list) and side and isinstance(side[0], list)
    return cast(list[list[float] | FiveNumbers], side if has_versions else [side])


class Configuration(RequestPart):
    """The samples of both sides at one number of threads."""

    threads: Annotated[int, Field(ge=1, le=MAX_THREADS), AS_WHOLE] = 1
    baseline: Side
    target: Side
    history: Versions = Field(default=[], description="One list per earlier version, oldest first.")
    later: Versions = Field(
        default=[],
        description="One list per version after the target, oldest first; only a model that judges in"
        " hindsight looks at it.",
    )


class PostedLabel(RequestPart):
    """What somebody says of a comparison: for training; who judges does not look at it."""

    status: Literal["pass", "fail", "cannot_tell"]
    annotator: Name | None = Field(
        default=None, description="The person whose verdict it is; without one the label is settled."
    )
    labelled_by: Name | None = Field(default=None, description="Who says so, if that is no annotator.")
    labelled_at: Annotated[str, Field(pattern=f"^{MOMENT}$", examples=[EXAMPLE_MOMENT])] | None = None


class Comparison(RequestPart):
    """One operation, measured before and after."""

    comparison_id: Name
    benchmark: Name = "unknown"
    operation: Name
    machine: Name = "unknown"
    unit: Name = "unknown"
    better: Literal["lower", "higher"] = Field(description="Which values are better; it is never assumed.")
    siblings_worse: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="The share of the benchmark's other operations that got worse at the version where the"
        " target begins. No other comparison of the request is looked at for it.",
    )
    configurations: Annotated[list[Configuration], Field(fail_fast=True)]
    labels: Annotated[list[PostedLabel], Field(fail_fast=True)] = []


#: Not looked at yet: each is read on its own, so that what is wrong with one can be skipped.
AsGiven = PlainValidator(lambda content: content, json_schema_input_type=Comparison)


_ONE: JsonDict = {
    "comparison_id": "bt_C_x-42",
    "benchmark": "NASParallel",
    "operation": "bt_C_x",
    "machine": "m1",
    "unit": "Mop/s",
    "better": "higher",
    "configurations": [
        {
            "threads": 4,
            "baseline": [7406.4, 7409.2, 7456.5, 7479.3, 7507.0],
            "target": [6604.8, 6703.0, 6722.2, 6737.8, 6797.5],
        },
        {
            "threads": 8,
            "baseline": {"min": 14325.9, "q1": 14330.8, "median": 14469.1, "q3": 14517.2, "max": 14740.1},
            "target": [12833.7, 13044.4, 13071.6, 13086.5, 13219.3],
        },
    ],
}
#: What may be asked.
EXAMPLE: JsonDict = {"comparisons": [_ONE]}


_Cost = Annotated[FiniteFloat, Field(gt=0)]
Wished = Annotated[FiniteFloat, Field(gt=0, lt=1)]


class AskedCosts(RequestPart):
    """What a missed regression, a false alarm and a person's look cost, in one unit."""

    miss: _Cost
    false_alarm: _Cost
    look: _Cost


class JudgeRequest(RequestPart):
    """Comparisons to be judged, and what the verdicts are to keep."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    comparisons: Annotated[list[Annotated[Comparison, AsGiven]], Field(min_length=1)]
    missed: Wished | None = Field(default=None, description="The share of the regressions that may pass.")
    false_alarms: Wished | None = Field(default=None, description="The share of the others that may fail.")
    costs: AskedCosts | None = Field(default=None, description="In place of both.")


Part = TypeVar("Part", bound=BaseModel)
_BOUNDS = ("ge", "le", "gt", "lt", "min_length", "pattern")


def quick_reader(model: type[Part], left_out: Collection[str] = ()) -> Callable[[bytes], Part | None]:
    """Return a function that decodes JSON several times as fast as `model`.

    It returns objects with the attributes of `model` but for those `left_out`, or None where anything may be
    wrong. Lists that may hold either of two types may be mixed.
    """
    decoder = msgspec.json.Decoder(_quick_type(model, left_out))

    def read(content: bytes) -> Part | None:
        try:
            decoded = decoder.decode(content)
            require_unique_keys(content)
        except (ValueError, RecursionError, InputError):
            return None
        return cast(Part, decoded)

    return read


def _quick_type(kind: Any, left_out: Collection[str]) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _bounded(_quick_type(arguments[0], left_out), arguments[1:])
    if origin is list:
        return list[_quick_type(arguments[0], left_out)]  # type: ignore[misc] # a type made here
    if origin in {Union, UnionType}:
        kinds = [_quick_type(one, left_out) for one in arguments]
        # msgspec takes one type of lists in a union
        items = [get_args(one)[0] for one in kinds if get_origin(one) is list]
        lists = [list[reduce(or_, items)]] if items else []  # type: ignore[misc] # a type made here
        return reduce(or_, [*(one for one in kinds if get_origin(one) is not list), *lists])
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return kind
    fields = [
        (name, _bounded(_quick_type(one.annotation, left_out), one.metadata), _default(one))
        for name, one in kind.model_fields.items()
        if name not in left_out
    ]
    return msgspec.defstruct(kind.__name__, fields, kw_only=True, gc=False, forbid_unknown_fields=True)


def _bounded(kind: Any, metadata: Sequence[Any]) -> Any:
    parts = [part for one in metadata for part in (one.metadata if isinstance(one, FieldInfo) else [one])]
    bounds = {name: getattr(part, name) for part in parts for name in _BOUNDS if hasattr(part, name)}
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind


def _default(field: FieldInfo) -> Any:
    if field.is_required():
        return msgspec.NODEFAULT
    if field.default_factory is not None:
        return msgspec.field(default_factory=cast(Callable[[], Any], field.default_factory))
    return field.default


# who judges looks at no label: a request with some is read the long way
_QUICKLY = quick_reader(JudgeRequest, left_out={"labels"})


def read_request(body: bytes) -> JudgeRequest | None:
    """Return a request; None if anything may be wrong with it."""
    request = _QUICKLY(body)
    return None if request is None or any(map(_is_mixed, request.comparisons)) else request


def _is_mixed(comparison: Comparison) -> bool:
    """Tell whether a side holds both samples and lists of samples."""
    sides = (side for one in comparison.configurations for side in (one.baseline, one.target))
    return any(isinstance(side, list) and len(set(map(type, side))) > 1 for side in sides)


def named_sides(comparisons: Sequence[Comparison]) -> NamedSides:
    """Gather comparisons of requests: the sides that their tables would have."""
    return NamedSides(
        [one.comparison_id for one in comparisons],
        [one.benchmark for one in comparisons],
        [one.operation for one in comparisons],
        _SampleLists(comparisons).sides(stated_of([one.siblings_worse for one in comparisons])),
        lambda: [one.unit for one in comparisons],
    )


_FIVE = attrgetter(*FIVE_NUMBERS)
_BY_THREADS = attrgetter("threads")


class _SampleLists:
    """Lists of samples on their way into arrays.

    `versions` has the order and the number of samples of every version: earlier ones below 0, the baseline's
    0, then the target's and later ones. `configurations` has the row of the comparison, the threads, and the
    numbers of samples of history, baseline, target and later versions.
    """

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.n_comparisons = len(comparisons)
        self.values, self.signs = array("d"), array("d")
        self.versions, self.configurations = array("q"), array("q")
        self.summaries: list[tuple[int, int, tuple[float, ...]]] = []
        for row, comparison in enumerate(comparisons):
            sign = -1.0 if comparison.better == "lower" else 1.0
            for one in sorted(comparison.configurations, key=_BY_THREADS):
                if self._add(row, one):
                    self.signs.append(sign)

    def _add(self, row: int, one: Configuration) -> bool:
        """Add a configuration, unless both of its sides are empty."""
        given = one.baseline, one.target
        sides = [_with_samples(versions_of(side)) for side in given]
        if not any(sides) and all(isinstance(side, list) for side in given):
            return False
        history = _with_samples(one.history)[-HISTORY_VERSIONS:]
        lengths, order = [self._add_versions(history, -len(history))], 0
        for place, (side, versions) in enumerate(zip(given, sides, strict=True)):
            if not isinstance(side, list):
                self.summaries.append((place, len(self.signs), _FIVE(side)))
            lengths.append(self._add_versions(versions, order))
            order += max(len(versions), 1)
        lengths.append(self._add_versions(_with_samples(one.later)[:LATER_VERSIONS], order))
        self.configurations.extend((row, one.threads, *lengths))
        return True

    def _add_versions(self, versions: Sequence[list[float]], first: int) -> int:
        """Add versions, the first of which has the order `first`; return how many samples they have."""
        start = len(self.values)
        for order, samples in enumerate(versions, first):
            self.values.extend(samples)
            self.versions.extend((order, len(samples)))
        return len(self.values) - start

    def sides(self, siblings_worse: np.ndarray[Any, Any] | None) -> Sides:
        versions = np.array(self.versions, np.int64).reshape(-1, 2)
        values, orders = np.array(self.values, np.float64), versions[:, 0].repeat(versions[:, 1])
        configurations = np.array(self.configurations, np.int64).reshape(-1, 6)
        stops = configurations[:, 2:].cumsum().reshape(-1, 4)
        starts = stops - configurations[:, 2:]
        lists = (Samples(values, orders, starts[:, at], stops[:, at]) for at in range(4))
        history, baseline, target, later = lists
        five = five_numbers(baseline.followed(target)).reshape(2, -1, len(FIVE_NUMBERS))
        for side, configuration, numbers in self.summaries:
            five[side, configuration] = numbers
        return Sides(
            configurations[:, 0], self.n_comparisons, configurations[:, 1], np.array(self.signs),
            baseline, target, history, later, five[0], five[1], siblings_worse=siblings_worse,
        )  # fmt: skip


def _with_samples(versions: Sequence[list[float] | FiveNumbers]) -> list[list[float]]:
    return [samples for samples in versions if samples and isinstance(samples, list)]
