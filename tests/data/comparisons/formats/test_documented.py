"""Every format is documented, tested and shown by a sample."""

from itertools import chain

from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.recognition import Columns, Keys
from tests.imports import ROOT


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
