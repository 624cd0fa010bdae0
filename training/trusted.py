"""The types that a stored model may hold beyond what skops trusts by itself.

Every entry was read: none of them runs code that comes with the file. ``xgboost.core.Booster`` hands its
bytes to XGBoost's own reader of its binary format.
"""

from __future__ import annotations

TRUSTED_TYPES = (
    "imblearn.over_sampling._random_over_sampler.RandomOverSampler",
    "imblearn.over_sampling._smote.base.SMOTE",
    "imblearn.pipeline.Pipeline",
    "imblearn.under_sampling._prototype_selection._random_under_sampler.RandomUnderSampler",
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)
