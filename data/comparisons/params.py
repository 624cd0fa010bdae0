"""The parameters of the family ``comparisons`` in params.yaml."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section


class LabelRules(Section):
    """Rules that turn marked change points into labelled comparisons (format sap-hana).

    The baseline is the ``versions_before`` versions before a boundary, the target the ``versions_after``
    versions from it on; ``versions_later`` more versions are included for models that judge in hindsight. The
    other rules are explained at `data.comparisons.formats.sap_hana.find_boundaries`. With
    ``include_ambiguous``, changes that fewer than ``min_annotators`` people marked are included, with the
    labels of these people but without a consensus.
    """

    versions_before: Count = 10
    versions_after: Count = 5
    versions_later: Annotated[int, Field(ge=0)] = 40
    clean_every: Count = 10
    min_annotators: Count = 3
    match_window: Count = 5
    exclusion_window: Count = 12
    include_ambiguous: bool = False


class Measure(Section):
    """The metric and its direction, for formats that do not define them (result-xml, comparison-xml).

    ``metric`` names the attribute or element (``mops``); by default the first that is not a time is used.
    ``better`` is the direction of metrics other than times; by default "higher" is assumed, with a note. For
    times, lower is better.
    """

    metric: str | None = None
    better: Literal["higher", "lower"] | None = None


class IngestComparisons(Ingest):
    """The source of labelled comparisons, and settings for properties that its format does not define."""

    label_rules: LabelRules = LabelRules()
    measure: Measure = Measure()


FeatureSet = Literal["thesis", "extended", "retrospective"]


class CheckComparisons(Section):
    """How several annotators' labels are aggregated into the training label."""

    consensus: Literal["majority", "dawid-skene"] = "majority"


class FeaturizeComparisons(Section):
    """The feature set, and additional training data.

    The set ``retrospective`` uses versions after the target. With ``extra_training_data: champion``, models
    also train on the training data of the shipped champion.
    """

    feature_set: FeatureSet = "extended"
    extra_training_data: Literal["nothing", "champion"] = "nothing"


class Tune(Section):
    """The hyperparameter search within each training set.

    ``max_rows`` is the maximum number of comparisons in a search: all fails, and passes drawn at random.
    ``unlabelled: pass`` counts unlabelled comparisons as passes where the threshold is chosen, for data where
    people labelled the most suspicious comparisons first, so that too many of the labels are fails.
    """

    n_trials: Count = 10
    n_folds: Annotated[int, Field(ge=2)] = 3
    max_rows: Count = 4000
    unlabelled: Literal["ignored", "pass"] = "ignored"
    models: tuple[str, ...]


class Evaluate(Section):
    """Numbers of folds of the two splits of the evaluation.

    The first split has ``n_repeats`` times ``n_folds`` random folds of comparisons (as in the scheduler
    thesis), the second has ``n_grouped_folds`` folds of whole operations.
    """

    n_folds: Annotated[int, Field(ge=2)] = 4
    n_repeats: Count = 2
    n_grouped_folds: Annotated[int, Field(ge=2)] = 5


class CostsOfVerdicts(Section):
    """The costs of a missed regression, a false alarm and a review by a person, in the same unit."""

    false_negative: Annotated[float, Field(gt=0)]
    false_positive: Annotated[float, Field(gt=0)]
    review: Annotated[float, Field(gt=0)]


class Decide(Section):
    """How probabilities become verdicts.

    ``min_effect_size`` is the smallest change of a median that may be called a regression, as a share of the
    baseline's median; with null or 0, any change may.

    The verdict ``fail`` begins at the threshold with the best balanced accuracy or, with
    ``max_false_positive_rate``, where at most this share of the passes fails. The verdict ``unsure`` begins,
    with ``max_false_negative_rate``, where at most this share of the fails passes; then comparisons below the
    minimum effect size may be unsure, too. With ``max_review_rate``, at most this share of the comparisons is
    unsure, those most worth a review. Without both, none is. ``costs`` replace these parameters. All limits
    hold with ``confidence``.
    """

    min_effect_size: Annotated[float, Field(ge=0, lt=1)] | None = 0.005
    max_false_negative_rate: Share | None = None
    max_false_positive_rate: Share | None = None
    max_review_rate: Share | None = None
    costs: CostsOfVerdicts | None = None
    confidence: Share = 0.9

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.max_false_negative_rate is not None and self.max_review_rate is not None:
            limits = "max_false_negative_rate and max_review_rate"
            raise ValueError(f"{limits} both set where unsure begins; expected one of them")
        rates = {self.max_false_negative_rate, self.max_false_positive_rate, self.max_review_rate}
        if self.costs is not None and rates != {None}:
            raise ValueError("costs set where unsure and fail begin; expected no limits")
        return self


class Comparisons(FamilySection):
    """The section of the family ``comparisons``, with one subsection per stage."""

    family: ClassVar[str] = "comparisons"
    ingest: IngestComparisons
    checks: CheckComparisons = CheckComparisons()
    featurize: FeaturizeComparisons = FeaturizeComparisons()
    tune: Tune
    evaluate: Evaluate = Evaluate()
    decide: Decide = Decide()
    promote: Promote = Promote(name="regression-comparison")

    @property
    def registered_name(self) -> str:
        """The name of the registered model that training creates."""
        return self.retrospective_name if self.featurize.feature_set == "retrospective" else self.promote.name

    @property
    def retrospective_name(self) -> str:
        """The name of models that use versions after the target, so that no user gets one by accident."""
        return f"{self.promote.name}-retrospective"
