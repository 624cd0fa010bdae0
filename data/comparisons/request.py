"""A request to judge comparisons: what JSON files and bodies hold, and what OpenAPI says of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PlainValidator
from pydantic.config import JsonDict

from data.comparisons.labels.label_csv import EXAMPLE as EXAMPLE_MOMENT
from data.comparisons.labels.label_csv import MOMENT
from data.comparisons.units import MAX_THREADS
from data.tables.documents import AS_WHOLE

#: What `str.isspace` knows: ``\s`` is another set of letters in every dialect of regular expressions.
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
#: Something is written there.
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
Samples = Annotated[SampleList | FiveNumbers, Field(union_mode="left_to_right")]
Versions = Annotated[list[Samples], Field(fail_fast=True)]


Side = Annotated[
    SampleList | Annotated[list[SampleList], Field(fail_fast=True)] | FiveNumbers,
    Field(
        union_mode="left_to_right",
        description="Samples; or, where the side has several versions, a list per version, oldest first.",
    ),
]


def versions_of(side: list[float] | list[list[float]] | FiveNumbers) -> list[list[float] | FiveNumbers]:
    """Return the versions of a side, one at least, oldest first."""
    if isinstance(side, list) and side and isinstance(side[0], list):
        return [one for one in side if isinstance(one, list)]
    return [[one for one in side if not isinstance(one, list)]] if isinstance(side, list) else [side]


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


class AskedCosts(RequestPart):
    """What a missed regression, a false alarm and a person's look cost, in one unit."""

    miss: Annotated[FiniteFloat, Field(gt=0)]
    false_alarm: Annotated[FiniteFloat, Field(gt=0)]
    look: Annotated[FiniteFloat, Field(gt=0)]


Wished = Annotated[FiniteFloat, Field(gt=0, lt=1)]


class JudgeRequest(RequestPart):
    """Comparisons to be judged, and what the verdicts are to keep."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    comparisons: Annotated[list[Annotated[Comparison, AsGiven]], Field(min_length=1)]
    missed: Wished | None = Field(default=None, description="The share of the regressions that may pass.")
    false_alarms: Wished | None = Field(default=None, description="The share of the others that may fail.")
    costs: AskedCosts | None = Field(default=None, description="In place of both.")
