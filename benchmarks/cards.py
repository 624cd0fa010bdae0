"""Write the model cards, docs/cards.md, from the figures of the last pipeline run."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from data.families import FAMILIES
from data.paths import FamilyPaths
from data.tables.files import write_text

PAGE = Path("docs/cards.md")


def render_cards(root: Path = Path()) -> str:
    """Return the cards of all families, in Markdown."""
    loader = FileSystemLoader(Path(__file__).parent)
    templates = Environment(  # noqa: S701 - Markdown, of our own figures
        loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )
    figures = {family: json.loads(FamilyPaths(family, root).metrics.read_text()) for family in FAMILIES}
    return templates.get_template("cards.md.jinja").render(figures)


def main() -> None:
    write_text(PAGE, render_cards())


if __name__ == "__main__":
    main()
