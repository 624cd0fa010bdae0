"""Comparison XML: what is read and written; and who labelled a comparison, and when, in JSON and XML."""

import json
import re
from itertools import chain
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lxml import etree

from data.comparisons import formats
from data.comparisons.formats import comparison_json, comparison_xml
from data.comparisons.formats.comparison_xml import PARTS, read_documents, tables_of, with_status
from data.comparisons.labels.consensus import consensus_status
from data.comparisons.sides import Sides
from data.comparisons.tables import LABEL_STATUSES
from data.tables.documents import MOMENT, parse_moment
from data.tables.problems import Problems
from data.tables.xml_stream import CHUNK, Document
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_xml
from serving.comparisons.judge import judge_tables
from serving.comparisons.xml.report import ELEMENTS, as_xml, write_comparisons, xml_schema
from serving.http.bodies import NOTES
from tests.code.comparisons.posted import comparison as posted
from tests.code.comparisons.posted import drawn
from tests.data.comparisons.documents import document as report
from tests.data.comparisons.documents import operation as comparison
from tests.data.comparisons.documents import result
from tests.data.refusals import refusal

FIGURES = Path(__file__).parents[2] / "data/comparisons/figures"
FIVE = 'min="1" first_q="2" median="3" third_q="4" max="5"'
BASE, TARGET = f"<base_result {FIVE}/>", f"<target_result {FIVE}/>"
RESULT = result()

#: The content of a comparison, and what is said of it behind the name of the file.
BAD_CONTENTS = {
    '<result threads_no="0"/>': ':2 operation "bt": threads_no="0" is not between 1 and 999999',
    "\n<result/>": ':3 operation "bt": <result> has no attribute threads_no',
    f'<result threads_no="1">{BASE}\n<target_result max="inf"/></result>': (
        ':3 operation "bt" target_result: <target_result> has no attribute min'
    ),
    RESULT.replace(TARGET, BASE): ':2 operation "bt": threads_no="4" has a second <base_result>',
    RESULT + RESULT: ':2 operation "bt": threads_no="4" has a second <base_result>',
    BASE: ':2 operation "bt": <base_result> is not inside a <result>',
    **{
        RESULT.replace(TARGET, f"<history><samples {attributes}/></history>"): f':2 operation "bt": {told}'
        for attributes, told in (
            ('values="1"', "<samples> has no attribute order"),
            ('order="1.5" values="1"', 'order="1.5" is not a whole number'),
            ('order="1" values="1 1e400"', 'values="1e400" is not a finite number'),
        )
    },
}
BAD_DOCUMENTS = {
    "\n\n<comparison_result benchmark_name='x'/>": ":4: <comparison_result> has no attribute operation_name",
    "<comparison_result operation_name='x'/>": (
        ':2 operation "x": <comparison_result> has no attribute benchmark_name'
    ),
    comparison(better="up"): ':2 operation "bt": better="up" is unknown; expected "higher" or "lower"',
    comparison(comparison_id="c") + comparison("lu", comparison_id="c"): (
        ':3 operation "lu": comparison_id="c" appears twice'
    ),
    **{comparison(inner=content): message for content, message in BAD_CONTENTS.items()},
}


@pytest.mark.parametrize(("text", "message"), BAD_DOCUMENTS.items())
def test_bad_xml_input_gives_a_one_line_error(text, message):
    assert refusal(tables_of, report(text).encode(), "r.xml") == f"r.xml{message}"


HISTORY = '<history><samples order="2" values="1 2"/></history>'
COMPLETE = comparison(
    "bt",
    '<label status="pass" annotator="a" labelled_at="2026-11-22T09:30:00Z"/>\n'
    + RESULT.replace("</result>", f"{HISTORY}{HISTORY.replace('history', 'later')}</result>")
    .replace('min="1"', 'min="1" mean="3" stdev="1"')
    .replace(TARGET, TARGET.replace("/>", '><samples order="3" values="1 2"/></target_result>')),
    "pass",
    comparison_id="c",
    unit="s",
    better="lower",
    siblings_worse="0.5",
)
KNOWN_NAMES = sorted({*PARTS, *chain.from_iterable(PARTS.values())} - {"labelled_by"})


@given(st.sampled_from(KNOWN_NAMES), st.data())
def test_a_misspelt_name_is_an_error_with_line_and_suggestion(name, data):
    place = data.draw(st.integers(0, len(name) - 2))
    swapped = name[:place] + name[place + 1] + name[place] + name[place + 2 :]
    wrong = data.draw(st.sampled_from([name[:-1], name.capitalize(), f"{name}s", swapped]))
    assume(wrong != name and (len(name) > len("unit") or wrong != swapped))
    text = report(re.sub(rf"(?<=[ </]){name}(?=[ =>])", wrong, COMPLETE))
    message = refusal(tables_of, text.encode(), "r.xml")
    assert re.fullmatch(rf'r\.xml:[23]\b.*\b{wrong}\b.*; did you mean "{name}"\?', message)


def test_a_misspelt_element_is_an_error_although_another_configuration_has_it():
    with_history = RESULT.replace("</result>", f"{HISTORY}</result>")
    wrong = with_history.replace("history", "histroy").replace('threads_no="4"', 'threads_no="8"')
    text = report(comparison(inner=f"{with_history}\n{wrong}"))
    message = 'r.xml:3 operation "bt": <histroy> is unknown; did you mean "history"?'
    assert refusal(tables_of, text.encode(), "r.xml") == message


@pytest.mark.parametrize(
    "content",
    [
        f"<results/>{RESULT}",
        f"<environment><lable/><smaples/></environment>{RESULT}",
        f'<verdict><labell resullt="1"/></verdict>{RESULT}',
        f'<x:lable xmlns:x="u" x:staus="pass"/>{RESULT}',
        RESULT.replace('threads_no="4"', 'threads_no="4" threads="4" mean_diff="1" host="m"'),
    ],
)
def test_foreign_content_and_names_beside_the_known_one_are_ignored(content):
    tables = tables_of(report(comparison(inner=content, mode="x")).encode())
    assert tables.results.equals(tables_of(report(comparison()).encode()).results)


def test_figure_6_1_gives_summaries_label_uuids_and_line():
    tables = formats.read_tables("comparison-xml", [FIGURES / "figure_6_1.xml"]).tables
    assert Sides.from_tables(tables).threads.tolist() == [4, 8]
    labels = tables.labels[["comparison_id", "status"]].to_numpy().tolist()
    assert labels == [["figure_6_1/NASParallel/bt_C_x", "pass"]]
    first = tables.results.query("threads == 4 and order == 0")
    assert dict(zip(first["stat"], first["value"], strict=True)) == {
        "min": 7406.4, "q1": 7409.2, "median": 7456.5, "q3": 7479.3, "max": 7507.0,
        "mean": 7451.7, "stdev": 39.2,
    }  # fmt: skip
    row = tables.comparisons.iloc[0]
    assert row[["base_uuid", "report_uuid", "target_uuid"]].tolist() == ["...", "...", "..."]
    assert row["source"].endswith('figure_6_1.xml:2 operation "bt_C_x"')


def test_a_status_is_a_label_unless_invalid_or_labels_follow():
    said = '<label status="fail" annotator="anna"/>'
    text = report(
        comparison("sp").replace(' result_status=""', ""),
        *(
            comparison(name, status=status)
            for name, status in {"is": "", "ft": "invalid", "mg": "fail"}.items()
        ),
        *(comparison("bt", said, "pass"), comparison("lu", "", "pass"), comparison("ep", said)),
    )
    tables = tables_of(text.encode())
    assert len(tables.comparisons) == 7
    assert tables.labels[["comparison_id", "status", "annotator"]].fillna("").to_numpy().tolist() == [
        ["r/NAS/mg", "fail", ""], ["r/NAS/bt", "fail", "anna"], ["r/NAS/lu", "pass", ""],
        ["r/NAS/ep", "fail", "anna"],
    ]  # fmt: skip


def test_several_reports_in_one_outer_element_never_mix():
    first, second = report(comparison(status="pass"), uuid="a"), report(comparison(status="fail"), uuid="b")
    tables = tables_of(f"<all>{first}{second}</all>".encode())
    assert tables.comparisons["comparison_id"].tolist() == ["a/NAS/bt", "b/NAS/bt"]
    assert tables.labels["status"].tolist() == ["pass", "fail"]
    assert len(Sides.from_tables(tables).comparison) == 2
    unnamed = f"<all>{report(comparison(), uuid='...') * 2}</all>"
    ids = tables_of(unnamed.encode(), "weekly.xml").comparisons["comparison_id"]
    assert ids.tolist() == ["weekly/NAS/bt", "weekly#2/NAS/bt"]
    one = report(comparison(comparison_id="c")).replace("report_uuid", 'machine="m" report_uuid')
    other = one.replace('"c"', '"d"')
    tables = tables_of(f"<all>{one}{other}</all>".encode())
    assert tables.comparisons["machine"].tolist() == ["m", "m #2"]
    assert len(Sides.from_tables(tables).comparison) == 2


def test_a_missing_better_direction_is_noted_once_per_file():
    def notes(*comparisons, better=None):
        problems, document = Problems(), Document.from_bytes(report(*comparisons).encode(), "a.xml")
        (part,) = read_documents([document], problems, better=better)
        return Sides.from_tables(part).sign.tolist(), problems.notes

    silent, said = comparison("lu"), comparison("ep", better="lower")
    signs, (note,) = notes(silent, said, comparison())
    assert signs == [1, -1, 1]
    assert note == (
        "a.xml does not say which values are better; higher is assumed "
        "(the attribute better, or --better, says otherwise)"
    )
    assert notes(silent, said, better="lower") == ([-1, -1], [])
    assert notes(said) == ([-1], [])


def test_samples_replace_five_numbers_and_versions_are_renumbered():
    inner = (
        f'<result threads_no="4"><base_result {FIVE}><samples order="7" values="10 11"/>'
        f'<samples order="9" values="12 13"/></base_result>'
        f'<target_result {FIVE}><samples order="30" values="14"/><samples order="30" values="15"/>'
        '</target_result><history><samples order="-2" values="8 9"/></history>'
        '<later><samples order="40" values="7"/><samples order="50" values="6"/></later></result>'
    )
    text = report(comparison(inner=inner, unit="ms", better="lower", comparison_id="c"))
    tables = tables_of(text.replace("report_uuid", 'machine="m" report_uuid').encode())
    assert tables.results[["order", "value"]].to_numpy().tolist() == [
        [1, 10], [1, 11], [2, 12], [2, 13], [3, 14], [3, 15], [0, 8], [0, 9],
        [4, 7], [5, 6],
    ]  # fmt: skip
    assert tables.results["stat"].isna().all()
    assert tables.results.iloc[0][["machine", "unit", "better"]].tolist() == ["m", "ms", "lower"]
    row = tables.comparisons.iloc[0]
    assert row["comparison_id"] == "c"
    orders = ["baseline_from", "baseline_to", "target_from", "target_to", "later_to"]
    assert row[orders].tolist() == [1, 2, 3, 3, 5]


def test_chunks_hold_whole_comparisons_of_a_document():
    operations = [f"o{number}" for number in range(9)]
    text = report(*(comparison(operation) for operation in operations))
    parts = list(read_documents([Document.from_bytes(text.encode(), "r.xml")], Problems(), chunk_rows=25))
    assert [part.comparisons["operation"].tolist() for part in parts] == [
        operations[:3], operations[3:6], operations[6:], [],
    ]  # fmt: skip
    assert all(set(part.results["operation"]) == set(part.comparisons["operation"]) for part in parts)


def test_line_numbers_above_65535_are_exact():
    many = "".join(comparison(f"o{number}") + "\n" * 29 for number in range(3000))
    text = report(many, comparison("last", RESULT.replace('"3"', '"x"', 1)))
    told = refusal(tables_of, text.encode(), "r.xml")
    assert told == 'r.xml:90002 operation "last" base_result: median="x" is not a number'


def test_verdicts_are_filled_in_and_nothing_else_changes():
    middle = comparison("lu", further=">'x").replace(' result_status=""', "")
    text = '<?xml version="1.0"?>\n<!-- kept <comparison_result> -->\n' + report(
        comparison(), middle, "<other  a='1' />", comparison("ep")
    )
    given = text.replace('result_status=""', "result_status = 'pass'", 1)
    filled = with_status(given.encode(), {"r/NAS/bt": "fail", "r/NAS/lu": "invalid"}).decode()
    expected = text.replace('result_status=""', 'result_status = "fail"', 1)
    assert filled == expected.replace("""further=">'x">""", """further=">'x" result_status="invalid">""")
    twice = with_status(report(comparison(), comparison()).encode(), {"r/NAS/bt": "pass"}).decode()
    assert twice == report(comparison(status="pass"), comparison(status="invalid"))
    told = refusal(with_status, report(comparison()).encode("utf-16"), {})
    assert told == "request.xml: is UTF-16; verdicts can be filled into UTF-8 only"


@pytest.mark.parametrize("shift", range(0, 400, 31))
def test_tags_across_a_chunk_border_are_filled_in(tmp_path, shift):
    path = tmp_path / "r.xml"
    blank = " " * (CHUNK - 400 + shift)
    path.write_text(report(blank, *(comparison(f"o{number}") for number in range(3))))
    filled = with_status(path, {f"r/NAS/o{number}": "fail" for number in range(3)}).decode()
    assert filled == report(blank, *(comparison(f"o{number}", status="fail") for number in range(3)))


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


def labels_of(tables):
    table = tables.labels[["status", "labelled_by", "annotator", "labelled_at"]].astype(object)
    return table.where(table.notna() | (table.columns == "labelled_at"), None).to_numpy().tolist()


def asked(**more):
    return {"comparisons": [posted([100, 101, 102], [120, 121, 122]) | more]}


def test_labels_of_several_annotators_survive_json_and_xml(explaining):
    tables = comparison_json.tables_of(asked(labels=WHO))
    assert labels_of(tables) == READ
    written = as_xml(judge_tables(tables, explaining), tables)
    again = tables_of(written)
    assert labels_of(again) == READ
    first, second = (consensus_status(one.labels, "majority").to_dict() for one in (tables, again))
    assert first == second
    assert as_xml(judge_tables(again, explaining), again) == written


NO_TIME = 'labelled_at="noon" is not a time like 2026-11-22T09:30:00Z'


@pytest.mark.parametrize(
    ("label", "json_says", "xml_says"),
    [
        (
            {"status": "x"},
            ' is not "pass", "fail" or "cannot_tell"',
            " is not one of pass, fail, cannot_tell",
        ),
        ({}, " lacks status", "<label> has no attribute status"),
        ({"status": "pass", "labelled_at": "noon"}, NO_TIME, NO_TIME),
        (
            {"status": "pass", "anotator": "anna"},
            '.anotator is unknown; did you mean "annotator"?',
            'did you mean "annotator"?',
        ),
    ],
)
def test_a_wrong_label_gives_a_one_line_error(label, json_says, xml_says):
    told = refusal(comparison_json.tables_of, asked(labels=[label]), "r.json")
    assert (told.startswith("r.json: comparisons[0].labels[0]"), told.endswith(json_says)) == (True, True)
    written = "".join(f' {name}="{value}"' for name, value in label.items())
    told = refusal(tables_of, report(comparison(inner=f"<label{written}/>")).encode(), "r.xml")
    assert (told.startswith('r.xml:2 operation "bt": '), told.endswith(xml_says)) == (True, True)


def test_only_valid_times_of_labels_are_accepted():
    days = {*pd.date_range("2000-01-01", "2099-12-31", freq="D").strftime("%Y-%m-%d")}
    assert all(parse_moment(f"{day}T23:59:59Z") for day in days)
    known = {
        f"{year}-{month:02}-{day:02}" for year in (2023, 2024) for month in range(14) for day in range(33)
    }
    assert {day for day in known if re.fullmatch(MOMENT, f"{day}T00:00:00+14:00")} == known & days
    wrong = ("2026-11-22", "2026-11-22T09:30:00", "2026-11-22T24:00:00Z\n")
    assert [parse_moment(text) for text in wrong] == [None] * 3


def test_labels_in_a_request_change_no_verdict(explaining):
    bare, labelled = (json.dumps(asked(**more)).encode() for more in ({}, {"labels": WHO}))
    assert answer_json(bare, explaining).content == answer_json(labelled, explaining).content


NAMES = {"reasons": "attribution", "remarks": "remark", "examples": "example"}


def test_answers_in_xml_and_json_are_equally_complete(explaining):
    content = {"comparisons": [*drawn(4, seed=2), posted([1], [2], name="invalid")]}
    content["comparisons"][0]["labels"] = WHO
    tables = comparison_json.tables_of(content)
    judgement = judge_tables(tables, explaining)
    root = etree.fromstring(as_xml(judgement, tables))
    told = json.loads(render.as_json(judgement))["verdicts"]
    for node, one in zip(root.iter("comparison_result"), told, strict=True):
        said = {NAMES.get(name, name) for name, value in one.items() if value not in (None, "", [])}
        verdict = node.find("verdict")
        found = {*verdict.attrib, *(child.tag for child in verdict)} - {"model", "decided"}
        assert found == said - {"comparison_id", "benchmark", "operation", "verdict"}
        for name in verdict.attrib.keys() & one.keys():
            assert verdict.get(name) == str(one[name])


def test_a_new_xml_answer_replaces_only_the_earlier_verdicts(explaining):
    tables = comparison_json.tables_of({"comparisons": [*drawn(3, seed=2)]})
    judgement = judge_tables(tables, explaining)
    plain = re.sub(rb"\s*<verdict.*?</verdict>", b"", as_xml(judgement, tables), flags=re.DOTALL)
    assert b"verdict" not in plain
    first = answer_xml(plain, explaining).content
    second = answer_xml(first, explaining).content
    assert (first.count(b"<verdict "), second) == (3, first)
    assert re.sub(rb"<verdict.*?</verdict>", b"", first) == plain
    again = judge_tables(tables_of(first), explaining)
    assert again.verdict_by_id == judgement.verdict_by_id


@pytest.mark.parametrize(("comparisons", "noted"), [(100, False), (101, True)])
def test_xml_answers_without_counterfactuals_say_so_in_the_header(explaining, comparisons, noted):
    tables = comparison_json.tables_of({"comparisons": [*drawn(comparisons, seed=2)]})
    answered = answer_xml(write_comparisons(tables, [""] * comparisons), explaining)
    assert (render.UNFLIPPED in answered.headers.get(NOTES, "")) is noted
    assert (b" counterfactual=" in answered.content) is not noted


@pytest.mark.parametrize(
    "content",
    ["", "<verdict/>", "<verdict >old<reason/></verdict >", '<verdict a=">"><comparison_result/></verdict>'],
)
def test_verdicts_are_inserted_into_comparisons_of_any_content(content):
    judged = {"r/NAS/bt": "pass"}, {"r/NAS/bt": b"<verdict new='1'/>"}
    filled = with_status(report(comparison("bt", content)).encode(), judged[0], written=judged[1])
    expected = report(comparison("bt", "<verdict new='1'/>", "pass"))
    assert filled.decode() == expected
    closed = report(comparison("bt")).replace(f' result_status="">{RESULT}</comparison_result>', " />")
    filled = with_status(closed.encode(), judged[0], written=judged[1])
    assert filled.decode() == expected


def test_xml_schema_covers_everything_read_and_written():
    written = json.dumps(xml_schema(answered=True))
    assert [name for name in (*KNOWN_NAMES, *ELEMENTS.values()) if f'"{name}"' not in written] == []
    answered, asked = (
        xml_schema(answered=known)["properties"]["comparison_result"]["items"]["properties"]
        for known in (True, False)
    )
    assert answered["result_status"]["enum"] == [*comparison_xml.STATUSES, ""]
    assert answered[comparison_xml.LABEL]["items"]["properties"]["status"]["enum"] == [*LABEL_STATUSES]
    assert (comparison_xml.VERDICT in answered, comparison_xml.VERDICT in asked) == (True, False)
