"""An engine trained on chunks equals the engine trained on whole tables."""

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.matrices.chunks import split_into_chunks
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from data.parallel import Compute
from tests.matrix_pairs import pairs
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.stored import EngineRecipe, TrainedEngine
from training.matrices.fitting import MatrixExamples
from training.matrices.schemes import LARGE, Cell

SEED, MISSING, TRIALS = 7, 0.5, 2
CELL = Cell("logistic", LARGE)


def in_chunks(tables, directory, runs, cell=CELL):
    tables.write(directory / "source")
    recipe = LargeRecipe(cell, TRIALS, SEED, MISSING, Compute(), runs)
    return recipe.train(directory / "source", directory / "work")


@pytest.mark.parametrize(("groups", "runs"), [(1, 10_000), (3, 70)])
def test_engines_trained_on_chunks_and_whole_tables_agree(groups, runs, tmp_path):
    tables = pairs(groups=groups, cases=7, invalid=0.04)
    examples = MatrixExamples.from_tables(tables, decide_validity(tables, MISSING), "digest")
    recipe = EngineRecipe(CELL, TRIALS, SEED, examples.has_invalid_flags, MISSING, "digest")
    one, other = recipe.train(examples.tables), in_chunks(tables, tmp_path, runs)
    for name in ("middles", "units", "drift", "spread"):
        known, again = getattr(one.engine.scales, name), getattr(other.engine.scales, name)
        np.testing.assert_allclose(again, known, rtol=1e-12)
    for name in ("metrics", "groups", "own"):
        assert getattr(other.card, name) == getattr(one.card, name)
    unseen = pairs(groups=groups, cases=7, seed=2)
    told, again = one.engine.judge_pairs(unseen), other.engine.judge_pairs(unseen)
    assert again["abnormal"].tolist() == told["abnormal"].tolist()
    np.testing.assert_allclose(again["probability"], told["probability"], atol=1e-9)
    assert told["abnormal"].sum() > 10
    invalid = [pd.Series(model.validity.decision_paths(unseen)).notna() for model in (one, other)]
    assert (invalid[0] == invalid[1]).mean() > 0.99
    other.write(tmp_path / "model")
    stored = TrainedEngine.read(tmp_path / "model")
    assert stored.engine.judge_pairs(unseen)["probability"].tolist() == again["probability"].tolist()


def test_chunks_hold_whole_test_cases_of_one_group(tmp_path):
    runs = pairs(groups=3, cases=5).runs.sample(frac=1, random_state=1).reset_index(drop=True)
    (tmp_path / "source").mkdir()
    for number, some in enumerate(np.array_split(np.arange(len(runs)), 4)):
        runs.iloc[some].to_parquet(tmp_path / f"source/{number}.parquet", index=False)
    files, _ = split_into_chunks(tmp_path / "source", tmp_path / "work", 80)
    chunks = [MatrixTables.SPECS["runs"].read(file) for file in files]
    assert max(map(len, chunks)) <= 80
    assert len(runs) == sum(map(len, chunks))
    for chunk in chunks:
        assert len(set(chunk["group"])) == 1
        order = runs[runs["workload"].isin(chunk["workload"])]
        assert chunk["run_id"].tolist() == order["run_id"].tolist()


def test_part_files_that_are_not_parquet_are_refused(tmp_path):
    pairs(cases=3).runs.to_parquet(tmp_path / "a.parquet", index=False)
    (tmp_path / "z.txt").write_text("notes")
    with pytest.raises(InputError, match=r"not Parquet or is damaged.*z\.txt"):
        split_into_chunks(tmp_path, tmp_path / "work")


@pytest.mark.parametrize("place", ["source", "."], ids=["inside", "beside"])
def test_metrics_of_part_files_give_units_inside_and_beside(place, tmp_path):
    tables = pairs(cases=3)
    for group, runs in tables.runs.groupby("group"):
        part = tmp_path / "source" / f"group={group}"
        part.mkdir(parents=True)
        runs.drop(columns="group").to_parquet(part / "part-0.parquet", index=False)
    tables.metrics.to_parquet(tmp_path / place / "metrics.parquet", index=False)
    recipe = LargeRecipe(CELL, TRIALS, SEED, MISSING, Compute(), 70)
    _, cleaned = recipe.clean_chunks(tmp_path / "source", tmp_path / "work")
    units = cleaned[0].some.metrics.set_index("metric")["unit"]
    assert units[units != ""].to_dict() == {"m0": "1/s", "summary_elapsed": "s", "summary_transactions": "1"}
    path = tmp_path / place / "metrics.parquet"
    pd.concat([tables.metrics, tables.metrics.assign(unit="ms")]).to_parquet(path, index=False)
    with pytest.raises(InputError, match=rf'^{path} metric "m0": mixes unit "1/s" and "ms"; expected one$'):
        recipe.clean_chunks(tmp_path / "source", tmp_path / "again")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda runs: runs.drop(columns="side"), "has no column 'side'"),
        (lambda runs: runs.assign(pair_id=runs["pair_id"].where(runs.index != 3)), "row 3: pair_id is"),
        (lambda runs: runs.assign(abnormal=False), "all training rows are normal"),
        (lambda runs: runs.assign(m0="x"), 'm0="x" is not a number'),
        (lambda runs: runs.iloc[:, :9], "no raw metric"),
        (lambda runs: pd.concat([runs, runs[:1]]), "occurs twice"),
        (lambda runs: runs[:0], "holds no run"),
        (lambda runs: runs.assign(pair_id=None), "row 0: pair_id is missing"),
    ],
)
def test_unusable_training_matrices_are_refused_in_one_line(spoil, told, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    spoil(pairs(cases=3).runs).to_parquet(source / "matrices.parquet", index=False)
    with pytest.raises(InputError, match=told):
        LargeRecipe(CELL, TRIALS, SEED, MISSING, Compute()).train(source, tmp_path / "work")


@pytest.mark.parametrize("model", ["similarity-logistic", "xgboost-blend"])
def test_a_model_that_needs_rows_of_another_form_is_refused(model, tmp_path):
    with pytest.raises(InputError, match=f'model="{model}"; expected one of: '):
        in_chunks(pairs(cases=3), tmp_path, 100, Cell(model, LARGE))
