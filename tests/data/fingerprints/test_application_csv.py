import pytest

from data.errors import InputError
from data.fingerprints.formats.typed_csv import ValueColumn, read_application

SECONDS = ValueColumn("mine", "seconds", "lower")


def written(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return path


def test_values_without_repetition_get_numbers_beyond_the_fingerprint(tmp_path):
    table = read_application(written(tmp_path, "machine,value\na,1.5\nb,2\na,1.25\n"), SECONDS, beyond=3)
    assert table[["machine", "repetition", "value"]].values.tolist() == [
        ["a", 4, 1.5],
        ["b", 4, 2.0],
        ["a", 5, 1.25],
    ]
    assert set(table["application"]) == {"mine"}


def test_the_unit_of_the_file_is_the_metric(tmp_path):
    table = read_application(written(tmp_path, "machine,value,unit\na,1, ms\nb,2,ms\n"), SECONDS)
    assert set(table["metric"]) == {"ms"}


def test_an_explicit_repetition_of_a_value_is_kept(tmp_path):
    table = read_application(
        written(tmp_path, "value, machine, repetition\n1, a, 2\n1, a, 1\n"), SECONDS, beyond=3
    )
    assert table["repetition"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty; expected CSV"),
        ("machine,value\n", "holds no measurement"),
        ("machine,seconds\na,1\n", ':1: has no column "value"; found machine, seconds'),
        ("machine,value\na,1\nb,fast\n", ':3: value="fast" is not a number above 0'),
        ("machine,value\na,0\n", ':2: value="0" is not a number above 0'),
        ("machine,value\na,-1\n", ':2: value="-1" is not a number above 0'),
        ("machine,value\na,inf\n", ':2: value="inf" is not a number above 0'),
        ("machine,value\n ,1\n", ":2: names no machine"),
        (
            "machine,value,repitition\na,1,2\n",
            ':1: the column "repitition" is unknown; did you mean "repetition"?',
        ),
        ("machine,value,units\na,1,ms\n", ':1: the column "units" is unknown; did you mean "unit"?'),
        (
            "machine,value,host\na,1,b\n",
            ':1: the column "host" is unknown; there are machine, value, repetition',
        ),
        ("machine,value,unit\na,1,s\nb,900,ms\n", ':3: unit="ms" but "s" before; expected one unit'),
        ("machine,value,repetition\na,1,x\n", ':2: repetition="x" is not a whole number'),
        ("machine,value,repetition\na,1,1\na,2,1\n", ':3: machine "a" has the repetition 1 twice'),
    ],
)
def test_unusable_rows_are_refused_with_their_line(tmp_path, text, told):
    with pytest.raises(InputError) as caught:
        read_application(written(tmp_path, text), SECONDS)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
