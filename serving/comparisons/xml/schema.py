"""What comparison XML looks like, for OpenAPI: an object, whose parts say whether they are attributes."""

from __future__ import annotations

from typing import Any

from data.comparisons.formats.comparison_xml import (
    ATTRIBUTES,
    BASE,
    EARLIER,
    LABEL,
    LATER,
    STATUSES,
    TARGET,
    UUIDS,
    VERDICT,
)
from data.comparisons.labels.label_csv import EXAMPLE, MOMENT
from data.comparisons.tables import FIVE_NUMBERS, LABEL_STATUSES
from serving.comparisons.xml.report import ELEMENTS

Schema = dict[str, Any]
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_LONGEST = 40


def xml_schema(*, answered: bool = False) -> Schema:
    """Return the JSON Schema of a body in the layout of seed 000, figure 6.1, or of the answer to it.

    A body may be an earlier answer; what that says beside ``result_status`` is not read.
    """
    samples = _element(
        {
            "order": _TEXT | {"pattern": "^-?[0-9]{1,18}$", "description": "Sorts versions."},
            "values": _TEXT
            | {
                "pattern": "^ *([0-9]{1,9}([.][0-9]{1,9})?( +|$))*$",
                "description": "Numbers with blanks between.",
            },
        },
        ("order", "values"),
    )
    versions = {"samples": {"type": "array", "items": samples}}
    five = [attribute for name, attribute in ATTRIBUTES.items() if name in FIVE_NUMBERS]
    side = _element(dict.fromkeys(ATTRIBUTES.values(), _NUMBER), five, versions)
    threads = _TEXT | {"pattern": "^0*[1-9][0-9]*$", "maxLength": 6}
    around = _element({}, (), versions)
    result = _element(
        {"threads_no": threads, "median_diff": _TEXT},
        ("threads_no",),
        {BASE: side, TARGET: side, EARLIER: around, LATER: around},
    )
    label = _element(
        {
            "status": _TEXT | {"enum": [*LABEL_STATUSES]},
            "annotator": _TEXT,
            "labelled_by": _TEXT,
            "labelled_at": _TEXT
            | {"pattern": f"^({MOMENT})?$", "maxLength": _LONGEST, "examples": [EXAMPLE]},
        },
        ("status",),
    )
    comparison = _element(
        {
            "benchmark_name": _TEXT,
            "operation_name": _TEXT,
            "comparison_id": _TEXT,
            "unit": _TEXT,
            "better": _TEXT | {"enum": ["higher", "lower", ""], "description": "Default: higher."},
            "siblings_worse": _NUMBER
            | {
                "minimum": 0,
                "maximum": 1,
                "description": "The share of the benchmark's other operations that got worse at the version"
                " where the target begins.",
            },
            "result_status": _TEXT | {"enum": [*STATUSES, ""], "description": "Filled in by the answer."},
        },
        ("benchmark_name", "operation_name"),
        {
            "result": {"type": "array", "items": result},
            LABEL: {"type": "array", "items": label, "description": "What people say: for training."},
        }
        | ({VERDICT: _verdict() | {"description": "What JSON says of a comparison."}} if answered else {}),
    )
    named = {"comparison_result": {"type": "array", "minItems": 1, "items": comparison}}
    reports = _element(dict.fromkeys((*UUIDS, "machine"), _TEXT), ("comparison_result",), named)
    return reports | {"xml": {"name": "comparison_results"}, "examples": [_EXAMPLE]}


def _verdict() -> Schema:
    """Describe what an answer says beside ``result_status``; all of it may be left out."""
    reason = _element({"feature": _TEXT, "value": _NUMBER, "contribution": _NUMBER}, ())
    move = _element(dict.fromkeys(("threads", "baseline_median", "target_median", "change"), _NUMBER), ())
    texts = ("comparison_id", "benchmark", "operation", "label", "labelled_by", "labelled_at", "near")
    example = _element({**dict.fromkeys(texts, _TEXT), "distance": _NUMBER}, ())
    unlike = _element(
        {"feature": _TEXT, "words": _TEXT, **dict.fromkeys(("value", "low", "high"), _NUMBER)}, ()
    )
    numbers = ("probability", "threshold", "unsure_from", "flips_at")
    said = ("model", "decided", "decided_by", "invalid_reason", "flip")
    sentences = {"type": "array", "items": _TEXT}
    return _element(
        {**dict.fromkeys(numbers, _NUMBER), **dict.fromkeys(said, _TEXT)},
        (),
        {
            ELEMENTS["words"]: sentences,
            ELEMENTS["remarks"]: sentences,
            ELEMENTS["reasons"]: {"type": "array", "items": reason},
            ELEMENTS["examples"]: {"type": "array", "items": example},
            "moved": move,
            "improved": move,
            "unlike": unlike,
        },
    )


def _element(attributes: Schema, required: Any, inside: Schema | None = None) -> Schema:
    """Describe an element by its attributes, and what is inside of it."""
    marked = {name: told | {"xml": {"attribute": True}} for name, told in attributes.items()}
    return {"type": "object", "required": list(required), "properties": marked | (inside or {})}


def _side(*numbers: float) -> Schema:
    return dict(zip(ATTRIBUTES.values(), numbers, strict=True))


_EXAMPLE = {
    "comparison_result": [
        {
            "benchmark_name": "NASParallel",
            "operation_name": "bt_C_x",
            "better": "higher",
            "result": [
                {
                    "threads_no": "4",
                    BASE: _side(7406.4, 7409.2, 7456.5, 7479.3, 7507.0, 7451.7, 39.2),
                    TARGET: _side(7404.8, 7503.0, 7522.2, 7537.8, 7597.5, 7513.1, 62.7),
                }
            ],
        }
    ]
}
