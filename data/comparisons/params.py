"""The knobs of comparisons."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section


class LabelRules(Section):
    """How marked change points become labelled comparisons (sap-hana).

    ``versions_later`` after the target are known to who judges in hindsight.
    ``doubtful`` takes changes that fewer than ``annotators`` people marked, too: these have the people's own
    labels only.
    """

    versions_before: Count = 10
    versions_after: Count = 5
    versions_later: Annotated[int, Field(ge=0)] = 40
    clean_every: Count = 10
    annotators: Count = 3
    within: Count = 5
    clear_of: Count = 12
    doubtful: bool = False


class Measure(Section):
    """What a result is, in formats that don't say (result-xml, comparison-xml).

    ``metric`` names the attribute or element (``mops``); without it, the first that is no time is taken.
    Without ``better``, higher is assumed, and a note says so; times are better lower.
    """

    metric: str | None = None
    better: Literal["higher", "lower"] | None = None


class IngestComparisons(Ingest):
    """Where labelled comparisons come from, and what they are where the source doesn't say."""

    label_rules: LabelRules = LabelRules()
    measure: Measure = Measure()


FeatureSet = Literal["seed", "extended", "retrospective"]


class CheckComparisons(Section):
    """How what several people say of one comparison becomes the status that trains."""

    consensus: Literal["majority", "dawid-skene"] = "majority"


class FeaturizeComparisons(Section):
    """Which of the features the models see, and which vectors they see beside one's own.

    Those of the set ``retrospective`` look past the target. ``start_from`` is what training starts from:
    nothing, or what the shipped champion has learnt from, too.
    """

    set: FeatureSet = "extended"
    start_from: Literal["nothing", "champion"] = "nothing"


class Tune(Section):
    """The search inside each training part.

    ``rows`` bounds how many comparisons a search looks at: all fails, and passes drawn at random.
    ``unlabelled`` comparisons may count as passes where the threshold is chosen: for whoever labels first
    what is most worth it, and so has a sample in which far too many fail.
    """

    trials: Count = 20
    folds: Annotated[int, Field(ge=2)] = 3
    rows: Count = 4000
    unlabelled: Literal["ignored", "pass"] = "ignored"
    models: tuple[str, ...]


class Evaluate(Section):
    """The two ways to split: the seed's, and whole operations."""

    folds: Annotated[int, Field(ge=2)] = 4
    repeats: Count = 2
    grouped_folds: Annotated[int, Field(ge=2)] = 5


class CostsOfVerdicts(Section):
    """What a missed regression, a false alarm and a person's look cost, in one unit."""

    miss: Annotated[float, Field(gt=0)]
    false_alarm: Annotated[float, Field(gt=0)]
    look: Annotated[float, Field(gt=0)]


class Decide(Section):
    """What stands between a model's word and the verdict.

    ``floor`` is the smallest change of a median that may be called a regression, as a share of the
    baseline's; null or 0: any may.

    ``fail`` begins at the threshold of the best balanced accuracy, or where at most ``false_alarms`` of the
    passes raise an alarm. ``unsure`` begins where at most ``missed`` of the fails lie below; then what is
    below the floor may be unsure, too. Or at most ``looks`` of the comparisons are unsure, those most worth
    a look; null: nothing is. Or ``costs`` say both. All that holds with ``confidence``.
    """

    floor: Annotated[float, Field(ge=0, lt=1)] | None = 0.005
    missed: Share | None = None
    false_alarms: Share | None = None
    looks: Share | None = None
    costs: CostsOfVerdicts | None = None
    confidence: Share = 0.9

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.missed is not None and self.looks is not None:
            raise ValueError("missed and looks both say where unsure begins; expected one of them")
        if self.costs is not None and {self.missed, self.false_alarms, self.looks} != {None}:
            raise ValueError("costs say where unsure and fail begin; expected no missed, false_alarms, looks")
        return self


class Comparisons(FamilySection):
    """The family ``comparisons``: a section per verb."""

    family: ClassVar[str] = "comparisons"
    ingest: IngestComparisons
    checks: CheckComparisons = CheckComparisons()
    featurize: FeaturizeComparisons = FeaturizeComparisons()
    tune: Tune
    evaluate: Evaluate = Evaluate()
    decide: Decide = Decide()
    promote: Promote = Promote(name="regression-comparison")

    @property
    def registered(self) -> str:
        """The name under which what is trained is registered."""
        return self.retrospective if self.featurize.set == "retrospective" else self.promote.name

    @property
    def retrospective(self) -> str:
        """The name of models that look past the target: nobody is to meet one unasked."""
        return f"{self.promote.name}-retrospective"
