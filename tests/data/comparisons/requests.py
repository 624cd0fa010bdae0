"""Requests in JSON, built by hand."""


def configuration(threads=2, baseline=(1.0, 2.0), target=(3.0, 4.0), **more):
    return {"threads": threads, "baseline": list(baseline), "target": list(target), **more}


def request(*configurations, **more):
    comparison = {"comparison_id": "a", "operation": "sort", "better": "lower", **more}
    return {"comparisons": [{**comparison, "configurations": list(configurations)}]}
