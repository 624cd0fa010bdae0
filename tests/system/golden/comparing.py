"""Compare answers: words by equality, numbers within a relative tolerance."""

import difflib
import json
import math
import re
from itertools import zip_longest
from pathlib import Path

import yaml

#: Relative difference up to which two numbers are equal.
TOLERANCE = 1e-6
#: Absolute difference up to which two numbers are equal: sums that are zero but for rounding.
ROUNDING = 1e-9
#: Lines of a difference that are shown.
MOST_LINES = 40
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d+|\d+)(?:[eE][-+]?\d+)?")
_RULE = re.compile(r"[-=─━═┄_]{3,}")


class Renames:
    """New names for old ones in recorded answers, arguments and addresses; see ``renames.yaml``."""

    def __init__(self, table):
        self.keys, self.words = (table.get(name) or {} for name in ("keys", "words"))
        longest_first = sorted(self.words, key=len, reverse=True)
        # without any word, nothing matches
        self.pattern = re.compile(
            rf"(?<![\w-])({'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![\w-])"
        )

    @classmethod
    def read(cls):
        """Return the names of ``renames.yaml``."""
        return cls(yaml.safe_load(Path(__file__).with_name("renames.yaml").read_text()))

    def text(self, text):
        """Return a text with the new words."""
        return self.pattern.sub(lambda match: self.words[match[0]], text)

    def value(self, value):
        """Return a recorded answer with the new names."""
        if isinstance(value, dict):
            return {self.keys.get(key) or self.text(key): self.value(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return self.text(value) if isinstance(value, str) else value


def equal(recorded, answered):
    """Return whether two answers are equal, whatever the order of keys and the width of columns."""
    if isinstance(recorded, dict) and isinstance(answered, dict):
        return recorded.keys() == answered.keys() and all(
            equal(value, answered[key]) for key, value in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(answered, list):
        return len(recorded) == len(answered) and all(map(equal, recorded, answered))
    if isinstance(recorded, str) and isinstance(answered, str):
        return recorded == answered or _equal_texts(recorded, answered)
    if {type(recorded), type(answered)} <= {int, float}:
        return _close(recorded, answered)
    return type(recorded) is type(answered) and recorded == answered


def values(answer):
    """Return the numbers of an answer in their order: they stay where only words change."""
    return [float(number) for number in _NUMBER.findall(json.dumps(answer))]


def difference(name, recorded, answered):
    """Return a unified diff of at most `MOST_LINES` lines, numbers that are close not included."""
    old, new = _lines(recorded), _lines(answered)
    if len(old) == len(new):
        pairs = zip(old, new, strict=True)
        old = [now if equal(before, now) else before for before, now in pairs]
    lines = list(difflib.unified_diff(old, new, "recorded", "answered", lineterm="", n=1))
    more = [f"... and {len(lines) - MOST_LINES} lines"] if len(lines) > MOST_LINES else []
    return "\n".join([f"{name}:", *(line[:300] for line in lines[:MOST_LINES]), *more])


def _lines(answer):
    lines = json.dumps(answer, indent=1, ensure_ascii=False, sort_keys=True).splitlines()
    return [part for line in lines for part in line.replace("\\n", "\n").splitlines()]


def _equal_texts(recorded, answered):
    words = zip_longest(_RULE.sub("---", recorded).split(), _RULE.sub("---", answered).split())
    return all(old == new or (old and new and _equal_words(old, new)) for old, new in words)


def _equal_words(old, new):
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(_close(float(before), float(now)) for before, now in pairs)


def _close(old, new):
    both_nan = math.isnan(old) and math.isnan(new)
    return both_nan or math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=ROUNDING)
