from pathlib import Path

import pytest

from data.comparisons import formats
from data.comparisons.formats.comparison_xml import read_documents, tables_of, with_status
from data.comparisons.sides import Sides
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.xml_stream import CHUNK, Document
from tests.code.comparisons.xml_documents import BASE, FIVE, RESULT, TARGET, comparison, report

FIGURES = Path(__file__).parents[2] / "data/comparisons/figures"


def earlier(attributes):
    return report(
        comparison(content=f'<result threads_no="4"><history><samples {attributes}/></history></result>')
    )


def test_figure_6_1_gives_summaries_label_uuids_and_line():
    reading = formats.read_tables("comparison-xml", [FIGURES / "figure_6_1.xml"])
    sides = Sides.from_tables(reading.tables)
    assert sides.threads.tolist() == [4, 8]
    assert sides.target_five[1].tolist() == [14233.7, 14494.5, 14521.6, 14536.5, 14619.3]
    assert sides.sign.tolist() == [1, 1]
    assert reading.tables.labels[["comparison_id", "status"]].to_numpy().tolist() == [
        ["figure_6_1/NASParallel/bt_C_x", "pass"]
    ]
    tables = reading.tables
    first = tables.results[(tables.results["threads"] == 4) & (tables.results["order"] == 0)]
    assert dict(zip(first["stat"], first["value"], strict=True)) == {
        "min": 7406.4, "q1": 7409.2, "median": 7456.5, "q3": 7479.3, "max": 7507.0,
        "mean": 7451.7, "stdev": 39.2,
    }  # fmt: skip
    row = tables.comparisons.iloc[0]
    assert row[["base_uuid", "report_uuid", "target_uuid"]].tolist() == ["...", "...", "..."]
    assert row["source"] == f'{FIGURES / "figure_6_1.xml"}:2 operation "bt_C_x"'


def test_an_empty_or_missing_status_is_no_label():
    assert tables_of(report(comparison(status="")).encode()).labels.empty
    assert tables_of(report(comparison()).replace(' result_status=""', "").encode()).labels.empty


def test_several_reports_in_one_outer_element_never_mix():
    reports = (
        report(comparison(status=status), uuid=uuid) for uuid, status in (("a", "pass"), ("b", "fail"))
    )
    text = f"<all>{''.join(reports)}</all>"
    tables = tables_of(text.encode())
    assert tables.comparisons["comparison_id"].tolist() == ["a/NAS/bt", "b/NAS/bt"]
    assert tables.labels["status"].tolist() == ["pass", "fail"]
    assert len(Sides.from_tables(tables).comparison) == 2


def test_several_reports_without_uuid_are_numbered():
    text = f"<all>{report(comparison(), uuid='...')}{report(comparison(), uuid='...')}</all>"
    ids = tables_of(text.encode(), "weekly.xml").comparisons["comparison_id"]
    assert ids.tolist() == ["weekly/NAS/bt", "weekly#2/NAS/bt"]


def test_a_missing_better_direction_is_noted_once_per_file():
    def notes(text, better=None):
        problems = Problems()
        documents = [Document.from_bytes(text.encode(), name) for name in ("a.xml", "b.xml")]
        parts = list(read_documents(documents[:1], problems, better=better))
        return Sides.from_tables(parts[0]).sign.tolist(), problems.notes

    silent, said = comparison("lu"), comparison("ep", better="lower")
    assert notes(report(silent, said, comparison())) == (
        [1, -1, 1],
        [
            (
                "a.xml does not say which values are better; higher is assumed "
                "(the attribute better, or --better, says otherwise)"
            )
        ],
    )
    assert notes(report(silent, said), "lower") == ([-1, -1], [])
    assert notes(report(said)) == ([-1], [])


def test_a_verdict_that_is_no_label_is_read_as_none():
    tables = tables_of(report(comparison(status="invalid"), comparison("lu", status="fail")).encode())
    assert tables.labels["comparison_id"].tolist() == ["r/NAS/lu"]
    assert len(tables.comparisons) == 2


def test_samples_replace_five_numbers_and_versions_are_renumbered():
    inner = (
        f'<result threads_no="4"><base_result {FIVE}><samples order="7" values="10 11"/>'
        f'<samples order="9" values="12 13"/></base_result>'
        f'<target_result {FIVE}><samples order="30" values="14"/><samples order="30" values="15"/>'
        '</target_result><history><samples order="-2" values="8 9"/></history>'
        '<later><samples order="40" values="7"/><samples order="50" values="6"/></later></result>'
    )
    text = report(comparison(content=inner, unit="ms", better="lower", comparison_id="c"))
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


def test_two_reports_on_one_machine_never_mix():
    one = report(comparison(comparison_id="c")).replace("report_uuid", 'machine="m" report_uuid')
    tables = tables_of(b"<reports>%s</reports>" % (one + one.replace('"c"', '"d"')).encode())
    assert tables.comparisons["machine"].tolist() == ["m", "m #2"]
    assert len(Sides.from_tables(tables).comparison) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            report(comparison(content='<result threads_no="0"/>')),
            'r.xml:2 operation "bt": threads_no="0" is not between 1 and 999999',
        ),
        (
            report(comparison(content="\n<result/>")),
            'r.xml:3 operation "bt": <result> has no attribute threads_no',
        ),
        (
            report("\n\n<comparison_result benchmark_name='x'/>"),
            "r.xml:4: <comparison_result> has no attribute operation_name",
        ),
        (
            report("<comparison_result operation_name='x'/>"),
            'r.xml:2 operation "x": <comparison_result> has no attribute benchmark_name',
        ),
        (
            report(comparison(content=f'<result threads_no="1">{BASE}\n<target_result max="inf"/></result>')),
            'r.xml:3 operation "bt" target_result: <target_result> has no attribute min',
        ),
        (
            report(comparison(better="bigger")),
            'r.xml:2 operation "bt": better="bigger" is unknown; expected "higher" or "lower"',
        ),
        (
            report(comparison(comparison_id="c"), comparison("lu", comparison_id="c")),
            'r.xml:3 operation "lu": comparison_id="c" appears twice',
        ),
        (
            report(comparison(content=RESULT.replace(TARGET, f"<base_result {FIVE}/>"))),
            'r.xml:2 operation "bt": threads_no="4" has a second <base_result>',
        ),
        (earlier('values="1"'), 'r.xml:2 operation "bt": <samples> has no attribute order'),
        (earlier('order="1.5" values="1"'), 'r.xml:2 operation "bt": order="1.5" is not a whole number'),
        (
            earlier('order="1" values="1 1e400"'),
            'r.xml:2 operation "bt": values="1e400" is not a finite number',
        ),
        (
            report(comparison(content=RESULT + RESULT)),
            'r.xml:2 operation "bt": threads_no="4" has a second <base_result>',
        ),
        (
            report(comparison(content=BASE)),
            'r.xml:2 operation "bt": <base_result> is not inside a <result>',
        ),
        ("hello", "r.xml:1: is not well-formed XML (syntax error)"),
        ("<a>&b;</a>", "r.xml:1: is not well-formed XML (undefined entity)"),
    ],
)
def test_bad_xml_input_gives_a_one_line_error(text, message):
    with pytest.raises(InputError) as caught:
        tables_of(text.encode(), "r.xml")
    assert str(caught.value) == message


def test_keep_going_skips_the_broken_file_of_a_directory(tmp_path):
    (tmp_path / "a.xml").write_text("<")
    (tmp_path / "b.xml").write_text(report(comparison()))
    reading = formats.read_tables("comparison-xml", [tmp_path], keep_going=True)
    assert len(reading.tables.comparisons) == 1
    assert [error.line for error in reading.skipped] == [1]


def test_chunks_hold_whole_comparisons_of_a_document():
    operations = [f"o{number}" for number in range(9)]
    text = report(*(comparison(operation) for operation in operations))
    parts = list(read_documents([Document.from_bytes(text.encode(), "r.xml")], Problems(), chunk_rows=25))
    assert [part.comparisons["operation"].tolist() for part in parts] == [
        operations[:3], operations[3:6], operations[6:], [],
    ]  # fmt: skip
    assert all(set(part.results["operation"]) == set(part.comparisons["operation"]) for part in parts)


def test_line_numbers_above_65535_are_exact():
    many = "".join(f"{comparison(f'o{number}')}\n\n" for number in range(30_000))
    text = report(many, comparison("last", RESULT.replace('"3"', '"x"', 1)))
    with pytest.raises(InputError) as caught:
        tables_of(text.encode(), "r.xml")
    assert str(caught.value) == 'r.xml:90002 operation "last" base_result: median="x" is not a number'


def test_verdicts_are_filled_in_and_nothing_else_changes():
    text = (
        '<?xml version="1.0"?>\n<!-- kept <comparison_result> -->\n'
        + report(
            comparison(status="pass"), comparison("lu", further=">'x"), "<other  a='1' />", comparison("ep")
        )
    ).replace('result_status="pass"', "result_status = 'pass'")
    text = text.replace('operation_name="lu" result_status=""', 'operation_name="lu"')
    filled = with_status(text.encode(), {"r/NAS/bt": "fail", "r/NAS/lu": "invalid"}).decode()
    expected = text.replace("result_status = 'pass'", 'result_status = "fail"')
    expected = expected.replace("""further=">'x">""", """further=">'x" result_status="invalid">""")
    assert filled == expected


def test_the_status_of_repeated_comparisons_becomes_invalid():
    filled = with_status(report(comparison(), comparison()).encode(), {"r/NAS/bt": "pass"}).decode()
    assert filled == report(comparison(status="pass"), comparison(status="invalid"))


@pytest.mark.parametrize("shift", range(0, 400, 31))
def test_tags_across_a_chunk_border_are_filled_in(tmp_path, shift):
    path = tmp_path / "r.xml"
    blank = " " * (CHUNK - 400 + shift)
    path.write_text(report(blank, *(comparison(f"o{number}") for number in range(3))))
    filled = with_status(path, {f"r/NAS/o{number}": "fail" for number in range(3)}).decode()
    assert filled == report(blank, *(comparison(f"o{number}", status="fail") for number in range(3)))


def test_utf_16_is_read_but_not_written():
    text = report(comparison("größe")).encode("utf-16")
    assert tables_of(text).comparisons["operation"].tolist() == ["größe"]
    with pytest.raises(InputError, match=r"request.xml: is UTF-16; verdicts can be filled into UTF-8 only"):
        with_status(text, {})
