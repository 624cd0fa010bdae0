"""``dvc repro`` that is killed is made good by the next one; benchmarks/kills has more moments."""

import shutil

import pytest

from benchmarks.kills import KINDS, copy_project, kill_and_rerun, run_undisturbed

#: Quick ones, of which the last writes figures.
STAGES = ["evaluate@fingerprints"]
#: At these shares of an undisturbed run, one for each kind of kill.
MOMENTS = (0.75, 0.2, 0.5)


@pytest.mark.slow
def test_a_repro_after_a_killed_one_succeeds(tmp_path):
    new = copy_project(tmp_path / "new")
    shutil.copytree(new, tmp_path / "whole")
    seconds, wanted = run_undisturbed(tmp_path / "whole", STAGES)
    assert set(wanted) == {f"reports/fingerprints/{name}.json" for name in ("metrics", "summary")}
    found = []
    for number, share in enumerate(MOMENTS):
        root = shutil.copytree(new, tmp_path / str(number))
        found.append(kill_and_rerun(root, STAGES, KINDS[number], share * seconds, wanted))
    assert [one for one in found if not one.ended_well] == []
    assert len({one.stage for one in found}) > 1
