"""When a label was given, as documents say it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DAYS = (
    "20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))",
    "20([02468][048]|[13579][26])-02-29",
)
_CLOCK = "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#: All days that there are in this century, and the time with its zone.
MOMENT = f"({'|'.join(_DAYS)}){_CLOCK}"
#: What messages show as such a time.
EXAMPLE = "2026-11-22T09:30:00Z"


def moment(text: str) -> datetime | None:
    """Read a time such as `EXAMPLE`; None if it is none.

    Examples
    --------
    >>> moment("2026-11-22T09:30:00+01:00"), moment("2026-02-29T09:30:00Z")
    (datetime.datetime(2026, 11, 22, 8, 30, tzinfo=datetime.timezone.utc), None)
    """
    return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(MOMENT, text) else None
