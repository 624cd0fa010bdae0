"""Write a report of a benchmark run with the verdicts of perfjudge.

    uv run perfjudge serve &
    uv run python docs/examples/report_generator.py docs/samples/run.csv http://127.0.0.1:8000 report.html

It needs the package perfjudge-client and nothing else. The run is a CSV file with a row per repetition:
operation, better, unit, threads, version ("before" or "after"), value. If the server requires a token, it is
read from the variable PERFJUDGE_TOKEN.
"""

import csv
import sys
from html import escape
from pathlib import Path

from perfjudge_client import Client, ClientError
from perfjudge_client.schemas import Comparison, Configuration

ROW = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<h1>{title}</h1>
<table><tr><th>verdict</th><th>operation</th><th>probability</th><th>reason</th></tr>
{rows}
</table>
<p>Judged by {models}.</p>
</html>
"""


def read_comparisons(path):
    """Return a comparison per operation of the file, with a configuration per number of threads."""
    facts, samples = {}, {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["operation"]
            facts[name] = {"better": row["better"], "unit": row["unit"]}
            sides = samples.setdefault(name, {}).setdefault(int(row["threads"]), {"before": [], "after": []})
            sides[row["version"]].append(float(row["value"]))
    return [
        Comparison(
            comparison_id=name,
            benchmark=path.stem,
            operation=name,
            configurations=[
                Configuration(threads=threads, baseline=sides["before"], target=sides["after"])
                for threads, sides in samples[name].items()
            ],
            **facts[name],
        )
        for name in samples
    ]


def table_row(verdict):
    """Return a row of the table."""
    probability = "" if verdict.probability is None else f"{verdict.probability:.2f}"
    return ROW.format(*map(escape, (verdict.verdict, verdict.operation, probability, verdict.reason)))


def main(run, url, report):
    """Judge the run at the server, and write the report."""
    with Client(url) as client:
        verdicts = client.judge_comparisons(read_comparisons(run))
    n_failed = sum(verdict.verdict == "fail" for verdict in verdicts)
    rows = "\n".join(map(table_row, sorted(verdicts, key=lambda verdict: -(verdict.probability or 0))))
    models = ", ".join(f"{model.name} {model.version}" for model in verdicts.models)
    title = f"{run.stem}: {n_failed} of {len(verdicts)} operations got worse"
    report.write_text(PAGE.format(title=escape(title), rows=rows, models=escape(models)), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    except ClientError as error:
        sys.exit(f"no report: {error}")
