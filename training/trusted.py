"""The types that a stored model may hold.

Every entry was read: none of them runs code that comes with the file. Our own classifiers hold arrays and
parameters. ``xgboost.core.Booster`` hands its
bytes to XGBoost's own reader of its binary format. Samplers are absent: they act in fits only, and
`training.pipeline.answering` leaves them out.
"""

from __future__ import annotations

TRUSTED_TYPES = (
    "numpy.dtype",
    "sklearn.ensemble._forest.ExtraTreesClassifier",
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.neighbors._classification.KNeighborsClassifier",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._classes.ExtraTreeClassifier",
    "sklearn.tree._tree.Tree",
    "training.similarity.SimilarityLogistic",
    "training.tan.TAN",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)
