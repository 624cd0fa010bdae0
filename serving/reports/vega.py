"""Stage plots: write Vega, for ``dvc plots show`` without the network (``.dvc/plots/page.html``)."""

from __future__ import annotations

from pathlib import Path

from data.stage import exit_on_error
from data.tables.files import write_text

#: In the folder of the page of ``dvc plots show``.
PLACE = Path("dvc_plots/vega.js")
#: Version of Vega-Lite: the first available one after that of DVC's own page.
VERSION = "5.8"


def main() -> None:
    """Write Vega, Vega-Lite and Vega-Embed as one script to dvc_plots/vega.js of the current directory."""
    from vl_convert import javascript_bundle

    write_text(PLACE, javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION))


if __name__ == "__main__":
    exit_on_error(main)
