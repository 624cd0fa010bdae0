"""The labels to look at again, and the people who gave them, from what the stages left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.comparisons.labels.consensus import consensus, disagreements, people
from data.comparisons.tables import ComparisonTables
from serving.comparisons.evaluated import EvaluatedComparisons, rule_under
from training.comparisons.labels.suspects import Suspect, suspects

#: Suspects that the report shows.
_MOST = 20


@dataclass(frozen=True)
class Doubts:
    """What the report says of labels: the first suspects, how many there are, and how reliable people are."""

    suspects: list[Suspect]
    many: int
    people: list[dict[str, object]]
    divided: int

    @classmethod
    def of(cls, evaluated: EvaluatedComparisons) -> Doubts:
        """Look for them in the held-out verdicts on whole operations."""
        found, labels = _of(evaluated), evaluated.tables.labels
        status = consensus(labels, evaluated.rule)
        who = people(labels, status).to_dict("records")
        return cls(found[:_MOST], len(found), who, len(disagreements(labels, status)))


def doubted(root: Path) -> list[Suspect]:
    """Return the suspects of the last run under `root`; InputError if its files are not there."""
    return _of(EvaluatedComparisons.read(root))


def _of(evaluated: EvaluatedComparisons) -> list[Suspect]:
    verdicts: pd.DataFrame = evaluated.of("grouped", "model")
    return suspects(verdicts, evaluated.metrics.champion, evaluated.tables.labels)


def counts(root: Path = Path()) -> dict[str, int]:
    """Count the labels that the project learns from, by what they say; nothing before it has any."""
    from data.places import Places

    directory = Places("comparisons", root).interim
    if not (directory / "labels.parquet").is_file():
        return {}
    labels = ComparisonTables.SPECS["labels"].read(directory / "labels.parquet")
    return consensus(labels, rule_under(root)).value_counts().to_dict()
