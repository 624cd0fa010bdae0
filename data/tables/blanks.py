"""What stands in a table in place of a number that is not known."""

from __future__ import annotations

#: What perf writes where it has no count.
UNCOUNTED = ("<not counted>", "<not supported>")
