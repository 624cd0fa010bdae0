"""Unknown keys are refused, with the key that was perhaps meant."""

import json
import re

import pytest
import yaml

from data.comparisons.formats import results_of_run
from data.comparisons.params import Comparisons
from data.corun.params import Corun
from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.matrices.params import Matrices
from data.params import load
from data.tables.problems import nearest_name
from serving.corun.schemas import PlaceAnswer
from serving.fingerprints.schemas import ProfileFile
from tests.imports import ROOT

SHIPPED = (ROOT / "params.yaml").read_text()
SECTIONS = {"corun": Corun, "matrices": Matrices}
SAMPLES = [{"threads": 1, "samples": [1.0, 2.0]}]
RESULT = {"benchmark": "b", "operation": "o", "better": "lower", "configurations": SAMPLES}


@pytest.mark.parametrize(
    ("name", "found"),
    [("histroy", "history"), ("THREADS", "threads"), ("colour", None), ("", None), ("x" * 10**6, None)],
)
def test_nearest_name_differs_in_few_letters_or_case(name, found):
    assert nearest_name(name, ["threads", "history"]) == found


@pytest.mark.parametrize(
    ("family", "change", "told"),
    [
        (None, {"sed": 1}, 'sed is unknown; did you mean "seed"?'),
        ("corun", {"tune": {"trails": 1}}, 'corun.tune.trails is unknown; did you mean "n_trials"?'),
        ("corun", {"tune": True}, "corun.tune=true is not an object"),
        ("comparisons", {"ingest": {}}, "comparisons.ingest lacks path"),
        ("matrices", {1: 2}, "matrices.1 is unknown; there are ingest, validate, evaluate, decide, promote"),
    ],
)
def test_unknown_keys_of_params_yaml_name_their_section(tmp_path, family, change, told):
    content = yaml.safe_load(SHIPPED)
    (content if family is None else content[family]).update(change)
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError) as error:
        load(SECTIONS.get(family, Comparisons), path)
    assert str(error.value).startswith(f"{path}: {told}")
    assert "\n" not in str(error.value)


def documented_values():
    """Yield lines of params.yaml, and each value that the comment of the line offers."""
    for number, line in enumerate(SHIPPED.splitlines()):
        setting, _, comment = line.partition("  # ")
        if " | " in comment:
            yield from ((number, setting, re.match(r"[\w-]+", value)[0]) for value in comment.split(" | "))


@pytest.mark.parametrize(("number", "setting", "value"), [*documented_values()])
def test_values_that_comments_of_params_yaml_offer_are_accepted(tmp_path, number, setting, value):
    lines = SHIPPED.splitlines()
    key = setting.partition(":")[0].strip()
    lines[number] = setting.replace(setting.strip(), f"{key}: {value}")
    (tmp_path / "params.yaml").write_text("\n".join(lines))
    families = Comparisons, Corun, Fingerprints, Matrices
    sections = [load(family, tmp_path / "params.yaml").section.model_dump() for family in families]
    assert value in [stage[key] for section in sections for stage in section.values() if key in stage]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"unt": "ms"}, 'unt is unknown; did you mean "unit"? (expected {"results"'),
        ({"configurations": [{"sampels": [1]}]}, "configurations[0].sampels is unknown; did you mean "),
        ({"configurations": [True]}, "configurations[0]=true is not an object"),
    ],
)
def test_unknown_keys_of_samples_are_reported_before_missing_ones(tmp_path, change, told):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"results": [RESULT | change]}))
    with pytest.raises(InputError) as error:
        results_of_run(path)
    assert str(error.value).startswith(f"{path}: results[0].{told}")


#: Plans of earlier versions lack what their best placement saves, what was measured, and a digest.
ADDED = "checked digest saved_against_random saved_against_worst seconds seconds_low seconds_high"


@pytest.mark.parametrize(("written", "added"), [(PlaceAnswer, ADDED), (ProfileFile, "")])
def test_schemas_of_own_files_have_only_required_keys(written, added):
    schema = written.model_json_schema()
    for one in (schema, *schema["$defs"].values()):
        assert set(one["properties"]) - set(one["required"]) <= {*added.split()}
