"""What profiles of fingerprints are worth, on the public data: speed, stability, predictions, false alarms.

Run it with ``python -m benchmarks.profiles [PART ...]``, all parts without; each writes its pages:
``docs/results/profiles*.md`` (speed) and ``docs/results/fingerprints-<part>*.md``.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import profile_alarms, profile_forecasts, profile_rankings, profile_speed
from benchmarks.fingerprints import SETS
from data.errors import InputError


def main() -> None:
    """Measure the parts that are asked for; a part without its data is skipped, and says so."""
    parts = {
        "speed": profile_speed.main,
        "stability": lambda asked: profile_rankings.stability(asked, options.applications),
        "prediction": profile_forecasts.main,
        "alarms": profile_alarms.main,
        "seed": profile_rankings.firsts,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=120, help="of each set, for stability")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), help="which public sets")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(parts)}")
    options = parser.parse_args()
    for part in set(options.parts) - set(parts):
        parser.error(f"{part!r} is no part; expected some of: {', '.join(parts)}")
    for part in options.parts or parts:
        try:
            parts[part](options.data)
        except InputError as exc:
            sys.stderr.write(f"skipped {part}: {exc}\n")


if __name__ == "__main__":
    main()
