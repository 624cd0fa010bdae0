import json
import re
import shutil

import pandas as pd
import pytest

from benchmarks.matrices import main as matrices_page
from serving.report import main
from tests.system.browsing import charts, faults, points
from tests.system.fingerprints.test_report import faults_of_text
from tests.system.matrices import inputs as matrices_inputs

PAGE = "reports/matrices/index.html"
#: Parts of the ablation by what their tables are called.
PARTS = {
    "added": "added", "left out": "left-out", "grouping": "grouping", "single runs": "single",
    "single runs, left out": "single-left-out",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(made_once):
    """A directory in which the stages up to evaluate have run on made-up matrices, and the page."""

    def fill(directory):
        matrices_inputs.project(directory)
        matrices_inputs.staged()
        assert main(["matrices"]) == 0

    return made_once("matrices", fill)


@pytest.fixture(scope="module")
def page(root):
    return (root / PAGE).read_text()


@pytest.fixture(scope="module")
def metrics(root):
    return json.loads((root / "reports/matrices/metrics.json").read_text())


def table(page, name):
    return re.search(rf'<table id="{name}"[^>]*>.*?</table>', page, re.DOTALL).group()


def cells(page, name):
    """Return the text of the rows of a table's body."""
    body = table(page, name).split("<tbody>")[1]
    return [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)]


def test_the_lead_counts_the_champions_mistakes_on_unseen_test_cases(root, page, metrics):
    lead = re.search(r'<p class="lead">(.*?)</p>', page).group(1)
    oof = pd.read_parquet(root / "reports/matrices/evaluated/oof.parquet")
    own = oof[oof["entry"] == metrics["champion"]]
    fails = own[own["status"] == "fail"]
    missed, alarms = (
        ((own["status"] == "fail") & (own["verdict"] == "pass")).sum(),
        ((own["status"] == "pass") & (own["verdict"] == "fail")).sum(),
    )
    assert lead.startswith(f"On test cases held out of training, {metrics['champion']} misses {missed} of")
    assert f"{len(fails)} abnormal pairs" in lead
    assert re.search(rf"raises {alarms} false alarms? in {len(own) - len(fails)} normal pairs", lead)


def test_models_and_opponents_stand_in_one_table_with_what_is_to_be_expected(page, metrics):
    rows = table(page, "opponents-test-cases")
    for entry, scores in metrics["splits"]["test-cases"]["entries"].items():
        assert entry in rows
        assert f"{scores['balanced_accuracy']['pooled']:.3f}" in rows
    assert f"balanced accuracy of {metrics['selected']['balanced_accuracy']['pooled']:.3f}" in page
    assert f"balanced accuracy of {metrics['served']['balanced_accuracy']['pooled']:.3f}" in page


def test_each_row_of_the_seeds_tables_stands_beside_the_seeds_own_figures(root, page):
    tables = pd.read_parquet(root / "reports/matrices/evaluated/tables.parquet")
    for number, rows in tables.groupby("table"):
        found = cells(page, f"table-{number}")
        assert len(found) == len(rows)
        for cell, row in zip(found, rows.to_dict("records"), strict=True):
            seeds = (
                "\N{EN DASH}"
                if pd.isna(row["seed_balanced_accuracy"])
                else f"{row['seed_balanced_accuracy']:.2f}"
            )
            assert f"{row['balanced_accuracy']:.2f} ± {row['spread']:.2f} {seeds}" in " ".join(cell)
            assert f"{row['seed_false_negative']:,.0f}" in cell
    assert set(tables["table"]) == {2, 4, 5, 6, 7, 8}


def test_the_seeds_shares_are_of_its_own_vectors_and_pairs(page):
    # 739 of 740 vectors (table 2); 215 of 377 pairs of vectors (table 8)
    rows = {row[0]: " ".join(row) for row in cells(page, "table-2")}
    assert "739 99.9 %" in rows["Logistic"].replace("\N{NO-BREAK SPACE}", " ")
    rows = {row[0]: " ".join(row) for row in cells(page, "table-8")}
    assert "215 57.0 %" in rows["Sim-Logistic"].replace("\N{NO-BREAK SPACE}", " ")


def test_figures_ablations_causes_validity_and_groups_are_drawn(page):
    drawn = set(re.findall(r'<figure id="([\w-]+)"', page))
    assert drawn >= {
        *("figure-4", "figure-5", "figure-6", "figure-7", "added", "left-out", "causes"),
        *("single", "single-left-out"),
        *("validity-chart", "groups-chart"),
    }


def test_every_remedy_stands_in_the_ablation_of_every_model(root, page):
    ablation = pd.read_parquet(root / "reports/matrices/evaluated/ablation.parquet")
    for part, name in PARTS.items():
        own = ablation[ablation["part"] == part]
        for place, (_, rows) in enumerate(own.groupby((own["step"] == 0).cumsum()), start=1):
            found = [" ".join(row) for row in cells(page, f"{name}-{place}")]
            assert len(found) == len(rows)
            for text, row in list(zip(found, rows.to_dict("records"), strict=True))[1:]:
                assert text.startswith(row["remedy"])
                assert f"{row['balanced_accuracy']:.2f} ± {row['spread']:.2f}" in text


def test_what_the_data_does_not_allow_is_named_not_drawn(root, tmp_path, monkeypatch):
    directory = tmp_path / "project"
    shutil.copytree(root, directory)
    reports = directory / "reports/matrices/evaluated"
    (reports.parent / "times.parquet").unlink()
    for name in ("curves", "validity", "ablation"):
        path = reports / f"{name}.parquet"
        pd.read_parquet(path).iloc[:0].astype(object).to_parquet(path)
    oof = pd.read_parquet(reports / "oof.parquet")
    oof.assign(cause="").to_parquet(reports / "oof.parquet")
    groups = pd.read_parquet(reports / "groups.parquet")
    groups.assign(group="all").to_parquet(reports / "groups.parquet")
    monkeypatch.chdir(directory)
    assert main(["matrices"]) == 0
    page = (directory / PAGE).read_text()
    for told in (
        "Figure 4 of the analysis engine paper is not drawn",
        "Figure 7 of the analysis engine paper is not drawn", "No ablation was run",
        "No run is flagged", "this data has no causes", "their number is one or too large",
    ):  # fmt: skip
        assert told in page
    assert faults_of_text(page) == []


def test_a_missing_or_broken_file_is_one_line(root, tmp_path, monkeypatch, capsys):
    directory = tmp_path / "project"
    shutil.copytree(root, directory)
    monkeypatch.chdir(directory)
    (directory / "reports/matrices/evaluated/curves.parquet").unlink()
    assert main(["matrices"]) == 2
    assert (
        capsys.readouterr().err
        == "reports/matrices/evaluated/curves.parquet: no such file; expected a Parquet table\n"
    )
    (directory / "reports/matrices/metrics.json").write_text('{"data": {}}')
    assert main(["matrices"]) == 2
    assert capsys.readouterr().err.startswith("reports/matrices/metrics.json: data.format: ")


def test_what_to_do_counts_the_false_alarms_to_expect(root, page, metrics):
    told = points(page)
    assert 3 <= len(told) <= 5
    oof = pd.read_parquet(root / "reports/matrices/evaluated/oof.parquet")
    own = oof[(oof["entry"] == metrics["champion"]) & (oof["status"] == "pass")]
    assert f"about {round(1000 * (own['verdict'] == 'fail').mean())} false alarm" in told[0]


def test_the_page_refers_to_nothing_outside_itself_and_is_small(page):
    assert faults_of_text(page) == []
    assert len(page.encode()) < 2_000_000


def test_a_second_drawing_gives_the_same_bytes(root, page, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["matrices"]) == 0
    assert (root / PAGE).read_text() == page


def test_the_benchmark_writes_the_same_figures_as_markdown(root, metrics, monkeypatch):
    monkeypatch.chdir(root)
    matrices_page()
    written = (root / "docs/results/matrices-in.md").read_text()
    for entry, scores in metrics["splits"]["test-cases"]["entries"].items():
        assert f"| {entry} | {scores['kind']} | {scores['balanced_accuracy']['pooled']:.3f} |" in written
    assert set(re.findall(r"^# (Table \d) of the analysis engine paper$", written, re.MULTILINE)) == {
        f"Table {number}" for number in (2, 4, 5, 6, 7, 8)
    }
    ablation = pd.read_parquet(root / "reports/matrices/evaluated/ablation.parquet")
    for row in ablation.to_dict("records"):
        pairs = f"{row['pair_balanced_accuracy']:.3f} ± {row['pair_spread']:.3f}"
        assert re.search(rf"^\| {row['model']} \| {row['remedy']} \| .*{pairs} ", written, re.MULTILINE)
    assert "# Figures 4 to 6 of the analysis engine paper" in written
    assert "# Validity of runs" in written


@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(root, browser):
    assert faults(browser, root / PAGE) == []
    assert len(charts(browser)) == 11
