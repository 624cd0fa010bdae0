"""What stands in a table in place of a number that is not known, and from where on a count is none."""

from __future__ import annotations

#: What perf writes where it has no count.
UNCOUNTED = ("<not counted>", "<not supported>")
#: The kernel's counters have 64 bits; a number beyond them counts nothing.
MOST = 2.0**64
