"""Small tables of matrices, built by hand."""

from data.matrices.tables import MatrixTables

GROUPS = {"sort": "sorting", "pipe": "pipes"}


def run(pair, side, number, **further):
    workload = pair.split()[0]
    return {
        "run_id": f"{pair} {side} {number}", "workload": workload, "group": GROUPS.get(workload, "other"),
        "version": "v0" if side == "baseline" else "v1", "machine": "m", "side": side, "pair_id": pair,
        "valid": True, "abnormal": False,
        "faults": 100.0 + number + len(pair), "switches": 7.0 * number, "summary_elapsed": 1.0 + number / 9,
        "summary_transactions": 30.0,
        **further,
    }  # fmt: skip


def pair(name):
    return [run(name, side, number) for side in ("baseline", "target") for number in (1, 2, 3)]


def small(*further, metrics=None, without=()):
    """Two pairs of three runs a side; further rows, which take the place of those of the same name."""
    rows = {row["run_id"]: row for row in (*pair("sort 1"), *pair("pipe 1"), *further)}
    return MatrixTables.from_rows([row for name, row in rows.items() if name not in without], None, metrics)
