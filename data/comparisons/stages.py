"""The family ``comparisons`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pandas as pd

from data import stages
from data.comparisons import formats
from data.comparisons.labels.consensus import Rule, consensus
from data.comparisons.params import Comparisons
from data.comparisons.tables import ComparisonTables
from data.comparisons.validity import unusable
from data.tables.formats import Reading
from data.tables.problems import Problems
from data.tables.specs import Spec, Tables


@dataclass(frozen=True)
class Valid(Tables):
    """Which comparisons can be learned from.

    Attributes
    ----------
    comparisons : DataFrame
        One row per comparison: ``comparison_id, valid, reason``, and ``status``, what the people who
        labelled it agree on (missing where nobody did or they are tied).
        `data.comparisons.formats.read` has told which cannot be used.
    """

    SPECS: ClassVar = {
        "comparisons": Spec(
            {"comparison_id": "str", "valid": "bool", "reason": "str", "status": "str"}, file="valid"
        )
    }
    COMPRESSION = "snappy"

    comparisons: pd.DataFrame

    def counted(self) -> str:
        """Say how many can be learned from."""
        valid, labelled = self.comparisons["valid"], self.comparisons["status"].notna()
        return f"{valid.sum()} of {len(valid)} are valid, {labelled.sum()} labelled"


def ingest(section: Comparisons) -> Reading[ComparisonTables]:
    """Read the comparisons that params.yaml names."""
    source = section.ingest
    return formats.read(
        source.format,
        [source.path],
        label_rules=source.label_rules,
        measure=source.measure,
        keep_going=source.keep_going,
    )


def validate(tables: ComparisonTables, rule: Rule = "majority") -> Valid:
    """Say which comparisons can be learned from.

    Parameters
    ----------
    tables : ComparisonTables
    rule : {"majority", "dawid-skene"}
        How what several people say becomes one status.

    Raises
    ------
    InputError
        If a table breaks its schema.
    """
    tables.without_flaws(Problems())
    why = unusable(tables)
    valid = pd.DataFrame(
        {
            "comparison_id": tables.comparisons["comparison_id"],
            "valid": why == "",
            "reason": pd.Series(why, dtype="str"),
        }
    )
    return Valid(valid.join(consensus(tables.labels, rule), on="comparison_id"))


ingest_stage = partial(stages.ingest, Comparisons, ingest)
validate_stage = partial(
    stages.validate,
    Comparisons,
    ComparisonTables,
    lambda tables, section: validate(tables, section.checks.consensus),
)
