import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity, ingest_stage, validate_stage
from data.parallel import Compute
from tests.data.refusals import refusal
from tests.matrix_pairs import METRICS, MOVED, pairs
from tests.system.matrices import inputs
from training.evaluation.metrics import summarise_entry
from training.matrices import evaluation, fitting, schemes, stages
from training.matrices.engine.engine import Engine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.shape import pair_causes, split_by_causes
from training.matrices.engine.stored import TrainedEngine
from training.matrices.fitting import CellAnswers, EngineFit, MatrixExamples, Mistakes, deal_to_folds
from training.matrices.promote import promote_stage, rank_models
from training.matrices.schemes import FULL, NAIVE, Cell
from training.registry.champions import CHALLENGER, CHAMPION, version_of

SEED = 1


def examples(tables):
    return MatrixExamples.from_tables(tables, decide_validity(tables, 0.5), "digest")


def parts_of(found, folds):
    return fitting.fold_parts(found, deal_to_folds(found.pairs, folds, SEED))


def cases(abnormal, per_group=99):
    """Return two pairs of each test case; the first is abnormal or not."""
    return pd.DataFrame(
        {"pair_id": f"{n} {kind}", "workload": f"w{n}", "group": n // per_group, "abnormal": kind}
        for n, bad in enumerate(abnormal)
        for kind in (bad, False)
    )


def test_every_fold_has_both_labels_and_leaves_groups_in_training():
    three_each = cases([True] * 39, per_group=3)
    fold_of = deal_to_folds(three_each, 10, SEED)
    group = three_each.drop_duplicates("workload").set_index("workload")["group"]
    assert fold_of.nunique() == 10
    assert not pd.DataFrame({"fold": fold_of, "group": group}).duplicated().any()
    assert fold_of.value_counts().between(3, 5).all()
    # test cases with abnormal pairs limit the number of folds
    few = cases([True, False, False, True, False, True, False])
    assert deal_to_folds(few, 10, SEED).nunique() == 3
    told = refusal(deal_to_folds, cases([True, False, False]), 10, SEED)
    assert "1 of 3 have abnormal pairs; two folds need" in told


def test_whole_pairs_are_dealt_with_equal_shares_of_abnormal_ones():
    given = cases([True] * 7)
    fold_of = fitting.deal_pairs_to_folds(given, 10, SEED)
    abnormal = given.set_index("pair_id")["abnormal"]
    assert abnormal.groupby(fold_of).agg(["sum", "size"]).to_numpy().tolist() == [[1, 2]] * 7


def test_engines_fitted_together_answer_as_if_fitted_alone():
    part = parts_of(examples(pairs(cases=4)), 4)[0]
    cells = [Cell("logistic", FULL), Cell("decision-tree", FULL), Cell("logistic", NAIVE)]
    fits = [EngineFit(Engine(cell, 2, SEED), part) for cell in cells]
    for fit, together in zip(fits, fitting.judge_all_fits(fits, Compute(), ""), strict=True):
        alone = fit.engine.fit(part.train)
        told, vectors = alone.judge_pairs_and_vectors(part.test)
        np.testing.assert_array_equal(together.pairs["probability"], told["probability"])
        assert together.vectors.cases == len(vectors)
        # only a tuned engine is kept
        assert (together.engine is None) == (fit.engine.cell.scheme == NAIVE)
        if together.engine:
            pd.testing.assert_frame_equal(together.engine.judge_pairs(part.test), told)


def test_z_scores_are_mean_differences_in_baseline_deviations():
    metrics = {
        "a": [1, 2, 3, 8, 8], "same": [0.1 + 0.2] * 3 + [0.3] * 2, "jumps": [5, 5, 5, 6, 6],
        "lost": [1, 2, 3, None, None],
    }  # fmt: skip
    about = {"workload": "w", "group": "g", "machine": "m", "pair_id": "p"}
    rows = pd.DataFrame(about | metrics | {"side": ["baseline"] * 3 + ["target"] * 2})
    rows = rows.assign(run_id=[*"abcde"], version=rows["side"])
    scores = evaluation.raw_zscores(MatrixTables.from_rows(rows), pooled=False).loc["p"]
    assert scores["a"] == pytest.approx(6)
    assert (scores["same"], scores["jumps"]) == (0, np.inf)
    assert np.isnan(scores["lost"])


def test_a_reference_method_gets_its_best_threshold():
    best = evaluation.best_threshold(np.array([False, True, False, True]), np.array([1.0, 3.0, 2.0, np.inf]))
    assert best == 3
    tables = pairs()
    abnormal = examples(tables).pairs.set_index("pair_id")["abnormal"]
    found = evaluation.reference_methods(tables, abnormal)
    assert [one.name for one in found[:2]] == ["largest z", "metrics beyond 3 sigma"]
    for one in found:
        cuts = [one.threshold, *one.score]
        accuracies = [balanced_accuracy_score(abnormal, one.score >= cut) for cut in cuts]
        assert accuracies[0] == max(accuracies)


def test_pooled_counts_are_shown_beside_those_of_the_thesis():
    abnormal = pd.Series({"a": True, "b": False, "c": True, "d": False})
    told = pd.DataFrame({"pair_id": ["a", "b"], "judged": [True, True]})
    more = pd.DataFrame({"pair_id": ["c", "d"], "judged": [True, False]})
    targets = Mistakes(5, 2, 1, 1)
    found = [
        CellAnswers(0, told, Mistakes(10, 2, 4, 1), targets, 0.1),
        CellAnswers(1, more, Mistakes(10, 2, 0, 0), targets, 0.1),
    ]
    assert fitting.results_row(found, abnormal, schemes.Printed(5, 7, 0.9)) == {
        "folds": 2, "vectors": 20, "abnormal": 4, "balanced_accuracy": 1 - (1 / 4 + 4 / 16) / 2,
        "spread": 0.25, "false_positive": 4, "false_negative": 1, "pair_balanced_accuracy": 0.75,
        "target_balanced_accuracy": 1 - (2 / 4 + 2 / 6) / 2, "target_spread": 0, "target_false_positive": 2,
        "target_false_negative": 2, "pair_spread": 0.25, "pair_false_positive": 1, "pair_false_negative": 0,
        "seed_false_negative": 5, "seed_false_positive": 7, "seed_balanced_accuracy": 0.9,
    }  # fmt: skip


def test_the_ablation_takes_over_answers_of_its_first_folds():
    found, cell = examples(pairs()), Cell("tan", NAIVE)
    parts = parts_of(found, 3)
    whole = evaluation.Evaluation(found, "test-cases", parts, 1, SEED, Compute())
    whole.fit_cells([cell], "")
    part_of_it = whole.on_first_folds(2)
    part_of_it.fit_cells([cell], "")
    assert part_of_it.parts == parts[:2]
    assert part_of_it.answers_by_cell == {cell: whole.answers_by_cell[cell][:2]}


def test_test_runs_are_valid_and_carry_no_flags():
    tables, odd = pairs(cases=3, invalid=0.1), "g0 c0 v1 target 0"
    runs = tables.runs.assign(m5=tables.runs["m5"].mask(tables.runs["run_id"] == odd, np.inf))
    found = examples(tables.with_runs(runs))
    case = pd.Index(["g0 c0"], name="workload")
    asked = found.runs_to_judge(case)
    assert asked.runs[["valid", "abnormal"]].isna().all(axis=None)
    flagged = set(runs.loc[~runs["valid"].astype(bool), "run_id"])
    assert not set(asked.runs["run_id"]) & {*flagged, odd}
    learned = found.runs_without(case)
    assert len(learned.runs) == (runs["workload"] != "g0 c0").sum()
    assert not np.isinf(learned.runs[learned.all_metrics]).any(axis=None)
    unflagged = tables.without_flags().runs.assign(abnormal=tables.runs["abnormal"])
    assert (found.has_invalid_flags, examples(tables.with_runs(unflagged)).has_invalid_flags) == (True, False)


def test_verdicts_do_not_depend_on_labels_under_test():
    tables = pairs(cases=4)
    dealt = deal_to_folds(examples(tables).pairs, 4, SEED)
    tested = tables.runs["workload"].isin(dealt.index[dealt == 0]) & (tables.runs["side"] == "target")
    wrong = tables.runs.assign(abnormal=tables.runs["abnormal"].mask(tested, ~tables.runs["abnormal"]))
    engine = Engine(Cell("logistic", FULL), 2, SEED)
    parts = (fitting.fold_parts(examples(one), dealt)[0] for one in (tables, tables.with_runs(wrong)))
    told, again = fitting.judge_all_fits([EngineFit(engine, part) for part in parts], Compute(), "")
    pd.testing.assert_frame_equal(told.pairs, again.pairs)
    assert told.vectors.cases == again.vectors.cases
    assert told.vectors.abnormal != again.vectors.abnormal


def test_each_fold_is_judged_by_the_best_of_the_others():
    oof = pd.DataFrame(
        {"entry": entry, "kind": "model", "repeat": 0, "fold": fold, "status": status, "probability": 0.5,
         "verdict": status if fold in right else "pass"}
        for entry, right in (("a", (0,)), ("b", (1, 2)))
        for fold in range(3)
        for status in ("fail", "pass")
    )  # fmt: skip
    # fold 0 is judged by b, which is right in 1 and 2; 1 and 2 by whoever is right in the others: a tie, so a
    assert evaluation.summarise_selection(oof)["recall"]["pooled"] == 0
    assert summarise_entry(oof[oof["entry"] == "b"])["recall"]["pooled"] == pytest.approx(2 / 3)


KINDS = 4


def of_kinds(tables):
    """Let each test case's defect move other metrics, and name it after them."""
    runs, number, names = tables.runs.copy(), kind_of(tables), [f"m{place}" for place in range(METRICS)]
    for kind in range(KINDS):
        rows = number == kind
        runs.loc[rows, names] = np.roll(runs.loc[rows, names].to_numpy(), kind * len(MOVED), axis=1)
    told = runs[["run_id"]].assign(cause="kind " + number.astype(str))[runs["abnormal"].astype(bool)]
    return MatrixTables.from_rows(runs, told.to_dict("records"), tables.metrics.to_dict("records"))


def kind_of(tables):
    return tables.runs["workload"].str.extract(r"c(\d+)$", expand=False).astype(int) % KINDS


def without_causes(tables):
    return MatrixTables(tables.runs, tables.causes.iloc[:0], tables.metrics)


@pytest.fixture(scope="module")
def tables():
    """Return pairs of test cases with four kinds of defects."""
    return of_kinds(pairs(cases=12, size=0.1))


def test_test_pairs_share_no_cause_or_test_case_with_training():
    draw = np.random.default_rng(SEED)
    workload = draw.integers(0, 30, 600).astype(str).astype(object)
    abnormal = draw.random(600) < 0.4
    cause = np.where(abnormal & (draw.random(600) < 0.9), draw.integers(0, 7, 600).astype(str), "")
    part = np.unique(workload, return_inverse=True)[1] % 3
    found = split_by_causes(workload, cause, abnormal, part, SEED)
    assert len(found) == 3
    for train, test in found:
        assert not set(workload[train]) & set(workload[test])
        assert not set(cause[train & abnormal]) & set(cause[test & abnormal]) - {""}
        assert (cause[test & abnormal] != "").all()
    assert sum(test[~abnormal] for _, test in found).tolist() == [1] * (~abnormal).sum()


def test_test_cases_of_a_single_cause_follow_that_cause(tables):
    cause, asked = pd.Series(pair_causes(tables)), []
    for part in fitting.parts_of_causes(examples(tables), KINDS, SEED):
        learned, unseen = (set(runs["pair_id"]) for runs in (part.train.runs, part.test.runs))
        asked += unseen
        assert not set(part.train.runs["workload"]) & set(part.test.runs["workload"])
        assert not set(cause[cause.index.isin(learned)]) & set(cause[cause.index.isin(unseen)])
    assert sorted(asked) == sorted(tables.runs["pair_id"].unique())
    assert fitting.parts_of_causes(examples(without_causes(tables)), 3, SEED) == []


def test_thresholds_from_held_out_causes_find_unknown_causes(tables):
    last = (kind_of(tables) == KINDS - 1).to_numpy()
    learned, unseen = tables.select_runs(~last), tables.select_runs(last)
    knowing, other = (
        Engine(Cell("xgboost", FULL), 1, SEED).fit(known) for known in (learned, without_causes(learned))
    )
    assert knowing.search_result.rows == other.search_result.rows
    assert knowing.search_result.pairs != other.search_result.pairs
    judged = knowing.judge_pairs(unseen)
    abnormal, told = judged["pair_id"].isin(pair_causes(unseen)), judged["abnormal"].astype(bool)
    assert told[abnormal].mean() > 0.9
    assert told[~abnormal].mean() < 0.1


def test_the_false_positive_rate_holds_on_unknown_test_cases():
    # defects that can hardly be told: the best threshold alone calls many normal pairs abnormal
    learned, unseen = (pairs(groups=2, cases=12, size=0.02, seed=seed) for seed in (1, 2))
    engines = [
        Engine(Cell("logistic", FULL), 1, SEED, alarms=alarms).fit(learned)
        for alarms in (None, Alarms(0.1, 0.9))
    ]
    normal = ~unseen.runs.groupby("pair_id", sort=False)["abnormal"].any().astype(bool)
    free, kept = (
        (one.judge_pairs(unseen).set_index("pair_id")["abnormal"] & normal).sum() / normal.sum()
        for one in engines
    )
    assert engines[0].search_result.alarms is None
    assert engines[1].threshold >= engines[1].search_result.alarms.cut
    assert kept <= 0.1 < free


OOF = "reports/matrices/evaluated/oof.parquet"


def evaluated(directory):
    """Run the stages up to evaluate in the working directory."""
    # small enough a defect that no single metric tells it
    inputs.project(directory, 1, cases=3, versions=6, size=0.1)
    for stage in (ingest_stage, validate_stage, stages.evaluate_stage):
        stage()


@pytest.fixture(scope="module")
def project(made_once):
    return made_once("evaluated matrices", evaluated)


def test_the_champion_in_the_metrics_beats_reference_methods(project):
    metrics = json.loads((project / "reports/matrices/metrics.json").read_text())
    champion, splits = metrics["champion"], metrics["splits"]
    entries, harder = splits["test-cases"]["entries"], splits["causes"]["entries"]
    accuracy = {name: entry["balanced_accuracy"]["pooled"] for name, entry in entries.items()}
    others = [name for name in entries if entries[name]["kind"] == "opponent"]
    assert rank_models([entries, harder])[0] == champion
    assert set(harder) == set(entries)
    assert len(others) == 4
    assert all(accuracy[champion] > accuracy[name] for name in others)
    assert {"logistic contrasted", "logistic medians", "tan flattened", "largest z"} <= set(entries)
    assert (metrics["data"]["pairs"], metrics["data"]["fails"], metrics["served"]["pairs"]) == (36, 12, 36)
    assert set(splits["pairs"]["entries"]) > {champion, "tan flattened", "largest z"}
    assert metrics["validity"]["both"]["invalid"] == metrics["data"]["invalid_runs"]
    oof = pd.read_parquet(project / OOF)
    assert (oof.groupby("entry")["pair_id"].nunique() == 36).all()
    assert oof.drop_duplicates(["workload", "fold"])["workload"].is_unique


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")
def test_trained_champion_is_registered_and_worse_ones_become_challengers(
    project, mlflow_store, tmp_path, monkeypatch, capsys
):
    def versions():
        found = [version_of("regression-matrix", alias) for alias in (CHAMPION, CHALLENGER)]
        return [one and one.version for one in found]

    # others read the project
    monkeypatch.chdir(shutil.copytree(project, tmp_path / "project"))
    stages.train_stage()
    champion = TrainedEngine.read(Path("models/matrices")).card.entry
    assert champion == json.loads(Path("reports/matrices/metrics.json").read_text())["champion"]
    promote_stage()
    assert "regression-matrix v1" in capsys.readouterr().out
    assert versions() == ["1", None]
    assert TrainedEngine.read(version_of("regression-matrix", CHAMPION).directory).card.entry == champion

    pd.read_parquet(OOF).assign(verdict="pass").to_parquet(OOF, index=False)
    metrics = Path("reports/matrices/metrics.json")
    metrics.write_text(metrics.read_text().replace('"trials": 1', '"trials": 3'))
    promote_stage()
    assert versions() == ["1", "2"]


def test_the_best_model_has_the_best_rank_over_designs():
    def entries(**scores):
        """Entries of models with average precision and balanced accuracy, and of a reference method."""
        models = {
            name: {
                "kind": "model", "average_precision": {"mean": precision},
                "balanced_accuracy": {"mean": accuracy},
            }
            for name, (precision, accuracy) in scores.items()
        }  # fmt: skip
        return models | {"z": {"kind": "opponent"}}

    known = entries(a=(0.9, 0.91), b=(0.95, 0.9), c=(0.95, 0.92))
    unknown = entries(a=(0.9, 0.6), b=(0.7, 0.5), c=(0.7, 0.5))
    assert rank_models([known]) == ["c", "b", "a"]
    assert rank_models([known, unknown]) == ["a", "c", "b"]
    # a model with the best ranking, but bad verdicts, is not the best
    assert rank_models([entries(a=(0.9, 0.95), b=(0.95, 0.8))]) == ["a", "b"]
