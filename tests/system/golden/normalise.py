"""Replace the parts of an answer that differ from run to run, and round its numbers."""

import json
import re
from datetime import UTC, datetime, timedelta

from lxml import html

#: Significant digits that are kept of a number.
DIGITS = 9
#: JSON keys whose values are never compared: times, durations, addresses and sizes of stored files.
VARYING_KEYS = frozenset(
    {
        "commit", "trained_at", "promoted_at", "since", "created", "duration", "fit_seconds",
        "train_seconds", "took_seconds", "digest", "model_digest", "started", "uptime", "bytes", "code",
    }
)  # fmt: skip
_MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?(?![\d:])")
_REPLACED = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<commit>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<run>"),
    (re.compile(r"\b(127\.0\.0\.1|localhost|testserver):\d+"), "<server>"),
    (re.compile(r"perfjudge-<run>\.txt"), "<trace>"),
    # versions of models that are directories
    (re.compile(r"(?<![\w.])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{12}(?![\w.])"), "<digest>"),
    (re.compile(r"(?<=somebody on )20\d\d-\d\d-\d\d"), "<day>"),
    # descriptions that refer to code
    (re.compile(r"\b(?:serving|training|features|data)(?:\.\w+){2,}"), "<module>"),
    # of the commit that the stages ran with
    (re.compile(r"\([0-9a-f]{10}\)"), "(<commit>)"),
    (re.compile(r"commit <commit> .*"), "commit <commit>"),
)
#: A chart of durations on the page of matrices, from its heading to the remark below it.
_DURATIONS = re.compile(
    r"(Figure 7 of the analysis engine paper\n).*?(\nMean over the folds, on the machine)", re.DOTALL
)
_TEXTS = "//text()[not(parent::style or parent::script[not(contains(@type, 'json'))])]"
_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d+(?:[eE][-+]?\d+)?")


class Normaliser:
    """Replaces paths of a session, its moments, random identifiers and superfluous digits.

    places : placeholders by path
    begun : when the pipeline began: later moments are replaced, those of measurements are not
    """

    def __init__(self, places, begun):
        self.places = sorted(((str(path), places[path]) for path in places), key=lambda one: -len(one[0]))
        self.begun = begun - timedelta(seconds=5)

    def text(self, text):
        """Return normalised text, without trailing spaces."""
        for path, name in self.places:
            text = text.replace(path, name)
        text = _MOMENT.sub(self._moment, text)
        for pattern, placeholder in _REPLACED:
            text = pattern.sub(placeholder, text)
        text = _NUMBER.sub(_rounded, text)
        return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))

    def _moment(self, match):
        moment = datetime.fromisoformat(match[0].removesuffix(" UTC").strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return "<moment>" if moment >= self.begun else match[0]

    def value(self, value):
        """Return normalised JSON."""
        if isinstance(value, dict):
            return {
                self.text(str(key)): "<varies>" if key in VARYING_KEYS else self.value(one)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float):
            return float(f"{value:.{DIGITS}g}")
        return value

    def answer(self, text):
        """Return JSON if the text is JSON, else the text without tags where it is a page."""
        stripped = text.lstrip()
        if stripped[:1] in ("{", "["):
            try:
                return self.value(json.loads(text))
            except ValueError:
                pass
        if stripped[:15].lower().startswith(("<!doctype html", "<html")):
            # one line per piece of text, data of scripts included
            root = html.document_fromstring(text, parser=html.HTMLParser(huge_tree=True))
            lines = (" ".join(piece.split()) for piece in root.xpath(_TEXTS))
            text = _DURATIONS.sub(r"\1<durations>\2", "\n".join(filter(None, lines)))
        return self.text(text)


def _rounded(match):
    number = match[0]
    return number if len(number) <= DIGITS + 1 else f"{float(number):.{DIGITS}g}"
