"""JSON schemas of co-run requests and answers, for HTTP and ``--json``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from data.tables.documents import MAX_COUNT, JsonSection
from serving.http.schemas import ModelAnswer, Name, ServedModel, example_config, finite_or_none

#: Allowed duration of a run in seconds: clock resolution to a practical maximum.
SHORTEST, LONGEST = 1e-6, 1e9
Count = Annotated[float, Field(ge=0, lt=MAX_COUNT, allow_inf_nan=False)]
#: Maximal numbers of co-runs in a request, co-runners of a task, intervals of a run, and events.
CORUNS, CORUNNERS, INTERVALS, EVENTS = 200, 63, 20_000, 1_000
Interval = Annotated[float, Field(ge=SHORTEST, le=1e6)]
Seconds = Annotated[float, Field(ge=SHORTEST, le=LONGEST)]
#: Number; NaN becomes null.
Finite = Annotated[float | None, AfterValidator(finite_or_none)]
#: "+" joins the names of tasks.
Task = Annotated[Name, Field(pattern="^[^+]*$")]


class SoloRun(JsonSection):
    """A solo run of a task or on a machine outside the model's data."""

    task: Task
    machine: Name | None = Field(default=None, description="Default: the only machine that the model knows.")
    solo_seconds: Seconds
    events: dict[Name, Count | None] = Field(
        description="Counts over the whole run; null: not counted. Only the model's events are used.",
        max_length=EVENTS,
    )


class CorunQuestion(JsonSection):
    """A task, its co-runners and the machine."""

    task: Name
    corunners: list[Name] = Field(min_length=1, max_length=CORUNNERS, description="In any order.")
    machine: Name | None = Field(default=None, description="Default: the only machine that the model knows.")


class StaticRequest(JsonSection):
    """Co-runs to predict before they run."""

    model_config = example_config("serving.corun")

    coruns: list[CorunQuestion] = Field(min_length=1, max_length=CORUNS)
    tasks: list[SoloRun] = Field(default=[], max_length=CORUNS, description="Solo runs of more tasks.")


class FirstSeconds(JsonSection):
    """Counts of perf stat -I in the first seconds of a run."""

    t_seconds: list[Interval] = Field(
        min_length=1, max_length=INTERVALS, description="The end of each interval since the start, ascending."
    )
    events: dict[Name, Annotated[list[Count | None], Field(max_length=INTERVALS)]] = Field(
        description="Counts per interval; null: not counted.", min_length=1, max_length=EVENTS
    )


class OnlineRequest(JsonSection):
    """The first seconds of a task, alone and with its co-runners."""

    model_config = example_config("serving.corun")

    solo: FirstSeconds
    corun: FirstSeconds
    solo_is_whole: bool | None = Field(
        default=None,
        description="Whether solo is a whole run, not a beginning. Default: whether it is over 10 % longer"
        " than corun, or both seem complete (equal work in different times).",
    )
    machine: Name | None = Field(default=None, description="Default: one that the model was trained on.")


class ImpactShareAnswer(BaseModel):
    """The contribution of one feature to the impact, relative to the usual co-run."""

    feature: str = Field(
        description="own_<event>, others_<event>: events per second; own_seconds, others_seconds: run times; "
        "own_coruns, others_coruns: other co-runs of that side; own_rest, others_rest: the sum of all "
        "features that are not listed."
    )
    value: Finite = Field(description="Value in this co-run; null if not counted, and for the rest.")
    usual: Finite = Field(description="Median over the known tasks of the machine.")
    contribution: float = Field(description="0.08: adds 0.08 to the impact; those of a co-run add up.")
    corunners: list[str] = Field(description="Co-runners of the explained co-run.")


class ImpactDriverAnswer(BaseModel):
    """The contribution of one event to the impact."""

    feature: str
    value: Finite
    usual: Finite
    contribution: float = Field(description="0.08: the impact is 8 % larger than with the usual value.")


class ExplainedAnswer(BaseModel):
    """An explained co-run: the predicted one, or one of the pairs that are added up."""

    corunners: list[str]
    machine: str = Field(description="Machine of the solo runs.")
    impact: float = Field(description="Sum of usual_impact, own and others.")
    model: str = Field(description="Name and version.")
    usual_impact: float = Field(description="Predicted impact for median features on that machine.")
    own: float = Field(description="Contribution of the task's features.")
    others: float = Field(description="Contribution of the co-runners' features.")


class Estimate(BaseModel):
    """An impact (co-run time / solo time) and its prediction interval; null without a prediction."""

    impact: float | None
    low: float | None
    high: float | None
    confidence: float = Field(description="Nominal coverage of the interval.")


class StaticPrediction(Estimate):
    """The predicted slow-down of a task."""

    task: str
    corunners: list[str]
    machine: str | None = Field(description="null if not given and the model knows several.")
    solo_seconds: float | None = Field(description="null without a solo run on that machine.")
    corun_seconds: float | None
    corun_seconds_low: float | None
    corun_seconds_high: float | None
    attributions: list[ImpactShareAnswer] = Field(
        description="Largest contribution first; with usual_impact they add up to the impact of each co-run."
    )
    drivers_explain: list[ExplainedAnswer] = Field(description="Explained co-runs; their impacts - 1 add up.")
    notes: list[str] = Field(description="Why an interval is wide, or why no prediction is possible.")


class StaticAnswer(BaseModel):
    """Predictions in the order of the co-runs."""

    model: ModelAnswer
    predictions: list[StaticPrediction]
    notes: list[str] = Field(
        default=[], description="Solo runs and events that were not used, and missing events."
    )


class OnlineOpinion(Estimate):
    """The estimate of one method, before the estimates are combined."""

    by: str = Field(description="The event that measures progress, such as instructions; or trained.")
    so_far: float | None = Field(default=None, description="Impact of the observed part of both runs.")
    seen: float | None = Field(
        default=None, description="The observed share of the whole solo run; null if unknown."
    )


class OnlineAnswer(Estimate):
    """The slow-down of a task, predicted from its first seconds."""

    model: ModelAnswer
    sampled_seconds: float = Field(description="Seconds of both runs that were used.")
    attributions: list[ImpactDriverAnswer] = Field(
        description="Events whose rate changed; value: rate in the co-run, usual: rate alone."
    )
    opinions: list[OnlineOpinion] = Field(
        default=[], description="Estimates by progress and by the trained model, as far as available."
    )
    notes: list[str] = Field(
        description="Problems of the samples: why an interval is wide, or why no prediction is possible."
    )


class PlacementAnswer(BaseModel):
    """One placement."""

    name: str = Field(description="best, worst, random-1, random-2, ...")
    groups: list[list[str]] = Field(description="The tasks on each used machine.")
    slowdown: float = Field(description="Predicted impact - 1, summed over all tasks.")
    seconds: float | None = Field(description="Predicted co-run seconds, summed over all tasks.")


class RandomAnswer(BaseModel):
    """Predicted slow-downs of random placements."""

    draws: int
    mean: float
    low: float = Field(description="The 5th percentile.")
    high: float = Field(description="The 95th percentile.")
    seconds: float | None = Field(default=None, description="Mean predicted run time.")
    seconds_low: float | None = Field(default=None, description="5th percentile of the run time.")
    seconds_high: float | None = Field(default=None, description="95th percentile of the run time.")


class SavingAnswer(BaseModel):
    """The run time that the best placement saves compared with another."""

    seconds: float = Field(description="Summed over all tasks; negative if it takes longer.")
    share: float = Field(description="Share of the run time of the other placement.")


class CheckedAnswer(BaseModel):
    """The measured saving of an earlier plan for such a machine."""

    tasks: int
    draws: int = Field(description="Number of random placements that were run.")
    saved_against_random: SavingAnswer = Field(description="Mean measured saving.")
    predicted: SavingAnswer | None = Field(description="Predicted saving of that plan.")


class PlaceAnswer(BaseModel):
    """A plan of placements, which ``perfjudge corun measure`` can run."""

    model: ModelAnswer
    machine: str = Field(description="Machine of the solo runs.")
    machines: int
    slots: int
    exact: bool = Field(description="Whether no placement can have a smaller predicted slow-down.")
    saved_against_random: SavingAnswer | None = Field(
        default=None, description="Mean saving; null if a solo time is unknown."
    )
    saved_against_worst: SavingAnswer | None = None
    checked: CheckedAnswer | None = Field(
        default=None, description="null if data/raw/placements has no measured plan for that machine."
    )
    random: RandomAnswer
    placements: list[PlacementAnswer] = Field(description="The best, some random ones, and the worst.")
    notes: list[str]


class ServedCorun(ServedModel):
    """A served model of co-runs, described by its card."""

    machines: list[str]
    confidence: float
