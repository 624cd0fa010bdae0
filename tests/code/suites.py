"""Small suites of measurements, one or two per model family."""

SORT = {
    "name": "sort", "group": "cpu", "threads": [1, 2],
    "command": "{run} language sorting {work} shape={shape}",
    "settings": {"shape": "random"}, "changes": {"nearly": {"shape": "nearly"}}, "also": ["seed"],
}  # fmt: skip
COMPARISONS = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "passes": 6, "history": 3, "same": 2, "changes": 3,
    "injected": [0.2], "seconds": 0.01, "shared": {"seed": {"PYTHONHASHSEED": 0}}, "operations": [SORT],
}  # fmt: skip

TASKS = {"sort": "language sorting", "json": "library json_text", "regex": "library regex"}
CORUN = {
    "kind": "corun", "name": "tiny", "seed": 3, "solo": 3, "repeat": 2, "events": ["task-clock"],
    "tasks": [{"name": name, "group": "cpu", "workload": TASKS[name], "work": 9} for name in TASKS],
}  # fmt: skip

FINGERPRINT = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 3,
    "threads": ["one", "all"], "stressors": ["cpu", "nop", "gone"],
}  # fmt: skip
CONSTRAINED = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 2, "threads": ["one"],
    "stressors": ["cpu", "nop", "gone"],
    "programs": [{"name": "sort", "command": "{run} library heap 1"}],
    "constraints": [{"name": f"{kind} {number}", "kind": kind} for kind in "ab" for number in (1, 2)],
}  # fmt: skip

CASES = [
    {"name": name, "group": group, "workload": name, "transactions": 50}
    for name, group in (("sort", "sorting"), ("heap", "sorting"), ("touch", "vm"), ("json", "cpu"))
]
MATRIX = {
    "kind": "matrix", "name": "tiny", "seed": 3, "versions": 5, "abnormal": 0.2, "sizes": [0.2, 0.4],
    "events": ["task-clock"], "cases": CASES,
}  # fmt: skip
