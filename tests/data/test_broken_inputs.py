"""Good files with something broken at random: each is read, or refused in one line, and soon."""

import io
import json
import shutil
import time
import zipfile
from contextlib import suppress
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.comparisons import formats
from data.comparisons.params import LabelRules
from data.corun import formats as corun_formats
from data.corun.formats import pitot
from data.errors import InputError, ModelError
from data.fingerprints import formats as fingerprint_formats
from data.fingerprints.formats import sparecores
from data.matrices import formats as matrix_formats
from data.matrices.formats import dbsherlock
from data.tables.problems import Problems
from tests.code.comparisons.sap_hana_series import MARKS, rows
from tests.code.fitted_models import trained
from tests.data.comparisons.documents import configuration, document, operation, request
from tests.data.comparisons.formats.reading import FILES, NO_RESULTS, SAMPLES
from tests.data.corun import rows as corun_rows
from tests.data.corun.rows import pitot_archives
from tests.data.fingerprints import rows as fingerprint_rows
from tests.data.matrices import rows as matrix_rows
from training.comparisons.stored import ReadyModel
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.pressure import Named
from training.corun.estimators.smooth import sides_of
from training.corun.stored import ImpactCard, OnlineCard, TrainedImpact
from training.matrices.engine.stored import EngineCard

#: Broken files of each kind, and the seconds that each may take on a busy machine.
DRAWS, SECONDS = 12, 10
RULES = LabelRules(
    versions_before=2, versions_after=2, clean_every=2, min_annotators=3, match_window=1, exclusion_window=2
)
COLUMNS = ("own_a", "others_a", "longer")


def comparisons(directory):
    (directory / "c.json").write_text(json.dumps(request(configuration(), configuration(4))))
    formats.read_tables("comparison-json", [directory / "c.json"]).tables.write(directory)
    (directory / "c.json").unlink()


def sap_hana(directory):
    (directory / "00052__throughput__ms.csv").write_text(rows([10] * 4 + [20] * 6))
    (directory / "annotations.json").write_text(json.dumps({"sap_52": MARKS}))


def seconds(directory):
    columns = {"cause": "io", "run": 1, "second": range(60), "abnormal": [False] * 48 + [True] * 12}
    pd.DataFrame({**columns, "faults": 1.0, "dbmsCommittedCommands": 5}).to_parquet(directory / "db.parquet")


def servers(directory):
    keys = {"vendor": ["a", "b"], "server": ["x", "y"]}
    pd.DataFrame({**keys, "cpu": ["p", "q"], "ncpu": [4, 8]}).to_parquet(directory / "servers.parquet")
    pd.DataFrame({**keys, "sng1:cpu": [1.0, 2.0]}).to_parquet(directory / "fingerprint.parquet")
    pd.DataFrame({**keys, "redis:SET": [1.0, 2.0]}).to_parquet(directory / "apps.parquet")


def answered(directory):
    """Ask a stored model: it has to come to an end."""
    with suppress(ModelError):
        ReadyModel.read(directory).predict_and_explain(np.zeros((2, 6)))


def impact(directory):
    draw = np.random.default_rng(1)
    pairs = np.array(["\n".join(pair) for pair in product("abcdef", repeat=2)])
    x, named = draw.random((len(pairs), 3)), Named(pairs, np.full(len(pairs), "m"))
    model = ContentionRegressor(trees=5, forest=3).fit(x, 1 + x[:, 0], named, sides_of(COLUMNS))
    card = ImpactCard("contention", COLUMNS, {}, {"pairs": 0.1}, ("m",), (), "", 1, 0.9)
    TrainedImpact(model, card).write(directory)


def answered_impact(directory):
    # leaves of 1e300 are numbers, however large the impacts
    with np.errstate(over="ignore", invalid="ignore"), suppress(ModelError):
        named = Named(np.array(["a\nb", "x\ny"]), np.array(["m", "n"]))
        TrainedImpact.read_quick(directory).model.predict(np.zeros((2, 3)), named)


COMMON = {"model": "m", "data_digest": "d", "seed": 1}
OF_CORUNS = COMMON | {"machines": ["m"], "confidence": 0.9}
#: Of each kind of card: its fields, and what an answer takes from it.
CARDS = {
    ImpactCard: (
        {**OF_CORUNS, "features": ["a"], "params": {}, "half_widths": {"pairs": 0.1}, "tasks": ["t"]},
        lambda card: card.half_width("x", ["y"]),
    ),
    OnlineCard: (
        {**OF_CORUNS, "events": ["e"], "coefficients": [[1, 2, 3, 4]], "seconds": 2.0,
         "half_widths": {"2.0": 1.0}, "blind_half_width": 1.0},
        lambda card: card.half_width("x", 1.0, 0.5),
    ),
    EngineCard: (
        {**COMMON, "entry": "e", "scheme": {}, "groups": ["g"], "own": [], "threshold": 0.5, "params": {},
         "missing": 0.5, "metrics": [{"metric": "a", "unit": "", "signed": None, "note": ""}]},
        lambda card: len(card.known_metrics),
    ),
}  # fmt: skip


def a_card(kind):
    """Return how to write a card of a kind, and how to use it."""
    fields, use = CARDS[kind]
    content = json.dumps(fields)
    return lambda path: (path / "card.json").write_text(content), lambda path: use(kind.read(path))


def read_one(kind, file, text):
    return (
        lambda directory: (directory / file).write_text(text),
        lambda directory: formats.read_tables(kind, [directory / file]),
    )


def tables_of(rows, formats):
    return lambda path: rows.small().write(path), lambda path: formats.read("tables", [path])


def of_a_tool(source):
    """Return how to write a tool's sample, with the configuration beside it, and how to read it."""
    kind = source.relative_to(SAMPLES).parts[0]

    def write(directory):
        for path in (source, *source.parent.glob("otava.yaml")):
            shutil.copy(path, directory)

    def read(directory):
        path = directory / source.name
        assert formats.recognise_format(path)
        for one in formats.stream_tables(kind, [path], Problems()):
            one.drop_invalid_rows("results", Problems())
            assert np.isfinite(one.results["value"]).all()

    return write, read


READERS = {
    "comparison tables": (comparisons, lambda path: formats.read_tables("tables", [path])),
    "comparison JSON": read_one("comparison-json", "c.json", json.dumps(request(configuration()))),
    "comparison XML": read_one("comparison-xml", "c.xml", document(operation("a"), operation("b"))),
    "SAP HANA": (sap_hana, lambda path: formats.read_tables("sap-hana", [path], label_rules=RULES)),
    "matrices": tables_of(matrix_rows, matrix_formats),
    "DBSherlock": (seconds, dbsherlock.read_tables),
    "co-runs": tables_of(corun_rows, corun_formats),
    "Pitot": (pitot_archives, pitot.read_tables),
    "fingerprints": tables_of(fingerprint_rows, fingerprint_formats),
    "Spare Cores": (servers, sparecores.read_tables),
    "a linear model": (lambda path: trained("logistic").write(path), answered),
    "trees": (lambda path: trained("decision-tree").write(path), answered),
    "trees of impact": (impact, answered_impact),
    **{f"the card {kind.__name__}": a_card(kind) for kind in CARDS},
    **{str(path.relative_to(SAMPLES)): of_a_tool(path) for path in FILES if path.name not in NO_RESULTS},
}  # fmt: skip

ODD = [
    *(None, True, -1, 2**70, 10**400, 1e308, float("nan"), float("inf")),
    *("", "x", "\ud800", "2026-99-99", [], [[1]], {}, {"a": {}}),
]


def broken_bytes(content, draw):
    """Cut, flip, fill or double some bytes."""
    if not content:
        return b"\xff"
    at, until = sorted(draw.integers(0, len(content), 2).tolist())
    changed = bytearray(content)
    match draw.integers(4):
        case 0:
            return content[:at]
        case 1:
            for place in draw.integers(0, len(content), 4):
                changed[place] ^= 1 << int(draw.integers(8))
        case 2:
            changed[at:until] = bytes(until - at)
        case 3:
            changed[at:at] = content[at:until]
    return bytes(changed)


def broken_table(content, draw):
    """Give one column of a Parquet file another type, take it away, or have it twice."""
    table = pq.read_table(io.BytesIO(content))
    column, rows = int(draw.integers(table.num_columns)), len(table)
    name = table.column_names[column]
    values = [
        ([1], pa.list_(pa.int8())), ({"a": 1}, pa.struct([("a", pa.int8())])), (b"\0\xff", pa.binary()),
        (None, pa.null()), (None, pa.float64()), (2**64 - 1, pa.uint64()), (-(2**63), pa.int64()),
        (float("nan"), pa.float64()), (float("-inf"), pa.float64()), ("1e999", pa.string()),
        (0, pa.timestamp("ns", "UTC")), (1, pa.decimal256(60, 20)), (False, pa.bool_()),
    ]  # fmt: skip
    columns = [pa.array([value] * rows, kind) for value, kind in values]
    columns.append(pa.array([b"\xff"] * rows, pa.binary()).view(pa.string()))
    columns.append(pa.array([f"{number}" for number in range(rows)]).dictionary_encode())
    tables = [table.set_column(column, name, odd) for odd in columns]
    twice = pa.Table.from_arrays([*table.columns, table.column(column)], [*table.column_names, name])
    tables += [table.remove_column(column), twice, table.slice(0, 0)]
    written = io.BytesIO()
    pq.write_table(tables[draw.integers(len(tables))], written)
    return written.getvalue()


def broken_arrays(content, draw):
    """Give one array of an archive another shape, type or content, or take it away."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = sorted(arrays)[draw.integers(len(arrays))]
    one = arrays[name]
    odd = [
        one[..., None], one.ravel()[:1], one.astype("U"), one[:0] if one.ndim else one,
        np.array([{}], object),
        np.full(one.shape, np.nan), np.full(one.shape, -1), np.full(one.shape, 2**40),
        np.full(one.shape, 1e300),
        *(np.zeros(one.shape, kind) for kind in (np.intp, complex, "M8[s]", bool)),
        one[::-1] if one.ndim else one, None,
    ]  # fmt: skip
    arrays[name] = odd[draw.integers(len(odd))]
    written = io.BytesIO()
    np.savez(written, **{key: array for key, array in arrays.items() if array is not None})
    return written.getvalue()


def broken_json(content, draw):
    """Put something odd in the place of one value of a JSON document, or take it away."""
    document = json.loads(content)
    places = list(_places(document))
    holder, key = places[draw.integers(len(places))]
    number = draw.integers(len(ODD) + 1)
    if number == len(ODD):
        del holder[key]
    else:
        holder[key] = ODD[number]
    return json.dumps(document).encode()


def _places(part):
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield part, key
        if isinstance(value, dict | list):
            yield from _places(value)


def broken_text(content, draw):
    """Put something odd in the place of one word of a text."""
    words = content.decode().replace("\n", " \n ").replace(",", " , ").split(" ")
    odd = ["", "nan", "-1", "1e999", "x" * 9, '"', "\0", "é", ","]
    words[draw.integers(len(words))] = odd[draw.integers(len(odd))]
    return " ".join(words).encode()


BREAKING = {".parquet": broken_table, ".npz": broken_arrays, ".json": broken_json}


@pytest.mark.parametrize("kind", READERS)
def test_broken_files_are_quickly_read_or_refused(kind, tmp_path):
    write, read = READERS[kind]
    write(tmp_path)
    good = {path: path.read_bytes() for path in sorted(tmp_path.iterdir()) if path.suffix != ".skops"}
    draw = np.random.default_rng(7)
    told = []
    read(tmp_path)
    for number in range(DRAWS):
        path = list(good)[draw.integers(len(good))]
        kind_of_file = "" if "lines" in path.name else path.suffix
        break_it = BREAKING.get(kind_of_file, broken_text) if number % 3 else broken_bytes
        path.write_bytes(break_it(good[path], draw))
        begun = time.monotonic()
        try:
            read(tmp_path)
        except InputError as error:
            told.append(str(error))
        except Exception as error:  # noqa: BLE001 - the draw has to be named
            pytest.fail(f"{path.name}, draw {number}: {type(error).__name__}: {error}")
        assert time.monotonic() - begun < SECONDS
        path.write_bytes(good[path])
    # of plain text much can be read whatever is broken
    assert "/" in kind or len(told) > DRAWS / 4
    assert not any("\n" in line for line in told)


def test_an_archive_whose_members_are_no_arrays_is_refused(tmp_path):
    pitot_archives(tmp_path)
    names = zipfile.ZipFile(tmp_path / "data.npz").namelist()
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        for name in names:
            archive.writestr(name, b"no array")
    with pytest.raises(InputError, match=r'data.npz array ".*": holds'):
        pitot.read_tables(tmp_path)
