"""Which model is best: that which ranks best, on unseen test cases and on unseen causes.

Thresholds are a matter of their own: each engine finds its own inside training, and a poor one can be mended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from training.evaluation.metrics import RANKED

#: The names of the splits that have a say.
CASES, CAUSES = "test-cases", "causes"


def designs(splits: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of the splits that have a say; `splits` as in metrics.json."""
    return [splits[name]["entries"] for name in (CASES, CAUSES) if name in splits]


def ranked(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sort the models of the first design, the best first.

    By the mean average precision over the folds, and over the designs; then by pooled balanced accuracy in
    the first, then by name.
    """
    models = [name for name, entry in asked[0].items() if entry["kind"] == "model"]

    def worth(name: str) -> float:
        return float(np.mean([entries[name][RANKED]["mean"] for entries in asked]))

    return sorted(
        models, key=lambda name: (-worth(name), -asked[0][name]["balanced_accuracy"]["pooled"], name)
    )
