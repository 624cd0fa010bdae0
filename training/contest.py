"""The candidate against the present champion, on comparisons that neither has seen."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from training.bootstrap import Difference, paired_difference
from training.decision import AskedTable, decided
from training.examples import FeatureTable
from training.family import Family
from training.ready import ReadyModel
from training.registry import CHALLENGER, CHAMPION, Version, download, present, version_of
from training.tracking import VERDICTS, Tracked, client, mlflow, track


@dataclass(frozen=True)
class Decision:
    """Which alias the candidate takes, and why."""

    alias: str
    reason: str


def contest(family: Family, metrics: dict[str, Any], evidence: str) -> str:
    """Log the last run of the pipeline, register its best model, and decide about the champion.

    Returns
    -------
    str
        Who is champion now, and why.
    """
    name, model = family.section.promote.name, metrics["champion"]
    champion = version_of(name, CHAMPION)
    decision = decide(family, model, champion)
    tracked = track(family, evidence)[model]
    tags = {
        "evidence": evidence,
        "model": model,
        "data_digest": metrics["data"]["digest"],
        "seed": str(metrics["seed"]),
        "reason": decision.reason,
        "judged_against": champion.version if champion and present(champion) else "",
    }
    version = _register(name, tracked, tags, decision.alias)
    if decision.alias == CHAMPION or champion is None:
        return f"{name} v{version} ({model}) is champion: {decision.reason}"
    return (
        f"{name} v{champion.version} ({champion.tags['model']}) stays champion, "
        f"v{version} ({model}) is challenger: {decision.reason}"
    )


def decide(family: Family, model: str, champion: Version | None) -> Decision:
    """Decide whether `model` takes the champion's place.

    It does unless the paired bootstrap finds it worse on the folds of whole operations. The present
    champion's verdicts there are its own out-of-fold ones for comparisons that it was trained on, and
    direct ones for others.
    """
    if champion is None:
        return Decision(CHAMPION, "it is the first one")
    if not present(champion):
        return Decision(CHAMPION, f"the files of v{champion.version} are gone")
    table = FeatureTable.read(family.features, family.columns())
    try:
        theirs = champion_verdicts(champion, table, AskedTable.read(family.asked, table))
    except InputError as exc:
        return Decision(CHAMPION, f"v{champion.version} cannot judge these comparisons any more ({exc})")
    difference = paired_difference(
        table.frame["status"].to_numpy() == "fail",
        _own_verdicts(family, model, table),
        theirs,
        table.frame["fold_group"].to_numpy(np.str_),
        resamples=family.section.promote.resamples,
        confidence=family.section.promote.confidence,
        seed=family.params.seed,
    )
    return Decision(CHALLENGER if difference.worse else CHAMPION, _reason(difference, champion, family))


def _reason(difference: Difference, champion: Version, family: Family) -> str:
    found = "worse" if difference.worse else "not worse"
    return (
        f"{found} than v{champion.version} on the same folds (balanced accuracy {difference.observed:+.3f}, "
        f"{family.section.promote.confidence:.0%} interval {difference.low:+.3f} to {difference.high:+.3f})"
    )


def _own_verdicts(family: Family, model: str, table: FeatureTable) -> NDArray[np.bool_]:
    verdicts = pd.read_parquet(family.reports / "oof.parquet")
    rows = verdicts[(verdicts["entry"] == model) & (verdicts["split"] == "grouped")]
    judged = rows.set_index("comparison_id")["verdict"].reindex(table.frame["comparison_id"])
    return np.asarray(judged.to_numpy() == "fail")


def champion_verdicts(champion: Version, table: FeatureTable, asked: AskedTable) -> NDArray[np.bool_]:
    """Return which comparisons of `table` the champion fails, without letting it judge what it learned from.

    Raises
    ------
    InputError
        If the table lacks a feature of the champion, or its files cannot be read.
    """
    with tempfile.TemporaryDirectory() as temporary:
        directory = download(champion, Path(temporary))
        model = ReadyModel.read(directory)
        stored = pd.read_parquet(directory / "extra_files" / VERDICTS)
    missing = [name for name in model.card.features if name not in asked.frame.columns]
    if missing:
        raise InputError(f"the feature {missing[0]!r} is no longer computed")
    probability = decided(model.probability(asked.frame), asked.worst_change, model.card.floor)
    direct = np.where(probability >= model.card.threshold, "fail", "pass")
    own = stored.set_index("comparison_id")["verdict"].reindex(table.frame["comparison_id"])
    return np.asarray(np.where(own.isna(), direct, own.to_numpy(object)) == "fail")


def _register(name: str, tracked: Tracked, tags: dict[str, str], alias: str) -> str:
    store = client()
    try:
        store.get_registered_model(name)
    except mlflow().exceptions.MlflowException:
        store.create_registered_model(name)
    version = store.create_model_version(name, tracked.model_uri, run_id=tracked.run_id, tags=tags).version
    store.set_registered_model_alias(name, alias, version)
    return str(version)
