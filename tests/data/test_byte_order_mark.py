"""Files of text and JSON: a byte order mark is skipped, and validators are built once."""

import codecs
import json
from pathlib import Path
from typing import Literal

import pydantic
import pytest
from pydantic import TypeAdapter

from data.comparisons import formats
from data.comparisons.formats.sap_hana import read_data_set as read_sap_hana
from data.comparisons.params import Comparisons
from data.errors import InputError
from data.fingerprints.formats import typed_csv
from data.fingerprints.formats.typed_csv import ValueColumn
from data.params import load
from data.tables.files import content_of, read_json, yaml_content
from serving.http.bodies import parse_json
from tests.data.comparisons.document import document, operation
from tests.data.comparisons.requests import configuration, request

PARAMS = (Path(__file__).resolve().parents[2] / "params.yaml").read_text()


def machines(path):
    return typed_csv.read_machines(path).machines["stressor"].tolist()


def measured(path):
    return typed_csv.read_application(path, ValueColumn("mine", "seconds", "lower"))["value"].tolist()


def comparisons(path):
    return len(formats.read_tables(formats.recognise_format(path), [path]).tables.comparisons)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": 1}', content_of),
        ('{"a": 1}', lambda path: read_json(path, dict[str, int])),
        ('{"a": 1}', lambda path: parse_json(path.read_bytes())),
        ("a: 1", yaml_content),
        ("machine,cpu\na,1\n", machines),
        ('"machine",value\na,1\n', measured),
        (PARAMS, lambda path: load(Comparisons, path)),
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


def test_sap_hana_marks_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "annotations.json").write_bytes(codecs.BOM_UTF8 + b"{}")
    with pytest.raises(InputError, match="holds no file <id>"):
        list(read_sap_hana(tmp_path, None, None))


def test_params_that_are_not_utf_8_are_refused(tmp_path):
    (tmp_path / "params.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(InputError, match=r"params.yaml: is not YAML \('utf-8' codec"):
        load(Comparisons, tmp_path / "params.yaml")


def test_the_validator_of_a_type_of_files_is_built_once(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(pydantic, "TypeAdapter", lambda kind: built.append(kind) or TypeAdapter(kind))
    kind = dict[Literal["of this test"], int]
    (tmp_path / "file").write_text('{"of this test": 1}')
    for _ in range(3):
        assert read_json(tmp_path / "file", kind) == {"of this test": 1}
    assert built == [kind]
