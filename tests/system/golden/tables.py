"""Describe written files: the values of tables, the text of pages, the numbers of models."""

import hashlib
import json

import pandas as pd
import pyarrow.parquet as pq

#: Cells up to which a table is described by all its values, beyond by figures of its columns.
MOST_CELLS = 20_000


def described(path, normaliser):
    """Return a JSON description of the content of a file."""
    if path.suffix == ".parquet":
        return _table(path, normaliser)
    if path.suffix in (".skops", ".db", ".joblib", ".npz", ".npy", ".gz", ".zip", ".png"):
        return "<binary>"
    try:
        return normaliser.answer(path.read_text("utf-8"))
    except UnicodeDecodeError:
        return "<binary>"


def files(directory, normaliser):
    """Return the descriptions of all files below a directory, by relative path."""
    return {
        normaliser.text(str(path.relative_to(directory))): described(path, normaliser)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def _table(path, normaliser):
    schema, table = pq.read_schema(path), pd.read_parquet(path)
    columns = {name: {"type": str(schema.field(name).type)} for name in table.columns}
    for name, column in table.items():
        if table.size <= MOST_CELLS:
            values = json.loads(column.to_json(orient="values", double_precision=15, date_format="iso"))
            columns[name]["values"] = normaliser.value(values)
        else:
            columns[name] |= _figures(column)
    return {"rows": len(table), "columns": columns}


def _figures(column):
    told = {"missing": int(column.isna().sum())}
    if pd.api.types.is_float_dtype(column):
        return told | {
            name: None if pd.isna(value) else float(f"{value:.9g}")
            for name, value in (
                ("sum", column.sum()), ("least", column.min()), ("most", column.max()),
                ("first", column.iloc[0]), ("weighted", (column.fillna(0) * range(len(column))).sum()),
            )
        }  # fmt: skip
    text = "\n".join(map(str, column.tolist()))
    return told | {"content": hashlib.sha256(text.encode()).hexdigest()[:16]}
