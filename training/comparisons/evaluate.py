"""Stage ``evaluate``: models and rules on the same folds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from data.sidebyside import side_by_side
from data.tables.files import replacing, write_json
from training.comparisons.curves import curves
from training.comparisons.decision import examples_of
from training.comparisons.examples import FeatureTable
from training.comparisons.family import Family
from training.comparisons.held import HeldRows, decision, read_held
from training.comparisons.labels.beside import known_of
from training.comparisons.promises import FILE as PROMISES
from training.comparisons.promises import outcomes, sent, summaries
from training.comparisons.splits import Part, parts, stratified
from training.comparisons.train import Fit, tested
from training.comparisons.tune import Classified
from training.estimators.catalogue import STEADIEST
from training.evaluation.metrics import entries
from training.evaluation.shown import of_verdicts
from training.evaluation.steadiest import Said, steadiest
from training.evaluation.tuned import read_tuned, require_parts


def evaluate(family: Family) -> None:
    """Write metrics.json, oof.parquet, promises.parquet and curves.parquet, and what DVC shows of them."""
    table = FeatureTable.read(family.features, family.columns())
    verdicts, counted = out_of_fold(family, table, read_tuned(family.places.tuned, Classified))
    for name, frame in (("oof.parquet", verdicts), (PROMISES, counted)):
        with replacing(family.places.evaluated / name) as path:
            frame.to_parquet(path, index=False)
    folds = stratified(table.examples, family.section.evaluate, family.params.seed)
    with replacing(family.places.evaluated / "curves.parquet") as path:
        curves(table.examples, folds, family.params.seed, family.params.compute).to_parquet(path, index=False)
    content = {
        **metrics(family, table, verdicts),
        "promises": {split: summaries(verdicts, counted, split) for split in ("grouped", "stratified")},
    }
    write_json(family.places.metrics, content)
    shown = of_verdicts(content, "grouped", verdicts)
    replace(shown, plots={**shown.plots, "sent": sent(content["promises"]["grouped"])}).write(family.places)


def out_of_fold(
    family: Family, table: FeatureTable, tuned: dict[str, dict[str, Classified]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return verdicts of models and rules on the test rows of all folds, and what became of promises there.

    Returns
    -------
    verdicts : DataFrame
        As oof.parquet has them.
    counted : DataFrame
        As promises.parquet has them.
    """
    examples, seed, how = examples_of(family, table), family.params.seed, family.section.decide
    below = ~examples.asked
    folds = [part for part in parts(examples, family.section.evaluate, seed) if part.split != "all"]
    require_parts(family.places.tuned, tuned, [part.name for part in folds])
    known = known_of(family.features, table, examples)
    cells = [(part, name, chosen) for part in folds for name, chosen in tuned[part.name].items()]
    fits = [
        Fit(name, chosen, known.of(examples.rows(part.train)), examples.x[part.test], seed, table.guide)
        for part, name, chosen in cells
    ]
    probabilities = side_by_side(tested, fits, family.params.compute, f"evaluate {family.name}")
    said = read_held(family.places.tuned, [(part.name, name) for part, name, _ in cells])
    rows, counted = [], []
    for (part, name, chosen), probability, inner in zip(cells, probabilities, said, strict=True):
        inside = HeldRows(examples.y[part.train], examples.groups[part.train], inner, below[part.train])
        found = decision(inside, chosen.threshold, how, seed)
        told = found.told(probability, below[part.test])
        counting = np.where(below[part.test], 0.0, told)
        rows.append(_verdicts(table, part, name, counting, found.threshold))
        became = outcomes(found, examples.y[part.test], told, below[part.test])
        counted.append(became.assign(split=part.split, repeat=part.repeat, fold=part.fold, entry=name))
    rules = family.rules().reindex(table.frame["comparison_id"])
    rows += [
        _verdicts(table, part, str(rule), rules[rule].to_numpy(bool)[part.test])
        for part in folds
        for rule in rules
    ]
    return pd.concat(rows, ignore_index=True), pd.concat(counted, ignore_index=True)


def _verdicts(
    table: FeatureTable, part: Part, entry: str, said: Any, threshold: float | None = None
) -> pd.DataFrame:
    """Return the verdicts of a rule, that `said` which fail, or of a model: its probability and threshold."""
    rows, ruled = table.frame.iloc[part.test], threshold is None
    return pd.DataFrame(
        {
            "comparison_id": rows["comparison_id"].to_numpy(),
            "split": part.split,
            "repeat": part.repeat,
            "fold": part.fold,
            "entry": entry,
            "kind": "rule" if ruled else "model",
            "verdict": np.where(said if ruled else said >= threshold, "fail", "pass"),
            "status": rows["status"].to_numpy(),
            "probability": np.nan if ruled else said,
            "threshold": np.nan if ruled else threshold,
        }
    )


def metrics(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> dict[str, Any]:
    """Return the content of metrics.json."""
    section, how = family.section, family.section.evaluate
    by_operation = entries(verdicts, "grouped")
    return {
        "family": family.name,
        "data": {
            "format": section.ingest.format,
            "path": section.ingest.path.as_posix(),
            "digest": table.digest,
            "comparisons": len(table.frame),
            "fails": int((table.frame["status"] == "fail").sum()),
            "operations": int(table.frame["fold_group"].nunique()),
        },
        "seed": family.params.seed,
        "features": section.featurize.set,
        "splits": {
            "grouped": {
                "scheme": f"{how.grouped_folds} folds of whole operations",
                "folds": how.grouped_folds,
                "entries": by_operation,
            },
            "stratified": {
                "scheme": f"{how.folds} stratified folds at random, {how.repeats} times (seed 000)",
                "folds": how.folds * how.repeats,
                "entries": entries(verdicts, "stratified"),
            },
        },
        "champion": _champion(family, table, verdicts),
    }


def _champion(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> str:
    """Return the model to take, by its verdicts on operations that it had not seen."""
    own = verdicts[(verdicts["kind"] == "model") & (verdicts["split"] == "grouped")]
    ordered = {
        str(name): rows.set_index("comparison_id").reindex(table.frame["comparison_id"])
        for name, rows in own.groupby("entry")
    }
    said = {
        name: Said(rows["probability"].to_numpy(), (rows["verdict"] == "fail").to_numpy())
        for name, rows in ordered.items()
    }
    return steadiest(table.examples.y == 1, said, table.examples.groups, STEADIEST, family.params.seed)
