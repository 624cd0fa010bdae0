from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

ROOT = Path(__file__).parents[2]
# of a library that DVC finds its outputs with, until that follows its own advice
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value will soon raise:DeprecationWarning")


@pytest.fixture(scope="module")
def planned():
    """Return the stages as ``dvc repro`` takes them."""
    with Repo(str(ROOT)) as repo:
        stages = collect_stages(repo, [str(ROOT / "dvc.yaml")])
        return [stage.addressing for stage in plan_repro(get_active_graph(repo.index.graph), stages)]


def family_of(stage):
    return stage.rpartition("@")[2]


def test_the_main_jobs_table_is_printed_before_a_stage_of_another_family_begins(planned):
    before = planned[: planned.index("promote@comparisons")]
    assert {family_of(stage) for stage in before} == {"comparisons"}
    assert not any(stage.startswith("report") for stage in before)


def test_what_is_promoted_is_evaluated_before(planned):
    for stage in planned:
        if stage.startswith("promote@"):
            assert planned.index(f"evaluate@{family_of(stage)}") < planned.index(stage)


def test_the_store_is_looked_after_when_all_else_is_done(planned):
    assert planned[-1] == "champions"
