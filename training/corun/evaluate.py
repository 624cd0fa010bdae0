"""Stage evaluate of the family ``corun``: every model on held-out co-runs, and what the champion rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from data.corun.params import Corun
from data.params import Params, load
from data.tables.files import replacing, write_json
from features.corun.rates import PLACES
from training.corun.estimators import scores as impact_scores
from training.corun.estimators.explaining import Fold, permuted, removed, residuals
from training.corun.estimators.fitting import ImpactTable, Recipe
from training.corun.estimators.models import CATALOGUE, PREPARATIONS
from training.corun.online_evaluating import KEYS as ONLINE_KEYS
from training.corun.online_evaluating import Asked, by_seconds, judged, ratios
from training.corun.seed import ONLINE, TABLE_1, row_of
from training.corun.splits import DESIGNS, Part, main_design
from training.corun.stages import FEATURES, divisions, kept_tables, recipe_of
from training.evaluation.metrics import DIGITS
from training.evaluation.sidebyside import side_by_side
from training.evaluation.tuned import Tuned, read_tuned, require_parts

TABLE_1_COLUMNS = ("predictor", "kind", "preparation", "accuracy", "spread", "seeds")
ONLINE_COLUMNS = (
    "task",
    "corunners",
    "machine",
    "repetition",
    "model",
    "measured",
    "predicted",
    "design",
    "fold",
    "seconds",
)
RESIDUAL_COLUMNS = (
    *("task", "corunners", "machine", "fitted", "residual", "standardised", "theoretical", "scale"),
    *("leverage", "cook"),
)


@dataclass(frozen=True)
class Cell:
    """A model to fit to a part's training rows, and to ask about its test rows."""

    part: Part
    recipe: Recipe
    rows: pd.DataFrame
    preparation: str = ""


def predicted(cell: Cell) -> pd.DataFrame:
    """Return what a model says of the test rows of `cell`, as rows of oof.parquet."""
    test = cell.rows.iloc[cell.part.test]
    fitted = cell.recipe.fit(cell.rows.iloc[cell.part.train])
    impacts = fitted.predict(test)
    return pd.DataFrame(
        {
            **{name: test[name].to_numpy() for name in ("task", "corunners", "machine")},
            "design": cell.part.design,
            "fold": cell.part.fold,
            "model": cell.recipe.model,
            "kind": CATALOGUE[cell.recipe.model].kind,
            "preparation": cell.preparation,
            "measured": test["impact"].to_numpy(),
            "predicted": impacts,
            "right": fitted.right(test, impacts, cell.recipe.share),
        }
    )


def evaluate_stage() -> None:
    """Stage evaluate: all models on held-out rows of every design, table 1, what the champion rests on."""
    knobs, table = load(Corun), ImpactTable.read(FEATURES)
    section, tuned = knobs.section, read_tuned(PLACES.tuned, Tuned)
    parts_ = [part for part in divisions(table, section, knobs.seed) if part.fold >= 0]
    require_parts(PLACES.tuned, tuned, [part.name for part in parts_])
    cells = [
        Cell(part, recipe_of(table, name, section, knobs.seed, found.params), table.frame)
        for part in parts_
        for name, found in tuned[part.name].items()
    ]
    oof = _with_intervals(side_by_side(predicted, cells, knobs.jobs, "evaluate corun"), section)
    _write("oof", oof)
    prepared = [
        Cell(cell.part, _as_prepared(table, cell, how), cell.rows, how)
        for cell in cells
        for how in PREPARATIONS
        if cell.part.design == "random" and CATALOGUE[cell.recipe.model].prepared
    ]
    table_1 = seed_table(side_by_side(predicted, prepared, knobs.jobs, "table 1 of corun"))
    _write("table1", table_1)
    entries = _entries(oof)
    champion = impact_scores.best(entries[main_design(tuple(entries))])
    _explain(table, [cell for cell in cells if cell.recipe.model == champion], oof, knobs)
    metrics = _metrics(table, knobs, entries, champion, table_1)
    write_json(PLACES.metrics, {**metrics, "online": _online(table, knobs)})


def _as_prepared(table: ImpactTable, cell: Cell, how: str) -> Recipe:
    """Return the recipe with the preparation `how`, on the rates alone as in equation 1."""
    recipe = cell.recipe
    return replace(recipe, params={**recipe.params, "preparation": how}, columns=table.rates)


def _with_intervals(found: list[pd.DataFrame], section: Corun) -> pd.DataFrame:
    rows = pd.concat(found, ignore_index=True)
    return pd.concat(
        [
            impact_scores.with_intervals(own, section.evaluate.confidence)
            for _, own in rows.groupby(["design", "model"], sort=True)
        ],
        ignore_index=True,
    )


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


def _explain(table: ImpactTable, cells: list[Cell], oof: pd.DataFrame, knobs: Params[Corun]) -> None:
    """Write importance, drops and residuals of the champion, whose cells these are."""
    main = main_design(tuple(oof["design"].unique()))
    own = [cell for cell in cells if cell.part.design == main]
    rows = oof[(oof["design"] == main) & (oof["model"] == own[0].recipe.model)]
    folds = [
        Fold(cell.recipe, table.frame.iloc[cell.part.train], table.frame.iloc[cell.part.test]) for cell in own
    ]
    _write("importance", permuted(folds[0], knobs.seed))
    _write("removed", removed(folds, rows, knobs.jobs))
    keys = ["task", "corunners", "machine"]
    vectors = rows[keys].merge(
        table.frame[[*keys, *table.rates]], on=keys, how="left", validate="many_to_one"
    )
    _write("residuals", residuals(rows, vectors[list(table.rates)].to_numpy(np.float64)))


def _metrics(
    table: ImpactTable, knobs: Params[Corun], entries: dict[str, Any], champion: str, table_1: pd.DataFrame
) -> dict[str, Any]:
    section = knobs.section
    tables = kept_tables()
    solo = tables.tasks.set_index(["machine", "task"])["solo_seconds"]
    cells = table_1.round(6).astype({"seeds": object}).where(table_1.notna(), None).to_dict("records")
    return {
        "family": "corun",
        "data": {
            "format": section.ingest.format,
            "path": section.ingest.path.as_posix(),
            "digest": table.digest,
            "instances": len(table.frame),
            "measurements": int(table.frame["repetitions"].sum()),
            "tasks": int(table.frame["task"].nunique()),
            "machines": int(table.frame["machine"].nunique()),
            "devices": int(table.frame["device"].nunique()),
            "events": len(table.events),
        },
        "seed": knobs.seed,
        "tolerance": section.evaluate.tolerance,
        "confidence": section.evaluate.confidence,
        "repeatability": impact_scores.repeatability(tables.pairs, solo, section.evaluate.tolerance),
        "splits": {
            design: {"scheme": DESIGNS[design].scheme, "folds": section.evaluate.folds, "entries": found}
            for design, found in entries.items()
        },
        "table_1": cells,
        "champion": champion,
    }


def _online(table: ImpactTable, knobs: Params[Corun]) -> dict[str, Any] | None:
    """Write and summarise what the online model said of unseen co-runs; None where nothing was sampled."""
    section = knobs.section
    samples = kept_tables().samples
    asked = [
        one
        for seconds in sorted({*section.online.seconds, section.online.trained_at})
        if len(samples)
        for one in Asked.of(samples, table.frame, seconds, section.evaluate.folds, knobs.seed)
    ]
    found = side_by_side(judged, asked, knobs.jobs, "online models of corun")
    nothing = pd.DataFrame(columns=list(ONLINE_COLUMNS))
    predictions = pd.concat(found, ignore_index=True) if found else nothing
    _write("online", predictions)
    if predictions.empty:
        _write("online_residuals", pd.DataFrame(columns=list(RESIDUAL_COLUMNS)))
        return None
    summary = by_seconds(predictions, section.evaluate.tolerance).round(DIGITS)
    main = "tasks" if "tasks" in set(summary["design"]) else "random"
    at = summary[(summary["seconds"] == section.online.trained_at) & (summary["design"] == main)]
    champion = at.sort_values(["mape", "model"])["model"].iloc[0]
    _online_residuals(table, predictions, (section.online.trained_at, main, champion))
    return {
        "design": main,
        "champion": str(champion),
        "trained_at": section.online.trained_at,
        "entries": summary.to_dict("records"),
        "seeds": ONLINE,
    }


def _online_residuals(table: ImpactTable, predictions: pd.DataFrame, key: tuple[float, str, str]) -> None:
    """Write the residuals of one model after so many seconds in one design, for figure 4 of the seed."""
    seconds, design, model = key
    own = (
        predictions["seconds"].eq(seconds) & predictions["design"].eq(design) & predictions["model"].eq(model)
    )
    changes = ratios(kept_tables().samples, table.frame, seconds)
    rows = predictions[own].merge(changes, on=ONLINE_KEYS, how="left", validate="many_to_one")
    vectors = rows[[name for name in changes.columns if name not in ONLINE_KEYS]].to_numpy(np.float64)
    _write("online_residuals", residuals(rows, vectors))


def _write(name: str, table: pd.DataFrame) -> None:
    with replacing(PLACES.evaluated / f"{name}.parquet") as path:
        table.to_parquet(path, index=False)
