"""The catalogue: the six classifiers of seed 000, section 6.7, and XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Trial

Params = Mapping[str, Any]


@dataclass(frozen=True)
class ClassWeights:
    """What a comparison that passed and one that failed weigh in the fit."""

    passed: float
    failed: float

    def mapping(self) -> dict[int, float]:
        """Return them as scikit-learn's ``class_weight``."""
        return {0: self.passed, 1: self.failed}


Build = Callable[[Params, int, ClassWeights | None], Any]


@dataclass(frozen=True)
class Model:
    """One kind of classifier, and where its search looks.

    Attributes
    ----------
    name, title : str
        For files, and for people.
    start : dict
        The configuration of seed 000, section 6.7; every search tries it first.
    build : callable
        ``build(params, seed, weights)`` gives an unfitted classifier.
    own_space : callable
        ``own_space(trial)`` suggests the classifier's own parameters.
    weighted : bool
        Whether the classifier takes class weights. Nearest neighbours don't: what a missed regression
        costs acts there through the threshold alone.
    in_search : dict
        Parameters that differ while searching, to save time; a forest ranks its settings alike with
        fewer trees.
    """

    name: str
    title: str
    start: dict[str, Any]
    build: Build
    own_space: Callable[[Trial], dict[str, Any]]
    weighted: bool
    in_search: dict[str, Any]

    def space(self, trial: Trial) -> dict[str, Any]:
        """Suggest all parameters of a pipeline with this classifier."""
        params = self.own_space(trial)
        params["sampler"] = trial.suggest_categorical("sampler", ["none", "under", "over", "smote"])
        if params["sampler"] != "none":
            params["rate"] = trial.suggest_float("rate", 0.1, 1.0)
        if self.weighted:
            params["weights"] = trial.suggest_categorical("weights", ["equal", "balanced"])
            if params["weights"] == "balanced":
                params["cost_ratio"] = trial.suggest_float("cost_ratio", 0.25, 4.0, log=True)
        return params


def _neighbours(weights: str) -> Build:
    def build(params: Params, seed: int, balance: ClassWeights | None) -> Any:
        from sklearn.neighbors import KNeighborsClassifier

        del seed, balance
        # no tree of neighbours: it would have to be stored, in types that only its own code can check
        return KNeighborsClassifier(
            n_neighbors=params["k"], weights=weights, p=params["p"], algorithm="brute"
        )

    return build


def _neighbours_space(trial: Trial) -> dict[str, Any]:
    return {"k": trial.suggest_int("k", 1, 30), "p": trial.suggest_int("p", 1, 2)}


def _logistic(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=params["c"], class_weight=_mapping(balance), max_iter=1000, random_state=seed)


def _logistic_space(trial: Trial) -> dict[str, Any]:
    return {"c": trial.suggest_float("c", 1e-3, 30.0, log=True)}


def _tree(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(
        min_samples_leaf=params["leaf"],
        criterion=params["criterion"],
        class_weight=_mapping(balance),
        random_state=seed,
    )


def _tree_space(trial: Trial) -> dict[str, Any]:
    return {
        "leaf": trial.suggest_int("leaf", 2, 64, log=True),
        "criterion": trial.suggest_categorical("criterion", ["gini", "entropy"]),
    }


def _random_forest(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(**_forest(params, seed, balance), max_samples=params["samples"])


def _extra_trees(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(**_forest(params, seed, balance))


def _forest(params: Params, seed: int, balance: ClassWeights | None) -> dict[str, Any]:
    return {
        "n_estimators": params["trees"],
        "min_samples_leaf": params["leaf"],
        "max_features": params["features"],
        "class_weight": _mapping(balance),
        "random_state": seed,
        "n_jobs": 1,
    }


def _forest_space(trial: Trial) -> dict[str, Any]:
    return {
        "trees": 100,
        "leaf": trial.suggest_int("leaf", 1, 16, log=True),
        "features": trial.suggest_categorical("features", ["sqrt", "log2"]),
    }


def _random_forest_space(trial: Trial) -> dict[str, Any]:
    return {**_forest_space(trial), "samples": trial.suggest_float("samples", 0.3, 1.0)}


def _xgboost(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=params["trees"],
        max_depth=params["depth"],
        learning_rate=params["rate_of_learning"],
        min_child_weight=params["child_weight"],
        subsample=params["subsample"],
        colsample_bytree=params["columns"],
        scale_pos_weight=1.0 if balance is None else balance.failed / balance.passed,
        tree_method="hist",
        nthread=1,
        random_state=seed,
    )


def _xgboost_space(trial: Trial) -> dict[str, Any]:
    return {
        "trees": trial.suggest_int("trees", 30, 150),
        "depth": trial.suggest_int("depth", 1, 5),
        "rate_of_learning": trial.suggest_float("rate_of_learning", 0.03, 0.3, log=True),
        "child_weight": trial.suggest_float("child_weight", 0.5, 8.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
        "columns": trial.suggest_float("columns", 0.3, 1.0),
    }


def _mapping(balance: ClassWeights | None) -> dict[int, float] | None:
    return None if balance is None else balance.mapping()


_EQUAL = {"sampler": "none", "weights": "equal"}
_BALANCED = {"sampler": "none", "weights": "balanced", "cost_ratio": 1.0}
_FOREST = {"trees": 100, "leaf": 1, "features": "sqrt", **_EQUAL}
_FEWER_TREES = {"trees": 30}

CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "knn-uniform",
            "k-NN (uniform)",
            {"k": 3, "p": 2, "sampler": "none"},
            _neighbours("uniform"),
            _neighbours_space,
            weighted=False,
            in_search={},
        ),
        Model(
            "knn-distance",
            "k-NN (distance)",
            {"k": 6, "p": 2, "sampler": "none"},
            _neighbours("distance"),
            _neighbours_space,
            weighted=False,
            in_search={},
        ),
        Model(
            "logistic",
            "Logistic regression",
            {"c": 1.0, **_BALANCED},
            _logistic,
            _logistic_space,
            weighted=True,
            in_search={},
        ),
        Model(
            "decision-tree",
            "Decision tree",
            {"leaf": 16, "criterion": "gini", **_EQUAL},
            _tree,
            _tree_space,
            weighted=True,
            in_search={},
        ),
        Model(
            "random-forest",
            "Random forest",
            {"samples": 1.0, **_FOREST},
            _random_forest,
            _random_forest_space,
            weighted=True,
            in_search=_FEWER_TREES,
        ),
        Model(
            "extra-trees",
            "Extra trees",
            _FOREST,
            _extra_trees,
            _forest_space,
            weighted=True,
            in_search=_FEWER_TREES,
        ),
        Model(
            "xgboost",
            "XGBoost",
            {
                "trees": 100,
                "depth": 3,
                "rate_of_learning": 0.1,
                "child_weight": 1.0,
                "subsample": 1.0,
                "columns": 1.0,
                **_BALANCED,
            },
            _xgboost,
            _xgboost_space,
            weighted=True,
            in_search={},
        ),
    )
}
