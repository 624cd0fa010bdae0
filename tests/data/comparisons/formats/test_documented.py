"""The table in the documentation says what the readers are."""

from pathlib import Path

from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.format_table import PAGE, renewed

ROOT = Path(__file__).parents[4]


def test_the_table_of_formats_is_current():
    page = (ROOT / PAGE).read_text()
    assert renewed(page) == page
    assert all(f"| **{name}** (" in page for name in TOOLS)


def test_every_format_has_its_test_and_its_sample():
    for name in TOOLS:
        test = ROOT / f"tests/data/comparisons/formats/test_{name.replace('-', '_')}.py"
        assert test.is_file(), test
        assert any((ROOT / "docs/samples/formats" / name).iterdir()), name
