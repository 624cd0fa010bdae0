"""File formats of co-runs."""

from data.corun.formats import pitot, spec_corun
from data.corun.tables import CorunTables
from data.tables.formats import Format, Sources

SOURCES = Sources(
    {
        "tables": Format(CorunTables.read, sign="pairs.parquet"),
        "pitot": Format(pitot.read_tables, sign="if2.npz"),
        "spec-corun": Format(spec_corun.read_tables, sign=f"**/{spec_corun.PAIRS}"),
    },
    CorunTables,
    {"pair": lambda tables: tables.pairs, "solo run": lambda tables: tables.tasks},
)
FORMATS = SOURCES.formats
read = SOURCES.read
