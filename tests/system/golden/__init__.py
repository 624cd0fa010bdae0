"""Golden answers: the visible behaviour of the project, recorded while its code is reorganised.

Run ``pytest tests/system/golden`` (``-k compare``: one group), or ``python -m tests.system.golden``, which
compares in the same way; ``--record [--only PATTERN]`` records answers anew and prints which of them changed
in words and which in values. ``--project DIR`` keeps the trained models in a directory for the next time, as
long as stored models can be read by the present code.

A short pipeline trains models of all four families (`tests.short_pipeline`), in a copy of the project. Then
one process runs the commands of ``commands.txt``, sends the requests of `requests`, and reads the reports.
Only the command line, HTTP and files are used, so that modules may move. ``renames.yaml`` maps old names to
new ones. What differs from run to run is replaced by a placeholder (`normalise`).

Not recorded: the error where no result matches a rule of timelines; `experiments diff` of two states;
`collect_suite`, `corun watch` and `corun measure` beyond wrong uses; values of ``/metrics`` (only names and
descriptions), bytes of models and databases, drawings and scripts of pages without their text, the chart of
durations on the page of matrices and its ``times.parquet``, tables of more than 20,000 cells beyond figures
of each column.
"""
