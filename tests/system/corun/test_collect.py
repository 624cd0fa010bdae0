"""Measuring co-runs with the real perf and stress-ng."""

import json
import os
import signal

import pytest
import yaml

from data.corun import formats as corun_formats
from data.corun.collect import collect
from data.corun.run import CorunTask, Counters, run_together
from data.corun.tables import CorunTables
from data.errors import InputError
from data.measure.kernel_counts import with_descendants
from tests.seen import Seen
from tests.system.measuring import collected, interrupt, kept, needs_corun_programs, own_groups, running

SUITE = {
    "kind": "corun", "name": "tiny", "seed": 3, "solo": 2, "repeat": 1, "interval": 0.1, "foreign": 1.0,
    "events": ["task-clock", "page-faults", "no-such-event"],
    "tasks": [
        {"name": "copy", "group": "memory", "workload": "system copying", "work": 1500},
        {"name": "fork", "group": "kernel", "stressor": "fork", "work": 200},
    ],
}  # fmt: skip


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    return tmp_path / "suite.yaml"


@needs_corun_programs
def test_an_interrupted_and_killed_measurement_resumes_and_ends_as_tables(suite, tmp_path):
    out = tmp_path / "out"
    told, code, interrupted = interrupt(suite, out, signal.SIGINT, 1)
    assert code == 130
    assert "perf cannot count no-such-event" in told
    assert f"kept {kept(out)} measurements; start again to resume" in told
    done = kept(out)
    assert 1 <= done < 8
    assert len(CorunTables.read(out).samples) > 0
    assert own_groups(interrupted) == []
    _, code, killed = interrupt(suite, out, signal.SIGKILL, done + 1)
    assert code == -signal.SIGKILL
    collected(suite, out, killed)
    assert kept(out) == 2 * 2 + 3 + 1

    tables = corun_formats.read("tables", [out]).tables
    assert tables.tasks.groupby("task").size().to_dict() == {"copy": 2, "fork": 2}
    assert len(tables.pairs) == 8
    assert set(zip(tables.pairs["task"], tables.pairs["corunner_1"], strict=True)) == {
        ("copy", "copy"), ("copy", "fork"), ("fork", "copy"), ("fork", "fork"),
    }  # fmt: skip
    assert "no-such-event" not in tables.tasks
    assert "perf counts 2 of 3 events; it does not count no-such-event" in tables.hosts["note"][0]
    assert json.loads((out / "settings.json").read_text())["lacking"] == ["no-such-event"]

    # perf counts what a program starts, too, and no more than the time that there is
    forks = tables.tasks[tables.tasks["task"] == "fork"]
    copies = tables.tasks[tables.tasks["task"] == "copy"]
    assert forks["page-faults"].min() > 200 * 20
    assert (copies["task-clock"] <= 1050 * copies["solo_seconds"]).all()
    assert (copies["task-clock"] > 20).all()
    # the intervals add up to the whole
    keys = ["task", "repetition"]
    solo = tables.samples[tables.samples["phase"] == "solo"].groupby(keys)
    whole = tables.tasks.set_index(keys)
    for event in ("page-faults", "process-minor-faults"):
        assert solo[event].sum().loc[whole.index].tolist() == pytest.approx(whole[event].tolist())
    assert solo["t_seconds"].max().loc[whole.index].tolist() == whole["solo_seconds"].tolist()


@needs_corun_programs
def test_a_measurement_whose_runs_all_exceed_their_limit_is_refused(suite, tmp_path):
    # minutes of work
    tasks = [SUITE["tasks"][0] | {"work": 10**7}]
    suite.write_text(yaml.safe_dump(SUITE | {"tasks": tasks, "timeout": 0.01}))
    out = tmp_path / "out"
    with pytest.raises(
        InputError, match=r"suite\.yaml: nothing could be measured; .*longer than 0\.01 seconds"
    ):
        collect(suite, out, Seen())
    assert len(json.loads((out / "settings.json").read_text())["invalid"]) == 4


@needs_corun_programs
def test_a_failing_task_is_named_and_its_co_runner_ended():
    # nobody else on this machine sleeps for so long
    seconds = f"61.{os.getpid():07d}"
    failing, endless = (
        CorunTask(name=name, group="x", command=command)
        for name, command in (
            ("own", ("sh", "-c", "sleep 0.3; echo no luck; exit 3")),
            ("endless", ("sh", "-c", f"sleep {seconds}; true")),
        )
    )
    cpus = sorted(os.sched_getaffinity(0))
    before = set(with_descendants(os.getpid()))  # workers of other tests may still be there
    with pytest.raises(InputError) as error:
        run_together([failing, endless], cpus, Counters(["task-clock"], 0.1, ungrouped="not wanted"))
    assert str(error.value) == 'task "own": exit code 3 (no luck)'
    assert set(with_descendants(os.getpid())) <= before
    # what the co-runner had started
    assert running(seconds) == []
