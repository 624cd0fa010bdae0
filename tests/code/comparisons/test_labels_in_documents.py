"""Who labelled a comparison, and when, in JSON and XML; and what is said of it beside the verdict in XML."""

import json
import re

import pandas as pd
import pytest
from lxml import etree

from data.comparisons.formats import comparison_json, comparison_xml
from data.comparisons.formats.comparison_xml import (
    ATTRIBUTES,
    BASE,
    EARLIER,
    LABEL,
    LATER,
    STATUSES,
    TARGET,
    VERDICT,
    with_status,
)
from data.comparisons.labels.consensus import consensus_status
from data.comparisons.tables import LABEL_STATUSES
from data.errors import InputError
from data.tables.documents import MOMENT, parse_moment
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_xml
from serving.comparisons.judge import judge_tables
from serving.comparisons.xml.report import ELEMENTS, as_xml, write_comparisons, xml_schema
from serving.http.bodies import NOTES
from serving.models import ModelRef, Served
from tests.code.comparisons.posted import comparison, drawn, trained
from tests.code.comparisons.xml_documents import comparison as element
from tests.code.comparisons.xml_documents import report
from training.comparisons.stored import ReadyModel

WHO = [
    {"status": "fail", "annotator": "anna", "labelled_at": "2026-11-22T09:30:00+01:00"},
    {"status": "pass", "annotator": "ben"},
    {"status": "fail", "labelled_by": "reference measurement", "labelled_at": "2024-02-29T00:00:00.25Z"},
    {"status": "cannot_tell", "annotator": "carl"},
    {"status": "pass"},
]
READ = [
    ["fail", "anna", "anna", pd.Timestamp("2026-11-22T08:30:00Z")],
    ["pass", "ben", "ben", pd.NaT],
    ["fail", "reference measurement", None, pd.Timestamp("2024-02-29T00:00:00.25Z")],
    ["cannot_tell", "carl", "carl", pd.NaT],
    ["pass", "unknown", None, pd.NaT],
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return Served(
        ReadyModel.read(trained(tmp_path_factory.mktemp("model"))), ModelRef("m", "7", "models:/m/7")
    )


def labels_of(tables):
    table = tables.labels[["status", "labelled_by", "annotator", "labelled_at"]].astype(object)
    return table.where(table.notna() | (table.columns == "labelled_at"), None).to_numpy().tolist()


def asked(**more):
    return {"comparisons": [comparison([100, 101, 102], [120, 121, 122]) | more]}


def test_labels_of_several_annotators_survive_json_and_xml(served):
    tables = comparison_json.tables_of(asked(labels=WHO))
    assert labels_of(tables) == READ
    written = as_xml(judge_tables(tables, served), tables)
    again = comparison_xml.tables_of(written)
    assert labels_of(again) == READ
    assert (
        consensus_status(again.labels, "majority").to_dict()
        == consensus_status(tables.labels, "majority").to_dict()
    )
    assert as_xml(judge_tables(again, served), again) == written


def test_xml_status_is_a_label_only_without_label_elements():
    said = '<label status="fail" annotator="anna"/>'
    tables = comparison_xml.tables_of(
        report(element("bt", said, "pass"), element("lu", "", "pass"), element("ep", said)).encode()
    )
    assert tables.labels[["comparison_id", "status", "annotator"]].fillna("").to_numpy().tolist() == [
        ["r/NAS/bt", "fail", "anna"],
        ["r/NAS/lu", "pass", ""],
        ["r/NAS/ep", "fail", "anna"],
    ]


@pytest.mark.parametrize(
    ("label", "json_says", "xml_says"),
    [
        (
            {"status": "maybe"},
            'status="maybe" is not "pass", "fail" or "cannot_tell"',
            'status="maybe" is not one of pass, fail, cannot_tell',
        ),
        ({}, " lacks status", "<label> has no attribute status"),
        (
            {"status": "pass", "labelled_at": "noon"},
            'labelled_at="noon" is not a time like 2026-11-22T09:30:00Z',
            'labelled_at="noon" is not a time like 2026-11-22T09:30:00Z',
        ),
    ],
)
def test_a_wrong_label_gives_a_one_line_error(label, json_says, xml_says):
    with pytest.raises(InputError) as caught:
        comparison_json.tables_of(asked(labels=[label]), "r.json")
    assert str(caught.value).startswith("r.json: comparisons[0].labels[0]")
    assert str(caught.value).endswith(json_says)
    written = "".join(f' {name}="{value}"' for name, value in label.items())
    with pytest.raises(InputError) as caught:
        comparison_xml.tables_of(report(element(content=f"<label{written}/>")).encode(), "r.xml")
    assert str(caught.value) == f'r.xml:2 operation "bt": {xml_says}'


def test_an_unknown_key_of_a_label_names_the_nearest():
    with pytest.raises(InputError, match=r"labels\[0\].anotator .*did you mean .annotator.\?"):
        comparison_json.tables_of(asked(labels=[{"status": "pass", "anotator": "anna"}]))


def test_only_valid_times_of_labels_are_accepted():
    days = pd.date_range("2000-01-01", "2099-12-31", freq="D").strftime("%Y-%m-%d")
    assert all(parse_moment(f"{day}T23:59:59Z") for day in days)
    known = {
        f"{year}-{month:02}-{day:02}" for year in (2023, 2024) for month in range(14) for day in range(33)
    }
    real = known & {*days}
    assert {day for day in known if re.fullmatch(MOMENT, f"{day}T00:00:00+14:00")} == real
    assert {
        parse_moment(text) for text in ("2026-11-22", "2026-11-22T09:30:00", "2026-11-22T24:00:00Z\n")
    } == {None}


def test_labels_in_a_request_change_no_verdict(served):
    bare, labelled = (
        answer_json(json.dumps(asked(**more)).encode(), served) for more in ({}, {"labels": WHO})
    )
    assert bare.content == labelled.content


def without_nulls(content):
    if isinstance(content, dict):
        return {name: without_nulls(one) for name, one in content.items() if one not in (None, "")}
    return [*map(without_nulls, content)] if isinstance(content, list) else content


def as_content(node):
    """Read an element `verdict` back by its schema."""
    schema = xml_schema(answered=True)["properties"]["comparison_result"]["items"]["properties"]["verdict"]

    def read(node, known):
        found = {}
        for name, text in node.attrib.items():
            found[name] = float(text) if known[name]["type"] == "number" else text
        for child in node:
            described = known[child.tag]
            inside = described.get("items", described)
            one = child.text if inside["type"] == "string" else read(child, inside["properties"])
            if described["type"] == "array":
                found.setdefault(child.tag, []).append(one)
            else:
                found[child.tag] = one
        return found

    return read(node, schema["properties"])


NAMES = {"reasons": "attribution", "remarks": "remark", "examples": "example"}


def test_answers_in_xml_and_json_are_equally_complete(served):
    content = {"comparisons": [*drawn(4, seed=2), comparison([1], [2], name="invalid")]}
    content["comparisons"][0]["labels"] = WHO
    tables = comparison_json.tables_of(content)
    root = etree.fromstring(as_xml(judge_tables(tables, served), tables))
    told = json.loads(render.as_json(judge_tables(tables, served)))["verdicts"]
    for node, one in zip(root.iter("comparison_result"), told, strict=True):
        expected = {NAMES.get(name, name): value for name, value in without_nulls(one).items() if value != []}
        for name in ("comparison_id", "benchmark", "operation", "verdict"):
            del expected[name]
        found = as_content(node.find("verdict"))
        assert found.pop("model") == "models:/m/7"
        found.pop("decided", None)
        assert found == expected


def test_a_new_xml_answer_replaces_only_the_earlier_verdicts(served):
    tables = comparison_json.tables_of({"comparisons": [*drawn(3, seed=2)]})
    written = as_xml(judge_tables(tables, served), tables)
    plain = re.sub(rb"\s*<verdict.*?</verdict>", b"", written, flags=re.DOTALL)
    assert b"verdict" not in plain
    first = answer_xml(plain, served).content
    second = answer_xml(first, served).content
    assert (first.count(b"<verdict "), second) == (3, first)
    assert re.sub(rb"<verdict.*?</verdict>", b"", first) == plain
    assert (
        judge_tables(comparison_xml.tables_of(first), served).verdict_by_id
        == judge_tables(tables, served).verdict_by_id
    )


@pytest.mark.parametrize(("comparisons", "noted"), [(100, False), (101, True)])
def test_xml_answers_without_counterfactuals_say_so_in_the_header(served, comparisons, noted):
    tables = comparison_json.tables_of({"comparisons": [*drawn(comparisons, seed=2)]})
    answered = answer_xml(write_comparisons(tables, [""] * comparisons), served)
    assert (render.UNFLIPPED in answered.headers.get(NOTES, ""), b" counterfactual=" in answered.content) == (
        noted,
        not noted,
    )


@pytest.mark.parametrize(
    "content",
    ["", "<verdict/>", "<verdict >old<reason/></verdict >", '<verdict a=">"><comparison_result/></verdict>'],
)
def test_verdicts_are_inserted_into_comparisons_of_any_content(content):
    text = report(element("bt", content))
    filled = with_status(text.encode(), {"r/NAS/bt": "pass"}, written={"r/NAS/bt": b"<verdict new='1'/>"})
    assert filled.decode() == report(element("bt", "<verdict new='1'/>", "pass"))
    closed = (
        '<comparison_results report_uuid="r"><comparison_result benchmark_name="NAS" operation_name="bt" />'
    )
    filled = with_status(
        f"{closed}</comparison_results>".encode(), {"r/NAS/bt": "pass"}, written={"r/NAS/bt": b"<verdict/>"}
    )
    assert (
        b'operation_name="bt" result_status="pass"><verdict/></comparison_result></comparison_results>'
        in filled
    )


def test_xml_schema_covers_everything_read_and_written():
    comparison = xml_schema(answered=True)["properties"]["comparison_result"]["items"]["properties"]
    result = comparison["result"]["items"]["properties"]
    assert {LABEL, VERDICT} <= set(comparison)
    assert set(result) == {"threads_no", "median_diff", BASE, TARGET, EARLIER, LATER}
    assert set(result[BASE]["properties"]) == {*ATTRIBUTES.values(), "samples"}
    assert comparison["result_status"]["enum"] == [*STATUSES, ""]
    assert comparison[LABEL]["items"]["properties"]["status"]["enum"] == [*LABEL_STATUSES]
    assert set(ELEMENTS.values()) <= set(comparison[VERDICT]["properties"])
    assert VERDICT not in xml_schema()["properties"]["comparison_result"]["items"]["properties"]
