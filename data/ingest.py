"""Stage ingest: ``python -m data.ingest FAMILY...``."""

from data.families import supply
from data.stage import run

if __name__ == "__main__":
    run("ingest", lambda family: supply(family).ingest)
