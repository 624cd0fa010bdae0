import json
import shutil

import numpy as np
import pytest

from benchmarks.human_labels import models
from benchmarks.human_labels.__main__ import IMAGE, WHOLE, WINDOWED, study, write
from benchmarks.human_labels.opponents import HERE, Tool

VERSIONS, CHANGED = 90, (30, 60)
FINDER = """
from points import Way, answer

def changes(series):
    values = series[0]
    return [at for at in range(1, len(values)) if abs(values[at] - values[at - 1]) > 3]

answer("numpy", {"jumps": Way(changes, lambda series: {at: 1.0 + at for at in changes(series)})})
"""


def data_set(path):
    """Write 12 series with a step up and a step down, both marked by three people; a fourth marked one."""
    marks, draws = {}, np.random.default_rng(7)
    (path / "data").mkdir(parents=True)
    for number in range(1, 13):
        levels = np.repeat([100.0, 110.0 + number, 100.0], [30, 30, 30])
        values = levels + draws.normal(0, 0.5, (3, VERSIONS))
        lines = [
            f"{3 * version + k + 1},2021-09-01 10:00:0{k},{100 + version},{values[k, version]}"
            for version in range(VERSIONS)
            for k in range(3)
        ]
        content = "\n".join(["index_1based,timestamp,sut_version,value", *lines]) + "\n"
        (path / "data" / f"{number:05}__elapsed-time__ms.csv").write_text(content)
        marks[f"sap_{number}"] = {
            "1": [*CHANGED],
            "2": [*CHANGED],
            "3": [*CHANGED],
            "4": [CHANGED[0]],
            "5": [],
        }
    (path / "annotations.json").write_text(json.dumps(marks))
    return path


@pytest.mark.slow
def test_models_rules_tools_and_engineers_are_told_on_one_page(tmp_path, monkeypatch):
    source, cache = data_set(tmp_path / "sap"), tmp_path / "cache"
    shutil.copy(HERE / "inside" / "points.py", tmp_path / "points.py")
    (tmp_path / "of_jumps.py").write_text(FINDER)
    (tmp_path / "of_broken.py").write_text("raise SystemExit('out of order')")
    tools = [Tool(name, tmp_path / f"of_{name}.py", None) for name in ("jumps", "broken")]
    monkeypatch.chdir(tmp_path)

    run = models.run(source, cache, "extended", 1, models=["logistic"], trials=1)
    views = study(run, None, tools, cache=cache, jobs=1)
    write(source, run, views, IMAGE)

    assert (run.cases.failed.sum(), len(set(run.cases.fold))) == (12, 5)
    names = [{one.name for one in view.judges} for view in views]
    assert names[0] > {"logistic", "mann-whitney-05", "jumps, jumps"}
    assert names[1] == {"logistic, without hindsight", "jumps, jumps"}
    jumps = next(one for one in views[0].judges if one.kind == "tool")
    assert (jumps.judged == run.cases.failed).all()
    page = (tmp_path / "docs/results/human-labels.md").read_text()
    assert page.count(f"# {WINDOWED}") == page.count(f"# {WHOLE}") == 2
    assert "broken is left out: broken failed: out of order" in page
    assert "| all | " in page
    assert "](../images/human-labels.png)" in page
    assert (tmp_path / IMAGE).stat().st_size > 10_000

    before = (run.root / "made").stat().st_mtime_ns
    again = models.run(source, cache, "extended", 1, models=["logistic"], trials=1)
    assert (again.root / "made").stat().st_mtime_ns == before
