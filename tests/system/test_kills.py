"""``dvc repro`` that is killed is made good by the next one; benchmarks/kills has more moments."""

import shutil

import pytest

from benchmarks.kills import KINDS, copy_project, kill_and_rerun, run_undisturbed

#: Quick ones, of which the last writes figures.
STAGES = ["evaluate@fingerprints"]
#: Stages during which a run is killed, one for each kind of kill: their order depends on no speed.
KILLED = ("evaluate@fingerprints", "ingest@fingerprints", "validate@fingerprints")


@pytest.mark.slow
def test_a_repro_after_a_killed_one_succeeds(tmp_path):
    new = copy_project(tmp_path / "new")
    shutil.copytree(new, tmp_path / "whole")
    _, wanted = run_undisturbed(tmp_path / "whole", STAGES)
    assert set(wanted) == {f"reports/fingerprints/{name}.json" for name in ("metrics", "summary")}
    found = []
    for number, stage in enumerate(KILLED):
        root = shutil.copytree(new, tmp_path / str(number))
        found.append(kill_and_rerun(root, STAGES, KINDS[number], 0.2, wanted, during=stage))
    assert [one for one in found if not one.ended_well] == []
    assert [one.stage for one in found] == [*KILLED]
