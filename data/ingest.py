"""Stage ingest: ``python -m data.ingest FAMILY``."""

from data.stage import run_family

if __name__ == "__main__":
    run_family("ingest", "data")
