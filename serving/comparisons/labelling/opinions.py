"""What a model says of all comparisons that are offered, and what it would learn most from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from data.comparisons.labels.consensus import Rule, consensus
from serving.comparisons.judge import judged
from serving.comparisons.labelling.offered import Offered
from serving.comparisons.labels.to_label import ToLabel
from serving.comparisons.model import Judge
from serving.models import ModelRef
from serving.pages.verdict_lines import Answer


@dataclass(frozen=True)
class Opinions:
    """What the served model says.

    Attributes
    ----------
    ref : ModelRef or None
        None: there is no model.
    answers : sequence of str
        Its verdicts, in the order of the comparisons; empty without a model.
    """

    ref: ModelRef | None
    answers: Sequence[Answer]

    @classmethod
    def of(cls, offered: Offered, served: Judge | None) -> Opinions:
        """Ask the model."""
        if served is None:
            return cls(None, ())
        return cls(served.ref, judged(offered.named, served).answers.tolist())


@dataclass(frozen=True)
class LabelOrder:
    """Which comparisons to label first.

    Attributes
    ----------
    identifiers : sequence of str
        Of all but what the source has labelled, the first first; at the end those that were labelled here,
        which are to be labelled again if their labels are withdrawn.
    labels : int
        How many labels it is computed from.
    """

    identifiers: Sequence[str]
    labels: int

    @classmethod
    def of(cls, known: ToLabel, own: pd.DataFrame, given: pd.DataFrame, counting: Rule) -> LabelOrder:
        """Order them by the labels of the source and those that were given here."""
        told = known.labelled(pd.concat([own, given], ignore_index=True), counting)
        unlabelled = told.identifiers()
        settled = {*unlabelled, *consensus(own, counting).dropna().index}
        others = known.comparisons["comparison_id"]
        return cls([*unlabelled, *others[~others.isin(settled)]], len(given))
