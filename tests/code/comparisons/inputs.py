"""Rows of results and of comparisons, built by hand."""

from tests.comparison_rows import compared, result


def rows(operation, values, order=0, stat=None, threads=1):
    common = {"benchmark": "b & <c>", "unit": "1/s", "better": "higher", "threads": threads}
    return [
        result(operation, order, value, stat=given, **common)
        for value, given in zip(values, stat or [None] * len(values), strict=True)
    ]


def comparison_row(operation):
    return compared(f"id-{operation}", operation, benchmark="b & <c>")
