"""Files that are written from the source of the Phoronix Test Suite, which is not there."""

from tests.data.comparisons.formats.reading import refusal, run, written

XML = """<?xml version="1.0"?><PhoronixTestSuite>
<System><Identifier>one</Identifier><TimeStamp>2026-11-20 10:00:00</TimeStamp></System>
<Result><Identifier>local/a-1.0</Identifier><Title>A</Title><Description>n: 8</Description>
<Scale>MB/s</Scale><Proportion>HIB</Proportion><Data><Entry><Identifier>one</Identifier><Value>2</Value>
<RawString>{}</RawString></Entry></Data></Result></PhoronixTestSuite>"""


def test_raw_runs_and_better_direction_come_from_xml(tmp_path):
    path = written(tmp_path / "composite.xml", XML.format("1.5:2.5"))
    key = ("phoronix", "A[n: 8]", "unknown", 1, "MB/s", "higher")
    assert run(path, "phoronix") == {key: [1.5, 2.5]}


def test_a_wrong_number_in_xml_is_named(tmp_path):
    path = written(tmp_path / "composite.xml", XML.format("1.5:x"))
    assert refusal(path) == 'composite.xml result "A[n: 8]": RawString "1.5:x" is not a list of numbers'


def test_a_series_of_a_monitor_is_left_out_with_a_note(tmp_path):
    monitor = """<Result><Title>CPU Temperature</Title><Scale>Celsius</Scale><Data><Entry>
        <Identifier>one</Identifier><Value>40,41,42</Value><RawString/></Entry></Data></Result>"""
    content = XML.format("1.5:2.5").replace("</PhoronixTestSuite>", f"{monitor}</PhoronixTestSuite>")
    path, notes = written(tmp_path / "composite.xml", content), []
    assert [key[1] for key in run(path, "phoronix", notes)] == ["A[n: 8]"]
    assert any("CPU Temperature of one is left out: it has no number" in note for note in notes)
