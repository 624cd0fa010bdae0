"""The family ``corun`` in the features package: from co-runs to vectors."""

from features.supply import FeaturesSupply


def featurize_stage() -> None:
    """Stage featurize: write the instances and their vectors."""
    import pandas as pd

    from data.corun.tables import CorunTables
    from data.corun.validity import CorunDecisions
    from data.errors import InputError
    from data.tables.files import write_tables
    from features.corun.rates import KEYS, PLACES, Solo, instances, placed_of, vectors

    tables = CorunTables.read(PLACES.interim)
    tables = CorunDecisions.read(PLACES.valid).kept(tables)
    solo = Solo.of(tables)
    table = instances(tables, solo)
    if table["impact"].isna().all():
        raise InputError("no co-run has a solo time", file=PLACES.interim / "pairs.parquet")
    written = pd.concat([table, vectors(solo, placed_of(table))], axis="columns")
    write_tables(PLACES.processed, {"features": written})
    print(f"{len(table)} instances, {written.shape[1] - len(KEYS)} features")  # noqa: T201


SUPPLY = FeaturesSupply(featurize_stage)
