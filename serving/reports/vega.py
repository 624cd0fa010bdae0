"""Stage plots: Vega for the page of ``dvc plots show`` (``.dvc/plots/page.html``), which so works offline."""

from __future__ import annotations

from pathlib import Path

from data.stage import guard
from data.tables.files import write_text

#: Beside the page of ``dvc plots show``.
PLACE = Path("dvc_plots/vega.js")
#: Of Vega-Lite: the first one to be had after that which DVC's own page takes from the web.
VERSION = "5.8"


def main() -> None:
    """Write Vega, Vega-Lite and Vega-Embed into one file."""
    from vl_convert import javascript_bundle

    write_text(PLACE, javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION))


if __name__ == "__main__":
    guard(main)
