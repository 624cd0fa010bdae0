import json

import pytest

from data.comparisons import formats
from data.comparisons.formats.sap_hana import ChangePoint, Span, find_boundaries
from data.comparisons.params import LabelRules
from data.comparisons.sides import Sides
from data.comparisons.stages import TABLES, import_tables
from data.comparisons.tables import ComparisonTables
from tests.code.comparisons.sap_hana_series import MARKS, rows
from tests.data.refusals import refusal

RULES = LabelRules(
    versions_before=2, versions_after=2, clean_every=2, min_annotators=3, match_window=1, exclusion_window=2
)


@pytest.fixture
def data_set(tmp_path):
    def write(content, name="00052__elapsed-time__ms.csv", marks=None):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text(content)
        (tmp_path / "annotations.json").write_text(json.dumps(marks or {"sap_52": MARKS}))
        return tmp_path

    return write


STEP = rows([10] * 4 + [20] * 6)


def read(path, keep_going=False, **rules):
    known = RULES.model_copy(update=rules)
    return formats.read_tables("sap-hana", [path], label_rules=known, keep_going=keep_going)


def labels(path):
    labels = read(path).tables.labels
    settled = labels[labels["annotator"].isna()].itertuples()
    return [(row.comparison_id.rpartition("/")[2], row.status, row.labelled_by) for row in settled]


def votes(path, **rules):
    labels = read(path, **rules).tables.labels.dropna(subset="annotator")
    found = labels.pivot_table("status", "comparison_id", "annotator", aggfunc="first")
    return {name: found.loc[name].dropna().to_dict() for name in found.index}


CLEAN = ("8", "pass", "no mark by 8, 11, 15")


def test_every_annotator_votes_and_ambiguous_boundaries_need_a_request(data_set):
    clean = dict.fromkeys(("8", "11", "15"), "pass")
    fails = dict.fromkeys(clean, "fail") | {"7": "pass"}
    path = data_set(STEP, marks={"sap_52": {**MARKS, "7": []}})
    assert votes(path) == {"sap-hana/00052/4": fails, "sap-hana/00052/8": clean | {"7": "pass"}}
    path = data_set(STEP, marks={"sap_52": {"8": [4], "11": [], "15": []}})
    assert votes(path) == {"sap-hana/00052/8": clean}
    kept = votes(path, include_ambiguous=True)
    assert kept["sap-hana/00052/4"] == clean | {"8": "fail"}
    assert labels(path) == [CLEAN]


@pytest.mark.parametrize(
    ("unit", "after", "status"),
    [("ms", 20, "fail"), ("ms", 5, "pass"), ("TPS", 20, "pass"), ("TPS", 5, "fail")],
)
def test_a_worsening_change_fails_in_either_direction(data_set, unit, after, status):
    path = data_set(rows([10] * 4 + [after] * 6), f"00052__throughput__{unit}.csv")
    assert labels(path) == [("4", status, "consensus of 8, 11, 15"), CLEAN]


def test_samples_are_the_raw_values_around_the_boundary(data_set):
    tables = read(data_set(STEP)).tables
    sides = Sides.from_tables(tables)
    assert sides.baseline.samples_of_row(0).tolist() == [10, 10.1, 10, 10.1]
    assert sides.target.samples_of_row(0).tolist() == [20, 20.1, 20, 20.1]
    assert sides.history.lengths.tolist() == [4, 12]
    assert sides.sign.tolist() == [-1, -1]
    first = tables.results.iloc[3]
    about = first[["version", "order", "group", "unit", "threads"]].tolist()
    assert about == ["101", 1, "elapsed-time", "ms", 1]
    assert first["measured_at"].isoformat() == "2021-09-01T10:00:01+00:00"
    assert tables.comparisons["source"].iloc[0].endswith('00052__elapsed-time__ms.csv:10 operation "00052"')


@pytest.mark.parametrize(("versions", "later"), [(0, [0, 0]), (1, [2, 0]), (3, [6, 0]), (40, [8, 0])])
def test_later_versions_are_limited_by_series_and_rules(data_set, versions, later):
    tables = read(data_set(STEP), versions_later=versions).tables
    assert Sides.from_tables(tables).later.lengths.tolist() == later
    assert tables.comparisons["later_to"].isna().tolist() == [not known for known in later]


def test_marks_of_the_second_split_count_from_version_750(data_set):
    marks = {"sap_52_split2": {"8": [4], "11": [4], "15": [4]}}
    path = data_set(rows([10] * 754 + [20] * 6), marks=marks)
    assert labels(path) == [("754", "fail", "consensus of 8, 11, 15"), ("758", *CLEAN[1:])]


def test_without_marks_or_series_there_are_no_comparisons(data_set, tmp_path):
    (tmp_path / "annotations.json").write_text("{}")
    assert "holds no file <id>__<category>__<unit>.csv" in refusal(read, tmp_path)
    tables = read(data_set(rows([1, 2]), marks={"sap_9": MARKS})).tables
    assert (len(tables.results), len(tables.comparisons)) == (4, 0)


HEADER = "index_1based,timestamp,sut_version,value\n"
GOOD = "1,2021-09-01 10:00:00,100,1.5\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + GOOD + "2,2021-09-01 10:00:00,100,fast\n", ':3: value="fast" is not a finite number'),
        (HEADER + "2,2021-09-01 10:00:00,100,NaN\n", ':2: value="NaN" is not a finite number'),
        (HEADER + "2,2021-09-01 10:00:00,10.5,1\n", ':2: sut_version="10.5" is not a whole number'),
        (HEADER + GOOD + "2,2021-09-01 10:00:00,99,1\n", ':3: sut_version="99" is below the version before'),
        (HEADER + "1,yesterday,1,1\n", ':2: timestamp="yesterday" is not a time like 2021-09-01 10:09:12'),
        (
            "index_1based,timestamp,value\n1,2021-09-01 10:00:00,1\n",
            ':1: has no column "sut_version"; found index_1based, timestamp, value',
        ),
        (HEADER, ": holds no value"),
        ("", ": is empty; expected CSV"),
    ],
)
def test_a_bad_series_is_refused_in_one_line_or_skipped(data_set, content, message):
    path = data_set(content)
    told = f"{path}/data/00052__elapsed-time__ms.csv{message}"
    assert refusal(read, path) == told
    reading = read(data_set(rows([1, 2]), "00053__elapsed-time__ms.csv"), keep_going=True)
    assert reading.tables.results["operation"].unique().tolist() == ["00053"]
    assert [str(error) for error in reading.skipped] == [told]


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"52": {}}, ': "52" is not sap_<id> or sap_<id>_split<1 or 2>'),
        ({"sap_52": {"8": 4}}, " sap_52: annotator 8 has no list of marks"),
        ({"sap_52": {"8": ["4"]}}, ' sap_52: annotator 8: "4" is not an index of a version'),
        ({"sap_52": {"8": [10]}}, " sap_52: annotator 8: 10 is beyond the 10 versions of the series"),
    ],
)
def test_bad_marks_are_refused_in_one_line_or_skipped(data_set, marks, message):
    data_set(STEP, "00053__elapsed-time__ms.csv")
    path = data_set(rows([10] * 10), marks={**marks, "sap_53": MARKS})
    told = f"{path / 'annotations.json'}{message}"
    assert refusal(read, path) == told
    reading = read(path, keep_going=True)
    assert [str(error) for error in reading.skipped] == [told]
    assert set(reading.tables.comparisons["operation"]) == {"00053"}


def test_higher_is_better_for_rates_and_work(data_set):
    lower = "ms s us min count percent"
    higher = "TPS SAPS RPS items-per-second trans-min actions--sec-threads- commits rows_per_minute"
    for place, unit in enumerate(f"{lower} {higher}".split()):
        path = data_set(rows([1]), f"{place:05}__something__{unit}.csv", marks={"sap_9": {}})
    better = read(path).tables.results.drop_duplicates("unit").set_index("unit")["better"]
    assert better.to_dict() == dict.fromkeys(lower.split(), "lower") | dict.fromkeys(higher.split(), "higher")


def test_importing_series_in_chunks_gives_the_same_tables(data_set, monkeypatch, tmp_path):
    monkeypatch.setattr("data.comparisons.stages.CHUNK_ROWS", 2)
    for number in range(5, 9):
        path = data_set(rows([10] * 4 + [20 + number] * 6, number), f"0{number}__load__ms.csv")
    imported = import_tables("sap-hana", [path], tmp_path / "out")
    whole = formats.read_tables("sap-hana", [path]).tables
    assert imported.tables["results"] == len(whole.results) == 80
    found = ComparisonTables.read(tmp_path / "out")
    for name in TABLES:
        assert getattr(found, name).astype(object).equals(getattr(whole, name).astype(object)), name


def test_public_data_set_has_the_counts_of_its_readme(shared_data):
    tables = formats.read_tables("sap-hana", [shared_data / "sap-hana"], keep_going=True).tables
    assert len(tables.results) == 1_345_064
    assert len(tables.comparisons) == 11_829
    settled = tables.labels[tables.labels["annotator"].isna()]
    assert settled["status"].value_counts().to_dict() == {"pass": 11_675, "fail": 154}
    assert settled["labelled_by"].str.startswith("consensus").sum() == 342
    assert not tables.comparisons.duplicated(["operation", "target_from"]).any()


PEOPLE = ("7", "8", "11")


OVERLAPPING, ALONE = (Span(0, 100, PEOPLE), Span(80, 200, PEOPLE)), (Span(750, 800, PEOPLE),)


def boundaries(marks, *, marked, spans=()):
    points = [ChangePoint(*mark) for mark in marks]
    found = find_boundaries([*spans] or [Span(0, 200, PEOPLE)], points, LabelRules())
    return [(one.version, one.annotators) for one in found if one.marked == marked]


def by_all(version):
    return [(version, name) for name in PEOPLE]


@pytest.mark.parametrize(
    ("marks", "spans", "expected"),
    [
        ([(50, "7"), (50, "8"), (51, "11")], (), [50]),
        ([(50, "7"), (54, "8"), (55, "11")], (), [54]),
        ([(50, "7"), (53, "8"), (56, "11")], (), []),
        ([(50, "7"), (50, "8")], (), []),
        ([(50, "7"), (51, "7"), (52, "8")], (), []),
        ([*by_all(50), *by_all(58)], (), [50, 58]),
        ([(46, "7"), (50, "7"), (51, "8"), (51, "11")], (), [51]),
        *((by_all(at), (), expected) for at, expected in ((9, []), (10, [10]), (195, [195]), (196, []))),
        # once, and within the annotated spans only
        ([(90, "7"), (90, "8"), (91, "11")], OVERLAPPING, [90]),
        (by_all(20), ALONE, []),
    ],
)
def test_changes_need_enough_annotators_marking_nearby_versions(marks, spans, expected):
    assert boundaries(marks, marked=True, spans=spans) == [(version, PEOPLE) for version in expected]


@pytest.mark.parametrize(
    ("marks", "spans", "expected"),
    [
        ([], (), range(10, 200, 10)),
        ([(58, "7")], (), [10, 20, 30, 40, *range(80, 200, 10)]),
        ([(57, "7")], (), [10, 20, 30, 40, *range(70, 200, 10)]),
        # every boundary once where spans overlap, none by too few annotators or beyond the spans
        ([], OVERLAPPING, range(10, 200, 10)),
        ([], (Span(0, 200, ("7", "8")),), []),
        ([], (Span(0, 60, PEOPLE), Span(40, 200, ("9",))), [10, 20, 30, 40, 50]),
        ([], ALONE, [760, 770, 780, 790]),
    ],
)
def test_every_tenth_boundary_without_marks_nearby_is_clean(marks, spans, expected):
    assert [version for version, _ in boundaries(marks, marked=False, spans=spans)] == [*expected]
