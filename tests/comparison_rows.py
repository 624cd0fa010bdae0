"""Rows of the tables of comparisons, built by hand."""

ENDS = ("baseline_from", "baseline_to", "target_from", "target_to")


def result(operation="o", order=0, value=1.0, **further):
    """Return one sample of a version, of which less is better."""
    return {
        "series_id": operation, "group": "g", "benchmark": "b", "operation": operation, "machine": "m",
        "unit": "s", "better": "lower", "threads": 1, "version": str(order), "order": order, "value": value,
        **further,
    }  # fmt: skip


def compared(name="c", operation="o", baseline=(0, 0), target=(1, 1), **further):
    about = {"comparison_id": name, "benchmark": "b", "operation": operation, "machine": "m"}
    return about | dict(zip(ENDS, (*baseline, *target), strict=True)) | further
