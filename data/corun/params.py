"""The section ``corun`` of params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section

Design = Literal["random", "pairs", "pairs-on-machine", "tasks", "machines"]


class IngestCorun(Ingest):
    """The source of co-runs; only those of ``engines``, unless it is empty."""

    engines: tuple[str, ...] = ()


class ValidateCorun(Section):
    """Largest share of missing values of an event (over the solo runs), and of a solo run (over the events).

    An event or solo run with a larger share is left out.
    """

    max_missing_fraction: Share = 0.2


class TuneImpact(Section):
    """The search inside each training part, on at most ``max_rows`` rows, drawn at random."""

    n_trials: Count = 6
    n_folds: Annotated[int, Field(ge=2)] = 3
    max_rows: Count = 2000
    models: tuple[str, ...] = (
        *("linear", "svm", "random-forest", "xgboost", "contention"),
        *("logistic-ranges", "bayes-ranges", "svm-ranges", "random-forest-ranges", "xgboost-ranges"),
    )


class EvaluateImpact(Section):
    """Parameters of the evaluation.

    ``tolerance`` is the largest relative error of a correct prediction (3 % in the co-run paper);
    ranges have the width ``tolerance`` * mean impact of a task. ``confidence`` is the nominal coverage of
    intervals.
    """

    designs: tuple[Design, ...] = get_args(Design)
    n_folds: Annotated[int, Field(ge=2)] = 5
    tolerance: Share = 0.03
    confidence: Share = 0.9


class Online(Section):
    """The online model: the seconds of samples for evaluation (``seconds``) and training (``trained_at``)."""

    name: str = "corun-online"
    seconds: tuple[Annotated[float, Field(gt=0)], ...] = (0.4, 1.0, 2.0, 4.0, 10.0)
    trained_at: Annotated[float, Field(gt=0)] = 2.0


class Corun(FamilySection):
    """The family ``corun``: one section per stage, and one for the online model."""

    family: ClassVar[str] = "corun"
    ingest: IngestCorun = IngestCorun(path=Path("data/raw/corun"))
    checks: ValidateCorun = ValidateCorun()
    featurize: Section = Section()
    tune: TuneImpact = TuneImpact()
    evaluate: EvaluateImpact = EvaluateImpact()
    online: Online = Online()
    promote: Promote = Promote(name="corun-static")
