import pandas as pd
import pytest
import yaml

from tests.code.stages import run

CSV = """machine,cpu_model,cpu,nop,null,vm,zlog
m1,Xeon,10,5,1,,20
m2,Opteron,11,6,1,,19
m3,Core,12,8,1,3,15
"""


@pytest.fixture
def project(tmp_path):
    """Make a directory with a params.yaml that names a typed table."""

    def make(content=CSV, keep_going=False):
        (tmp_path / "in.csv").write_text(content)
        params = {
            "seed": 1,
            "fingerprints": {"ingest": {"format": "tables", "path": "in.csv", "keep_going": keep_going}},
        }
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
        return tmp_path

    return make


def processed(directory, name):
    table = pd.read_parquet(directory / f"data/valid/fingerprints/{name}.parquet")
    return table[~table["kept"]].to_dict("records")


def test_the_stages_write_tables_and_decisions_and_say_what_they_left_out(project):
    directory = project()
    ingested = run(directory, "data.ingest", "fingerprints")
    assert (ingested.stdout, ingested.stderr) == ("3 machines, 10 rates, 1 applications\n", "")
    validated = run(directory, "data.validate", "fingerprints")
    assert validated.returncode == 0
    assert validated.stdout == (
        "3 of 3 machines, 3 of 3 runs, 2 of 4 stressors, 1 of 1 applications are kept,"
        " 0 gaps left to the model\n"
    )
    assert validated.stderr == (
        'left out stressor "null", threads "1": has the same rate on all machines\n'
        'left out stressor "vm", threads "1": has a rate in 1 of 3 runs, on 1 of 3 machines\n'
    )
    assert [row["stressor"] for row in processed(directory, "valid_stressors")] == ["null", "vm"]


def test_a_rate_of_zero_ends_with_2_or_is_dropped_and_named_when_told_to_keep_going(project):
    wrong = CSV.replace("m3,Core,12", "m3,Core,0") + "m4,Atom,9,4,1,,30\n"
    cell = 'machine "m3" stressor "cpu" threads 1 repetition 1'
    told = f"{cell}: bogo_ops_per_second=0 must be above 0 and finite\n"
    refused = run(project(wrong), "data.ingest", "fingerprints")
    assert (refused.returncode, refused.stderr) == (2, told)
    directory = project(wrong, keep_going=True)
    kept = run(directory, "data.ingest", "fingerprints")
    assert (kept.returncode, kept.stderr) == (0, f"1 skipped\n  {told}")
    run(directory, "data.validate", "fingerprints")
    assert {"cpu": "has a rate in 3 of 4 runs, on 3 of 4 machines"}.items() <= {
        row["stressor"]: row["reason"] for row in processed(directory, "valid_stressors")
    }.items()


def test_two_machines_only_are_refused_and_nothing_is_written(project):
    directory = project(CSV.replace("m3,Core,12,8,1,3,15\n", ""))
    run(directory, "data.ingest", "fingerprints")
    refused = run(directory, "data.validate", "fingerprints")
    assert (refused.returncode, refused.stderr) == (
        2, "machines: 2 of 2 machines have a fingerprint to learn from; expected at least 3\n",
    )  # fmt: skip
    assert not (directory / "data/valid").exists()
