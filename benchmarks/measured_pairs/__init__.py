"""Really measured pairs of runs, and verdicts on them: ``python -m benchmarks.measured_pairs``."""
