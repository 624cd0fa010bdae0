"""JSON schemas of co-run requests and answers, for HTTP and ``--json``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from data.tables.documents import MAX_COUNT, Given
from serving.http.schemas import ModelAnswer, Name, ServedModel, example, finite

#: Allowed duration of a run in seconds: clock resolution to a practical maximum.
SHORTEST, LONGEST = 1e-6, 1e9
Count = Annotated[float, Field(ge=0, lt=MAX_COUNT, allow_inf_nan=False)]
#: Most co-runs in one request, co-runners of a task, intervals of a run, and events.
CORUNS, CORUNNERS, INTERVALS, EVENTS = 200, 63, 20_000, 1_000
Interval = Annotated[float, Field(ge=SHORTEST, le=1e6)]
Seconds = Annotated[float, Field(ge=SHORTEST, le=LONGEST)]
#: NaN becomes null.
Finite = Annotated[float | None, AfterValidator(finite)]
#: "+" joins the names of tasks.
Task = Annotated[Name, Field(pattern="^[^+]*$")]


class SoloRun(Given):
    """A task that ran alone, for one that the model does not know, or on a machine that it does not know."""

    task: Task
    machine: Name | None = Field(default=None, description="Default: the only machine that the model knows.")
    solo_seconds: Seconds
    events: dict[Name, Count | None] = Field(
        description="Counts over the whole run; null where perf has none. The model's events are used.",
        max_length=EVENTS,
    )


class CorunQuestion(Given):
    """A task and what runs beside it."""

    task: Name
    corunners: list[Name] = Field(min_length=1, max_length=CORUNNERS, description="In any order.")
    machine: Name | None = Field(default=None, description="Default: the only machine that the model knows.")


class StaticRequest(Given):
    """Co-runs to be predicted before they run."""

    model_config = example(
        {
            "coruns": [{"task": "mine", "corunners": ["mine"], "machine": "m1"}],
            "tasks": [
                {
                    "task": "mine",
                    "machine": "m1",
                    "solo_seconds": 3.2,
                    "events": {"context-switches": 41, "page-faults": 5210, "instructions": None},
                }
            ],
        }
    )

    coruns: list[CorunQuestion] = Field(min_length=1, max_length=CORUNS)
    tasks: list[SoloRun] = Field(default=[], max_length=CORUNS, description="Solo runs of further tasks.")


class FirstSeconds(Given):
    """The first seconds of a run, as perf stat -I counts them."""

    t_seconds: list[Interval] = Field(
        min_length=1, max_length=INTERVALS, description="The end of each interval since the start, ascending."
    )
    events: dict[Name, Annotated[list[Count | None], Field(max_length=INTERVALS)]] = Field(
        description="Counts within each interval, one per interval; null where perf has none.",
        min_length=1,
        max_length=EVENTS,
    )


class OnlineRequest(Given):
    """The same task alone and beside the others."""

    model_config = example(
        {
            "solo": {
                "t_seconds": [0.2, 0.4, 0.6],
                "events": {"page-faults": [310, 290, 305], "context-switches": [2, 2, 3]},
            },
            "corun": {
                "t_seconds": [0.2, 0.4, 0.6],
                "events": {"page-faults": [240, 230, 238], "context-switches": [4, 5, 4]},
            },
        }
    )

    solo: FirstSeconds
    corun: FirstSeconds
    solo_is_whole: bool | None = Field(
        default=None,
        description="Whether solo is a whole run, not a beginning. Default: if it lasts longer than corun.",
    )
    machine: Name | None = Field(default=None, description="Default: one that the model was trained on.")


class ImpactShareAnswer(BaseModel):
    """What one thing adds to the impact of the usual co-run."""

    feature: str = Field(
        description="own_<event>, others_<event>: events per second; own_seconds, others_seconds: run times; "
        "own_coruns, others_coruns: what other co-runs of that side showed; own_rest, others_rest: the sum "
        "of all that is not named."
    )
    #: Of this co-run; null where it was not counted, or is the rest.
    value: Finite
    usual: Finite = Field(description="The median over the known tasks of the machine.")
    contribution: float = Field(description="0.08: adds 0.08 to the impact; all of a co-run add up.")
    corunners: list[str] = Field(description="Of which co-run, where those with each are added up.")


class ImpactDriverAnswer(BaseModel):
    """What drives an answer."""

    feature: str
    value: Finite
    usual: Finite
    contribution: float = Field(description="0.08: with the usual value the impact would be 8 % smaller.")


class ExplainedAnswer(BaseModel):
    """A co-run that drivers explain: the whole, or with each of several co-runners that are added up."""

    corunners: list[str]
    machine: str = Field(description="Whose solo runs they are.")
    impact: float = Field(description="usual_impact, own and others in sum.")
    model: str = Field(description="Name and version.")
    usual_impact: float = Field(description="Of the usual task beside usual ones: medians on that machine.")
    own: float = Field(description="What is known of the task adds so much to it.")
    others: float = Field(description="And so much what is known of its co-runners.")


class Estimate(BaseModel):
    """An impact (co-run time / solo time) and its prediction interval; null where nothing can be told."""

    impact: float | None
    low: float | None
    high: float | None
    confidence: float = Field(description="The share of impacts that such intervals hold.")


class StaticPrediction(Estimate):
    """How much slower a task gets."""

    task: str
    corunners: list[str]
    machine: str | None = Field(description="null where none was named and the model knows several.")
    solo_seconds: float | None = Field(description="null where the task never ran alone on that machine.")
    corun_seconds: float | None
    corun_seconds_low: float | None
    corun_seconds_high: float | None
    drivers: list[ImpactShareAnswer] = Field(
        description="The strongest first; with usual_impact they add up to the impact of each co-run."
    )
    drivers_explain: list[ExplainedAnswer] = Field(description="Of which co-runs; their impacts - 1 add up.")
    notes: list[str] = Field(
        description="What to know about it: why an interval is wide, or why nothing can be told."
    )


class StaticAnswer(BaseModel):
    """Predictions, in the order of the questions."""

    model: ModelAnswer
    predictions: list[StaticPrediction]
    notes: list[str] = Field(default=[], description="What of the solo runs could not be used.")


class OnlineOpinion(Estimate):
    """What one way of telling says, before they are brought together."""

    by: str = Field(description="The event whose progress is told, such as instructions; or trained.")
    so_far: float | None = Field(default=None, description="The impact of what was seen of both runs.")
    seen: float | None = Field(
        default=None, description="The share of the whole run alone that it is; null where it is not known."
    )


class OnlineAnswer(Estimate):
    """How much slower the task gets, from its first seconds."""

    model: ModelAnswer
    sampled_seconds: float = Field(description="Of both runs, that the answer is made from.")
    drivers: list[ImpactDriverAnswer] = Field(
        description="Events whose rate changed: value is the rate together, usual that alone."
    )
    opinions: list[OnlineOpinion] = Field(
        default=[], description="By progress, and by the trained model, where they have one."
    )
    notes: list[str] = Field(
        description="What was wrong with the samples: why an interval is wide, or why nothing can be told."
    )


class PlacementAnswer(BaseModel):
    """One placement."""

    name: str = Field(description="best, worst, or random-1 and so on.")
    groups: list[list[str]] = Field(description="The tasks on each machine that is used.")
    slowdown: float = Field(description="Predicted impact - 1, summed over all tasks.")
    seconds: float | None = Field(description="Predicted co-run seconds, summed over all tasks.")


class RandomAnswer(BaseModel):
    """Predicted slow-downs of placements at random."""

    draws: int
    mean: float
    low: float = Field(description="The 5th percentile.")
    high: float = Field(description="The 95th percentile.")
    seconds: float | None = Field(default=None, description="Predicted run time, on average.")
    seconds_low: float | None = Field(default=None, description="Its 5th percentile.")
    seconds_high: float | None = Field(default=None, description="Its 95th percentile.")


class SavingAnswer(BaseModel):
    """What the best placement saves of the predicted run time of another."""

    seconds: float = Field(description="Summed over all tasks; negative where it takes longer.")
    share: float = Field(description="Of the run time of the other placement.")


class CheckedAnswer(BaseModel):
    """What a plan for such a machine saved when it was really run."""

    tasks: int
    draws: int = Field(description="Placements at random that were run.")
    saved_against_random: SavingAnswer = Field(description="Measured, on average.")
    predicted: SavingAnswer | None = Field(description="Of that plan.")


class PlaceAnswer(BaseModel):
    """Where to put tasks; such a file is what ``perfjudge corun measure`` takes."""

    model: ModelAnswer
    #: The kind of machine that the solo runs are of.
    machine: str
    machines: int
    slots: int
    exact: bool = Field(description="Whether no placement can have a smaller predicted slow-down.")
    saved_against_random: SavingAnswer | None = Field(
        default=None, description="On average; null where a solo time is unknown."
    )
    saved_against_worst: SavingAnswer | None = None
    checked: CheckedAnswer | None = Field(
        default=None, description="null where data/raw/placements has no run of a plan for that machine."
    )
    random: RandomAnswer
    #: The best, the first of those at random, and the worst.
    placements: list[PlacementAnswer]
    notes: list[str]


class ServedCorun(ServedModel):
    """A model of co-runs that answers, and what its card says."""

    machines: list[str]
    confidence: float
