"""Write a report of a benchmark run with the verdicts of perfjudge.

    uv run perfjudge serve &
    uv run python docs/examples/report_generator.py docs/samples/run.csv http://127.0.0.1:8000 report.html

The run is a CSV file with a row per repetition: operation, better, unit, threads, version ("before" or
"after"), value. A token, where the server wants one, is taken from the variable PERFJUDGE_TOKEN.
"""

import csv
import sys
from html import escape
from pathlib import Path

from serving.client import Judge, JudgeError

ROW = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<h1>{title}</h1>
<table><tr><th>verdict</th><th>operation</th><th>probability</th><th>what moved most</th></tr>
{rows}
</table>
<p>Judged by {models}.</p>
</html>
"""


def comparisons(path):
    """Return what the file holds as perfjudge takes it: per operation and number of threads both sides."""
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["operation"]
            one = found.setdefault(name, {"comparison_id": name, "operation": name, "configurations": {}})
            one |= {"benchmark": path.stem, "better": row["better"], "unit": row["unit"]}
            threads = int(row["threads"])
            empty = {"threads": threads, "baseline": [], "target": []}
            sides = one["configurations"].setdefault(threads, empty)
            sides["baseline" if row["version"] == "before" else "target"].append(float(row["value"]))
    return [one | {"configurations": list(one["configurations"].values())} for one in found.values()]


def line(verdict):
    """Return a row of the table."""
    chance = "" if verdict.probability is None else f"{verdict.probability:.2f}"
    moved, why = verdict.moved, verdict.invalid_reason or ""
    if moved is not None:
        why = f"{moved.threads} threads: {moved.change:+.1%}"
    return ROW.format(*map(escape, (verdict.verdict, verdict.operation, chance, why)))


def main(run, url, report):
    """Judge the run at the server, and write the report."""
    with Judge(url) as judge:
        verdicts = judge.comparisons(comparisons(run))
    fails = sum(verdict.verdict == "fail" for verdict in verdicts)
    rows = "\n".join(map(line, sorted(verdicts, key=lambda verdict: -(verdict.probability or 0))))
    models = ", ".join(f"{model.name} {model.version}" for model in verdicts.models)
    title = f"{run.stem}: {fails} of {len(verdicts)} operations got worse"
    report.write_text(PAGE.format(title=escape(title), rows=rows, models=escape(models)), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    except JudgeError as error:
        sys.exit(f"no report: {error}")
