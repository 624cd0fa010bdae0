from dataclasses import replace

import pytest

from data.comparisons.formats.comparison_json import tables_of
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.problems import Problems


@pytest.fixture
def tables():
    configuration = {"threads": 2, "baseline": [1.0, 2.0], "target": [1.0, 2.0]}
    comparison = {
        "comparison_id": "a",
        "operation": "o",
        "better": "higher",
        "configurations": [configuration],
    }
    return tables_of({"comparisons": [comparison]})


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("results", "better", "up", 'results row 0: better="up" must be "lower" or "higher"'),
        ("results", "threads", 0, "results row 0: threads=0 must be 1 or more"),
    ],
)
def test_a_broken_table_is_told_with_column_row_and_value(tables, table, column, value, message):
    getattr(tables, table).loc[0, column] = value
    with pytest.raises(InputError) as caught:
        tables.without_flaws(Problems())
    assert str(caught.value) == message


def test_a_target_before_its_baseline_is_refused(tables):
    tables.comparisons["target_from"] = 0
    with pytest.raises(
        InputError,
        match="comparisons row 0: must satisfy baseline_from <= baseline_to < target_from <= target_to",
    ):
        tables.without_flaws(Problems())


def test_later_versions_before_the_target_are_refused(tables):
    replace(tables, comparisons=tables.comparisons.assign(later_to=1)).without_flaws(Problems())
    with pytest.raises(InputError, match="<= target_to <= later_to"):
        replace(tables, comparisons=tables.comparisons.assign(later_to=0)).without_flaws(Problems())


def test_an_unknown_status_is_refused(tables):
    labels = [{"comparison_id": "a", "status": "maybe"}]
    broken = ComparisonTables(
        tables.results, tables.comparisons, ComparisonTables.of_rows([], [], labels).labels
    )
    with pytest.raises(InputError, match='labels row 0: status="maybe" must be "pass" or "fail"'):
        broken.without_flaws(Problems())


def test_a_missing_column_is_named(tables):
    broken = ComparisonTables(tables.results, tables.comparisons.drop(columns="comparison_id"), tables.labels)
    with pytest.raises(InputError) as caught:
        broken.without_flaws(Problems())
    assert str(caught.value) == "comparisons: the column comparison_id must be there"
