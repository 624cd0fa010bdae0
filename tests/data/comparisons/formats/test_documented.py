"""Every format is documented, tested and shown by a sample."""

from pathlib import Path

from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.recognition import Columns, Keys

ROOT = Path(__file__).parents[4]


def test_the_documentation_describes_every_format_by_its_signs():
    page = (ROOT / "docs/formats.md").read_text()
    lines = {
        name: next(line for line in page.splitlines() if line.startswith(f"| **{name}** (")) for name in TOOLS
    }
    for tool in TOOLS.values():
        parts = [part for sign in tool.signs if isinstance(sign, Keys) for part in sign.paths]
        parts += [
            name
            for sign in tool.signs
            if isinstance(sign, Columns)
            for names in sign.groups
            for name in names
        ]
        assert all(f"`{part}`" in lines[tool.name] for part in (*parts, *filter(None, [tool.folder])))
        assert lines[tool.name].endswith(f"| {'several' if tool.versions else 'one'} |")


def test_every_format_has_its_test_and_its_sample():
    for name in TOOLS:
        test = ROOT / f"tests/data/comparisons/formats/test_{name.replace('-', '_')}.py"
        assert test.is_file(), test
        assert any((ROOT / "docs/samples/formats" / name).iterdir()), name
