"""Doubtful labels, and comparisons to label next."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import (
    Rule,
    annotator_reliability,
    consensus_status,
    disputed_comparisons,
)
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, version_ranges
from data.comparisons.validity import unusable_reasons
from data.errors import InputError
from data.paths import FamilyPaths
from features.comparisons.vectors import FEATURES, feature_vectors
from serving.comparisons.evaluated import EvaluatedComparisons, consensus_rule
from serving.comparisons.model import Judge
from training.comparisons.label_review import UNLABELLED, Pool, Suspect, next_to_label, suspected_labels

#: Most suspects on the report page.
_MOST = 20
#: Columns of the comparisons to label next.
NEXT = ("comparison_id", "benchmark", "operation", "machine", "versions", "probability", "reason")


def doubtful_labels(evaluated: EvaluatedComparisons) -> dict[str, Any]:
    """Return the labels that out-of-fold verdicts contradict (folds of whole operations), and annotators.

    Keys: ``suspects``, the first 20 of `suspected_labels`, last those that only annotators dispute; ``many``,
    the number without this limit; ``people``, rows of `annotator_reliability`; ``divided``, the number of
    comparisons whose annotators disagree.
    """
    rows, labels = _find_suspects(evaluated), evaluated.tables.labels
    status = consensus_status(labels, evaluated.rule)
    return {
        "suspects": rows[:_MOST],
        "many": len(rows),
        "people": annotator_reliability(labels, status).to_dict("records"),
        "divided": len(disputed_comparisons(labels, status)),
    }


def _find_suspects(evaluated: EvaluatedComparisons) -> list[Suspect]:
    verdicts, champion = evaluated.grouped_verdicts("model"), evaluated.metrics.champion
    return suspected_labels(verdicts, champion, evaluated.tables.labels)


def suspects_table(project: Path) -> pd.DataFrame:
    """Return the suspected labels of `project`, the most doubtful first; a row per comparison.

    Labels that out-of-fold verdicts contradict come first, then labels that annotators dispute. The columns
    are ``comparison_id, status, labelled_by, probability, doubt, reason`` (a tuple of texts). InputError if
    the stages' files do not exist.
    """
    try:
        evaluated = EvaluatedComparisons.read(project)
    except InputError as exc:
        if exc.file is None or Path(exc.file).exists():
            raise
        raise InputError(f"{exc.problem}; make it with: dvc repro", file=exc.file) from exc
    suspects = _find_suspects(evaluated)
    return pd.DataFrame(suspects, columns=[field.name for field in fields(Suspect)])


def counts(root: Path) -> dict[str, int]:
    """Return the number of ingested comparisons by the status that their labels give together.

    The keys are "pass" and "fail"; one without comparisons is missing; ties are not counted. Empty before the
    pipeline has run. InputError if ``params.yaml`` or the table of labels in the project `root` is wrong.
    """
    file = FamilyPaths("comparisons", root).interim / "labels.parquet"
    if not file.is_file():
        return {}
    labels = ComparisonTables.SPECS["labels"].read(file)
    return consensus_status(labels, consensus_rule(root)).value_counts().to_dict()


@dataclass(frozen=True)
class LabelCandidates:
    """Comparisons that can be judged, with the pool for active learning."""

    comparisons: pd.DataFrame  # as the table, and ``versions``
    pool: Pool  # in the order of `comparisons`
    probability: NDArray[np.float64]  # shape (n_comparisons,), the champion's; NaN without one

    @classmethod
    def from_tables(
        cls, tables: ComparisonTables, served: Judge | None, counting: Rule = "majority"
    ) -> LabelCandidates:
        """Return the comparisons that can be judged, with their features, labels and probabilities.

        Without a model (`served`), a rank statistic orders them. `counting`: see `consensus_status`.
        """
        usable = unusable_reasons(tables) == ""
        comparisons = tables.comparisons.assign(versions=version_ranges(tables))[usable]
        comparisons = comparisons.reset_index(drop=True)
        sides = Sides.from_tables(ComparisonTables(tables.results, comparisons, tables.labels))
        x = feature_vectors(sides)
        groups = (comparisons["benchmark"] + "/" + comparisons["operation"]).to_numpy(np.str_)
        if served is None:
            probability = np.full(len(comparisons), np.nan)
            suspicion = -np.nan_to_num(x[:, FEATURES.index("rank_z_min")])
        else:
            probability = suspicion = served.model.predict_uncleaned(sides)
        pool = Pool(x, _label_classes(comparisons, tables.labels, counting), groups, suspicion)
        return cls(comparisons, pool, probability)

    def ordered_identifiers(self, labels: pd.DataFrame, counting: Rule) -> list[str]:
        """Return the ids of the comparisons that `labels` leave unlabelled, the next to label first."""
        pool = replace(self.pool, y=_label_classes(self.comparisons, labels, counting))
        rows = next_to_label(pool, len(self.comparisons))
        return self.comparisons["comparison_id"].iloc[rows].tolist()

    def first_candidates(self, n: int) -> pd.DataFrame:
        """Return the next `n` comparisons to label, or all unlabelled ones, with the columns `NEXT`."""
        rows = next_to_label(self.pool, n)
        if {0, 1} <= {*self.pool.y.tolist()}:
            reason = "a model of the labels so far is unsure"
        elif np.isnan(self.probability).all():
            reason = "most suspicious by a rank statistic, as there is no champion, or drawn at random"
        else:
            reason = "most suspicious, or drawn at random"
        chosen = self.comparisons.iloc[rows].assign(probability=self.probability[rows], reason=reason)
        return chosen[[*NEXT]].reset_index(drop=True)


def _label_classes(comparisons: pd.DataFrame, labels: pd.DataFrame, counting: Rule) -> NDArray[np.int64]:
    status = comparisons["comparison_id"].map(consensus_status(labels, counting))
    return np.select([status == "fail", status == "pass"], [1, 0], UNLABELLED).astype(np.int64)
