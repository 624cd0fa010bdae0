"""Table 1 of seed 002: the share of co-runs predicted rightly, as printed there."""

from __future__ import annotations

_REGRESSION = {
    "Regression": (0.8765, 0.7099, 0.8642),
    "SVM": (0.9815, 0.9012, 0.9691),
    "Random forest": (0.9938, 0.9668, 0.9877),
}
_CLASSIFICATION = {
    "Regression": (0.8704, 0.8148, 0.8359),
    "Naive Bayes": (0.7020, 0.6689, 0.6821),
    "SVM": (0.8606, 0.7815, 0.7616),
    "Random forest": (0.9205, 0.8477, 0.9404),
}
#: Of new tasks (d&n).
ONLINE = {"Regression": 0.5641, "SVM": 0.8718, "Random forest": 0.8718}

#: By predictor, kind and preparation.
TABLE_1 = {
    (predictor, kind, preparation): share
    for kind, rows in (("regression", _REGRESSION), ("classification", _CLASSIFICATION))
    for predictor, shares in rows.items()
    for preparation, share in zip(("d&n", "n-d", "n-n"), shares, strict=True)
}


def row_of(title: str) -> str:
    """Return the row of table 1 that a model of the catalogue belongs to: linear and logistic share one."""
    return "Regression" if title in ("Linear regression", "Logistic regression") else title
