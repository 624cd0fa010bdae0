import dataclasses
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from data.errors import InputError
from data.matrices import validity as family
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from data.parallel import Compute
from tests.matrix_pairs import pairs
from training.evaluation.metrics import summarise_entry
from training.matrices import stages as matrices
from training.matrices.engine.engine import FULL, NAIVE
from training.matrices.engine.stored import TrainedEngine
from training.matrices.evaluation import (
    Evaluation,
    best_threshold,
    raw_zscores,
    reference_methods,
    summarise_selection,
)
from training.matrices.fitting import (
    CellAnswers,
    EngineFit,
    MatrixExamples,
    Mistakes,
    deal_pairs_to_folds,
    deal_to_folds,
    fold_parts,
    judge_all_fits,
    results_row,
)
from training.matrices.promote import promote_stage, rank_by_precision
from training.matrices.schemes import (
    FOLLOWED,
    TABLES,
    Cell,
    Printed,
    add_remedies,
    leave_out_remedies,
    single_run_steps,
    table_rows,
)
from training.registry.champions import CHALLENGER, CHAMPION, version_of

SEED = 1


def examples(tables):
    return MatrixExamples.from_tables(tables, decide_validity(tables, 0.5), "digest")


def cases(abnormal, group=lambda number: "g"):
    return pd.DataFrame(
        [
            {"pair_id": f"{n} {kind}", "workload": f"w{n}", "group": group(n), "abnormal": kind}
            for n, bad in enumerate(abnormal)
            for kind in ((True, False) if bad else (False, False))
        ]
    )


def test_every_fold_has_both_labels_and_leaves_groups_in_training():
    three_each = cases([True] * 39, lambda number: f"g{number // 3}")
    fold_of = deal_to_folds(three_each, 10, SEED)
    group = three_each.drop_duplicates("workload").set_index("workload")["group"]
    assert fold_of.nunique() == 10
    assert not pd.DataFrame({"fold": fold_of, "group": group}).duplicated().any()
    assert fold_of.value_counts().between(3, 5).all()


def test_whole_pairs_are_dealt_with_equal_shares_of_abnormal_ones():
    given = cases([True] * 7)
    fold_of = deal_pairs_to_folds(given, 10, SEED)
    abnormal = given.set_index("pair_id")["abnormal"]
    assert abnormal.groupby(fold_of).agg(["sum", "size"]).to_numpy().tolist() == [[1, 2]] * 7


def test_engines_fitted_together_answer_as_if_fitted_alone():
    found = examples(pairs(cases=4))
    part = fold_parts(found, deal_to_folds(found.pairs, 4, SEED))[0]
    fits = [EngineFit(Cell(model, FULL), part, 2, SEED) for model in ("logistic", "decision-tree")]
    together = judge_all_fits(fits, Compute(), "")
    for fit, one in zip(fits, together, strict=True):
        alone = fit.unfitted_engine.fit(part.train)
        told = alone.judge_pairs(part.test)
        np.testing.assert_array_equal(one.pairs["probability"], told["probability"])
        assert one.vectors.cases == len(alone.judge_vectors(part.test))


def test_folds_are_limited_by_test_cases_with_abnormal_pairs():
    few = cases([True, False, False, True, False, True, False])
    assert deal_to_folds(few, 10, SEED).nunique() == 3
    with pytest.raises(InputError, match="1 of 3 have abnormal pairs; two folds need"):
        deal_to_folds(cases([True, False, False]), 10, SEED)


def two_sides(**metrics):
    sides = ["baseline"] * 3 + ["target"] * 2
    rows = [
        {"run_id": f"r{number}", "workload": "w", "group": "g", "version": side, "machine": "m", "side": side,
         "pair_id": "p", **{name: values[number] for name, values in metrics.items()}}
        for number, side in enumerate(sides)
    ]  # fmt: skip
    return MatrixTables.from_rows(rows)


def test_z_scores_are_mean_differences_in_baseline_deviations():
    same, lost = [0.1 + 0.2] * 3 + [0.3] * 2, [1, 2, 3, None, None]
    tables = two_sides(a=[1, 2, 3, 8, 8], same=same, jumps=[5, 5, 5, 6, 6], lost=lost)
    scores = raw_zscores(tables, pooled=False).loc["p"]
    assert scores["a"] == pytest.approx(6)
    assert (scores["same"], scores["jumps"]) == (0, np.inf)
    assert np.isnan(scores["lost"])


def test_a_reference_method_gets_its_best_threshold():
    assert best_threshold(np.array([False, True, False, True]), np.array([1.0, 3.0, 2.0, np.inf])) == 3
    tables = pairs()
    found = reference_methods(tables, examples(tables).pairs.set_index("pair_id")["abnormal"])
    assert [one.name for one in found[:2]] == ["largest z", "metrics beyond 3 sigma"]
    for one in found:
        accuracies = []
        truth = examples(tables).pairs["abnormal"].to_numpy()
        for cut in one.score.unique():
            judged = (one.score >= cut).to_numpy()
            accuracies.append((judged[truth].mean() + (~judged[~truth]).mean()) / 2)
        judged = (one.score >= one.threshold).to_numpy()
        assert (judged[truth].mean() + (~judged[~truth]).mean()) / 2 == max(accuracies)


def test_pooled_counts_are_shown_beside_those_of_the_thesis():
    abnormal = pd.Series({"a": True, "b": False, "c": True, "d": False})
    told = pd.DataFrame({"pair_id": ["a", "b"], "judged": [True, True]})
    more = pd.DataFrame({"pair_id": ["c", "d"], "judged": [True, False]})
    targets = Mistakes(5, 2, 1, 1)
    found = [
        CellAnswers(0, told, Mistakes(10, 2, 4, 1), targets, 0.1),
        CellAnswers(1, more, Mistakes(10, 2, 0, 0), targets, 0.1),
    ]
    assert results_row(found, abnormal, Printed(5, 7, 0.9)) == {
        "folds": 2, "vectors": 20, "abnormal": 4, "balanced_accuracy": 1 - (1 / 4 + 4 / 16) / 2,
        "spread": 0.25, "false_positive": 4, "false_negative": 1, "pair_balanced_accuracy": 0.75,
        "target_balanced_accuracy": 1 - (2 / 4 + 2 / 6) / 2, "target_spread": 0, "target_false_positive": 2,
        "target_false_negative": 2,
        "pair_spread": 0.25, "pair_false_positive": 1, "pair_false_negative": 0, "seed_false_negative": 5,
        "seed_false_positive": 7, "seed_balanced_accuracy": 0.9,
    }  # fmt: skip


def test_kept_engines_judge_like_engines_fitted_again():
    found = examples(pairs())
    part = fold_parts(found, deal_to_folds(found.pairs, 2, SEED))[0]
    fits = [EngineFit(Cell("logistic", scheme), part, 1, SEED) for scheme in (FULL, NAIVE)]
    tuned, naive = judge_all_fits(fits, Compute(), "")
    again = fits[0].unfitted_engine.fit(part.train)
    pd.testing.assert_frame_equal(tuned.engine.judge_pairs(part.test), again.judge_pairs(part.test))
    assert naive.engine is None


def test_the_ablation_takes_over_answers_of_its_first_folds():
    found = examples(pairs())
    parts = fold_parts(found, deal_to_folds(found.pairs, 3, SEED))
    whole = Evaluation(found, "test-cases", parts, 1, SEED, Compute())
    whole.fit_cells([Cell("tan", NAIVE)], "")
    part_of_it = whole.on_first_folds(2)
    part_of_it.fit_cells([Cell("tan", NAIVE)], "")
    assert part_of_it.parts == parts[:2]
    assert part_of_it.answers_by_cell == {Cell("tan", NAIVE): whole.answers_by_cell[Cell("tan", NAIVE)][:2]}


def test_every_row_of_the_thesis_tables_has_a_scheme():
    assert {(one.table, one.row) for one in table_rows(FULL)} == {
        (table, name) for table, rows in TABLES.items() for name in rows
    }
    forms = {one.row: (one.cell.model, one.cell.scheme.form) for one in table_rows(FULL) if one.table == 8}
    assert forms["Sub-DTree"] == ("decision-tree", "subtracted")
    assert forms["Con-TAN"] == ("tan", "concatenated")


def changes(one, other):
    return {name for name, value in dataclasses.asdict(one).items() if value != getattr(other, name)}


def test_every_ablation_step_changes_exactly_one_remedy():
    steps = list(add_remedies("decision-tree", FULL))
    assert (steps[0].cell.scheme, steps[-1].cell.scheme) == (NAIVE, FULL)
    schemes = [step.cell.scheme for step in steps]
    assert [len(changes(one, other)) for one, other in pairwise(schemes)] == [1] * 7
    seeds = [step.printed.balanced_accuracy if step.printed else None for step in steps]
    assert seeds == [None, 0.61, 0.81, 0.85, None, 0.91, None, None]
    without = [changes(step.cell.scheme, FULL) for step in leave_out_remedies("tan", FULL)]
    assert without[0] == set()
    assert [len(found) for found in without[1:]] == [1] * 7


def test_single_run_ablation_has_all_remedies_of_the_thesis():
    first, *steps = single_run_steps(["tan"], FULL)
    assert first.cell.scheme == NAIVE
    whole = next(step.cell.scheme for step in steps if step.step == 0)
    assert changes(whole, FULL) == {"form", "grouping", "tuned"}
    without = [step.cell.scheme for step in steps if step.part == "single runs, left out"]
    assert [len(changes(scheme, whole)) for scheme in without] == [0, *[1] * 6]


def test_test_runs_are_valid_and_carry_no_flags():
    tables = pairs(cases=3, invalid=0.1)
    odd = tables.runs["run_id"] == "g0 c0 v1 target 0"
    runs = tables.runs.assign(m5=tables.runs["m5"].mask(odd, np.inf))
    found = examples(MatrixTables(runs, tables.causes, tables.metrics))
    case = pd.Index(["g0 c0"], name="workload")
    asked = found.runs_to_judge(case)
    assert asked.runs[["valid", "abnormal"]].isna().all(axis=None)
    flagged = set(runs.loc[~runs["valid"].astype(bool), "run_id"])
    assert not set(asked.runs["run_id"]) & {*flagged, "g0 c0 v1 target 0"}
    learned = found.runs_without(case)
    assert len(learned.runs) == (runs["workload"] != "g0 c0").sum()
    assert not np.isinf(learned.runs[learned.all_metrics]).any(axis=None)
    assert found.has_invalid_flags
    nobody = tables.without_flags().runs.assign(abnormal=tables.runs["abnormal"])
    assert not examples(MatrixTables(nobody, tables.causes, tables.metrics)).has_invalid_flags


def test_verdicts_do_not_depend_on_labels_under_test():
    tables = pairs(cases=4)
    first = fold_parts(examples(tables), deal_to_folds(examples(tables).pairs, 4, SEED))[0]
    lied = tables.runs["workload"].isin(first.test.runs["workload"])
    wrong = tables.runs["abnormal"].mask(lied & (tables.runs["side"] == "target"), ~tables.runs["abnormal"])
    other = examples(MatrixTables(tables.runs.assign(abnormal=wrong), tables.causes, tables.metrics))
    second = next(
        part
        for part in fold_parts(other, deal_to_folds(examples(tables).pairs, 4, SEED))
        if part.fold == first.fold
    )
    cell = Cell("logistic", FULL)
    told, again = judge_all_fits([EngineFit(cell, part, 2, SEED) for part in (first, second)], Compute(), "")
    pd.testing.assert_frame_equal(told.pairs, again.pairs)
    assert told.vectors.cases == again.vectors.cases
    assert told.vectors.abnormal != again.vectors.abnormal


def test_each_fold_is_judged_by_the_best_of_the_others():
    rows = [
        {"entry": entry, "kind": "model", "repeat": 0, "fold": fold, "status": status, "probability": 0.5,
         "verdict": status if fold in right else "pass"}
        for entry, right in (("a", (0,)), ("b", (1, 2)))
        for fold in range(3)
        for status in ("fail", "pass")
    ]  # fmt: skip
    oof = pd.DataFrame(rows)
    # fold 0 is judged by b, which is right in 1 and 2; 1 and 2 by whoever is right in the others: a tie, so a
    assert summarise_selection(oof)["recall"]["pooled"] == 0
    assert summarise_entry(oof[oof["entry"] == "b"])["recall"]["pooled"] == pytest.approx(2 / 3)


PARAMS = {
    "seed": SEED,
    "n_jobs": 1,
    "matrices": {
        "ingest": {"path": "in"},
        "evaluate": {
            "n_trials": 1,
            "models": ["logistic", "knn"],
            "n_folds": 2,
            "n_cause_folds": 2,
            "n_curve_folds": 2,
        },
        "promote": {"name": "regression-matrix", "n_bootstrap": 200},
    },
}


def caused(tables):
    """Name what made targets abnormal after their version."""
    bad = tables.runs[tables.runs["abnormal"].fillna(value=False).astype(bool)]
    told = pd.DataFrame({"run_id": bad["run_id"], "cause": bad["version"]})
    metrics = tables.metrics.to_dict("records")
    return MatrixTables.from_rows(tables.runs, told.to_dict("records"), metrics)


def evaluated(directory):
    """Run the stages up to evaluate in the working directory."""
    # small enough a defect that no single metric tells it
    caused(pairs(cases=3, invalid=0.05, size=0.1)).write(directory / "in")
    (directory / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    for stage in (family.ingest_stage, family.validate_stage, matrices.evaluate_stage):
        stage()


@pytest.fixture(scope="module")
def project(made_once):
    return made_once("evaluated matrices", evaluated)


def reported(project, name):
    return pd.read_parquet(project / f"reports/matrices/evaluated/{name}.parquet")


def test_the_champion_in_the_metrics_beats_reference_methods(project):
    metrics = json.loads((project / "reports/matrices/metrics.json").read_text())
    entries = metrics["splits"]["test-cases"]["entries"]
    accuracy = {name: entry["balanced_accuracy"]["pooled"] for name, entry in entries.items()}
    models, others = (
        [name for name in entries if entries[name]["kind"] == kind] for kind in ("model", "opponent")
    )
    harder = metrics["splits"]["causes"]["entries"]
    assert rank_by_precision([entries, harder])[0] == metrics["champion"]
    assert set(harder) == set(entries)
    assert metrics["champion"] in models
    assert len(others) == 4
    assert all(accuracy[metrics["champion"]] > accuracy[name] for name in others)
    assert {"logistic contrasted", "knn contrasted", "tan flattened", "largest z"} <= set(entries)
    assert metrics["data"]["pairs"] == 36
    assert metrics["data"]["fails"] == 12
    assert metrics["served"]["pairs"] == 36
    assert set(metrics["splits"]["pairs"]["entries"]) > {metrics["champion"], "tan flattened", "largest z"}
    assert metrics["validity"]["both"]["invalid"] == metrics["data"]["invalid_runs"]
    oof = reported(project, "oof")
    assert (oof.groupby("entry")["pair_id"].nunique() == 36).all()
    assert oof.drop_duplicates(["workload", "fold"])["workload"].is_unique


def test_reports_hold_every_table_figure_and_step(project):
    tables, curves, ablation = (reported(project, name) for name in ("tables", "curves", "ablation"))
    assert tables.groupby("table").size().to_dict() == {2: 5, 4: 3, 5: 4, 6: 3, 7: 3, 8: 7}
    assert tables["balanced_accuracy"].between(0, 1).all()
    assert set(curves["figure"]) == {4, 5, 6}
    # the leftmost points are table 6, but for the folds
    assert curves[curves["figure"] == 4].groupby("model")["x"].min().to_dict() == dict.fromkeys(FOLLOWED, 1.0)
    assert (ablation["part"] == "added").sum() == 8 * len(FOLLOWED)
    assert set(reported(project, "groups").columns) == {"workload", "group", "automatic"}
    times = pd.read_parquet(project / "reports/matrices/times.parquet")
    assert set(times.columns) == {"model", "dimensions", "seconds"}


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")
def test_trained_champion_is_registered_and_worse_ones_become_challengers(
    project, mlflow_store, tmp_path, monkeypatch, capsys
):
    # others read the project
    project = Path(shutil.copytree(project, tmp_path / "project"))
    monkeypatch.chdir(project)
    matrices.train_stage()
    champion = json.loads((project / "reports/matrices/metrics.json").read_text())["champion"]
    assert TrainedEngine.read(project / "models/matrices").card.entry == champion
    promote_stage()
    assert "regression-matrix v1" in capsys.readouterr().out
    promote_stage()
    first = version_of("regression-matrix", CHAMPION)
    assert first.version == "1"
    assert TrainedEngine.read(first.directory).card.entry == champion
    assert version_of("regression-matrix", CHALLENGER) is None

    oof, metrics = reported(project, "oof"), project / "reports/matrices/metrics.json"
    oof.assign(verdict="pass").to_parquet(project / "reports/matrices/evaluated/oof.parquet", index=False)
    metrics.write_text(metrics.read_text().replace('"trials": 1', '"trials": 3'))
    promote_stage()
    assert version_of("regression-matrix", CHAMPION).version == "1"
    assert version_of("regression-matrix", CHALLENGER).version == "2"
