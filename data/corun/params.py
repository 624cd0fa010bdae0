"""The knobs of co-runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section

Design = Literal["random", "pairs", "pairs-on-machine", "tasks", "machines"]


class IngestCorun(Ingest):
    """Where co-runs come from; under these ``engines`` only, if there are any, or under all."""

    engines: tuple[str, ...] = ()


class ValidateCorun(Section):
    """The share of the solo runs that may lack an event, and of the events that a solo run may lack.

    Beyond it either is left out.
    """

    missing: Share = 0.2


class TuneImpact(Section):
    """The search inside each training part: at most ``rows`` of it, drawn at random."""

    trials: Count = 6
    folds: Annotated[int, Field(ge=2)] = 3
    rows: Count = 2000
    models: tuple[str, ...] = (
        "linear",
        "svm",
        "random-forest",
        "xgboost",
        "contention",
        "logistic-ranges",
        "bayes-ranges",
        "svm-ranges",
        "random-forest-ranges",
        "xgboost-ranges",
    )


class EvaluateImpact(Section):
    """How predictions of impact are judged: within ``tolerance`` of the measured impact (the seed's 3 %).

    Prediction intervals are to hold the share ``confidence`` of the measured impacts. Ranges are as wide as
    ``tolerance`` times the mean impact of a task.
    """

    designs: tuple[Design, ...] = get_args(Design)
    folds: Annotated[int, Field(ge=2)] = 5
    tolerance: Share = 0.03
    confidence: Share = 0.9


class Online(Section):
    """The online model: how many seconds of samples it is judged at, and which it is trained for."""

    name: str = "corun-online"
    seconds: tuple[Annotated[float, Field(gt=0)], ...] = (0.4, 1.0, 2.0, 4.0, 10.0)
    trained_at: Annotated[float, Field(gt=0)] = 2.0


class Corun(FamilySection):
    """The family ``corun``: a section per verb, and one of the online model."""

    family: ClassVar[str] = "corun"
    ingest: IngestCorun = IngestCorun(path=Path("data/raw/corun"))
    checks: ValidateCorun = ValidateCorun()
    featurize: Section = Section()
    tune: TuneImpact = TuneImpact()
    evaluate: EvaluateImpact = EvaluateImpact()
    online: Online = Online()
    promote: Promote = Promote(name="corun-static")
