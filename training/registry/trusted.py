"""The types that a stored model may hold.

Every entry was read: none of them runs code that comes with the file. Our own classes hold arrays,
parameters and each other. ``xgboost.core.Booster`` hands its bytes to XGBoost's own reader of its binary
format. Samplers are absent: they act in fits only, and `training.estimators.pipelines.answering` leaves them
out.
"""

from __future__ import annotations

from data.families import FAMILIES
from training.supply import supply

_SHARED = (
    "numpy.dtype",
    "sklearn.ensemble._forest.ExtraTreesClassifier",
    "sklearn.ensemble._forest.ExtraTreesRegressor",
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.ensemble._forest.RandomForestRegressor",
    "sklearn.feature_selection._variance_threshold.VarianceThreshold",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.linear_model._ridge.Ridge",
    "sklearn.neighbors._classification.KNeighborsClassifier",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._discretization.KBinsDiscretizer",
    "sklearn.svm._classes.SVC",
    "sklearn.svm._classes.SVR",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._classes.DecisionTreeRegressor",
    "sklearn.tree._classes.ExtraTreeClassifier",
    "sklearn.tree._classes.ExtraTreeRegressor",
    "sklearn.tree._tree.Tree",
    "training.estimators.evident.Evident",
    "training.estimators.evident.Gaps",
    "training.estimators.evident.Scaled",
    "training.estimators.one_sided.OneSidedNeighbours",
    "training.estimators.signed.SignedLogistic",
    "training.estimators.similarity.estimator.SimilarityLogistic",
    "training.estimators.tan.TAN",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
)
#: The shared ones, and those that families supply.
TRUSTED_TYPES = tuple(sorted({*_SHARED, *(one for family in FAMILIES for one in supply(family).trusted)}))
