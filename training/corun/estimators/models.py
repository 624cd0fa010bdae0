"""The catalogue of models of impact (seed 002, section 3), XGBoost, and our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from optuna import Trial

Params = Mapping[str, Any]
Kind = Literal["regression", "classification"]
#: Seed 002, table 1: discretised and normalised, not discretised, not normalised.
PREPARATIONS = ("d&n", "n-d", "n-n")
BINS = 10
#: Features of events beyond which what the solo times say does better without them.
MANY_RATES = 200


@dataclass(frozen=True)
class ImpactModel:
    """One kind of model of impact, and where its search looks.

    Attributes
    ----------
    name, title : str
        For files, and for people.
    kind : str
        "regression" gives an impact, "classification" a range of impacts.
    start : dict
        Tried first by every search, see `first`.
    build : callable
        ``build(params, seed)`` gives an unfitted model.
    own_space : callable
        ``own_space(trial)`` suggests the model's own parameters.
    prepared : bool
        Whether the features are prepared as in table 1; ours takes them as they are.
    in_search : dict
        Parameters that differ while searching, to save time.
    """

    name: str
    title: str
    kind: Kind
    start: dict[str, Any]
    build: Callable[[Params, int], Any]
    own_space: Callable[[Trial], dict[str, Any]]
    prepared: bool = True
    in_search: dict[str, Any] = field(default_factory=dict)

    def first(self, rates: int) -> dict[str, Any]:
        """Return the parameters to try first where so many features are rates of events."""
        return self.start | ({"rates": rates <= MANY_RATES} if "rates" in self.start else {})

    def space(self, trial: Trial) -> dict[str, Any]:
        """Suggest all parameters."""
        params = self.own_space(trial)
        if self.prepared:
            params["preparation"] = trial.suggest_categorical("preparation", list(PREPARATIONS))
        return params


def prepared(model: ImpactModel, params: Params, seed: int) -> Any:
    """Return the unfitted model behind the preparation that `params` names."""
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

    built = model.build(params, seed)
    if not model.prepared:
        return built
    # equal width: the seed speaks of discretising the values, not their ranks
    bins = KBinsDiscretizer(BINS, encode="ordinal", strategy="uniform", subsample=None)
    steps = {
        "d&n": [("discretise", bins), ("normalise", StandardScaler())],
        "n-d": [("normalise", StandardScaler())],
        "n-n": [("discretise", bins)],
    }
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    # what is the same in all training rows has no bins
    vary = VarianceThreshold()
    return Pipeline([("impute", impute), ("vary", vary), *steps[params["preparation"]], ("predict", built)])


def _linear(params: Params, seed: int) -> Any:
    from sklearn.linear_model import Ridge

    # Cholesky, not the default's choice by size, so that a rerun is the same to the last bit
    return Ridge(alpha=params["alpha"], solver="cholesky", random_state=seed)


def _linear_space(trial: Trial) -> dict[str, Any]:
    return {"alpha": trial.suggest_float("alpha", 1e-6, 1e3, log=True)}


def _logistic(params: Params, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=params["c"], max_iter=3000, tol=1e-2, random_state=seed)


def _c_space(trial: Trial) -> dict[str, Any]:
    return {"c": trial.suggest_float("c", 1e-2, 30.0, log=True)}


def _bayes(params: Params, seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    del seed
    return GaussianNB(var_smoothing=params["smoothing"])


def _bayes_space(trial: Trial) -> dict[str, Any]:
    return {"smoothing": trial.suggest_float("smoothing", 1e-9, 1e-1, log=True)}


def _svr(params: Params, seed: int) -> Any:
    from sklearn.svm import SVR

    del seed
    # a scale that follows the preparation, so that the three of table 1 can be compared
    return SVR(C=params["c"], gamma="scale", epsilon=params["epsilon"], cache_size=500)


def _svr_space(trial: Trial) -> dict[str, Any]:
    return {
        "c": trial.suggest_float("c", 1e-1, 1e2, log=True),
        "epsilon": trial.suggest_float("epsilon", 1e-3, 1e-1, log=True),
    }


def _svc(params: Params, seed: int) -> Any:
    from sklearn.svm import SVC

    return SVC(C=params["c"], gamma="scale", cache_size=500, random_state=seed)


def _forest_regressor(params: Params, seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(**_forest(params, seed))


def _forest_classifier(params: Params, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(**_forest(params, seed))


def _forest(params: Params, seed: int) -> dict[str, Any]:
    return {
        "n_estimators": params["trees"],
        "min_samples_leaf": params["leaf"],
        "max_features": params["features"],
        "random_state": seed,
        "n_jobs": 1,
    }


def _forest_space(trial: Trial) -> dict[str, Any]:
    return {
        "trees": 100,
        "leaf": trial.suggest_int("leaf", 1, 8, log=True),
        "features": trial.suggest_float("features", 0.1, 1.0),
    }


def _xgboost_regressor(params: Params, seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(**_boosted(params, seed))


def _xgboost_classifier(params: Params, seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(**_boosted(params, seed))


def _boosted(params: Params, seed: int) -> dict[str, Any]:
    return {
        "n_estimators": params["trees"],
        "max_depth": params["depth"],
        "learning_rate": params["rate"],
        "min_child_weight": params["child_weight"],
        "colsample_bytree": params["columns"],
        "subsample": 0.8,
        "max_bin": 64,
        "tree_method": "hist",
        "nthread": 1,
        "random_state": seed,
    }


def _xgboost_space(trial: Trial) -> dict[str, Any]:
    return {
        "trees": trial.suggest_int("trees", 100, 400),
        "depth": trial.suggest_int("depth", 2, 7),
        "rate": trial.suggest_float("rate", 0.03, 0.2, log=True),
        "child_weight": trial.suggest_float("child_weight", 0.5, 8.0, log=True),
        "columns": trial.suggest_float("columns", 0.2, 1.0),
    }


def _ranges_space(trial: Trial) -> dict[str, Any]:
    # a round of boosting grows a tree per range: few rounds, large steps
    return {
        "trees": trial.suggest_int("trees", 5, 20),
        "depth": trial.suggest_int("depth", 2, 6),
        "rate": trial.suggest_float("rate", 0.15, 0.6, log=True),
        "child_weight": trial.suggest_float("child_weight", 0.1, 2.0, log=True),
        "columns": trial.suggest_float("columns", 0.2, 1.0),
    }


def _contention(params: Params, seed: int) -> Any:
    from training.corun.estimators.contention import ContentionRegressor

    return ContentionRegressor(**params, seed=seed)


def _contention_space(trial: Trial) -> dict[str, Any]:
    return {
        "trees": 300,
        "forest": 50,
        "depth": trial.suggest_int("depth", 3, 9),
        "rate": trial.suggest_float("rate", 0.03, 0.12, log=True),
        "leaf": trial.suggest_int("leaf", 1, 4),
        "columns": trial.suggest_float("columns", 0.2, 0.8),
        # where there are hundreds of events, what the solo times say may do better without them
        "rates": trial.suggest_categorical("rates", [True, False]),
    }


_FOREST = {"trees": 100, "leaf": 1, "features": 0.4, "preparation": "d&n"}
_BOOSTED = {"depth": 4, "rate": 0.08, "child_weight": 1.0, "columns": 0.5, "preparation": "d&n"}
_BOOSTED_RANGES = {"trees": 15, **_BOOSTED, "rate": 0.4, "child_weight": 0.3}
_FEW = {"trees": 40}

CATALOGUE: dict[str, ImpactModel] = {
    model.name: model
    for model in (
        ImpactModel(
            "linear", "Linear regression", "regression", {"alpha": 1.0, "preparation": "d&n"}, _linear,
            _linear_space,
        ),
        ImpactModel(
            "svm", "SVM", "regression", {"c": 3.0, "epsilon": 0.01, "preparation": "d&n"},
            _svr, _svr_space,
        ),
        ImpactModel(
            "random-forest", "Random forest", "regression", _FOREST, _forest_regressor, _forest_space,
            in_search=_FEW,
        ),
        ImpactModel(
            "xgboost", "XGBoost", "regression", {"trees": 300, **_BOOSTED}, _xgboost_regressor, _xgboost_space
        ),
        ImpactModel(
            "contention", "Contention", "regression",
            {"trees": 300, "forest": 50, "depth": 6, "rate": 0.06, "leaf": 1, "columns": 0.4, "rates": True},
            _contention, _contention_space, prepared=False,
            in_search={"trees": 100, "forest": 30, "mixed": False},
        ),
        ImpactModel(
            "logistic-ranges", "Logistic regression", "classification", {"c": 1.0, "preparation": "d&n"},
            _logistic, _c_space,
        ),
        ImpactModel(
            "bayes-ranges", "Naive Bayes", "classification", {"smoothing": 1e-3, "preparation": "d&n"},
            _bayes, _bayes_space,
        ),
        ImpactModel(
            "svm-ranges", "SVM", "classification", {"c": 10.0, "preparation": "d&n"}, _svc,
            _c_space,
        ),
        ImpactModel(
            "random-forest-ranges", "Random forest", "classification", _FOREST, _forest_classifier,
            _forest_space, in_search=_FEW,
        ),
        ImpactModel(
            "xgboost-ranges", "XGBoost", "classification", _BOOSTED_RANGES, _xgboost_classifier,
            _ranges_space,
        ),
    )
}  # fmt: skip
