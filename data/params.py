"""Every knob of params.yaml, typed and validated once at the edge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError

from data.errors import InputError
from data.tables.given import Section, said

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


class LabelRules(Section):
    """How marked change points become labelled comparisons (sap-hana)."""

    versions_before: Count = 10
    versions_after: Count = 5
    clean_every: Count = 10
    annotators: Count = 3
    within: Count = 5
    clear_of: Count = 12


class Measure(Section):
    """What a result is, in formats that don't say (result-xml, comparison-xml).

    ``metric`` names the attribute or element (``mops``); without it, the first that is no time is taken.
    Without ``better``, higher is assumed, and a note says so; times are better lower.
    """

    metric: str | None = None
    better: Literal["higher", "lower"] | None = None


class Featurize(Section):
    """Which of the features the models see."""

    set: Literal["seed", "extended"] = "extended"


class Tune(Section):
    """The search inside each training part.

    ``rows`` bounds how many comparisons a search looks at: all fails, and passes drawn at random.
    """

    trials: Count = 20
    folds: Annotated[int, Field(ge=2)] = 3
    rows: Count = 4000
    models: tuple[str, ...]


class Evaluate(Section):
    """The two ways to split: the seed's, and whole operations."""

    folds: Annotated[int, Field(ge=2)] = 4
    repeats: Count = 2
    grouped_folds: Annotated[int, Field(ge=2)] = 5


class Decide(Section):
    """What stands between a model's word and the verdict.

    ``floor`` is the smallest change of a median that may be called a regression, as a share of the
    baseline's; null or 0: any may.
    """

    floor: Annotated[float, Field(ge=0, lt=1)] | None = 0.005


class Promote(Section):
    """When a trained model takes the alias ``champion``."""

    name: str = "regression-comparison"
    resamples: Count = 2000
    confidence: Share = 0.95


class Comparisons(Section):
    """The family ``comparisons``."""

    format: str
    path: Path
    keep_going: bool = False
    label_rules: LabelRules = LabelRules()
    measure: Measure = Measure()
    featurize: Featurize = Featurize()
    tune: Tune
    evaluate: Evaluate = Evaluate()
    decide: Decide = Decide()
    promote: Promote = Promote()


class TrustLimits(Section):
    """What a profile must reach, or the answer is "not enough diversity"."""

    machines: Count = 15
    cpus: Count = 5
    r2: float = 0.5
    stability: float = 0.2


class Profiling(Section):
    """How profiles are made and compared.

    Machines are resampled ``resamples`` times for an interval of ``confidence``; two profiles differ at
    ``significance``, after as many exchanges. ``tolerance`` (on the scale of 100) is what the seed's
    algorithm calls similar. The seed's own method is fitted by ``boosting``, and on ``seed_resamples`` for
    its stability.
    """

    resamples: Count = 200
    confidence: Share = 0.9
    significance: Share = 0.025
    tolerance: Annotated[float, Field(gt=0)] = 10
    trust: TrustLimits = TrustLimits()
    boosting: Literal["gradient-boosting", "xgboost"] = "gradient-boosting"
    seed_resamples: Annotated[int, Field(ge=2)] = 5


class Predicting(Section):
    """How predictions are judged: on CPU models held out, within this relative error of the truth."""

    tolerance: Share = 0.1
    entries: tuple[Literal["ensemble", "forest", "seed", "median"], ...] = (
        "ensemble",
        "forest",
        "seed",
        "median",
    )


class Fingerprints(Section):
    """The family ``fingerprints``.

    ``missing`` is the share of the fingerprint that a machine may lack, and the share of the machines that
    may lack a stressor; beyond it either is left out, below it the gaps are left to the model. ``threads``
    says which rates are used, ``applications`` how many applications at most.
    """

    format: str = "tables"
    path: Path = Path("data/raw/fingerprints")
    keep_going: bool = False
    missing: Share = 0.2
    threads: Literal["one", "all", "both"] = "both"
    applications: Count = 120
    profile: Profiling = Profiling()
    evaluate: Predicting = Predicting()


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

    designs: tuple[Literal["random", "pairs", "pairs-on-machine", "tasks", "machines"], ...] = (
        "random",
        "pairs",
        "pairs-on-machine",
        "tasks",
        "machines",
    )
    folds: Annotated[int, Field(ge=2)] = 5
    tolerance: Share = 0.03
    confidence: Share = 0.9


class Online(Section):
    """The online model: how many seconds of samples it is judged at, and which it is trained for."""

    name: str = "corun-online"
    seconds: tuple[Annotated[float, Field(gt=0)], ...] = (0.4, 1.0, 2.0, 4.0, 10.0)
    trained_at: Annotated[float, Field(gt=0)] = 2.0


class Corun(Section):
    """The family ``corun``.

    ``missing`` is the share of the solo runs that may lack an event, and the share of the events that a solo
    run may lack; beyond it either is left out. Co-runs on machines of other ``engines`` are not learned from,
    if there are any.
    """

    format: str = "tables"
    path: Path = Path("data/raw/corun")
    engines: tuple[str, ...] = ()
    keep_going: bool = False
    missing: Share = 0.2
    tune: TuneImpact = TuneImpact()
    evaluate: EvaluateImpact = EvaluateImpact()
    online: Online = Online()
    promote: Promote = Promote(name="corun-static")


class EvaluateMatrices(Section):
    """How many folds of whole test cases there are: for tables, and for the seed's figures."""

    folds: Annotated[int, Field(ge=2)] = 10
    curve_folds: Annotated[int, Field(ge=2)] = 3


class Matrices(Section):
    """The family ``matrices``.

    ``missing`` is the share of the runs that may lack a metric, and the share of the raw metrics that a run
    may lack; beyond it either is left out. ``models`` want to be champion under the full scheme; every search
    inside a training part has so many ``trials``, and looks at so many principal ``components`` at most.
    """

    format: str = "tables"
    path: Path = Path("data/raw/matrices")
    keep_going: bool = False
    missing: Share = 0.5
    trials: Count = 6
    components: Count = 100
    models: tuple[str, ...] = (
        "decision-tree",
        "logistic",
        "tan",
        "svm",
        "knn",
        "random-forest",
        "xgboost",
    )
    evaluate: EvaluateMatrices = EvaluateMatrices()
    promote: Promote = Promote(name="regression-matrix")


class Params(Section):
    """All of params.yaml."""

    seed: Annotated[int, Field(ge=0, lt=2**32)]
    jobs: Count = 2
    comparisons: Comparisons
    fingerprints: Fingerprints = Fingerprints()
    corun: Corun = Corun()
    matrices: Matrices = Matrices()


def load(path: Path = Path("params.yaml")) -> Params:
    """Read and validate params.yaml.

    Raises
    ------
    InputError
        Naming the key, the value and what was expected.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
        return Params.model_validate(content)
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    except (UnicodeDecodeError, RecursionError, yaml.YAMLError) as exc:
        raise InputError(f"is not YAML ({exc})", file=path) from exc
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc
