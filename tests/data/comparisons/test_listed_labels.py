import pytest

from data.comparisons import formats
from data.comparisons.labels.consensus import consensus_status
from data.comparisons.stages import import_tables
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from tests.data.comparisons.document import document, operation
from tests.data.comparisons.formats.reading import SAMPLES

HEAD = "comparison_id,status,annotator,labelled_at,remark\n"


@pytest.fixture
def source(tmp_path):
    """Two comparisons, of which the document labels the first as a pass; and what people say of them."""
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "in.xml").write_text(document(operation("a", "pass"), operation("b", "")))

    def listed(*rows):
        (directory / "labels.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
        return directory

    return listed


def test_a_label_file_beside_the_data_is_read(source, tmp_path):
    others = ("r/nas/b,fail,anna,,", "r/nas/b,fail, ben ,,", "r/nas/b,,cleo,,not yet")
    path = source("r/nas/a,fail,anna,2026-11-22T09:30:00Z,looked twice", *others)
    labels = formats.read_tables(formats.recognise_format(path), [path]).tables.labels
    assert labels["annotator"].fillna("").tolist() == ["", "anna", "anna", "ben"]
    assert consensus_status(labels, "majority").to_dict() == {"r/nas/a": "fail", "r/nas/b": "fail"}
    import_tables("comparison-xml", [path], tmp_path / "out")
    again = ComparisonTables.read(tmp_path / "out").labels
    assert again.astype(object).equals(labels.astype(object))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("r/nas/a,maybe,anna,,", 'status="maybe" is not one of pass, fail, cannot_tell'),
        ("r/nas/a,pass,,,", 'annotator="" is empty; expected a name'),
        ("r/nas/aa,pass,anna,,", 'comparison_id="r/nas/aa" is not in these data; did you mean "r/nas/a"?'),
        ("r/nas/a,pass,anna,noon,", 'labelled_at="noon" is not a time like 2026-11-22T09:30:00Z'),
    ],
)
def test_a_wrong_label_row_is_refused_or_skipped(source, row, message):
    path = source("r/nas/b,fail,anna,,", "", row)
    with pytest.raises(InputError) as caught:
        formats.read_tables("comparison-xml", [path])
    assert str(caught.value) == f"{path / 'labels.csv'}:4: {message}"
    reading = formats.read_tables("comparison-xml", [path], keep_going=True)
    assert len(reading.tables.labels) == 2
    assert len(reading.skipped) == 1


def test_labels_beside_a_single_version_state_what_is_missing(tmp_path):
    (tmp_path / "run.json").write_bytes((SAMPLES / "pytest-benchmark/base.json").read_bytes())
    path = tmp_path / "labels.csv"
    path.write_text(f"{HEAD}a,fail,anna,,\n")
    with pytest.raises(InputError) as caught:
        formats.read_tables(formats.recognise_format(tmp_path), [tmp_path])
    missing = "which have no comparisons; expected the results of two versions"
    assert str(caught.value) == f'{path}:2: comparison_id="a" is not in these data, {missing}'
