"""Pairs of matrices drawn at random, of which some targets do more of the same work."""

import numpy as np
import pandas as pd

from data.matrices.tables import MatrixTables

METRICS = 12
MOVED = ("m0", "m1", "m2")


def pairs(groups=2, cases=6, versions=6, runs=3, size=0.4, invalid=0.0, seed=1):
    """Every third version of a test case is abnormal: three metrics rise by `size` (in logarithms)."""
    draw, clock = np.random.default_rng(seed), np.random.default_rng(seed)
    like = draw.normal(0, 1, (groups, METRICS))
    about, values, measured = [], [], []
    for group in range(groups):
        for case in range(cases):
            normal = like[group] + draw.normal(0, 0.5, METRICS)
            for version in range(versions):
                for side in ("baseline", "target"):
                    for number in range(runs):
                        abnormal = side == "target" and version % 3 == 0
                        row = normal + draw.normal(0, 0.03, METRICS)
                        row[: len(MOVED)] += size * abnormal
                        valid = draw.random() >= invalid
                        row += draw.normal(0, 2, METRICS) * (not valid)
                        pair = f"g{group} c{case} v{version}"
                        about.append({
                            "run_id": f"{pair} {side} {number}", "workload": f"g{group} c{case}",
                            "group": f"g{group}", "version": f"{side} {version}", "machine": "m",
                            "side": side, "pair_id": pair, "valid": valid,
                            "abnormal": abnormal if valid else None,
                        })  # fmt: skip
                        values.append(np.exp(row))
                        measured.append((np.exp(clock.normal(0, 0.03)), 100.0 + 10 * case + group))
    numbers = pd.DataFrame(np.array(values), columns=[f"m{number}" for number in range(METRICS)])
    summary = numbers[["m0", "m5"]].add_prefix("summary_")
    counted = pd.DataFrame(measured, columns=["summary_elapsed", "summary_transactions"])
    frame = pd.concat([pd.DataFrame(about), numbers, summary, counted], axis="columns")
    units = {"m0": "1/s", "summary_elapsed": "s", "summary_transactions": "1"}
    return MatrixTables.from_rows(
        frame, None, [{"metric": metric, "unit": unit} for metric, unit in units.items()]
    )


def of_groups(tables, *groups):
    return tables.select_runs(tables.runs["group"].isin(groups).to_numpy())
