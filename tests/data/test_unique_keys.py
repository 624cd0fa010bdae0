"""A key that appears twice is refused in JSON and YAML of every kind."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from data.comparisons import formats
from data.comparisons.params import Comparisons
from data.errors import InputError
from data.params import load
from data.tables.documents import TextLoader, require_unique_keys, written
from data.tables.files import content_of, json_content, yaml_content
from serving.comparisons.compare.acknowledging import read_acknowledged
from tests.repeated_keys import objects_of, with_repeated_key

SAMPLES = Path("docs/samples/formats")
KEYS = st.text(max_size=3) | st.sampled_from(
    ["q1", "q2", "a:", "a\\u003a", '"', "[1]", "[2]", "\U0001f600", "{"]
)
VALUES = st.recursive(
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.data(), st.booleans())
@settings(max_examples=300)
def test_any_json_is_read_unless_a_key_is_repeated(value, data, escaped):
    assert json_content(json.dumps(value, ensure_ascii=escaped)) == value
    assume(objects_of(value))
    chosen = data.draw(st.sampled_from(objects_of(value)))
    key = data.draw(st.sampled_from(sorted(chosen)))
    text = with_repeated_key(value, chosen, key, data.draw(VALUES), escaped=escaped)
    with pytest.raises(InputError, match="appears twice") as refused:
        json_content(text)
    assert json.dumps(key[:60], ensure_ascii=False) in refused.value.problem


def test_the_place_and_line_of_a_repeated_key_are_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"comparisons": [{},\n {"x": {"b\\u0065tter": 1, "y": [1, {}, 2],\n "better": 2}}]}')
    with pytest.raises(InputError) as refused:
        content_of(path)
    assert str(refused.value) == f'{path}:3 comparisons[1].x: the key "better" appears twice'


def test_large_documents_are_searched_in_chunks_and_refused_alike():
    rows = [{"name": f"a:{row}", "values": [row / 7] * 40} for row in range(5_000)]
    text = json.dumps({"rows": rows, "note": "x" * (1 << 20)})
    require_unique_keys(text.encode())
    wrong = text.replace('"name": "a:4999"', '"name": "", "name": "a:4999"')
    with pytest.raises(InputError, match=r"rows\[4999\]: the key \"name\" appears twice"):
        require_unique_keys(wrong.encode())


def test_the_error_for_huge_numbers_does_not_mention_python(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": ' + "9" * 5000 + "}")
    with pytest.raises(InputError) as refused:
        content_of(path)
    assert str(refused.value) == f"{path}: is not JSON (a number has more than 4300 digits)"


#: All that is read: nothing in a machine.json is.
TOOL_FILES = sorted(path for path in SAMPLES.rglob("*.json*") if path.name != "machine.json")


@pytest.mark.parametrize("path", TOOL_FILES, ids=lambda path: "/".join(path.parts[3:]))
def test_files_of_tools_with_a_repeated_key_are_refused(path, tmp_path):
    """The first, a middle and the last object of each file."""
    folder = tmp_path / "source"
    tool = path.relative_to(SAMPLES).parts[0]
    shutil.copytree(SAMPLES / tool, folder)
    copy = folder / path.relative_to(SAMPLES / tool)
    first, *rest = path.read_text().splitlines() if path.suffix == ".jsonl" or "lines" in path.name else [""]
    content = json.loads(first or path.read_text())
    source = folder / "results" if tool == "asv" else copy
    known = objects_of(content)
    for chosen in (known[0], known[len(known) // 2], known[-1]):
        key = next(iter(chosen))
        text = with_repeated_key(content, chosen, key, chosen[key])
        copy.write_text("\n".join([text, *rest]))
        with pytest.raises(InputError, match="appears twice"):
            formats.read_tables(tool, [source])


@pytest.mark.parametrize(
    "text", ["a: 1\nb: {c: 1, d: 2, 'c': 3}", '? x\n: 1\n"\\u0078": 2', "a: [{b: 1, b: 1}]"]
)
def test_yaml_with_a_repeated_key_is_refused(text, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    for loader in ([], [TextLoader]):
        with pytest.raises(InputError, match=r"a\.yaml:\d+: the key \"[cxb]\" appears twice"):
            yaml_content(path, *loader)


def test_yaml_with_merged_keys_and_anchors_is_accepted(tmp_path):
    path = tmp_path / "a.yaml"
    text = "base: &base {a: 1, b: 2}\nmore: &more {<<: *base, b: 3}\n"
    text += "last:\n  <<: [*more, *base]\n  a: 4\nlist: [*base, *base]\n"
    path.write_text(text)
    assert yaml_content(path) == yaml.safe_load(text)


def test_params_suites_and_acknowledgements_with_a_repeated_key_are_refused(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(Path("params.yaml").read_text() + "\nseed: 3\n")
    with pytest.raises(InputError, match='the key "seed" appears twice'):
        load(Comparisons, path)
    path.write_text("accepted: []\naccepted: []\n")
    with pytest.raises(InputError, match='the key "accepted" appears twice'):
        read_acknowledged(path)


def test_a_deeply_nested_file_of_a_stage_is_refused(tmp_path):
    path = tmp_path / "metrics.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"metrics\.json: is not JSON"):
        written(path, "evaluate")
