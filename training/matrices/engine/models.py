"""The classifiers of matrices: those of seed 001, and others, with where their search looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from training.estimators.catalogue import CATALOGUE as OF_COMPARISONS
from training.estimators.catalogue import ClassWeights, Model, Params

if TYPE_CHECKING:
    from optuna import Trial

Floats = NDArray[np.float64]

#: What these answer about is a pair: baseline and target side by side, whatever the scheme's form.
PAIRED = frozenset({"similarity-logistic"})
#: Levels of a decision tree at most.
DEEPEST = 16
#: Probabilities nearer to 0 or 1 are not told apart.
EXTREME = 1e-6


def _tree(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    # a tree that peels off a few rows a level costs the square of its rows
    return OF_COMPARISONS["decision-tree"].build(params, seed, balance).set_params(max_depth=DEEPEST)


def _logistic(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.linear_model import LogisticRegression

    # many small fits of few columns: Newton's method needs a handful of steps
    return LogisticRegression(
        C=params["c"], solver="newton-cholesky", class_weight=_costs(balance), random_state=seed
    )


def _logistic_space(trial: Trial) -> dict[str, Any]:
    return {"c": trial.suggest_float("c", 1e-3, 30.0, log=True)}


def _support_vectors(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from sklearn.svm import SVC

    return SVC(C=params["c"], gamma="scale", class_weight=_costs(balance), random_state=seed)


def _support_vectors_space(trial: Trial) -> dict[str, Any]:
    return {"c": trial.suggest_float("c", 0.1, 100.0, log=True)}


def _tan(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from training.estimators.tan import TAN

    del seed
    return TAN(params["levels"], class_weight=_costs(balance))


def _tan_space(trial: Trial) -> dict[str, Any]:
    return {"levels": trial.suggest_categorical("levels", [3, 5, "classes"])}


def _similarity(params: Params, seed: int, balance: ClassWeights | None) -> Any:
    from training.estimators.similarity import SimilarityLogistic

    del seed
    return SimilarityLogistic(
        ridge=params["ridge"],
        shared=0,
        class_weight=_costs(balance),
        starts=params["starts"],
        tol=params["tolerance"],
        max_iter=params["iterations"],
    )


def _similarity_space(trial: Trial) -> dict[str, Any]:
    return {**_WHOLE_CLIMB, "ridge": trial.suggest_float("ridge", 0.1, 100.0, log=True)}


def _costs(balance: ClassWeights | None) -> dict[int, float] | None:
    return None if balance is None else balance.mapping()


#: Of similarity logistic: beyond so many steps of EM verdicts hardly change.
_WHOLE_CLIMB = {"tolerance": 1e-6, "starts": 5, "iterations": 200}
_FOREST = {"trees": 100, "leaf": 1, "features": "sqrt"}
_FEWER_TREES = {"trees": 10}


def _like(name: str, title: str, start: dict[str, Any], of: str, in_search: dict[str, Any]) -> Model:
    """Return the classifier that comparisons know as `of`."""
    model = OF_COMPARISONS[of]
    return Model(name, title, start, model.build, model.own_space, model.weighted, in_search)


#: By name. Of a model's ``start`` only its own parameters count; cost and resampling are the engine's.
CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "decision-tree",
            "Decision tree",
            {"leaf": 2, "criterion": "gini"},
            _tree,
            OF_COMPARISONS["decision-tree"].own_space,
            weighted=True,
            in_search={},
        ),
        Model("logistic", "Logistic", {"c": 1.0}, _logistic, _logistic_space, weighted=True, in_search={}),
        Model("tan", "TAN", {"levels": 3}, _tan, _tan_space, weighted=True, in_search={}),
        Model(
            "similarity-logistic",
            "Similarity logistic",
            {"ridge": 1.0, **_WHOLE_CLIMB},
            _similarity,
            _similarity_space,
            weighted=True,
            in_search={"tolerance": 1e-3, "starts": 1, "iterations": 20},
        ),
        Model(
            "svm", "SVM", {"c": 1.0}, _support_vectors, _support_vectors_space, weighted=True, in_search={}
        ),
        _like("random-forest", "Random forest", {"samples": 1.0, **_FOREST}, "random-forest", _FEWER_TREES),
        _like("extra-trees", "Extra trees", _FOREST, "extra-trees", _FEWER_TREES),
        _like("knn", "k-NN", {"k": 5, "p": 2}, "knn-distance", {}),
        _like(
            "xgboost",
            "XGBoost",
            {
                "trees": 100,
                "depth": 3,
                "rate_of_learning": 0.1,
                "child_weight": 1.0,
                "subsample": 0.8,
                "columns": 0.5,
            },
            "xgboost",
            {},
        ),
    )
}


def log_odds(fitted: Any, x: Floats) -> Floats:
    """Return the log-odds of abnormal of every row of `x`, shape (n_rows,); an SVM's are its margin."""
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(x), np.float64)
    if hasattr(fitted, "log_tables_"):
        # the probabilities of naive Bayes are 0 and 1 far too soon
        of_classes = fitted.predict_log_proba(x)
        return np.asarray(of_classes[:, 1] - of_classes[:, 0])
    share = np.clip(fitted.predict_proba(x)[:, 1].astype(np.float64), EXTREME, 1 - EXTREME)
    return np.asarray(np.log(share) - np.log1p(-share))
