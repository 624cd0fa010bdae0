"""Whatever stands in a file, a reader gives rows or one clear error."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from data.comparisons import formats
from data.comparisons.formats.tools import TOOLS
from data.errors import InputError
from data.tables.problems import Problems
from tests.data.comparisons.formats.reading import SAMPLES, refusal, written

FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name != "otava.yaml")
STRANGE = [
    None, True, "", "x", "NaN", -1, 0, 1e308, -1e308, 10**400, float("nan"), float("inf"), [], {}, [[]],
    [None], {"": None}, "\ud800", "2026-99-99", 2**63,
]  # fmt: skip
FAST = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_or_refuse(path, kind=None):
    """Read a file; it has to give sound rows, or one line."""
    tables = []
    with suppress(InputError):
        tables += formats.stream(kind or formats.sniff(path), [path], Problems())
    for one in tables:
        one.sound("results", Problems())
        assert np.isfinite(one.results["value"]).all()


@pytest.mark.parametrize("kind", TOOLS)
@given(content=st.binary(max_size=400))
@example(content=b"")
@example(content=b"\xff\xfe{\x00}\x00")
@example(content=b"[" * 100_000)
@example(content=b'{"results":' * 50_000)
@FAST
def test_any_bytes_give_rows_or_one_error(tmp_path, kind, content):
    path = tmp_path / "any"
    path.write_bytes(content)
    read_or_refuse(path, kind)
    read_or_refuse(path)


def changed(content, chance):
    """Return JSON with something else in one place."""
    places = list(walked(content))
    holder, key = places[chance.randrange(len(places))]
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = STRANGE[chance.randrange(len(STRANGE))]
    return content


def walked(content):
    inside = content.items() if isinstance(content, dict) else enumerate(content)
    for key, one in inside:
        yield content, key
        if isinstance(one, dict | list):
            yield from walked(one)


def broken(source: bytes, chance: random.Random) -> bytes:
    """Return a real file with something wrong."""
    try:
        if chance.random() < 0.7:
            return json.dumps(changed(json.loads(source), chance)).encode("utf-8", "surrogatepass")
    except ValueError:
        pass
    start = chance.randrange(len(source))
    stop = start + chance.choice([0, 1, 5, 40, len(source)])
    return (
        source[:start]
        + chance.choice([b"", b"\0", b"-", b"nan", b"1e999", b",,", b"\n", b"<!DOCTYPE a>"])
        + source[stop:]
    )


@pytest.mark.parametrize("source", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
@given(draw=st.integers(0, 2**32))
@FAST
def test_a_real_file_that_was_broken_gives_rows_or_one_error(tmp_path, source, draw):
    path = tmp_path / source.name
    path.write_bytes(broken(source.read_bytes(), random.Random(draw)))
    read_or_refuse(path, source.relative_to(SAMPLES).parts[0])
    read_or_refuse(path)


@pytest.mark.parametrize("draw", range(20))
def test_a_configuration_of_otava_that_was_broken_gives_rows_or_one_error(tmp_path, draw):
    folder = SAMPLES / "otava-csv"
    path = Path(shutil.copy(folder / "words.csv", tmp_path))
    content = broken((folder / "otava.yaml").read_bytes(), random.Random(draw))
    (tmp_path / "otava.yaml").write_bytes(content)
    read_or_refuse(path, "otava-csv")


@pytest.mark.parametrize("source", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_every_sample_is_recognised_by_its_content_alone(tmp_path, source):
    kind = source.relative_to(SAMPLES).parts[0]
    if source.name in {"benchmarks.json", "machine.json"}:
        pytest.skip("holds no results")
    path = tmp_path / "file"
    shutil.copy(source, path)
    assert formats.sniff(path) == kind


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            {"benchmarks": [{"stats": {"data": [1]}, "fullname": "a"}]},
            "file: is JSON in no known format; nearest: pytest-benchmark (lacks machine_info); ",
        ),
        ({"a": 1}, "file: is JSON in no known format; --from FORMAT names one"),
        (
            "time_s;run\n1;2\n",
            "file: is neither XML nor JSON, and text in no known format; nearest: criterion (lacks sample_",
        ),
        (
            "value;run\n1;2\n",
            "file: is neither XML nor JSON, and text in no known format; nearest: long-csv (lacks operation)",
        ),
    ],
)
def test_what_is_nearly_of_a_format_is_told(tmp_path, content, told):
    assert refusal(written(tmp_path / "file", content)).startswith(told)
