"""Requests and answers of the server. Written by clients/python/generate.py: do not edit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field


class Application(Struct, omit_defaults=True, kw_only=True):
    """The performance of one application."""

    name: str
    values: Annotated[
        dict[str, float | list[float]],
        Meta(
            description="Values by machine: one, or one per repetition. Machines without values are predicted."
        ),
    ]
    metric: str = "seconds"
    better: (
        Annotated[
            Literal["lower", "higher"],
            Meta(
                description="Whether lower or higher values are better. Default: higher for rates, otherwise lower, with a warning unless the metric is a time."
            ),
        ]
        | UnsetType
    ) = UNSET


class BaseRate(Struct, omit_defaults=True, kw_only=True):
    """
    The share of fails among comparisons: given by a user, or estimated; then no attribute is None.

    Attributes
    ----------
    rate, low, high : float
        The share of fails, and its interval at the level `CONFIDENCE`.
    n_comparisons : int
        The number of comparisons that the estimate is based on.
    black_box : float
        The share by black-box shift estimation.
    distance, max_distance : float
        Largest difference between the shares of comparisons above a score, here and in the nearest mixture of
        both labels' training scores, over scores from the threshold on; and its largest value by chance.
    """

    rate: float
    low: float | None = None
    high: float | None = None
    n_comparisons: int | None = None
    black_box: float | None = None
    distance: float | None = None
    max_distance: float | None = None


class CategoryAnswer(Struct, omit_defaults=True, kw_only=True):
    """One category of the quiho paper, table 1."""

    importance: float
    low: float | None
    high: float | None
    permutation: (
        Annotated[
            float,
            Meta(
                description="Growth of the error on held-out CPU models when shuffled (the largest is 100)."
            ),
        ]
        | None
    )
    category: str


class ClusterAnswer(Struct, omit_defaults=True, kw_only=True):
    """Correlated stressors."""

    importance: float
    low: float | None
    high: float | None
    permutation: (
        Annotated[
            float,
            Meta(
                description="Growth of the error on held-out CPU models when shuffled (the largest is 100)."
            ),
        ]
        | None
    )
    cluster: int
    stressors: list[str]


class CorunQuestion(Struct, omit_defaults=True, kw_only=True):
    """A task, its co-runners and the machine."""

    task: str
    corunners: Annotated[list[str], Meta(description="In any order.")]
    machine: Annotated[str, Meta(description="Default: the only machine that the model knows.")] | None = None


class CostsAnswer(Struct, omit_defaults=True, kw_only=True):
    """Costs of a missed regression, a false alarm and a person's review, in one unit."""

    false_negative: float
    false_positive: float
    review: float


class DecidedAnswer(Struct, omit_defaults=True, kw_only=True):
    """The guarantee or the costs that the verdicts follow."""

    max_false_negative_rate: (
        Annotated[float, Meta(description="Largest share of regressions that pass.")] | None
    )
    max_false_positive_rate: (
        Annotated[float, Meta(description="Largest share of other comparisons that fail.")] | None
    )
    max_review_rate: (
        Annotated[float, Meta(description="Largest share of comparisons that are unsure.")] | None
    )
    costs: CostsAnswer | None
    confidence: (
        Annotated[float, Meta(description="Confidence level of the shares; null without a guarantee.")] | None
    )
    summary: Annotated[str, Meta(description="A summary in one line.")]


class DriverAnswer(Struct, omit_defaults=True, kw_only=True):
    """A raw metric that influenced the verdict."""

    metric: str
    unit: Annotated[str, Meta(description="Empty if unknown.")]
    baseline: Annotated[float, Meta(description="Median of the valid runs; null: not measured.")] | None
    target: float | None
    contribution: Annotated[
        float,
        Meta(
            description="Its part of the decrease of the log-odds of fail without the differences of all drivers."
        ),
    ]


class ExcuseAnswer(Struct, omit_defaults=True, kw_only=True):
    """Why a verdict does not fail a build, from the file of reviewed exceptions."""

    kind: Literal["acknowledged", "unstable", "accepted"]
    by: str
    reason: str
    until: Annotated[str, Meta(description="A day, version or commit; empty if unlimited, like `since`.")]
    since: str


class ExplainedAnswer(Struct, omit_defaults=True, kw_only=True):
    """An explained co-run: the predicted one, or one of the pairs that are added up."""

    corunners: list[str]
    machine: Annotated[str, Meta(description="Machine of the solo runs.")]
    impact: Annotated[float, Meta(description="Sum of usual_impact, own and others.")]
    model: Annotated[str, Meta(description="Name and version.")]
    usual_impact: Annotated[float, Meta(description="Predicted impact for median features on that machine.")]
    own: Annotated[float, Meta(description="Contribution of the task's features.")]
    others: Annotated[float, Meta(description="Contribution of the co-runners' features.")]


class FalseAlarmsKept(Struct, omit_defaults=True, kw_only=True):
    """The guarantee on false alarms, for normal pairs of test cases outside the training data."""

    share: Annotated[float, Meta(description="Maximal share of false alarms.")]
    confidence: Annotated[float, Meta(description="Confidence level of the guarantee.")]
    kept: Annotated[
        bool, Meta(description="Whether the training data had enough test cases for the guarantee.")
    ]
    measured: Annotated[float, Meta(description="Mean share in a group bootstrap; null without one.")] | None


class FeatureAnswer(Struct, omit_defaults=True, kw_only=True):
    """One stressor."""

    importance: float
    low: float | None
    high: float | None
    permutation: (
        Annotated[
            float,
            Meta(
                description="Growth of the error on held-out CPU models when shuffled (the largest is 100)."
            ),
        ]
        | None
    )
    stressor: str
    score: (
        Annotated[float, Meta(description="Positive if a higher rate goes with a faster application.")] | None
    )
    cluster: Annotated[
        int, Meta(description="Importance is divided among the correlated stressors of a cluster.")
    ]
    categories: Annotated[list[str], Meta(description="Categories of the quiho paper, table 1.")]


class FirstSeconds(Struct, omit_defaults=True, kw_only=True):
    """Counts of perf stat -I in the first seconds of a run."""

    t_seconds: Annotated[
        list[float], Meta(description="The end of each interval since the start, ascending.")
    ]
    events: Annotated[
        dict[str, list[float | None]], Meta(description="Counts per interval; null: not counted.")
    ]


class FiveNumbers(Struct, omit_defaults=True, kw_only=True):
    """A summary in place of samples."""

    min: float
    q1: float
    median: float
    q3: float
    max: float
    mean: Annotated[float, Meta(description="Optional, like `stdev`.")] | UnsetType = UNSET
    stdev: float | UnsetType = UNSET


class ImpactDriverAnswer(Struct, omit_defaults=True, kw_only=True):
    """The contribution of one event to the impact."""

    feature: str
    value: float | None
    usual: float | None
    contribution: Annotated[
        float, Meta(description="0.08: the impact is 8 % larger than with the usual value.")
    ]


class ImpactShareAnswer(Struct, omit_defaults=True, kw_only=True):
    """The contribution of one feature to the impact, relative to the usual co-run."""

    feature: Annotated[
        str,
        Meta(
            description="own_<event>, others_<event>: events per second; own_seconds, others_seconds: run times; own_coruns, others_coruns: other co-runs of that side; own_rest, others_rest: the sum of all features that are not listed."
        ),
    ]
    value: (
        Annotated[float, Meta(description="Value in this co-run; null if not counted, and for the rest.")]
        | None
    )
    usual: Annotated[float, Meta(description="Median over the known tasks of the machine.")] | None
    contribution: Annotated[
        float, Meta(description="0.08: adds 0.08 to the impact; those of a co-run add up.")
    ]
    corunners: Annotated[list[str], Meta(description="Co-runners of the explained co-run.")]


class InvalidRunAnswer(Struct, omit_defaults=True, kw_only=True):
    """A run that was excluded from the judgement."""

    run_id: str
    side: Literal["baseline", "target"]
    by: Annotated[Literal["rule", "tree"], Meta(description="A fixed rule, or the trained decision tree.")]
    rule: Annotated[str, Meta(description="Short name of the rule; empty for the tree.")]
    reason: Annotated[str, Meta(description="The violated condition, or the path through the tree.")]


class JudgeModel(Struct, omit_defaults=True, kw_only=True):
    """The model that gave the verdicts."""

    name: str
    version: str
    uri: str
    contribution_unit: Literal["log-odds", "probability"]
    decided: DecidedAnswer
    digest: Annotated[str, Meta(description="SHA-256 of its files at registration.")] = ""
    min_effect_size: (
        Annotated[
            float,
            Meta(description="Smallest change of a median that may fail, as a share of the baseline's."),
        ]
        | None
    ) = None


class LabelledAnswer(Struct, omit_defaults=True, kw_only=True):
    """A labelled comparison of the training data that is similar to the judged one."""

    comparison_id: str
    benchmark: str
    operation: str
    label: Literal["pass", "fail"]
    labelled_by: Annotated[str, Meta(description="Annotators; empty if unknown.")]
    labelled_at: Annotated[str, Meta(description="ISO 8601; empty if unknown.")]
    distance: Annotated[
        float, Meta(description="Standard deviations of the features, weighted by their importance.")
    ]
    near: Annotated[str, Meta(description="Features with similar values, and features with different ones.")]


class Machine(Struct, omit_defaults=True, kw_only=True):
    """The fingerprint of one machine."""

    machine: str
    rates: Annotated[
        dict[str, float | list[float | None] | None],
        Meta(
            description="Bogo operations per second by stressor: one rate, or one per repetition; null: not run. A name that ends in @all ran on all threads, any other on one."
        ),
    ]
    cpu: (
        Annotated[
            str,
            Meta(
                description="The CPU model; machines of a model are held out together. Default: a separate model."
            ),
        ]
        | None
    ) = None
    cores: int | None = None
    stress_ng: Annotated[str, Meta(description="Version of stress-ng.")] | None = None


class Matrix(Struct, omit_defaults=True, kw_only=True):
    """The runs of one side, either in columns or in rows; metadata default to those of the pair."""

    workload: Annotated[str, Meta(description="Default: the pair's.")] | None = None
    group: Annotated[str, Meta(description="Default: the pair's.")] | None = None
    version: Annotated[str, Meta(description="Default: the pair's.")] | None = None
    machine: Annotated[str, Meta(description="Default: the pair's.")] | None = None
    metrics: (
        Annotated[
            dict[str, list[float | None]],
            Meta(description="Values by raw metric, one per run; null: not measured."),
        ]
        | None
    ) = None
    runs: (
        Annotated[
            list[dict[str, float | None]],
            Meta(description="Instead of columns, one object of raw metrics per run."),
        ]
        | None
    ) = None


class MatrixVerdictAnswer(Struct, omit_defaults=True, kw_only=True):
    """The verdict on one pair."""

    pair_id: str
    workload: str
    group: str
    group_used: Annotated[
        str,
        Meta(
            description="The group whose model judged; fallback: the group has no model; all: no group has one; empty if invalid."
        ),
    ]
    verdict: Literal["pass", "fail", "unsure", "invalid"]
    probability: (
        Annotated[float, Meta(description="Probability that the target is abnormal; null if invalid.")] | None
    )
    threshold: Annotated[float, Meta(description="Smallest probability with the verdict fail.")] | None
    invalid_reason: str | None
    baseline_runs: Annotated[int, Meta(description="Number of valid runs of the baseline.")]
    target_runs: Annotated[int, Meta(description="Number of valid runs of the target.")]
    invalid_runs: list[InvalidRunAnswer]
    attributions: Annotated[list[DriverAnswer], Meta(description="Largest contribution first.")]
    notes: Annotated[list[str], Meta(description="Remarks on this verdict.")]


class MissingAnswer(Struct, omit_defaults=True, kw_only=True):
    """A machine, an operation or a configuration that only one side has."""

    kind: Literal["machine", "operation", "configuration"]
    only_in: Literal["baseline", "target"]
    machine: str
    benchmark: str | None
    operation: str | None
    threads: int | None


class ModelAnswer(Struct, omit_defaults=True, kw_only=True):
    """The model that answered."""

    name: str
    version: str
    uri: str
    digest: Annotated[str, Meta(description="SHA-256 of its files at registration.")] = ""


class MoveAnswer(Struct, omit_defaults=True, kw_only=True):
    """Change of the median of one configuration, without excluded samples."""

    threads: int
    baseline_median: float
    target_median: float
    change: Annotated[float, Meta(description="Share of the baseline's median; negative is worse.")]


class OnlineOpinion(Struct, omit_defaults=True, kw_only=True):
    """The estimate of one method, before the estimates are combined."""

    impact: float | None
    low: float | None
    high: float | None
    confidence: Annotated[float, Meta(description="Nominal coverage of the interval.")]
    by: Annotated[
        str, Meta(description="The event that measures progress, such as instructions; or trained.")
    ]
    so_far: Annotated[float, Meta(description="Impact of the observed part of both runs.")] | None = None
    seen: (
        Annotated[float, Meta(description="The observed share of the whole solo run; null if unknown.")]
        | None
    ) = None


class OnlineRequest(Struct, omit_defaults=True, kw_only=True):
    """The first seconds of a task, alone and with its co-runners."""

    solo: FirstSeconds
    corun: FirstSeconds
    solo_is_whole: (
        Annotated[
            bool,
            Meta(
                description="Whether solo is a whole run, not a beginning. Default: whether it is over 10 % longer than corun, or both seem complete (equal work in different times)."
            ),
        ]
        | None
    ) = None
    machine: Annotated[str, Meta(description="Default: one that the model was trained on.")] | None = None


class OutOfDistributionAnswer(Struct, omit_defaults=True, kw_only=True):
    """The feature whose value differs most from the training data."""

    feature: str
    value: (
        Annotated[float, Meta(description="Null if it is missing here but never in the training data.")]
        | None
    )
    low: Annotated[float, Meta(description="Lower end of the range of 98 of 100 training comparisons.")]
    high: Annotated[float, Meta(description="Upper end of the range.")]
    words: str


class Pair(Struct, omit_defaults=True, kw_only=True):
    """A target matrix and its baseline; they may differ in one of workload, group, version and machine."""

    pair_id: str
    workload: Annotated[str, Meta(description="The test case.")]
    group: Annotated[str, Meta(description="The workload type; the fallback model judges unknown groups.")]
    baseline: Matrix
    target: Matrix
    version: str | None = None
    machine: str | None = None


class PostedLabel(Struct, omit_defaults=True, kw_only=True):
    """A label of a comparison, for training; judging ignores it."""

    status: Literal["pass", "fail", "cannot_tell"]
    annotator: (
        Annotated[
            str, Meta(description="The person whose verdict it is; without a name, the label is settled.")
        ]
        | None
    ) = None
    labelled_by: (
        Annotated[str, Meta(description="Source of the label, if it is not an annotator's.")] | None
    ) = None
    labelled_at: str | None = None


class PredictionAnswer(Struct, omit_defaults=True, kw_only=True):
    """The application's performance on a machine that was only fingerprinted."""

    machine: str
    value: float
    low: float
    high: float
    confidence: float
    reasons: Annotated[list[str], Meta(description="Why the prediction cannot be trusted; may be empty.")]


class ReasonAnswer(Struct, omit_defaults=True, kw_only=True):
    """Contribution of one feature to the probability; positive = towards fail."""

    feature: str
    value: Annotated[float, Meta(description="In the units of the feature; null where it is unknown.")] | None
    contribution: float


class RequestCosts(Struct, omit_defaults=True, kw_only=True):
    """Costs of a missed regression, a false alarm and a review by a person, in the same unit."""

    false_negative: float
    false_positive: float
    review: float


class ResultFile(Struct, omit_defaults=True, kw_only=True):
    """A file of results, in any format of ``perfjudge compare``."""

    name: Annotated[
        str,
        Meta(description="Without directories; it is the version of the results if the content names none."),
    ]
    content: Annotated[str, Meta(description="Content of the file, in base64.")]


class SoloRun(Struct, omit_defaults=True, kw_only=True):
    """A solo run of a task or on a machine outside the model's data."""

    task: str
    solo_seconds: float
    events: Annotated[
        dict[str, float | None],
        Meta(description="Counts over the whole run; null: not counted. Only the model's events are used."),
    ]
    machine: Annotated[str, Meta(description="Default: the only machine that the model knows.")] | None = None


class StaticPrediction(Struct, omit_defaults=True, kw_only=True):
    """The predicted slow-down of a task."""

    impact: float | None
    low: float | None
    high: float | None
    confidence: Annotated[float, Meta(description="Nominal coverage of the interval.")]
    task: str
    corunners: list[str]
    machine: Annotated[str, Meta(description="null if not given and the model knows several.")] | None
    solo_seconds: Annotated[float, Meta(description="null without a solo run on that machine.")] | None
    corun_seconds: float | None
    corun_seconds_low: float | None
    corun_seconds_high: float | None
    attributions: Annotated[
        list[ImpactShareAnswer],
        Meta(
            description="Largest contribution first; with usual_impact they add up to the impact of each co-run."
        ),
    ]
    drivers_explain: Annotated[
        list[ExplainedAnswer], Meta(description="Explained co-runs; their impacts - 1 add up.")
    ]
    notes: Annotated[
        list[str], Meta(description="Why an interval is wide, or why no prediction is possible.")
    ]


class StaticRequest(Struct, omit_defaults=True, kw_only=True):
    """Co-runs to predict before they run."""

    coruns: list[CorunQuestion]
    tasks: Annotated[list[SoloRun], Meta(description="Solo runs of more tasks.")] = field(
        default_factory=list
    )


class TrustAnswer(Struct, omit_defaults=True, kw_only=True):
    """The reliability of the ranking and of predictions."""

    verdict: Annotated[
        Literal["trusted", "not enough diversity"], Meta(description="Verdict on the ranking.")
    ]
    reasons: Annotated[
        list[str],
        Meta(
            description="Why the ranking cannot be trusted, and which machines would help; empty if trusted."
        ),
    ]
    leaders: Annotated[
        list[str], Meta(description="The most important stressors, in any order; empty if not trusted.")
    ]
    top_rank_stability: (
        Annotated[
            float,
            Meta(
                description="Share of resamples with these leaders, or without leaders with this first stressor."
            ),
        ]
        | None
    )
    by: (
        Annotated[
            Literal["importance", "correlation"],
            Meta(
                description="Measure of the ranking: shared importance, or correlation with the performance."
            ),
        ]
        | None
    )
    chance: (
        Annotated[
            float, Meta(description="p-value of the largest correlation of a stressor with the performance.")
        ]
        | None
    )
    unpredicted: Annotated[
        list[str],
        Meta(description="Why predictions on other CPU models cannot be trusted; empty if trusted."),
    ]
    machines: Annotated[int, Meta(description="Number of training machines.")]
    cpus: Annotated[int, Meta(description="Number of their CPU models.")]
    r2: (
        Annotated[
            float, Meta(description="R² of the logarithm, with whole CPU models held out; null if unknown.")
        ]
        | None
    )
    median_error: Annotated[float, Meta(description="Median relative error of the same predictions.")] | None
    stability: (
        Annotated[float, Meta(description="Mean overlap (Jaccard) of the top five between resamples.")] | None
    )


class UploadedResults(Struct, omit_defaults=True, kw_only=True):
    """Files of results of two sides, and how to compare them."""

    baseline: Annotated[
        list[ResultFile], Meta(description="Results before the change; several files are several runs.")
    ]
    target: Annotated[
        list[ResultFile],
        Meta(
            description="Results after the change; if empty, the two commands of a hyperfine file are compared."
        ),
    ] = field(default_factory=list)
    history: Annotated[
        list[ResultFile],
        Meta(description="Earlier runs of the baseline's branch, oldest first, or one file of versions."),
    ] = field(default_factory=list)
    better: (
        Annotated[
            Literal["lower", "higher"],
            Meta(description="Better values, where the files do not say; null: higher."),
        ]
        | None
    ) = None
    forms: Annotated[
        list[Literal["markdown", "html"]],
        Meta(description="Additional forms of the answer: a comment for a pull request, a part of a page."),
    ] = field(default_factory=list)


class VerdictAnswer(Struct, omit_defaults=True, kw_only=True):
    """The verdict on one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Literal["pass", "fail", "unsure", "invalid"]
    probability: (
        Annotated[
            float,
            Meta(description="Probability of a regression; null if the model cannot judge the comparison."),
        ]
        | None
    )
    threshold: Annotated[float, Meta(description="Smallest probability with the verdict fail.")]
    unsure_from: Annotated[float, Meta(description="Smallest probability with the verdict unsure or fail.")]
    reason: Annotated[str, Meta(description="Why, in one sentence of at most 15 words.")]
    invalid_reason: str | None
    decided_by: Literal["model", "min_effect_size", "between_run_variation", "validity"]
    remarks: Annotated[
        list[str],
        Meta(
            description="Remarks: excluded outliers; versions after the target that the model ignores or misses."
        ),
    ]
    moved: (
        Annotated[
            MoveAnswer,
            Meta(description="The configuration with the worst change; null if there is no relative change."),
        ]
        | None
    )
    improved: (
        Annotated[
            MoveAnswer,
            Meta(description="The configuration with the largest improvement, if it is another one."),
        ]
        | None
    )
    out_of_distribution: (
        Annotated[
            OutOfDistributionAnswer,
            Meta(description="A warning: the comparison is out of the distribution of the training data."),
        ]
        | None
    )
    reasons: Annotated[
        list[ReasonAnswer],
        Meta(description="Strongest contributions of features. This and the next four: with `explain`."),
    ] = field(default_factory=list)
    words: Annotated[
        list[str],
        Meta(
            description="Evidence in sentences: the change, the usual variation, other facts for the verdict and against it; empty if the verdict is invalid."
        ),
    ] = field(default_factory=list)
    examples: Annotated[
        list[LabelledAnswer],
        Meta(description="The most similar comparison of each label, that with the verdict's label first."),
    ] = field(default_factory=list)
    counterfactual_change: (
        Annotated[
            float,
            Meta(
                description="Counterfactual: the smallest change of the median in `moved` that flips the verdict, as a share; negative is worse. Null if no change from 100 % worse to 1 % better does, or if it was not computed."
            ),
        ]
        | None
    ) = None
    counterfactual: Annotated[
        str, Meta(description="`counterfactual_change` in words; empty if it is null.")
    ] = ""


class ComparedVerdict(Struct, omit_defaults=True, kw_only=True):
    """The verdict on one operation of two sides."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Literal["pass", "fail", "unsure", "invalid"]
    probability: (
        Annotated[
            float,
            Meta(description="Probability of a regression; null if the model cannot judge the comparison."),
        ]
        | None
    )
    threshold: Annotated[float, Meta(description="Smallest probability with the verdict fail.")]
    unsure_from: Annotated[float, Meta(description="Smallest probability with the verdict unsure or fail.")]
    reason: Annotated[str, Meta(description="Why, in one sentence of at most 15 words.")]
    invalid_reason: str | None
    decided_by: Literal["model", "min_effect_size", "between_run_variation", "validity"]
    remarks: Annotated[
        list[str],
        Meta(
            description="Remarks: excluded outliers; versions after the target that the model ignores or misses."
        ),
    ]
    moved: (
        Annotated[
            MoveAnswer,
            Meta(description="The configuration with the worst change; null if there is no relative change."),
        ]
        | None
    )
    improved: (
        Annotated[
            MoveAnswer,
            Meta(description="The configuration with the largest improvement, if it is another one."),
        ]
        | None
    )
    out_of_distribution: (
        Annotated[
            OutOfDistributionAnswer,
            Meta(description="A warning: the comparison is out of the distribution of the training data."),
        ]
        | None
    )
    outcome: Literal[
        "regression", "acknowledged", "unsure", "improvement", "invalid", "within_noise", "unchanged"
    ]
    model_verdict: Annotated[
        str, Meta(description="The verdict before between-run variation was considered.")
    ]
    machine: str
    unit: Annotated[str, Meta(description="Empty if unknown.")]
    versions: Annotated[str, Meta(description="Such as `v1 -> v2`.")]
    target_operation: Annotated[str, Meta(description="Name of the operation in the target.")]
    interval: (
        Annotated[
            list[float],
            Meta(description="95 % interval of the change, as a share; negative is worse. Null if unknown."),
        ]
        | None
    )
    detectable_change: (
        Annotated[
            float,
            Meta(
                description="The smallest slow-down found with a probability of 80 %, as a share; null if unknown."
            ),
        ]
        | None
    )
    faster: (
        Annotated[MoveAnswer, Meta(description="The largest improvement, if the outcome is improvement.")]
        | None
    )
    acknowledged: ExcuseAnswer | None
    reasons: Annotated[
        list[ReasonAnswer],
        Meta(description="Strongest contributions of features. This and the next four: with `explain`."),
    ] = field(default_factory=list)
    words: Annotated[
        list[str],
        Meta(
            description="Evidence in sentences: the change, the usual variation, other facts for the verdict and against it; empty if the verdict is invalid."
        ),
    ] = field(default_factory=list)
    examples: Annotated[
        list[LabelledAnswer],
        Meta(description="The most similar comparison of each label, that with the verdict's label first."),
    ] = field(default_factory=list)
    counterfactual_change: (
        Annotated[
            float,
            Meta(
                description="Counterfactual: the smallest change of the median in `moved` that flips the verdict, as a share; negative is worse. Null if no change from 100 % worse to 1 % better does, or if it was not computed."
            ),
        ]
        | None
    ) = None
    counterfactual: Annotated[
        str, Meta(description="`counterfactual_change` in words; empty if it is null.")
    ] = ""


class Configuration(Struct, omit_defaults=True, kw_only=True):
    """The samples of both sides at one number of threads."""

    baseline: Annotated[
        list[float] | list[list[float]] | FiveNumbers,
        Meta(
            description="Samples; or, where the side has several versions, a list per version, oldest first."
        ),
    ]
    target: Annotated[
        list[float] | list[list[float]] | FiveNumbers,
        Meta(
            description="Samples; or, where the side has several versions, a list per version, oldest first."
        ),
    ]
    threads: int = 1
    history: Annotated[
        list[list[float] | FiveNumbers], Meta(description="One list per earlier version, oldest first.")
    ] = field(default_factory=list)
    later: Annotated[
        list[list[float] | FiveNumbers],
        Meta(
            description="One list per version after the target, oldest first; used only by models that judge in hindsight."
        ),
    ] = field(default_factory=list)


class IrupRequest(Struct, omit_defaults=True, kw_only=True):
    """Fingerprints, and the performance of one application on some of their machines."""

    machines: Annotated[list[Machine], Meta(description="Of machines with the same name, the first counts.")]
    application: Application


class JudgeAnswer(Struct, omit_defaults=True, kw_only=True):
    """The verdicts, in the order of the comparisons."""

    model: JudgeModel
    verdicts: list[VerdictAnswer]
    notes: Annotated[list[str], Meta(description="Assumptions about the request.")]
    base_rate: (
        Annotated[BaseRate, Meta(description="With `base_rate` in the request: the share of regressions.")]
        | None
    ) = None


class MatricesAnswer(Struct, omit_defaults=True, kw_only=True):
    """The verdicts, in the order of the pairs."""

    model: ModelAnswer
    verdicts: list[MatrixVerdictAnswer]
    notes: Annotated[
        list[str], Meta(description="Remarks on all pairs: missing, unknown or renamed metrics.")
    ]
    risk_guarantee: (
        Annotated[FalseAlarmsKept, Meta(description="Guarantee on false alarms; null without one.")] | None
    ) = None


class MatricesRequest(Struct, omit_defaults=True, kw_only=True):
    """Pairs of matrices to be judged."""

    pairs: list[Pair]
    units: Annotated[
        dict[str, str],
        Meta(
            description="Units of metrics; a metric in another unit than the model's counts as not measured."
        ),
    ] = field(default_factory=dict)


class OnlineAnswer(Struct, omit_defaults=True, kw_only=True):
    """The slow-down of a task, predicted from its first seconds."""

    impact: float | None
    low: float | None
    high: float | None
    confidence: Annotated[float, Meta(description="Nominal coverage of the interval.")]
    model: ModelAnswer
    sampled_seconds: Annotated[float, Meta(description="Seconds of both runs that were used.")]
    attributions: Annotated[
        list[ImpactDriverAnswer],
        Meta(description="Events whose rate changed; value: rate in the co-run, usual: rate alone."),
    ]
    notes: Annotated[
        list[str],
        Meta(
            description="Problems of the samples: why an interval is wide, or why no prediction is possible."
        ),
    ]
    opinions: Annotated[
        list[OnlineOpinion],
        Meta(description="Estimates by progress and by the trained model, as far as available."),
    ] = field(default_factory=list)


class ProfileAnswer(Struct, omit_defaults=True, kw_only=True):
    """An inferred resource utilisation profile."""

    application: str
    metric: str
    better: Literal["lower", "higher"]
    trust: TrustAnswer
    features: Annotated[
        list[FeatureAnswer], Meta(description="Most important first; no ranking if not trusted.")
    ]
    clusters: list[ClusterAnswer]
    categories: list[CategoryAnswer]
    predictions: list[PredictionAnswer]
    warnings: Annotated[list[str], Meta(description="Excluded data, and remarks on the fingerprints.")]


class StaticAnswer(Struct, omit_defaults=True, kw_only=True):
    """Predictions in the order of the co-runs."""

    model: ModelAnswer
    predictions: list[StaticPrediction]
    notes: Annotated[
        list[str], Meta(description="Solo runs and events that were not used, and missing events.")
    ] = field(default_factory=list)


class CompareAnswer(Struct, omit_defaults=True, kw_only=True):
    """The answer of ``perfjudge compare --json``, and the requested forms."""

    model: JudgeModel
    verdicts: list[ComparedVerdict]
    notes: list[str]
    missing: list[MissingAnswer]
    counts: Annotated[dict[str, int], Meta(description="Number of operations by outcome.")]
    whole_run: Annotated[
        dict[str, float],
        Meta(description="Median change of all operations by machine, as a share; negative is worse."),
    ]
    markdown: Annotated[str, Meta(description="A comment for a pull request.")] | None = None
    html: (
        Annotated[
            str, Meta(description="Table, box plots and Markdown as a part of a page, without scripts.")
        ]
        | None
    ) = None


class Comparison(Struct, omit_defaults=True, kw_only=True):
    """One operation, measured before and after."""

    comparison_id: str
    operation: str
    better: Annotated[
        Literal["lower", "higher"], Meta(description="Direction of better values; never assumed.")
    ]
    configurations: list[Configuration]
    benchmark: str = "unknown"
    machine: str = "unknown"
    unit: str = "unknown"
    siblings_worse: (
        Annotated[
            float,
            Meta(
                description="Share of the benchmark's other operations that got worse at the target's first version. It is not computed from other comparisons of the request."
            ),
        ]
        | None
    ) = None
    labels: list[PostedLabel] = field(default_factory=list)


class JudgeRequest(Struct, omit_defaults=True, kw_only=True):
    """Comparisons to be judged, and limits of the errors of their verdicts."""

    comparisons: list[Comparison]
    max_false_negative_rate: (
        Annotated[float, Meta(description="Maximum share of the regressions that pass.")] | None
    ) = None
    max_false_positive_rate: (
        Annotated[float, Meta(description="Maximum share of the other comparisons that fail.")] | None
    ) = None
    costs: Annotated[RequestCosts, Meta(description="Costs of errors, instead of both limits.")] | None = None
    base_rate: (
        Annotated[
            float | Literal["estimate"],
            Meta(
                description="Share of regressions that probabilities and thresholds are corrected for, or `estimate` from the comparisons of this request. Default: that of the training data."
            ),
        ]
        | None
    ) = None
    explain: Annotated[
        bool,
        Meta(
            description="Also return the contributions of features, the evidence, nearest labelled comparisons and counterfactuals."
        ),
    ] = False


#: Maximum number of bytes of a body, by path.
MAX_BYTES = {
    "/v1/comparisons/judge": 67108864,
    "/v1/comparisons/compare": 67108864,
    "/v1/matrices/judge": 33554432,
    "/v1/corun/static": 16777216,
    "/v1/corun/online": 16777216,
    "/v1/irup": 16777216,
}
#: Maximum number of items of a list, by path and key.
MAX_ITEMS = {
    ("/v1/comparisons/compare", "baseline"): 1000,
    ("/v1/comparisons/compare", "target"): 1000,
    ("/v1/comparisons/compare", "history"): 1000,
    ("/v1/matrices/judge", "pairs"): 1000,
    ("/v1/corun/static", "coruns"): 200,
    ("/v1/corun/static", "tasks"): 200,
    ("/v1/irup", "machines"): 10000,
}
