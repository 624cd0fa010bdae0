"""Small made-up files as the stages leave them, for the report to read."""

import json

import numpy as np
import pandas as pd

from data.comparisons.tables import ComparisonTables

SEED_FEATURES = [
    f"{stat}_{part}" for stat in ("medians", "mins", "maxes", "q1s", "q3s") for part in ("min", "med", "max")
]
MODELS = {"knn-uniform": 0.5, "logistic": 0.35, "decision-tree": 0.45, "random-forest": 0.25, "xgboost": 0.2}
RULES = {"median-5": -0.05, "mann-whitney-0.05": -0.02}
FIVE = ("min", "q1", "median", "q3", "max")


def write_inputs(
    root, *, operations=8, each=6, threads=(1, 2, 4), seed=1, summaries=False, perfect=False, models=MODELS
):
    random = np.random.default_rng(seed)
    truth = _truth(random, operations, each)
    tables = _tables(random, truth, threads, summaries=summaries)
    tables.write(root / "data/interim/comparisons")
    _features(random, truth).to_parquet(_made(root / "data/processed/comparisons") / "features.parquet")
    reports = _made(root / "reports/comparisons")
    verdicts = _verdicts(random, truth, models, perfect=perfect)
    verdicts.to_parquet(_made(reports / "evaluated") / "oof.parquet")
    (reports / "metrics.json").write_text(json.dumps(_metrics(truth, verdicts)))
    _curves(random).to_parquet(reports / "evaluated/curves.parquet")
    return truth


def _made(directory):
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _truth(random, operations, each):
    rows = []
    for number in range(operations * each):
        operation = number % operations
        fails = random.random() < 0.25
        shift = -random.uniform(0.05, 0.3) if fails else random.normal(0, 0.015)
        rows.append(
            {
                "comparison_id": f"c{number:04d}",
                "benchmark": "stress-ng" if operation % 2 else "own <&> 'loads'",
                "operation": f"operation_{operation}",
                "machine": "m1",
                "status": "fail" if fails else "pass",
                "shift": shift,
                "place": number,
                "fold": operation % 5,
            }
        )
    return pd.DataFrame(rows)


def _tables(random, truth, threads, *, summaries):
    results, comparisons, labels = [], [], []
    for row in truth.itertuples():
        names = {"benchmark": row.benchmark, "operation": row.operation, "machine": row.machine}
        first = 2 * row.place
        for thread in threads:
            for side in (0, 1):
                values = 500 * thread * (1 + side * row.shift) * (1 + 0.015 * random.standard_normal(7))
                stats = [None] * 7
                if summaries:
                    values, stats = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)), FIVE
                results += [
                    {
                        **names,
                        "series_id": f"{row.operation}/{thread}",
                        "group": "g",
                        "unit": "ops/s",
                        "better": "higher",
                        "threads": thread,
                        "version": str(first + side),
                        "order": first + side,
                        "value": value,
                        "stat": stat,
                    }
                    for value, stat in zip(values, stats, strict=True)
                ]
        comparisons.append(
            {
                **names,
                "comparison_id": row.comparison_id,
                "baseline_from": first,
                "baseline_to": first,
                "target_from": first + 1,
                "target_to": first + 1,
            }
        )
        labels.append({"comparison_id": row.comparison_id, "status": row.status, "labelled_by": "injected"})
    return ComparisonTables.of_rows(results, comparisons, labels)


def _features(random, truth):
    frame = truth[["comparison_id", "benchmark", "operation", "machine", "status"]].copy()
    frame["fold_group"] = frame["benchmark"] + "/" + frame["operation"]
    for name in SEED_FEATURES:
        weight = {"medians": 1.0, "q1s": 0.3}.get(name.split("_")[0], 0.0)
        value = weight * truth["shift"] + 0.02 * random.standard_normal(len(truth))
        frame[name] = np.sign(value) * np.sqrt(np.abs(value))
    frame["shift_in_noise"] = truth["shift"] / 0.015
    return frame


def _verdicts(random, truth, models, *, perfect):
    parts = []
    for split, repeats in (("grouped", 1), ("stratified", 2)):
        for repeat in range(repeats):
            fold = truth["fold"] if split == "grouped" else pd.Series(random.permutation(len(truth)) % 4)
            place = {"comparison_id": truth["comparison_id"], "split": split, "repeat": repeat, "fold": fold}
            for entry, noise in models.items():
                signal = -truth["shift"] / 0.05 - 0.8 + noise * 2.5 * random.standard_normal(len(truth))
                probability = 1 / (1 + np.exp(-2 * signal))
                if perfect:
                    probability = (truth["status"] == "fail") * 0.9 + 0.05
                parts.append(_entry(place, truth, entry, "model", probability, 0.4))
            for entry, limit in RULES.items():
                called = (truth["shift"] + 0.01 * random.standard_normal(len(truth)) < limit).astype(float)
                parts.append(_entry(place, truth, entry, "rule", called, 0.5).assign(probability=np.nan))
    return pd.concat(parts, ignore_index=True)


def _entry(place, truth, entry, kind, probability, threshold):
    verdict = np.where(probability >= threshold, "fail", "pass")
    return pd.DataFrame(
        {
            **place,
            "entry": entry,
            "kind": kind,
            "probability": probability,
            "threshold": threshold,
            "verdict": verdict,
            "status": truth["status"],
        }
    )


def _metrics(truth, verdicts):
    splits = {
        split: {"scheme": scheme, "folds": folds, "entries": _entries(verdicts[verdicts["split"] == split])}
        for split, scheme, folds in (
            ("grouped", "5 folds of whole operations (benchmark/operation)", 5),
            ("stratified", "4 stratified folds, repeated 2 times (seed 000, section 6.6.1)", 4),
        )
    }
    models = {n: e for n, e in splits["grouped"]["entries"].items() if e["kind"] == "model"}
    return {
        "family": "comparisons",
        "seed": 20261121,
        "features": "extended",
        "splits": splits,
        "data": {
            "format": "tables",
            "path": "data/raw/measured",
            "digest": "ab" * 32,
            "comparisons": len(truth),
            "fails": int((truth["status"] == "fail").sum()),
            "operations": truth["operation"].nunique(),
        },
        "champion": max(models, key=lambda name: models[name]["balanced_accuracy"]["pooled"]),
    }


def _entries(verdicts):
    return {name: {"kind": part["kind"].iloc[0], **_scores(part)} for name, part in verdicts.groupby("entry")}


def _scores(part):
    failed, called = part["status"] == "fail", part["verdict"] == "fail"
    recall, cleared = float(called[failed].mean()), float((~called)[~failed].mean())
    precision = float(failed[called].mean()) if called.any() else 0.0
    values = {
        "accuracy": float((failed == called).mean()),
        "balanced_accuracy": (recall + cleared) / 2,
        "recall": recall,
        "false_negative_rate": 1 - recall,
        "false_positive_rate": 1 - cleared,
        "precision": precision,
        "f1": 2 * precision * recall / max(precision + recall, 1e-9),
        "average_precision": (recall + precision) / 2,
    }
    scores = {name: {"mean": value, "std": 0.02, "pooled": value} for name, value in values.items()}
    if part["kind"].iloc[0] == "rule":
        scores["average_precision"] = None
    else:
        scores["average_precision"]["pooled"] = None
    return scores


def _curves(random):
    rows = []
    for curve, parameters, top in (
        ("knn-uniform", range(1, 26, 2), 0.92),
        ("knn-distance", range(1, 26, 2), 0.94),
        ("random-forest", (1, 2, 5, 10, 20, 50, 100, 200), 0.95),
        ("extra-trees", (1, 2, 5, 10, 20, 50, 100, 200), 0.93),
    ):
        for parameter in parameters:
            middle = top - (0.002 * abs(parameter - 7) if curve.startswith("knn") else 0.12 / parameter)
            rows += [
                {
                    "curve": curve,
                    "parameter": parameter,
                    "fold": fold,
                    "accuracy": middle + 0.012 * random.standard_normal(),
                }
                for fold in range(4)
            ]
    return pd.DataFrame(rows)


def write_tree(root, features):
    """Fit and write a small decision tree as the train stage does."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    from training.comparisons.stored import Card, TrainedModel

    tree = DecisionTreeClassifier(min_samples_leaf=3, random_state=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("model", tree)])
    pipeline.fit(features[SEED_FEATURES].to_numpy(), (features["status"] == "fail").astype(int))
    card = Card(
        "decision-tree", tuple(SEED_FEATURES), 0.4, {}, dict.fromkeys(SEED_FEATURES, 0.0), "ab" * 32, 1
    )
    TrainedModel(pipeline, card).write(root / "models/comparisons/decision-tree")
