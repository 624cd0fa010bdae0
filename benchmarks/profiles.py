"""What profiles of fingerprints are worth, on the public data: speed, stability, predictions, false alarms.

Run it with ``python -m benchmarks.profiles [PART ...]``, all parts without; each writes its page:
``docs/results/profiles.md`` (speed) and ``docs/results/fingerprints-<part>.md``.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import profile_alarms, profile_firsts, profile_forecasts, profile_speed, profile_stability
from data.errors import InputError


def main() -> None:
    """Measure the parts that are asked for; a part without its data is skipped, and says so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=120, help="of each set, for stability")
    options, asked = parser.parse_known_args()
    parts = {
        "speed": profile_speed.main,
        "stability": lambda: profile_stability.main(options.applications),
        "prediction": profile_forecasts.main,
        "alarms": profile_alarms.main,
        "seed": profile_firsts.main,
    }
    unknown = [part for part in asked if part not in parts]
    if unknown:
        parser.error(f"{unknown[0]!r} is no part; expected some of: {', '.join(parts)}")
    for part in asked or parts:
        try:
            parts[part]()
        except InputError as exc:
            sys.stderr.write(f"skipped {part}: {exc}\n")


if __name__ == "__main__":
    main()
