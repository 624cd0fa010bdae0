"""Labels come from files into the store, and go back to where the pipeline reads them."""

import json
import os
from contextlib import closing

import pytest

from data.comparisons import formats
from data.comparisons.labels.consensus import consensus_status
from data.comparisons.labels.label_store import LabelStore, NewLabel
from data.comparisons.tables import ComparisonTables
from serving.cli import run_command

#: Figure 6.1 of seed 000, closed, with the operation once as it was and once 10 % slower at 8 threads.
FIGURE = """<?xml version="1.0"?>
<comparison_results base_uuid="11111111-1111-4111-8111-111111111111"
    report_uuid="22222222-2222-4222-8222-222222222222" target_uuid="33333333-3333-4333-8333-333333333333">
  <comparison_result benchmark_name="NASParallel" operation_name="bt_C_x">
    <result median_diff="1" threads_no="4">
      <base_result first_q="7409.2" max="7507.0" mean="7451.7"
          median="7456.5" min="7406.4" stdev="39.2" third_q="7479.3"/>
      <target_result first_q="7503.0" max="7597.5" mean="7513.1"
          median="7522.2" min="7404.8" stdev="62.7" third_q="7537.8"/>
    </result>
    <result median_diff="0" threads_no="8">
      <base_result first_q="14330.8" max="14740.1" mean="14476.6"
          median="14469.1" min="14325.9" stdev="151.7" third_q="14517.2"/>
      <target_result first_q="14494.4" max="14619.3" mean="14481.1"
          median="14521.6" min="14233.7" stdev="130.5" third_q="14536.5"/>
    </result>
  </comparison_result>
  <comparison_result benchmark_name="NASParallel" operation_name="mg_C_x">
    <result median_diff="-10" threads_no="8">
      <base_result first_q="14330.8" max="14740.1" mean="14476.6"
          median="14469.1" min="14325.9" stdev="151.7" third_q="14517.2"/>
      <target_result first_q="12897.7" max="13266.1" mean="13028.9"
          median="13022.2" min="12893.3" stdev="136.5" third_q="13065.5"/>
    </result>
  </comparison_result>
</comparison_results>
"""
REPORT = "22222222-2222-4222-8222-222222222222/NASParallel"
BT, MG = f"{REPORT}/bt_C_x", f"{REPORT}/mg_C_x"
CSV = f"""comparison_id,status,annotator,labelled_at,why
{MG},fail,anna,2026-11-22T09:30:00Z,clear
{MG},cannot_tell,ben,,
{BT},,anna,,
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with the XML of figure 6.1 and labels beside it, which commands keep in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "PERFJUDGE_LABELS", "sqlite:///kept.db")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/report.xml").write_text(FIGURE)
    (tmp_path / "mine/labels.csv").write_text(CSV)
    return tmp_path


def give(*labels):
    with closing(LabelStore("sqlite:///kept.db")) as store:
        for number, (comparison_id, status, person) in enumerate(labels):
            store.add_label(NewLabel(comparison_id, status, person, f"here-{number}"))


def annotators_of_mg():
    with closing(LabelStore("sqlite:///kept.db")) as store:
        return [one.labelled_by for one in store.label_history(MG)]


def read(source):
    """Return labels as the pipeline reads them."""
    return formats.read_tables(formats.recognise_format(source), [source]).tables.labels


def labels_of(source):
    """Return who says what."""
    labels = read(source)[["comparison_id", "annotator", "status"]].fillna("")
    return sorted(labels.itertuples(index=False, name=None))


def imported(capsys, *arguments):
    """Return how many labels were added, were there already, and name nobody."""
    assert run_command(["labels", "import", *arguments, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    return counts["added"], counts["already_stored"], counts["unattributed"]


def exported(capsys, form, output):
    assert run_command(["labels", "export", "--format", form, "-o", output, "--comparisons", "mine"]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    """Return the line in which a command on labels is refused."""
    assert run_command(["labels", *arguments]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told.rstrip()


def test_imported_labels_are_kept_once_with_author_and_time(here, capsys):
    assert imported(capsys, "mine") == (2, 0, 0)
    assert imported(capsys, "mine/labels.csv") == (0, 2, 0)
    give((MG, "pass", "anna"), (BT, "pass", "ben"), (BT, "cannot_tell", "ben"))
    outputs = {"csv": "mine", "xml": "report.xml", "tables": "tables"}
    for form, output in outputs.items():
        assert exported(capsys, form, output) == f"3 labels -> {output}\n"
    expected = [(BT, "ben", "cannot_tell"), (MG, "anna", "pass"), (MG, "ben", "cannot_tell")]
    for output in outputs.values():
        assert labels_of(here / output) == expected
        assert consensus_status(read(here / output), "majority").to_dict() == {MG: "pass"}
        # each says the same of when, and no more of it than is known
        assert imported(capsys, output) == (0, 3, 0)
    assert annotators_of_mg() == ["ben", "anna", "anna"]
    labels = ComparisonTables.read(here / "tables").labels.set_index(["comparison_id", "annotator"])
    undated = labels["labelled_at"].isna().to_dict()
    assert undated == {(BT, "ben"): False, (MG, "anna"): False, (MG, "ben"): True}
    assert 'result_status="pass"' in (here / "report.xml").read_text()


def test_a_file_with_labels_that_were_not_imported_is_not_overwritten(here, capsys):
    told = "of its labels are not in the store; first: perfjudge labels import mine"
    assert f"2 {told}" in refused(capsys, "export", "-o", "mine/labels.csv")
    imported(capsys, "mine")
    file, edited = here / "mine/labels.csv", CSV.replace(f"{MG},fail,anna", f"{MG},pass,anna")
    file.write_text(edited)
    assert f"1 {told}" in refused(capsys, "export", "-o", "mine")
    assert file.read_text() == edited
    # a label that the store has replaced meanwhile is known
    file.write_text(CSV)
    give((MG, "pass", "anna"))
    assert run_command(["labels", "export", "-o", "mine"]) == 0
    assert (MG, "anna", "pass") in labels_of(here / "mine")


@pytest.mark.parametrize(
    ("form", "output"), [("xml", "mine/report.xml"), ("tables", "mine"), ("tables", "mine/new")]
)
def test_labelled_comparisons_do_not_replace_their_source(here, capsys, form, output):
    content = {path: path.read_bytes() for path in (here / "mine").iterdir()}
    told = refused(capsys, "export", "--format", form, "-o", output, "--comparisons", "mine")
    assert "expected another file for the output" in told
    assert {path: path.read_bytes() for path in (here / "mine").iterdir()} == content


def test_labels_without_an_author_need_a_name(here, capsys):
    (here / "mine/labels.csv").unlink()
    xml = (here / "mine/report.xml").read_text()
    (here / "mine/report.xml").write_text(xml.replace('"mg_C_x"', '"mg_C_x" result_status="fail"'))
    assert imported(capsys, "mine") == (0, 0, 1)
    for name in ("", "  ", "an\nna", "anna\n", "a" * 65, "an\u200bna", "\u00a0", "an\x00na"):
        assert "is not a name" in refused(capsys, "import", "mine", "--by", name)
    assert imported(capsys, "mine", "--by", "anna") == (1, 0, 0)
    exported(capsys, "xml", "out.xml")
    assert labels_of(here / "out.xml") == [(MG, "", "fail"), (MG, "anna", "fail")]


def test_missing_files_of_the_project_name_the_command_that_makes_them(here, capsys, monkeypatch):
    monkeypatch.setattr("serving.comparisons.labels.endpoints.project_root", lambda: here)
    give((MG, "pass", "anna"))
    assert refused(capsys, "suspects").endswith("No such file or directory; make it with: dvc repro")
    told = "--comparisons SOURCE is missing, and there is no default; make it with: dvc repro"
    assert told in refused(capsys, "export", "--format", "tables", "-o", "tables")
    assert not (here / "tables").exists()


def test_skipped_parts_of_imported_labels_are_reported_once(here, capsys):
    (here / "more").mkdir()
    (here / "more" / "bad.xml").write_text("<comparisons><comparison/></comparisons>")
    run_command(["labels", "import", "more", "--keep-going"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "bad.xml" in line]
    assert len(lines) == len(set(lines)) > 0


def test_labels_of_a_csv_file_without_annotator_need_a_name(here, capsys):
    rows = f"comparison_id,status,annotator\n{MG},fail,\n{BT},pass,ben\n"
    (here / "some.csv").write_text(rows)
    assert imported(capsys, "some.csv") == (1, 0, 1)
    assert imported(capsys, "some.csv", "--by", "anna") == (1, 1, 0)
    assert annotators_of_mg() == ["anna"]
    (here / "bare.csv").write_text(f"comparison_id,status\n{MG},pass\n")
    assert imported(capsys, "bare.csv", "--by", "ben") == (1, 0, 0)
    # beside the data, nobody can be named
    (here / "mine/labels.csv").write_text(rows)
    assert 'labels.csv:2: annotator="" is empty; expected a name' in refused(capsys, "people", "mine")


def test_contradictory_labels_of_one_annotator_are_counted(here, capsys):
    (here / "some.csv").write_text(f"comparison_id,status,annotator\n{MG},fail,anna\n{MG},pass,anna\n")
    told = "1 not added: a later row has another status at the same time"
    for added in (1, 0):
        assert run_command(["labels", "import", "some.csv"]) == 0
        assert capsys.readouterr().out == f"{added} labels added, {1 - added} already stored; {told}\n"


def test_an_invisible_character_in_an_annotator_is_named_with_the_comparison(here, capsys):
    (here / "some.csv").write_text(CSV.replace("anna", "an\u202ena"), encoding="utf-8")
    message = f"label of \"{MG}\": annotator='an\\u202ena' is not a name of 1 to 64 visible characters"
    assert message in refused(capsys, "import", "some.csv")
    assert annotators_of_mg() == []


TIME = "2026-11-22T09:30:00Z"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("fail", "slow", '2: status="slow" is not one of pass, fail, cannot_tell'),
        *(
            (TIME, wrong, f'2: labelled_at="{wrong}" is not a past time like {TIME}')
            for wrong in ("2126-11-22T09:30:00Z", "yesterday", "0001-01-01T00:00:00+14:00")
        ),
        *(
            ("labelled_at", wrong, f'1: has the column "{wrong}"; did you mean "labelled_at"?')
            for wrong in ("labeled_at", "labelled at", "Labelled_At")
        ),
    ],
)
@pytest.mark.parametrize("arguments", [["import", "mine/labels.csv"], ["people", "mine"]])
def test_a_wrong_file_is_refused_with_its_line_and_nothing_added(here, capsys, arguments, right, wrong, told):
    (here / "mine/labels.csv").write_text(CSV.replace(right, wrong, 1))
    assert refused(capsys, *arguments) == f"perfjudge: mine/labels.csv:{told}"
    assert not (here / "kept.db").exists()


def test_an_unreachable_store_is_refused_without_its_password(capsys):
    unreachable = "postgresql://me:geheim@127.0.0.1:1/x"
    assert "geheim" not in refused(capsys, "export", "-o", "x", "--labels", unreachable)
