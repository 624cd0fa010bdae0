"""The catalogue: the six classifiers of seed 000, section 6.7, and XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Where:
    """A parameter that is asked only where an earlier one has one of these values."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`; on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`; on a logarithmic scale if `log`."""

    low: int
    high: int
    log: bool = False
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class OneOf:
    """One of these values."""

    values: tuple[Any, ...]
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_categorical(name, list(self.values))


#: What each parameter may be; what is none of the three stands for itself.
Space = Mapping[str, Real | Whole | OneOf | Any]


def suggested(space: Space, trial: Trial) -> dict[str, Any]:
    """Return the parameters of `space` that `trial` is to try."""
    params: dict[str, Any] = {}
    for name, one in space.items():
        if not isinstance(one, Real | Whole | OneOf):
            params[name] = one
        elif one.where is None or params[one.where.name] in one.where.values:
            params[name] = one.suggest(trial, name)
    return params


Params = Mapping[str, Any]


@dataclass(frozen=True)
class ClassWeights:
    """What a comparison that passed and one that failed weigh in the fit."""

    passed: float
    failed: float


Directions = tuple[int, ...]
#: ``build(params, seed, weights)``, and the directions of the columns where the model is to keep them.
Build = Callable[..., Any]


@dataclass(frozen=True)
class Model:
    """One kind of model, and where its search looks.

    Attributes
    ----------
    name, title : str
        For files, and for people.
    start : dict
        Every search tries it first; that of comparisons is the configuration of seed 000, section 6.7.
    build : callable
        ``build(params, seed, weights, directions=None)`` gives an unfitted model; with directions, one that
        keeps them: a column's is -1 where a larger value never makes ``fail`` more probable.
    space : mapping
        What the model's own parameters may be.
    weighted : bool
        Whether it takes class weights. Nearest neighbours don't: what a missed regression costs acts there
        through the threshold alone.
    in_search : dict
        Parameters that differ while searching, to save time; a forest ranks its settings alike with
        fewer trees.
    """

    name: str
    title: str
    start: dict[str, Any]
    build: Build
    space: Space
    weighted: bool = True
    in_search: dict[str, Any] = field(default_factory=dict)


def mapping(balance: ClassWeights | None) -> dict[int, float] | None:
    """Return the weights as scikit-learn's ``class_weight``; None if there are none."""
    return None if balance is None else {0: balance.passed, 1: balance.failed}


def neighbours(
    params: Params,
    seed: int,
    balance: ClassWeights | None,
    directions: Directions | None = None,
    **more: Any,
) -> Any:
    """Build nearest neighbours; one-sided ones where there are directions to keep."""
    from sklearn.neighbors import KNeighborsClassifier

    del balance
    if directions is not None:
        from training.estimators.one_sided_neighbours import OneSidedNeighbours

        return OneSidedNeighbours(params["k"], params["p"], directions=directions, seed=seed, **more)
    # no tree of neighbours: it would have to be stored, in types that only its own code can check
    return KNeighborsClassifier(n_neighbors=params["k"], p=params["p"], algorithm="brute", **more)


def logistic(
    params: Params,
    seed: int,
    balance: ClassWeights | None,
    directions: Directions | None = None,
    **more: Any,
) -> Any:
    """Build a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    if directions is not None:
        from training.estimators.signed_logistic import SignedLogistic

        return SignedLogistic(params["c"], directions=directions, class_weight=mapping(balance))
    return LogisticRegression(C=params["c"], class_weight=mapping(balance), random_state=seed, **more)


def decision_tree(
    params: Params,
    seed: int,
    balance: ClassWeights | None,
    directions: Directions | None = None,
    **more: Any,
) -> Any:
    """Build a decision tree."""
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(
        min_samples_leaf=params["leaf"],
        criterion=params["criterion"],
        monotonic_cst=directions,
        class_weight=mapping(balance),
        random_state=seed,
        **more,
    )


def support_vectors(params: Params, seed: int, balance: ClassWeights | None, **more: Any) -> Any:
    """Build a support vector machine."""
    from sklearn.svm import SVC

    return SVC(C=params["c"], gamma="scale", class_weight=mapping(balance), random_state=seed, **more)


def random_forest(
    params: Params, seed: int, balance: ClassWeights | None, directions: Directions | None = None
) -> Any:
    """Build a random forest; each tree from a share of ``samples``, if that is given."""
    from sklearn.ensemble import RandomForestClassifier

    samples = params.get("samples")
    return RandomForestClassifier(
        **forest(params, seed),
        class_weight=mapping(balance),
        max_samples=samples,
        monotonic_cst=directions,
    )


def extra_trees(
    params: Params, seed: int, balance: ClassWeights | None, directions: Directions | None = None
) -> Any:
    """Build extremely randomised trees."""
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(
        **forest(params, seed), class_weight=mapping(balance), monotonic_cst=directions
    )


def forest(params: Params, seed: int) -> dict[str, Any]:
    """Return what scikit-learn's forests have in common."""
    return {
        "n_estimators": params["trees"],
        "min_samples_leaf": params["leaf"],
        "max_features": params["features"],
        "random_state": seed,
        "n_jobs": 1,
    }


def xgboost(
    params: Params, seed: int, balance: ClassWeights | None, directions: Directions | None = None
) -> Any:
    """Build XGBoost for two classes."""
    from xgboost import XGBClassifier

    return XGBClassifier(
        **boosted(params, seed),
        learning_rate=params["rate_of_learning"],
        monotone_constraints=directions,
        subsample=params["subsample"],
        scale_pos_weight=1.0 if balance is None else balance.failed / balance.passed,
    )


def boosted(params: Params, seed: int) -> dict[str, Any]:
    """Return what all uses of XGBoost have in common."""
    return {
        "n_estimators": params["trees"],
        "max_depth": params["depth"],
        "min_child_weight": params["child_weight"],
        "colsample_bytree": params["columns"],
        "tree_method": "hist",
        "nthread": 1,
        "random_state": seed,
    }


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
            partial(neighbours, weights="uniform"), _NEAREST, weighted=False,
        ),
        Model(
            "knn-distance", "k-NN (distance)", {"k": 6, "p": 2, "sampler": "none"},
            partial(neighbours, weights="distance"), _NEAREST, weighted=False,
        ),
        Model(
            "logistic", "Logistic regression", {"c": 1.0, **_BALANCED},
            partial(logistic, max_iter=1000), {"c": Real(1e-3, 30.0, log=True)},
        ),
        Model(
            "decision-tree", "Decision tree", {"leaf": 16, "criterion": "gini", **_EQUAL}, decision_tree,
            {"leaf": Whole(2, 64, log=True), "criterion": OneOf(("gini", "entropy"))},
        ),
        Model(
            "random-forest", "Random forest", {"samples": 1.0, **_FOREST}, random_forest,
            {**_GROWN, "samples": Real(0.3, 1.0)}, in_search=_FEWER_TREES,
        ),
        Model("extra-trees", "Extra trees", _FOREST, extra_trees, _GROWN, in_search=_FEWER_TREES),
        Model(
            "xgboost", "XGBoost", {**_BOOSTED, "subsample": 1.0, "columns": 1.0, **_BALANCED}, xgboost,
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

#: Those first whose verdicts depend least on the sample that they learned from: means over trees grown at
#: random (P. Geurts, D. Ernst, L. Wehenkel, Extremely randomized trees, Machine Learning 63, 2006, section 4:
#: the lowest variance), then over trees grown greedily, few coefficients, and what follows single rows.
STEADIEST = (
    "extra-trees",
    "random-forest",
    "logistic",
    "xgboost",
    "knn-uniform",
    "knn-distance",
    "decision-tree",
)
