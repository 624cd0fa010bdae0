"""All readers: each is documented, and whatever stands in a file, gives rows or one clear error."""

import codecs
import gzip
import json
from contextlib import suppress
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from data.comparisons import formats
from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.measurement import read_lines, standard_json
from data.comparisons.formats.tools.recognition import Columns, Keys
from data.errors import InputError
from data.tables.problems import Problems
from tests.data.comparisons.formats.reading import FILES, NO_RESULTS, SAMPLES, refusal, written
from tests.imports import ROOT

UNCHECKED = [HealthCheck.function_scoped_fixture]
FAST = settings(max_examples=25, derandomize=True, suppress_health_check=UNCHECKED)


def read_or_refuse(path, kind=None):
    """Read a file; it has to give sound rows, or one line."""
    tables = []
    with suppress(InputError):
        tables += formats.stream_tables(kind or formats.recognise_format(path), [path], Problems())
    for one in tables:
        one.drop_invalid_rows("results", Problems())
        assert np.isfinite(one.results["value"]).all()


@pytest.mark.parametrize("kind", TOOLS)
@given(content=st.binary(max_size=400))
@example(content=b"")
@example(content=b"operation,value\na,1\n")
@example(content=b"\xff\xfe{\x00}\x00")
@example(content=b"[" * 100_000)
@example(content=b'{"results":' * 50_000)
@FAST
def test_any_bytes_give_rows_or_one_error(tmp_path, kind, content):
    path = tmp_path / "any"
    path.write_bytes(content)
    read_or_refuse(path, kind)
    read_or_refuse(path)


WORDS = st.lists(st.sampled_from(["NaN", "-Infinity", *'[],:" \\\n{}'])).map("".join)
NUMBERS = st.floats() | st.integers()


@given(st.lists(WORDS | NUMBERS | st.dictionaries(WORDS, WORDS | NUMBERS)), st.sampled_from([None, 1]))
@FAST
def test_nan_and_infinity_become_null_outside_of_strings_only(content, indent):
    text = json.dumps(content, indent=indent)
    found = standard_json(text.encode())
    assert json.loads(found, parse_constant=pytest.fail) == json.loads(text, parse_constant=lambda _: None)


@given(text=st.text(st.sampled_from("a \n\r\t\v\f\x1c\x85\u2028\u2029")))
@FAST
def test_line_numbers_count_line_feeds_and_carriage_returns_only(tmp_path, text):
    path = tmp_path / "lines"
    path.write_bytes(f"a{text}".encode())
    with path.open(encoding="utf-8") as file:
        lines = [(number, line.removesuffix("\n")) for number, line in enumerate(file, 1) if line.strip()]
    assert list(read_lines(path)) == lines


SINGLE = [path for path in FILES if path.name not in NO_RESULTS]


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["bare", "with a mark"])
@pytest.mark.parametrize("source", SINGLE, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_every_sample_is_recognised_by_its_content_alone(tmp_path, source, mark):
    path, kind = tmp_path / "file", source.relative_to(SAMPLES).parts[0]
    path.write_bytes(mark + source.read_bytes())
    assert formats.recognise_format(path) == kind
    path = path.rename(tmp_path / source.name)
    assert not formats.read_tables(kind, [path, path], keep_going=True).tables.results.empty


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["operation,value\na,1\n", ' {"results": []}', "BenchmarkA 10 5 ns/op\n"])
def test_text_in_utf_16_is_refused_with_the_name_of_the_encoding(tmp_path, encoding, text):
    (tmp_path / "file").write_bytes(f"\ufeff{text}".encode(encoding))
    assert refusal(tmp_path / "file") == "file: is text in UTF-16; expected UTF-8"


def test_compressed_files_are_refused_with_the_name_of_the_compression(tmp_path):
    (tmp_path / "file").write_bytes(gzip.compress(b"operation,value\na,1\n"))
    assert refusal(tmp_path / "file") == "file: is compressed (gzip); expected the decompressed file"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            {"benchmarks": [{"stats": {"data": [1]}, "fullname": "a"}]},
            "nearest: pytest-benchmark (lacks machine_info); ",
        ),
        ({"a": 1}, "--from FORMAT names one"),
        ({"results": [{"command": "true"}], "x": 1}, "nearest: hyperfine (lacks results.mean); asv (lacks "),
        ("time_s;run\n1;2\n", "nearest: criterion (lacks sample_"),
        ("value;run\n1;2\n", "nearest: long-csv (lacks operation)"),
    ],
)
def test_the_nearest_format_is_named_in_the_error(tmp_path, content, told):
    what = "neither XML nor JSON, and text" if isinstance(content, str) else "JSON"
    prefix = f"file: is {what} in no known format; "
    assert refusal(written(tmp_path / "file", content)).startswith(prefix + told)


def test_every_format_is_documented_by_its_signs_and_tested():
    page = (ROOT / "docs/formats.md").read_text().splitlines()
    for name, tool in TOOLS.items():
        line = next(line for line in page if line.startswith(f"| **{name}** ("))
        signs = [part for sign in tool.signs if isinstance(sign, Keys) for part in sign.paths]
        for sign in tool.signs:
            signs += chain(*sign.groups) if isinstance(sign, Columns) else ()
        assert all(f"`{sign}`" in line for sign in (*signs, *filter(None, [tool.folder])))
        assert line.endswith(f"| {'several' if tool.versions else 'one'} |")
        assert (ROOT / f"tests/data/comparisons/formats/test_{name.replace('-', '_')}.py").is_file()
        assert any((ROOT / "docs/samples/formats" / name).iterdir()), name


def test_formats_with_specific_signs_are_tried_first():
    # the order follows from that of modules and functions
    assert [*TOOLS] == [
        "run-json", "pytest-benchmark", "google-benchmark", "pyperf", "asv", "hyperfine", "jmh", "phoronix",
        "lnt", "conbench", "perfherder", "criterion", "perf-stat", "go-bench", "sysbench", "long-csv",
        "otava-csv",
    ]  # fmt: skip
