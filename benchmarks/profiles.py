"""What profiles of fingerprints are worth, on the public data: speed, stability, predictions, false alarms.

Run it with ``python -m benchmarks.profiles [PART ...]``, all parts without; each writes its pages:
``docs/results/profiles*.md`` (speed) and ``docs/results/fingerprints-<part>*.md``.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import profile_alarms, profile_firsts, profile_forecasts, profile_speed, profile_stability
from benchmarks.fingerprints import SETS, limit
from data.errors import InputError


def main() -> None:
    """Measure the parts that are asked for; a part without its data is skipped, and says so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=120, help="of each set, for stability")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), help="which public sets")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="speed, stability, prediction, alarms or seed"
    )
    options = parser.parse_args()
    limit(options.data)
    parts = {
        "speed": profile_speed.main,
        "stability": lambda: profile_stability.main(options.applications),
        "prediction": profile_forecasts.main,
        "alarms": profile_alarms.main,
        "seed": profile_firsts.main,
    }
    unknown = [part for part in options.parts if part not in parts]
    if unknown:
        parser.error(f"{unknown[0]!r} is no part; expected some of: {', '.join(parts)}")
    for part in options.parts or parts:
        try:
            parts[part]()
        except InputError as exc:
            sys.stderr.write(f"skipped {part}: {exc}\n")


if __name__ == "__main__":
    main()
