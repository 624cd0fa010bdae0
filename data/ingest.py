"""Stage ingest: ``python -m data.ingest FAMILY...``."""

from data.families import family_plugin
from data.stage import run_stage

if __name__ == "__main__":
    run_stage("ingest", lambda family: family_plugin(family).ingest)
