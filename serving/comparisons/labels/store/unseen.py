"""Labels that no training has seen."""

from __future__ import annotations

import pandas as pd

from data.comparisons.labels.store.given import AwayError
from data.comparisons.labels.store.kept import LabelStore
from data.comparisons.tables import CANNOT_TELL, ComparisonTables
from data.errors import InputError
from data.places import Places
from training.registry.store_file import project_root

_LABEL = ["comparison_id", "annotator", "status"]


def unseen(store: LabelStore | None) -> int | None:
    """Count what people say now and the pipeline has not ingested; None if the store does not answer."""
    if store is None:
        return None
    try:
        kept = store.current()
        kept = kept[kept["status"] != CANNOT_TELL]
    except AwayError:
        return None
    file = Places("comparisons", project_root()).interim / "labels.parquet"
    try:
        ingested = ComparisonTables.SPECS["labels"].read(file)
    except InputError:
        return len(kept)
    known = pd.MultiIndex.from_frame(ingested[_LABEL])
    return int((~pd.MultiIndex.from_frame(kept[_LABEL]).isin(known)).sum())
