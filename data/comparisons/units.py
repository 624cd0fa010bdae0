"""Units of benchmark results and their conversion.

This is a table instead of a library, because benchmarks count more than physical quantities: pint does not
know ``ops/s``, ``Mop/s`` and ``KB``, reads ``units/s`` as micronits per second, and takes longer to import
than all code that judges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

#: Value of missing properties.
UNKNOWN = "unknown"
#: Maximum number of threads of a configuration, in every format.
MAX_THREADS = 999_999
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SECOND = 10**12
_TIMES = {
    "ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND
}  # fmt: skip
#: Kind and size of every unit, as a multiple of the smallest; a unit not listed here is a kind by itself.
_SIZES = (
    {name: ("ps", size) for name, size in _TIMES.items()}
    | {f"{prefix}bit": ("bit", size) for prefix, size in (_DECIMAL | _BINARY).items()}
    | {f"{prefix}B": ("bit", 8 * size) for prefix, size in (_DECIMAL | _BINARY).items()}
    | {f"{prefix}{name}": (name, size) for name in ("op", "flop", "Hz") for prefix, size in _DECIMAL.items()}
)
#: Other spellings of units. ``Mb`` is left out because it is used for bits and for bytes.
_SPELLINGS = {
    "nsec": "ns", "nanosecond": "ns", "nanoseconds": "ns",
    "\N{MICRO SIGN}s": "us", "\N{GREEK SMALL LETTER MU}s": "us", "usec": "us",
    "microsecond": "us", "microseconds": "us",
    "msec": "ms", "millisecond": "ms", "milliseconds": "ms",
    "sec": "s", "second": "s", "seconds": "s", "minute": "min", "minutes": "min", "hour": "h", "hours": "h",
    "bytes": "B", "byte": "B", "KB": "kB", "bits": "bit",
    "operation": "op", "operations": "op", "request": "req", "requests": "req",
} | {f"{prefix}{name}s": f"{prefix}{name}" for name in ("op", "bit") for prefix in _DECIMAL}  # fmt: skip
#: Rates that are written without "per second"; those of `_COUNTS` in any case.
_COUNTS = {"qps": "queries/s", "rps": "requests/s", "tps": "transactions/s", "fps": "frames/s"}
_RATES = (
    {f"{prefix}bps": f"{prefix}bit/s" for prefix in ("k", "M", "G")}
    | {f"{prefix}FLOPS": f"{prefix}flop/s" for prefix in ("M", "G", "T")}
    | {"mops": "Mop/s"}
)

_PER = re.compile(" per ", re.IGNORECASE)


def _known_name(name: str, *, is_divisor: bool) -> str:
    """Return the name in `_SIZES` that is spelt `name`, else `name`."""
    folded = name.casefold()
    if is_divisor and folded in _TIMES:
        return folded
    # case distinguishes short names, such as b and B
    other = folded if len(name) > len("ms") else name
    return name if name in _SIZES else _SPELLINGS.get(name, _SPELLINGS.get(other, name))


@dataclass(frozen=True)
class Unit:
    """A unit as an amount (`size`) of a `kind`; only units of the same kind can be converted."""

    kind: str
    size: Fraction

    @classmethod
    def from_text(cls, text: str) -> Unit:
        """Parse a unit such as ``ms``, ``GB/s`` or ``ns/op``; an unknown name is a kind by itself.

        Words such as ``Requests`` and what follows ``/`` may be in any case; other case makes other prefixes.
        """
        text = _PER.sub("/", " ".join(text.split()))
        parts = _RATES.get(text, _COUNTS.get(text.casefold(), text)).split("/")
        names = (_known_name(part.strip(), is_divisor=at > 0) for at, part in enumerate(parts))
        first, *rest = (_SIZES.get(name, (name, 1)) for name in names)
        kind = "/".join(name for name, _ in (first, *rest))
        return cls(kind, Fraction(first[1], prod(size for _, size in rest)))


@lru_cache
def is_rate(unit: str) -> bool:
    """Return whether a unit is an amount per time, such as ``B/s``, ``requests per second`` or ``Mbps``."""
    return "ps" in Unit.from_text(unit).kind.split("/")[1:]


def is_known_unit(text: object) -> bool:
    """Return whether `text` is given as a unit, even one that cannot be converted.

    False if it is not a str, is blank, or is "unknown" (`UNKNOWN`) in lower case, with or without spaces
    around it.
    """
    return isinstance(text, str) and text.strip() not in {"", UNKNOWN}


def conversion_factor(unit: str, wanted: str) -> Fraction | None:
    """Return the number of `wanted` in one `unit`: 1000 for ("s", "ms"), None for ("ms", "MB/s").

    A name that is no known unit (``frames``, blank or "unknown") can only be converted to itself, also within
    a rate.
    """
    source, target = Unit.from_text(unit), Unit.from_text(wanted)
    return source.size / target.size if source.kind == target.kind else None


def scale_to(unit: str, wanted: str) -> float | None:
    """Return the number by which values in `unit` are multiplied to be in `wanted`; None if incompatible.

    It is 1.0 if both are equal, or either is blank or "unknown".
    """
    if unit == wanted or not (is_known_unit(unit) and is_known_unit(wanted)):
        return 1.0
    scale = conversion_factor(unit, wanted)
    return None if scale is None else float(scale)


#: Units of times and of rates and sizes, ascending; values are shown in the largest one that they reach.
_READABLE = (tuple(_TIMES)[:5], *(tuple(f"{p}{name}" for p in _DECIMAL) for name in ("bit", "B", "op", "Hz")))


def readable_unit(value: float, unit: str) -> tuple[str, float]:
    """Return the largest unit in which `value` is at least 1, and the factor to multiply `value` by.

    For 0.0002 and "s", these are "us" and 1e6. The sign is ignored. Times go from ps to s; B, bit, op and Hz
    go from no prefix to T, and `unit` may be any of them. In a rate, the part after ``/`` stays. `unit`
    itself and 1.0 are returned for other units, for 0 and NaN, and for a value that is below 1 even in the
    smallest unit.
    """
    name, slash, per = unit.partition("/")
    units = next((units for units in _READABLE if name in units), ())
    sizes = [(other, float(Fraction(_SIZES[name][1], _SIZES[other][1]))) for other in units]
    reached = [(other, factor) for other, factor in sizes if abs(value) * factor >= 1]
    if not value or not reached:
        return unit, 1.0
    other, factor = reached[-1]
    return f"{other}{slash}{per}", factor
