"""Stage evaluate of the family ``corun``: every model on held-out co-runs, and what the champion rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from data.corun.params import Corun
from data.corun.tables import CorunTables
from data.params import Params, load
from data.sidebyside import side_by_side
from data.tables.files import replacing, write_json
from features.corun.rates import CORUN, PLACES
from training.corun.estimators import scores as impact_scores
from training.corun.estimators.explaining import ExplainedFold, permuted, removed, residuals
from training.corun.estimators.fitting import ImpactTable
from training.corun.estimators.models import CATALOGUE, PREPARATIONS
from training.corun.online import KEYS as ONLINE_KEYS
from training.corun.online import AskedSamples, by_seconds, judged, ratios
from training.corun.seed import ONLINE, TABLE_1, row_of
from training.corun.splits import DESIGNS, DesignPart, main_design
from training.corun.stages import FEATURES, divisions, kept_tables, recipe_of
from training.evaluation.metrics import DIGITS
from training.evaluation.shown import of_predictions
from training.evaluation.tuned import Tuned, read_tuned, require_parts

TABLE_1_COLUMNS = ("predictor", "kind", "preparation", "accuracy", "spread", "seeds")
ONLINE_COLUMNS = (*ONLINE_KEYS, "model", "measured", "predicted", "design", "fold", "seconds")
RESIDUAL_COLUMNS = (
    *(*CORUN, "fitted", "residual", "standardised", "theoretical", "scale"),
    *("leverage", "cook"),
)


@dataclass(frozen=True)
class ModelOfPart(ExplainedFold):
    """A model to fit to a part's training rows, and to ask about its test rows."""

    part: DesignPart
    preparation: str = ""


def predicted(cell: ModelOfPart) -> pd.DataFrame:
    """Return what a model says of the test rows of `cell`, as rows of oof.parquet."""
    fitted = cell.recipe.fit(cell.train)
    impacts = fitted.predict(cell.test)
    return cell.test[CORUN].assign(
        design=cell.part.design,
        fold=cell.part.fold,
        model=cell.recipe.model,
        kind=CATALOGUE[cell.recipe.model].kind,
        preparation=cell.preparation,
        measured=cell.test["impact"],
        predicted=impacts,
        right=fitted.right(cell.test, impacts, cell.recipe.share),
    )


def evaluate_stage() -> None:
    """Stage evaluate: all models on held-out rows of every design, table 1, what the champion rests on."""
    knobs, table = load(Corun), ImpactTable.read(FEATURES)
    cells = _cells(table, knobs)
    oof = _with_intervals(side_by_side(predicted, cells, knobs.compute, "evaluate corun"), knobs.section)
    _write("oof", oof)
    prepared = [
        _as_prepared(cell, table.rates, how)
        for cell in cells
        for how in PREPARATIONS
        if cell.part.design == "random" and CATALOGUE[cell.recipe.model].prepared
    ]
    table_1 = seed_table(side_by_side(predicted, prepared, knobs.compute, "table 1 of corun"))
    _write("table1", table_1)
    entries = _entries(oof)
    main = main_design(tuple(entries))
    champion = impact_scores.best(entries[main])
    rows = oof[(oof["design"] == main) & (oof["model"] == champion)]
    own = [cell for cell in cells if (cell.part.design, cell.recipe.model) == (main, champion)]
    _explain(table, own, rows, knobs)
    kept = kept_tables()
    metrics = _metrics(table, kept, knobs, entries)
    cells = table_1.round(6).astype({"seeds": object}).where(table_1.notna(), None).to_dict("records")
    online = _online(table, kept.samples, knobs)
    content = {**metrics, "table_1": cells, "champion": champion, "online": online}
    write_json(PLACES.metrics, content)
    asked = oof[oof["design"] == main].rename(columns={"model": "entry"}).assign(unit="impact")
    of_predictions(content, main, "mape", asked).write(PLACES)


def _cells(table: ImpactTable, knobs: Params[Corun]) -> list[ModelOfPart]:
    tuned, rows = read_tuned(PLACES.tuned, Tuned), table.frame
    parts = [part for part in divisions(table, knobs.section, knobs.seed) if part.fold >= 0]
    require_parts(PLACES.tuned, tuned, [part.name for part in parts])
    return [
        ModelOfPart(
            recipe_of(table, name, knobs.section, knobs.seed, found.params),
            rows.iloc[part.train],
            rows.iloc[part.test],
            part,
        )
        for part in parts
        for name, found in tuned[part.name].items()
    ]


def _as_prepared(cell: ModelOfPart, rates: tuple[str, ...], how: str) -> ModelOfPart:
    """Return the cell with the preparation `how`, on the rates alone as in equation 1."""
    params = {**cell.recipe.params, "preparation": how}
    return replace(cell, recipe=replace(cell.recipe, params=params, columns=rates), preparation=how)


def _with_intervals(found: list[pd.DataFrame], section: Corun) -> pd.DataFrame:
    models = pd.concat(found, ignore_index=True).groupby(["design", "model"], sort=True)
    confidence = section.evaluate.confidence
    told = [impact_scores.with_intervals(own, confidence) for _, own in models]
    return pd.concat(told, ignore_index=True)


def _entries(oof: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {
        str(design): {str(name): impact_scores.summary(own) for name, own in rows.groupby("model", sort=True)}
        for design, rows in oof.groupby("design", sort=True)
    }


def seed_table(found: list[pd.DataFrame]) -> pd.DataFrame:
    """Return table 1 of the seed with ours beside it.

    Returns
    -------
    DataFrame
        ``predictor, kind, preparation``; ``accuracy`` and ``spread``: share predicted rightly, mean and
        standard deviation over the folds; ``seeds``: the seed's share, NaN where it has none.
    """
    if not found:  # the seed's split was not asked for
        return pd.DataFrame(columns=list(TABLE_1_COLUMNS))
    folds = pd.concat(found).groupby(["model", "preparation", "fold"], sort=True)["right"].mean()
    ours = folds.groupby(level=[0, 1]).agg(accuracy="mean", spread=lambda values: values.std(ddof=0))
    table = ours.reset_index()
    table.insert(0, "predictor", [row_of(CATALOGUE[name].title) for name in table["model"]])
    table.insert(1, "kind", [CATALOGUE[name].kind for name in table["model"]])
    cells = zip(table["predictor"], table["kind"], table["preparation"], strict=True)
    table["seeds"] = [TABLE_1.get(cell, np.nan) for cell in cells]
    return table.drop(columns="model").sort_values(["kind", "predictor", "preparation"], ignore_index=True)


def _explain(table: ImpactTable, folds: list[ModelOfPart], oof: pd.DataFrame, knobs: Params[Corun]) -> None:
    """Write importance, drops and residuals of the champion, whose cells and predictions these are."""
    _write("importance", permuted(folds[0], knobs.seed))
    _write("removed", removed(folds, oof, knobs.compute))
    rates = table.frame[[*CORUN, *table.rates]]
    vectors = oof[CORUN].merge(rates, on=CORUN, how="left", validate="many_to_one")
    _write("residuals", residuals(oof, vectors[list(table.rates)].to_numpy(np.float64)))


def _metrics(
    table: ImpactTable, kept: CorunTables, knobs: Params[Corun], entries: dict[str, Any]
) -> dict[str, Any]:
    section, rows = knobs.section, table.frame
    solo = kept.tasks.set_index(["machine", "task"])["solo_seconds"]
    return {
        "family": "corun",
        "data": {
            "format": section.ingest.format,
            "path": section.ingest.path.as_posix(),
            "digest": table.digest,
            "instances": len(rows),
            "measurements": int(rows["repetitions"].sum()),
            **{f"{name}s": int(rows[name].nunique()) for name in ("task", "machine", "device")},
            "events": len(table.events),
        },
        "seed": knobs.seed,
        "tolerance": section.evaluate.tolerance,
        "confidence": section.evaluate.confidence,
        "repeatability": impact_scores.repeatability(kept.pairs, solo, section.evaluate.tolerance),
        "splits": {
            design: {"scheme": DESIGNS[design].scheme, "folds": section.evaluate.folds, "entries": found}
            for design, found in entries.items()
        },
    }


def _online(table: ImpactTable, samples: pd.DataFrame, knobs: Params[Corun]) -> dict[str, Any] | None:
    """Write and summarise what the online model said of unseen co-runs; None where nothing was sampled."""
    section = knobs.section
    asked = [
        one
        for seconds in sorted({*section.online.seconds, section.online.trained_at})
        if len(samples)
        for one in AskedSamples.of(samples, table.frame, seconds, section.evaluate.folds, knobs.seed)
    ]
    found = side_by_side(judged, asked, knobs.compute, "online models of corun")
    if not found:
        _write("online", pd.DataFrame(columns=list(ONLINE_COLUMNS)))
        _write("online_residuals", pd.DataFrame(columns=list(RESIDUAL_COLUMNS)))
        return None
    predictions = pd.concat(found, ignore_index=True)
    _write("online", predictions)
    summary = by_seconds(predictions, section.evaluate.tolerance).round(DIGITS)
    main = "tasks" if "tasks" in set(summary["design"]) else "random"
    at = summary[(summary["seconds"] == section.online.trained_at) & (summary["design"] == main)]
    champion = at.sort_values(["mape", "model"])["model"].iloc[0]
    # for figure 4 of the seed
    own = predictions[["seconds", "design", "model"]].eq([section.online.trained_at, main, champion])
    changes = ratios(samples, table.frame, section.online.trained_at)
    rows = predictions[own.all(axis=1)].merge(changes, on=ONLINE_KEYS, how="left", validate="many_to_one")
    _write("online_residuals", residuals(rows, rows[changes.columns.drop(ONLINE_KEYS)].to_numpy(np.float64)))
    return {
        "design": main,
        "champion": str(champion),
        "trained_at": section.online.trained_at,
        "entries": summary.to_dict("records"),
        "seeds": ONLINE,
    }


def _write(name: str, table: pd.DataFrame) -> None:
    with replacing(PLACES.evaluated / f"{name}.parquet") as path:
        table.to_parquet(path, index=False)
