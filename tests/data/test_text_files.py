"""Files of text, JSON and YAML: byte order marks, keys that appear twice, and validators."""

import codecs
import json
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data.comparisons import formats
from data.comparisons.params import Comparisons
from data.errors import InputError
from data.fingerprints.formats import typed_csv
from data.params import load
from data.tables.documents import TextLoader, require_unique_keys, written
from data.tables.files import content_of, json_content, read_json, yaml_content
from serving.comparisons.compare.acknowledging import read_acknowledged
from serving.http.bodies import parse_json
from serving.http.schemas import RefusedError
from tests.data.comparisons.documents import configuration, document, operation, request
from tests.data.refusals import refusal
from tests.repeated_keys import objects_of, with_repeated_key

PARAMS = Path("params.yaml").read_text()


def load_params(path):
    return load(Comparisons, path)


def comparisons(path):
    return len(formats.read_tables(formats.recognise_format(path), [path]).tables.comparisons)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": 1}', content_of),
        ('{"a": 1}', lambda path: read_json(path, dict[str, int])),
        ('{"a": 1}', lambda path: parse_json(path.read_bytes())),
        ("a: 1", yaml_content),
        ("machine,cpu\na,1\n", lambda path: [*typed_csv.read_machines(path).machines["stressor"]]),
        ('"machine",value\na,1\n', lambda path: [*typed_csv.read_application(path, "mine")["value"]]),
        (PARAMS, load_params),
        (json.dumps(request(configuration())), comparisons),
        (document(operation()), comparisons),
    ],
    ids=range(9),
)
def test_input_files_may_begin_with_a_byte_order_mark(tmp_path, text, read):
    found = []
    for mark in (b"", codecs.BOM_UTF8):
        (tmp_path / "file").write_bytes(mark + text.encode())
        found.append(read(tmp_path / "file"))
    assert found[0] == found[1]
    assert found[0]


SAMPLES = Path("docs/samples/formats")
KEYS = st.text(max_size=3) | st.sampled_from(["q1", "a:", "a\\u003a", '"', "[1]", "\U0001f600", "{"])
VALUES = st.recursive(
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.data(), st.booleans())
@settings(max_examples=100)
def test_any_json_is_read_unless_a_key_is_repeated(value, data, escaped):
    assert json_content(json.dumps(value, ensure_ascii=escaped)) == value
    assume(objects_of(value))
    chosen = data.draw(st.sampled_from(objects_of(value)))
    key = data.draw(st.sampled_from(sorted(chosen)))
    text = with_repeated_key(value, chosen, key, data.draw(VALUES), escaped=escaped)
    with pytest.raises(InputError, match="appears twice") as refused:
        json_content(text)
    assert json.dumps(key[:60], ensure_ascii=False) in refused.value.problem


def test_large_documents_are_searched_in_chunks_and_refused_alike():
    rows = [{"name": f"a:{row}", "values": [row / 7] * 40} for row in range(5_000)]
    text = json.dumps({"rows": rows, "note": "x" * (1 << 20)})
    require_unique_keys(text.encode())
    wrong = text.replace('"name": "a:4999"', '"name": "", "name": "a:4999"')
    assert 'rows[4999]: the key "name" appears twice' in refusal(require_unique_keys, wrong.encode())


@given(
    st.sampled_from(["NaN", "Infinity", "-Infinity"]),
    st.lists(st.sampled_from(['"NaN"', '"a\\"Infinity"', '"\\\\"', "[]", "-1"])),
    st.integers(0, 5),
)
@settings(suppress_health_check=list(HealthCheck))
def test_a_number_that_json_lacks_is_named_with_its_line(tmp_path, number, before, spaces):
    path = tmp_path / "a.json"
    path.write_text("[\n" + "".join(f"{value},\n" for value in before) + " " * spaces + number + ",\nNaN]")
    problem = f"is not JSON ({number} is not a finite number)"
    assert refusal(content_of, path) == f"{path}:{len(before) + 2}: {problem}"
    with pytest.raises(RefusedError, match=rf"is not a finite number \(line {len(before) + 2}\)"):
        parse_json(path.read_bytes())


#: All that is read: nothing in a machine.json is.
TOOL_FILES = sorted(path for path in SAMPLES.rglob("*.json*") if path.name != "machine.json")


@pytest.mark.parametrize("path", TOOL_FILES, ids=lambda path: "/".join(path.parts[3:]))
def test_files_of_tools_with_a_repeated_key_are_refused(path, tmp_path):
    folder = tmp_path / "source"
    tool = path.relative_to(SAMPLES).parts[0]
    shutil.copytree(SAMPLES / tool, folder)
    copy = folder / path.relative_to(SAMPLES / tool)
    first, *rest = path.read_text().splitlines() if path.suffix == ".jsonl" or "lines" in path.name else [""]
    content = json.loads(first or path.read_text())
    source = folder / "results" if tool == "asv" else copy
    known = objects_of(content)
    # the first, a middle and the last object
    for chosen in (known[0], known[len(known) // 2], known[-1]):
        key = next(iter(chosen))
        text = with_repeated_key(content, chosen, key, chosen[key])
        copy.write_text("\n".join([text, *rest]))
        assert "appears twice" in refusal(formats.read_tables, tool, [source])


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


REPEATED = '{"comparisons": [{},\n {"x": {"b\\u0065tter": 1, "y": [1, {}, 2],\n "better": 2}}]}'


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        (b"seed: \xff", load_params, ": is not YAML ('utf-8' codec"),
        (f"{PARAMS}\nseed: 3\n".encode(), load_params, 'the key "seed" appears twice'),
        (b"accepted: []\naccepted: []\n", read_acknowledged, 'the key "accepted" appears twice'),
        (REPEATED.encode(), content_of, ':3 comparisons[1].x: the key "better" appears twice'),
        (b'{"a": ' + b"9" * 5000 + b"}", content_of, ": is not JSON (a number has more than 4300 digits)"),
        (b"[" * 100_000, lambda path: written(path, "evaluate"), ": is not JSON"),
    ],
    ids=["bytes", "parameters", "acknowledgements", "a place", "a huge number", "deeply nested"],
)
def test_an_unusable_text_file_is_refused_with_the_reason(tmp_path, text, read, told):
    (tmp_path / "file").write_bytes(text)
    line = refusal(read, tmp_path / "file")
    assert line.startswith(f"{tmp_path}/file")
    assert told in line
