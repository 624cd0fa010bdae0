"""Stage ingest: ``python -m data.ingest FAMILY...``."""

from data.stage import run
from data.supply import supply

if __name__ == "__main__":
    run("ingest", lambda family: supply(family).ingest)
