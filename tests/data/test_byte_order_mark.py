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
from data.fingerprints.formats import typed_csv as fingerprint_csv
from data.fingerprints.formats.typed_csv import ValueColumn
from data.params import load
from data.tables.files import content_of, read_json, yaml_content
from serving.http.bodies import parse_json
from tests.data.comparisons.document import document, operation
from tests.data.comparisons.requests import configuration, request


def _measured(path):
    return typed_csv.read_application(path, ValueColumn("mine", "seconds", "lower"))["value"].tolist()


MARK = codecs.BOM_UTF8
SHIPPED = Path(__file__).resolve().parents[2] / "params.yaml"


def test_request_bodies_may_begin_with_a_byte_order_mark():
    assert parse_json(MARK + b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": 1}', content_of),
        ('{"a": 1}', lambda path: read_json(path, dict[str, int])),
        ("a: 1", yaml_content),
        (
            "machine,cpu\na,1\n",
            lambda path: fingerprint_csv.read_machines(path).machines["stressor"].tolist(),
        ),
        ('"machine",value\na,1\n', _measured),
    ],
)
def test_input_files_may_begin_with_a_byte_order_mark(tmp_path, text, read):
    found = []
    for mark in (b"", MARK):
        (tmp_path / "file").write_bytes(mark + text.encode())
        found.append(read(tmp_path / "file"))
    assert found[0] == found[1]


def test_the_validator_of_a_type_of_files_is_built_once(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(pydantic, "TypeAdapter", lambda kind: built.append(kind) or TypeAdapter(kind))
    kind = dict[Literal["of this test"], int]
    (tmp_path / "file").write_text('{"of this test": 1}')
    for _ in range(3):
        assert read_json(tmp_path / "file", kind) == {"of this test": 1}
    assert built == [kind]


def test_sap_hana_marks_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "annotations.json").write_bytes(MARK + b"{}")
    with pytest.raises(InputError, match="holds no file <id>"):
        list(read_sap_hana(tmp_path, None, None))


def test_params_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "params.yaml").write_bytes(MARK + SHIPPED.read_bytes())
    assert load(Comparisons, tmp_path / "params.yaml") == load(Comparisons, SHIPPED)
    (tmp_path / "params.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(InputError, match=r"params.yaml: is not YAML \('utf-8' codec"):
        load(Comparisons, tmp_path / "params.yaml")


@pytest.mark.parametrize(("name", "kind"), [("in.json", "comparison-json"), ("in.xml", "comparison-xml")])
def test_json_comparisons_may_begin_with_a_byte_order_mark(tmp_path, name, kind):
    text = json.dumps(request(configuration())) if kind == "comparison-json" else document(operation())
    (tmp_path / name).write_bytes(MARK + text.encode())
    assert (
        len(
            formats.read_tables(
                formats.recognise_format(tmp_path / name), [tmp_path / name]
            ).tables.comparisons
        )
        == 1
    )
