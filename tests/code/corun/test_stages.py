from dataclasses import replace

import pandas as pd
import pytest
import yaml

from data.corun.tables import CorunTables
from data.corun.validity import of_engines
from data.errors import InputError
from tests.code.stages import run
from tests.data.corun.rows import beside, small, solo


@pytest.fixture
def project(tmp_path):
    """Make a directory with a params.yaml that names tables of co-runs."""

    def make(tables, keep_going=False):
        tables.write(tmp_path / "in")
        params = {"seed": 1, "corun": {"ingest": {"path": "in", "keep_going": keep_going}}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
        return tmp_path

    return make


def test_the_stages_write_tables_and_decisions_and_say_what_they_left_out(project):
    directory = project(small(pairs=[beside("copy", "lost"), beside("pipe", "sort", 2.0, 2)]))
    ingested = run(directory, "data.ingest", "corun")
    assert (ingested.stderr, ingested.stdout) == (
        "", "1 machines, 3 tasks, 2 events, 3 solo runs, 11 co-runs, 6 samples\n",
    )  # fmt: skip
    validated = run(directory, "data.validate", "corun")
    assert validated.stdout == (
        "2 of 2 events, 3 of 3 solo runs, 10 of 11 co-runs, 2 of 2 sampled runs are kept\n"
    )
    assert validated.stderr == (
        "warning: 1 of 10 co-runs took less than the solo run by more than 3.0%, the most"
        ' "pipe" beside "sort" on "m": 0.50 of its solo time; they are kept\n'
        'left out task "copy", corunners "lost", machine "m", repetition "1":'
        ' the co-runner "lost" has no solo run on this machine to learn from\n'
    )
    valid = pd.read_parquet(directory / "data/valid/corun/valid.parquet")
    assert valid["kept"].sum() == 10


def test_a_zero_duration_ends_with_2_or_is_dropped_and_named_when_told_to_keep_going(project):
    wrong = small([solo("copy", 0.0, 2)])
    told = 'machine "m" task "copy" repetition 2: solo_seconds=0 must be above 0 and finite\n'
    refused = run(project(wrong), "data.ingest", "corun")
    assert (refused.returncode, refused.stderr) == (2, told)
    directory = project(wrong, keep_going=True)
    kept = run(directory, "data.ingest", "corun")
    assert (kept.returncode, kept.stderr) == (0, f"1 skipped\n  {told}")
    assert len(CorunTables.read(directory / "data/interim/corun").tasks) == 3


def test_a_directory_without_co_runs_is_refused_and_nothing_is_written(project):
    directory = project(CorunTables.of_rows([solo("copy")], []))
    refused = run(directory, "data.ingest", "corun")
    assert (refused.returncode, refused.stderr) == (2, "in: holds no pair\n")
    assert not (directory / "data/interim").exists()


def test_co_runs_of_other_engines_are_left_out_and_an_unknown_engine_is_refused():
    tables = small()
    hosts = pd.DataFrame({"machine": ["m"], "device": ["d"], "engine": ["jit"], "note": [""]})
    of_one = replace(tables, hosts=hosts)
    assert len(of_engines(of_one, ["jit"]).pairs) == len(tables.pairs)
    others = replace(of_one, pairs=tables.pairs.assign(machine="n"))
    assert of_engines(others, ["jit"]).pairs.empty
    with pytest.raises(InputError, match='no machine has the engine "aot"; there are jit'):
        of_engines(of_one, ["aot"])
