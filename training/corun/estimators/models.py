"""The catalogue of impact models: those of the co-run paper, section 3, XGBoost, and our own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from training.corun.estimators.contention import ContentionRegressor, build_boosted
from training.estimators.catalogue import (
    FOREST,
    ClassWeights,
    Model,
    OneOf,
    Params,
    Real,
    Space,
    Whole,
    build_estimator,
    build_logistic,
)

Kind = Literal["regression", "classification"]
#: Seed 002, table 1: discretised and normalised, not discretised, not normalised.
PREPARATIONS = ("d&n", "n-d", "n-n")
BINS = 10
#: Number of event rates above which the first trial leaves them out: solo times alone do better.
MANY_RATES = 200


@dataclass(frozen=True)
class ImpactModel(Model):
    """A kind of impact model; a "regression" predicts an impact, a "classification" a range of impacts."""

    kind: Kind = "regression"

    @property
    def is_prepared(self) -> bool:
        """Whether the features are prepared as in table 1 of the co-run paper; ours takes them unchanged."""
        return "preparation" in self.space

    def first_params(self, rates: int) -> dict[str, Any]:
        """Return the first parameters to try; `rates` is the number of features that are event rates."""
        return self.start | ({"rates": rates <= MANY_RATES} if "rates" in self.start else {})


def prepared_model(model: ImpactModel, params: Params, seed: int) -> Any:
    """Return an unfitted pipeline: the steps that ``params["preparation"]`` names, and the model.

    "d&n" discretises (10 bins of equal width), then normalises; "n-d" ("not discretised") only normalises;
    "n-n" ("not normalised") only discretises. Before these steps, gaps become medians, and constant columns
    are dropped. KeyError for another name or none. The model "contention" takes no preparation and is
    returned without a pipeline.
    """
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

    built = model.build(params, seed, None)
    if not model.is_prepared:
        return built
    # equal width: the co-run paper discretises the values, not their ranks
    bins = KBinsDiscretizer(BINS, encode="ordinal", strategy="uniform", subsample=None)
    steps = {
        "d&n": [("discretise", bins), ("normalise", StandardScaler())],
        "n-d": [("normalise", StandardScaler())],
        "n-n": [("discretise", bins)],
    }
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    # constant features have no bins
    vary = VarianceThreshold()
    return Pipeline([("impute", impute), ("vary", vary), *steps[params["preparation"]], ("predict", built)])


def _contention_model(params: Params, seed: int, _: ClassWeights | None) -> Any:
    return ContentionRegressor(**params, seed=seed)


def _with_preparation(space: Space) -> Space:
    return {**space, "preparation": OneOf(PREPARATIONS)}


# gamma depends on the preparation, so that the three of table 1 can be compared
_SUPPORT: dict[str, Any] = {"gamma": "scale", "cache_size": 500}
_C = _with_preparation({"c": Real(1e-2, 30.0, log=True)})
_GROWN = _with_preparation({"trees": 100, "leaf": Whole(1, 8, log=True), "features": Real(0.1, 1.0)})
_FOREST = {"trees": 100, "leaf": 1, "features": 0.4, "preparation": "d&n"}
_BOOSTED = {"depth": 4, "rate": 0.08, "child_weight": 1.0, "columns": 0.5, "preparation": "d&n"}
_BOOSTED_RANGES = {"trees": 15, **_BOOSTED, "rate": 0.4, "child_weight": 0.3}
_FEW = {"trees": 40}

CATALOGUE: dict[str, ImpactModel] = {
    model.name: model
    for model in (
        ImpactModel(
            "linear", "Linear regression", {"alpha": 1.0, "preparation": "d&n"},
            # Cholesky instead of the default choice by size, so that a rerun is equal to the last bit
            partial(build_estimator, "sklearn.linear_model:Ridge",
                    {"alpha": "alpha", "random_state": "seed"}, solver="cholesky"),
            _with_preparation({"alpha": Real(1e-6, 1e3, log=True)}),
        ),
        ImpactModel(
            "svm", "SVM", {"c": 3.0, "epsilon": 0.01, "preparation": "d&n"},
            partial(build_estimator, "sklearn.svm:SVR", {"C": "c", "epsilon": "epsilon"}, **_SUPPORT),
            _with_preparation({"c": Real(1e-1, 1e2, log=True), "epsilon": Real(1e-3, 1e-1, log=True)}),
        ),
        ImpactModel(
            "random-forest", "Random forest", _FOREST,
            partial(build_estimator, "sklearn.ensemble:RandomForestRegressor", FOREST, n_jobs=1),
            _GROWN, in_search=_FEW,
        ),
        ImpactModel(
            "xgboost", "XGBoost", {"trees": 300, **_BOOSTED}, partial(build_boosted, "XGBRegressor"),
            _with_preparation({
                "trees": Whole(100, 400),
                "depth": Whole(2, 7),
                "rate": Real(0.03, 0.2, log=True),
                "child_weight": Real(0.5, 8.0, log=True),
                "columns": Real(0.2, 1.0),
            }),
        ),
        ImpactModel(
            "contention", "Contention",
            {"trees": 300, "forest": 50, "depth": 6, "rate": 0.06, "leaf": 1, "columns": 0.4, "rates": True},
            _contention_model,
            {
                "trees": 300,
                "forest": 50,
                "depth": Whole(3, 9),
                "rate": Real(0.03, 0.12, log=True),
                "leaf": Whole(1, 4),
                "columns": Real(0.2, 0.8),
                # with hundreds of events, solo times alone may do better
                "rates": OneOf((True, False)),
            },
            in_search={"trees": 100, "forest": 30, "mixed": False},
        ),
        ImpactModel(
            "logistic-ranges", "Logistic regression", {"c": 1.0, "preparation": "d&n"},
            partial(build_logistic, max_iter=3000, tol=1e-2), _C, kind="classification",
        ),
        ImpactModel(
            "bayes-ranges", "Naive Bayes", {"smoothing": 1e-3, "preparation": "d&n"},
            partial(build_estimator, "sklearn.naive_bayes:GaussianNB", {"var_smoothing": "smoothing"}),
            _with_preparation({"smoothing": Real(1e-9, 1e-1, log=True)}), kind="classification",
        ),
        ImpactModel(
            "svm-ranges", "SVM", {"c": 10.0, "preparation": "d&n"},
            partial(build_estimator, "sklearn.svm:SVC", {"C": "c", "random_state": "seed"}, **_SUPPORT),
            _C, kind="classification",
        ),
        ImpactModel(
            "random-forest-ranges", "Random forest", _FOREST,
            partial(build_estimator, "sklearn.ensemble:RandomForestClassifier", FOREST, n_jobs=1),
            _GROWN, in_search=_FEW, kind="classification",
        ),
        ImpactModel(
            "xgboost-ranges", "XGBoost", _BOOSTED_RANGES,
            partial(build_boosted, "XGBClassifier"),
            # a round of boosting grows a tree per range: few rounds, large steps
            _with_preparation({
                "trees": Whole(5, 20),
                "depth": Whole(2, 6),
                "rate": Real(0.15, 0.6, log=True),
                "child_weight": Real(0.1, 2.0, log=True),
                "columns": Real(0.2, 1.0),
            }),
            kind="classification",
        ),
    )
}  # fmt: skip
