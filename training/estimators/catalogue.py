"""The catalogue of classifiers: the six of the thesis, section 6.7, and XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from training.estimators.answering import MonotoneConstraints

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Where:
    """A condition: the parameter is used only if an earlier one has one of these values."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Real:
    """A real number from `low` to `high`; on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False
    condition: Where | None = None

    def suggest_value(self, trial: Trial, name: str) -> Any:
        """Return a value that `trial` suggests."""
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Whole(Real):
    """A whole number from `low` to `high`; on a logarithmic scale if `log`."""

    low: int
    high: int

    def suggest_value(self, trial: Trial, name: str) -> Any:
        """Return a value that `trial` suggests."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class OneOf:
    """One of these values."""

    values: tuple[Any, ...]
    condition: Where | None = None

    def suggest_value(self, trial: Trial, name: str) -> Any:
        """Return a value that `trial` suggests."""
        return trial.suggest_categorical(name, list(self.values))


#: The range of each parameter; any other value is a constant.
Space = Mapping[str, Real | OneOf | Any]


def suggest_params(space: Space, trial: Trial) -> dict[str, Any]:
    """Return the values that `trial` suggests in `space`, by name, and the constants of `space`.

    A parameter whose condition is not met is absent. A condition refers to a parameter or constant that comes
    earlier in `space`; KeyError if that is absent.
    """
    params: dict[str, Any] = {}
    for name, values in space.items():
        if not isinstance(values, Real | OneOf):
            params[name] = values
        elif values.condition is None or params[values.condition.name] in values.condition.values:
            params[name] = values.suggest_value(trial, name)
    return params


Params = Mapping[str, Any]
#: The weight of a comparison that passed (0) and of one that failed (1) in the fit.
ClassWeights = dict[int, float]
Balance = ClassWeights | None
Directions = tuple[int, ...] | None
#: See `Model.build`.
Build = Callable[..., Any]


@dataclass(frozen=True)
class Model:
    """A kind of model, and its search space."""

    #: name, title: for files, and for people.
    name: str
    title: str
    #: The parameters that every search tries first; for comparisons, the configuration of the scheduler
    #: thesis, section 6.7.
    start: dict[str, Any]
    #: ``build(params, seed, weights, *, directions=None)`` returns an unfitted model; with directions, a
    #: monotone one: where a column's is -1, a larger value never makes ``fail`` more probable.
    build: Build
    space: Space  # search space of the hyperparameters
    #: Whether it takes class weights. Nearest neighbours don't: there, the cost of a missed regression
    #: affects the threshold only.
    weighted: bool = True
    #: Parameters that are replaced while searching, to save time; a forest with fewer trees ranks its
    #: settings alike.
    in_search: dict[str, Any] = field(default_factory=dict)


def build_estimator(
    address: str,
    arguments: Mapping[str, str],
    params: Params,
    seed: int,
    weights: Balance,
    *,
    directions: Directions = None,
    **fixed: Any,
) -> Any:
    """Return an unfitted estimator, whose class is at the address ``module:class``; imports the module.

    `arguments` maps each argument of the class to the source of its value: the name of one of `params`, or
    ``seed``, ``weights`` or ``directions`` (see `Model.build`). `fixed` are further arguments of the class
    with their values. KeyError if a parameter is missing.
    """
    module, _, name = address.partition(":")
    values = {**params, "seed": seed, "weights": weights, "directions": directions}
    given = {argument: values[source] for argument, source in arguments.items()}
    return getattr(import_module(module), name)(**given, **fixed)


_SEEDED = {"random_state": "seed"}
WEIGHTED = {**_SEEDED, "class_weight": "weights"}
#: The arguments of scikit-learn's forests, and of XGBoost.
FOREST = {**_SEEDED, "n_estimators": "trees", "min_samples_leaf": "leaf", "max_features": "features"}
BOOSTING = {
    **_SEEDED, "n_estimators": "trees", "max_depth": "depth", "min_child_weight": "child_weight",
    "colsample_bytree": "columns",
}  # fmt: skip
HISTOGRAMS: dict[str, Any] = {"tree_method": "hist", "nthread": 1}


def build_logistic(
    params: Params, seed: int, weights: Balance, directions: Directions = None, **fixed: Any
) -> Any:
    """Return an unfitted logistic regression with ``C=params["c"]`` and class weights `weights`.

    With `directions`, it is a `SignedLogistic`, and `seed` and `fixed` are ignored. KeyError without ``c``.
    """
    if directions is None:
        address = "sklearn.linear_model:LogisticRegression"
        return build_estimator(address, {"C": "c", **WEIGHTED}, params, seed, weights, **fixed)
    from training.estimators.monotone import SignedLogistic

    return SignedLogistic(params["c"], directions=directions, class_weight=weights)


def _build_neighbours(
    params: Params, seed: int, _: Balance, directions: Directions = None, **fixed: Any
) -> Any:
    if directions is not None:
        from training.estimators.monotone import OneSidedNeighbours

        return OneSidedNeighbours(params["k"], params["p"], directions=directions, seed=seed, **fixed)
    from sklearn.neighbors import KNeighborsClassifier

    # a neighbour tree would be stored with the model, in types that only its own code can check
    return KNeighborsClassifier(n_neighbors=params["k"], p=params["p"], algorithm="brute", **fixed)


def _build_xgboost(params: Params, seed: int, weights: Balance, directions: Directions = None) -> Any:
    arguments = {**BOOSTING, "learning_rate": "rate_of_learning", "subsample": "subsample"}
    ratio = 1.0 if weights is None else weights[1] / weights[0]
    fixed = {**HISTOGRAMS, "scale_pos_weight": ratio, "monotone_constraints": directions}
    return build_estimator("xgboost:XGBClassifier", arguments, params, seed, weights, **fixed)


_MONOTONE = {**WEIGHTED, "monotonic_cst": "directions"}
TREE = {**_MONOTONE, "min_samples_leaf": "leaf", "criterion": "criterion"}
_NEAREST = {"k": Whole(3, 30), "p": Whole(1, 2)}
_GROWN = {"trees": 100, "leaf": Whole(1, 16, log=True), "features": OneOf(("sqrt", "log2"))}
_EQUAL = {"sampler": "none", "weights": "equal"}
_BALANCED = {"sampler": "none", "weights": "balanced", "cost_ratio": 1.0}
_FOREST = {"trees": 100, "leaf": 1, "features": "sqrt", **_EQUAL}
_BOOSTED = {"trees": 100, "depth": 3, "rate_of_learning": 0.1, "child_weight": 1.0}
_FEWER_TREES = {"trees": 30}

CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "knn-uniform", "k-NN (uniform)", {"k": 3, "p": 2, "sampler": "none"},
            partial(_build_neighbours, weights="uniform"), _NEAREST, weighted=False,
        ),
        Model(
            "knn-distance", "k-NN (distance)", {"k": 6, "p": 2, "sampler": "none"},
            partial(_build_neighbours, weights="distance"), _NEAREST, weighted=False,
        ),
        Model(
            "logistic", "Logistic regression", {"c": 1.0, **_BALANCED},
            partial(build_logistic, max_iter=1000), {"c": Real(1e-3, 30.0, log=True)},
        ),
        Model(
            "decision-tree", "Decision tree", {"leaf": 16, "criterion": "gini", **_EQUAL},
            partial(build_estimator, "sklearn.tree:DecisionTreeClassifier", TREE),
            {"leaf": Whole(2, 64, log=True), "criterion": OneOf(("gini", "entropy"))},
        ),
        Model(
            "random-forest", "Random forest", {"samples": 1.0, **_FOREST},
            partial(build_estimator, "sklearn.ensemble:RandomForestClassifier",
                    {**FOREST, **_MONOTONE, "max_samples": "samples"}, n_jobs=1),
            {**_GROWN, "samples": Real(0.3, 1.0)}, in_search=_FEWER_TREES,
        ),
        Model(
            "extra-trees", "Extra trees", _FOREST,
            partial(build_estimator, "sklearn.ensemble:ExtraTreesClassifier", {**FOREST, **_MONOTONE},
                    n_jobs=1), _GROWN, in_search=_FEWER_TREES,
        ),
        Model(
            "xgboost", "XGBoost", {**_BOOSTED, "subsample": 1.0, "columns": 1.0, **_BALANCED}, _build_xgboost,
            {
                "trees": Whole(30, 150),
                "depth": Whole(1, 5),
                "rate_of_learning": Real(0.03, 0.3, log=True),
                "child_weight": Real(0.5, 8.0, log=True),
                "subsample": Real(0.5, 1.0),
                "columns": Real(0.3, 1.0),
            },
        ),
    )
}  # fmt: skip

#: The models, ordered by how little their verdicts depend on the training sample: means over randomly grown
#: trees (P. Geurts, D. Ernst, L. Wehenkel, Extremely randomized trees, Machine Learning 63, 2006, section 4:
#: the lowest variance), means over greedily grown trees, few coefficients, and methods that follow single
#: rows.
TIE_BREAK_ORDER = (
    "extra-trees",
    "random-forest",
    "logistic",
    "xgboost",
    "knn-uniform",
    "knn-distance",
    "decision-tree",
)


#: Number of neighbours that SMOTE interpolates between.
SMOTE_NEIGHBOURS = 5
_SAMPLERS = ("under", "over", "smote")
_RESAMPLING = {
    "sampler": OneOf(("none", *_SAMPLERS)),
    "rate": Real(0.1, 1.0, condition=Where("sampler", _SAMPLERS)),
}
_WEIGHTING = {
    "weights": OneOf(("equal", "balanced")),
    "cost_ratio": Real(0.25, 4.0, log=True, condition=Where("weights", ("balanced",))),
}


class InfeasibleError(ValueError):
    """The labels do not allow the requested resampling or number of neighbours."""


@dataclass(frozen=True)
class ClassCounts:
    """The numbers of comparisons that passed and that failed."""

    passed: int
    failed: int

    def after_resampling(self, sampler: str, rate: float) -> ClassCounts:
        """Return the counts after resampling to `rate`, the smaller class as a share of the larger.

        `sampler` is "under", "over" or "smote". InfeasibleError if the rate cannot be reached, or a class has
        too few rows for SMOTE.
        """
        small, large = sorted((self.passed, self.failed))
        if sampler == "smote" and small <= SMOTE_NEIGHBOURS:
            raise InfeasibleError(f"SMOTE needs more than {SMOTE_NEIGHBOURS} rows of a class, not {small}")
        wanted = (small, int(small / rate)) if sampler == "under" else (int(large * rate), large)
        if wanted[1] >= large and wanted[0] <= small:
            raise InfeasibleError(f"rate={rate:.3f} is not above the present rate {small / large:.3f}")
        return ClassCounts(*reversed(wanted)) if self.failed <= self.passed else ClassCounts(*wanted)

    def balancing_weights(self, cost_ratio: float) -> ClassWeights:
        """Return the weight of passes (0) and fails (1) that balances them, times `cost_ratio` for fails."""
        total = self.passed + self.failed
        return {0: total / (2 * self.passed), 1: cost_ratio * total / (2 * self.failed)}


def space_of(model: Model) -> Space:
    """Return the ranges or constants of a model's parameters, resampling and any class weights, by name."""
    return {**model.space, **_RESAMPLING, **(_WEIGHTING if model.weighted else {})}


def strict_pipeline(
    model: Model,
    params: Params,
    y: NDArray[np.int64],
    seed: int,
    constraints: MonotoneConstraints | None = None,
) -> Any:
    """Return the unfitted pipeline (impute, scale, resample, classify) for labels `y`.

    `y` has shape (n_rows,) and both labels, 1 is fail. `params` are values in `space_of`; if ``sampler`` is
    "none", there is no step that resamples. `constraints` has constraints on the columns, if any.
    InfeasibleError if the sampler cannot reach its rate with these labels, SMOTE has at most 5 rows of a
    class, or ``k`` exceeds the number of rows after resampling.
    """
    from imblearn.pipeline import Pipeline
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    from training.estimators.preparation import EvidenceClassifier, EvidenceScaler, GapFiller

    counts, steps = ClassCounts(*np.bincount(y, minlength=2).tolist()), []
    if params["sampler"] != "none":
        resampled = counts.after_resampling(params["sampler"], params["rate"])
        steps = [("sample", _build_sampler(params["sampler"], counts, resampled, seed))]
        counts = resampled
    if params.get("k", 1) > counts.passed + counts.failed:
        raise InfeasibleError(f"k={params['k']} exceeds the number of comparisons")
    balanced = params.get("weights") == "balanced"
    weights = counts.balancing_weights(params["cost_ratio"]) if balanced else None
    directions = None if constraints is None else constraints.directions
    classify = model.build(params, seed, weights, directions=directions)
    if constraints is None:
        impute, scale = SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    else:
        impute = GapFiller(constraints.directions, constraints.evidence)
        scale = EvidenceScaler(constraints.evidence)
        if constraints.evidence is not None:
            classify = EvidenceClassifier(classify, constraints.evidence)
    return Pipeline([("impute", impute), ("scale", scale), *steps, ("classify", classify)])


def build_pipeline(
    model: Model,
    params: Params,
    y: NDArray[np.int64],
    seed: int,
    constraints: MonotoneConstraints | None = None,
) -> Any:
    """Return the unfitted pipeline (impute, scale, resample, classify) for labels `y`; never infeasible.

    It is that of `strict_pipeline` with the same arguments, or if that is infeasible, one without sampler and
    with at most len(y) neighbours. `y`, shape (n_rows,), has both labels, 1 is fail.
    """
    try:
        return strict_pipeline(model, params, y, seed, constraints)
    except InfeasibleError:
        nearest = {"k": min(params["k"], len(y))} if "k" in params else {}
        return strict_pipeline(model, {**params, **nearest, "sampler": "none"}, y, seed, constraints)


def without_sampler(fitted: Any) -> Any:
    """Return a new pipeline of the same fitted steps without any resampling step, for prediction."""
    from sklearn.pipeline import Pipeline

    return Pipeline([(name, step) for name, step in fitted.steps if not hasattr(step, "fit_resample")])


def fail_probability(fitted: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of ``fail`` for every row of `x`, (n_rows, n_features); shape (n_rows,).

    `fitted` is a classifier that was fitted with the labels 0 and 1.
    """
    return np.asarray(fitted.predict_proba(x)[:, 1], np.float64)


def _build_sampler(name: str, counts: ClassCounts, wanted: ClassCounts, seed: int) -> Any:
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from imblearn.under_sampling import RandomUnderSampler
    from sklearn.neighbors import NearestNeighbors

    # the class whose count changes, and its new count; a plain rate can round to no change, which raises
    target = {0: wanted.passed} if wanted.passed != counts.passed else {1: wanted.failed}
    if name == "under":
        return RandomUnderSampler(sampling_strategy=target, random_state=seed)
    if name == "over":
        return RandomOverSampler(sampling_strategy=target, random_state=seed)
    # a neighbour tree would be stored with the model, in types that only its own code can check
    neighbours = NearestNeighbors(n_neighbors=SMOTE_NEIGHBOURS + 1, algorithm="brute")
    return SMOTE(sampling_strategy=target, k_neighbors=neighbours, random_state=seed)
