"""The store of labels, in SQLite and in a real PostgreSQL, also while twelve people label and servers die."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from urllib.parse import quote

import httpx
import pandas as pd
import pytest
from alembic import context
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import DBAPIError

from data.comparisons.labels import label_store
from data.comparisons.labels.database import LABELS, NAME, VERSION, StoreAddress
from data.comparisons.labels.label_store import (
    ImportedLabelCounts,
    IncompatibleStoreError,
    KeyTakenError,
    LabelStore,
    NewLabel,
    TooManyLabelsError,
    UnreachableError,
    export_label_table,
    import_label_table,
)
from data.comparisons.tables import LABEL_DTYPES, ComparisonTables
from data.errors import InputError
from data.tables.specs import with_dtypes
from serving.comparisons.labels.endpoints import CurrentLabels, LabelEntry
from tests.data.refusals import refusal
from tests.imports import ROOT
from tests.ports import free_port
from tests.system.conftest import Listening

NUMBERS = count()
MIGRATIONS = str(Path(label_store.__file__).with_name("migrations"))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of a new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/labels.db"
    return request.getfixturevalue("postgres").url(f"labels{next(NUMBERS)}")


@pytest.fixture
def store(url):
    store = LabelStore.open(url)
    yield store
    store.close()


@pytest.fixture
def engine(url, store):
    """The database behind the store."""
    engine = StoreAddress.from_address(url).new_engine()
    yield engine
    engine.dispose()


def given(comparison_id="a", status="fail", by="anna", key=None, **further):
    return NewLabel(comparison_id, status, by, key or f"k{next(NUMBERS)}", **further)


def said(store, comparison_id="a"):
    return [(one.labelled_by, one.status) for one in store.label_history(comparison_id)]


def current(store):
    return store.current_labels()[["comparison_id", "labelled_by", "status"]].to_numpy().tolist()


def test_the_last_label_of_each_annotator_counts(store):
    labels = [("anna", "fail"), ("ben", "fail"), ("anna", "pass"), ("ben", None), ("carl", "cannot_tell")]
    began = datetime.now(UTC)
    for by, status in labels:
        store.add_label(given(status=status, by=by))
    last = store.add_label(given("<script>/../ü", "pass", saw_verdict=True, model="regression-comparison 3"))
    assert (last.saw_verdict, last.model) == (True, "regression-comparison 3")
    assert began <= last.labelled_at <= datetime.now(UTC)
    assert (store.label_history("<script>/../ü"), store.label_history("b")) == ([last], [])
    assert said(store) == labels
    assert [one.number for one in store.label_history("a")] == [1, 2, 3, 4, 5]
    expected = [["a", "anna", "pass"], ["a", "carl", "cannot_tell"], ["<script>/../ü", "anna", "pass"]]
    assert current(store) == expected
    assert store.current_labels().dtypes.equals(with_dtypes(None, LABEL_DTYPES).dtypes)


def test_a_key_reused_for_another_label_is_refused(store):
    label = store.add_label(given(key="one"))
    assert store.add_label(given(key="one")) == label
    for other in (given(key="one", status="pass"), given("b", key="one"), given(by="ben", key="one")):
        with pytest.raises(KeyTakenError, match='key="one"'):
            store.add_label(other)
    first, again, other = store.add_all([given(one, key="two") for one in "bbc"])
    assert first.label == again.label
    assert isinstance(other, KeyTakenError)
    assert [said(store, name) for name in "abc"] == [[("anna", "fail")], [("anna", "fail")], []]


def test_the_order_of_labels_counts_despite_wrong_clocks(store, monkeypatch):
    before = store.add_label(given(status="fail", key="z"))

    class Late(datetime):
        @classmethod
        def now(cls, tz=None):
            return before.labelled_at - timedelta(seconds=5)

    monkeypatch.setattr(label_store, "datetime", Late)
    # of what comes together, too: keys do not ascend with time
    store.add_all([given(status="fail", key="y"), given(status="pass", key="x"), given(by="ben", key="w")])
    assert said(store) == [("ben", "fail"), ("anna", "fail"), ("anna", "fail"), ("anna", "pass")]
    assert current(store) == [["a", "ben", "fail"], ["a", "anna", "pass"]]


def test_equal_simultaneous_labels_are_stored_only_once(url):
    labels = [given(f"c{number}", key=f"key{number}") for number in range(40)]
    stores = [LabelStore(url) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        orders = [(store, labels[::step]) for store in stores for step in (1, -1)]
        answers = threads.map(lambda order: order[0].add_all(order[1]), orders)
        added = [one for answer in answers for one in answer]
    assert len({(one.label.key, one.label.number) for one in added}) == len(labels)
    assert sum(one.fresh for one in added) == len(labels)
    for store in stores:
        store.close()


def test_too_many_new_labels_of_one_annotator_are_refused(store):
    first = [given(key=f"f{number}") for number in range(3)]
    assert [one.fresh for one in store.add_all(first, max_recent=3)] == [True] * 3
    mixed = store.add_all([*first, given(), given(by="ben")], max_recent=3)
    assert [getattr(one, "fresh", None) for one in mixed] == [False, False, False, None, True]
    assert isinstance(mixed[3], TooManyLabelsError)
    assert len(store.label_history(first[0].comparison_id)) == 4


def test_the_database_refuses_unknown_changed_and_removed_labels(engine, store):
    store.add_label(given())
    with pytest.raises(UnreachableError, match="status"):
        store.add_label(given(status="maybe"))
    # SQLite has no TRUNCATE
    further = [] if engine.name == "sqlite" else [f"TRUNCATE {NAME}"]
    for change in (f"UPDATE {NAME} SET status = 'pass'", f"DELETE FROM {NAME}", *further):
        with pytest.raises(DBAPIError, match="labels are only added"), engine.begin() as connection:
            connection.execute(text(change))
    assert said(store) == [("anna", "fail")]


def open_and_add(url, ready, number):
    ready.wait()
    LabelStore.open(url).add_label(given(f"c{number}", key=f"k{number}"))


def test_processes_that_open_at_once_make_the_database_once(url):
    context = multiprocessing.get_context("forkserver")
    # what takes long to import is imported once
    context.set_forkserver_preload([__name__])
    ready = context.Barrier(4)
    processes = [context.Process(target=open_and_add, args=(url, ready, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    with closing(LabelStore(url)) as store:
        assert len(store.current_labels()) == 4


def test_the_migrations_make_the_declared_table(engine):
    assert ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS]).get_current_head() == label_store.HEAD
    found = {column["name"]: column["nullable"] for column in inspect(engine).get_columns(NAME)}
    assert found.keys() == {column.name for column in LABELS.columns}
    assert {name for name, nullable in found.items() if nullable} == {"status", "saw_verdict"}
    indexes = {tuple(one["column_names"]) for one in inspect(engine).get_indexes(NAME) if not one["unique"]}
    assert indexes == {("comparison_id",), ("labelled_by", "labelled_at")}


def test_migrations_of_other_libraries_stay_untouched(tmp_path):
    config = Config()
    with EnvironmentContext(config, ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS])):
        LabelStore.open(f"sqlite:///{tmp_path}/labels.db").close()
        assert context.config is config


@pytest.mark.parametrize(("version", "age"), [(3, "a newer"), (1, "an older")])
def test_a_database_of_another_version_is_refused(url, engine, version, age):
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION} SET version_num = '{version}'"))
    told = rf"^\S+: was written by {age} perfjudge \(tables of version {version};"
    with pytest.raises(IncompatibleStoreError, match=told):
        LabelStore.open(url)


THEN = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


def table(*rows):
    columns = ["comparison_id", "status", "annotator", "labelled_at", "labelled_by"]
    return with_dtypes(pd.DataFrame([(*row, row[2]) for row in rows], columns=columns), LABEL_DTYPES)


def test_labels_from_a_table_are_added_once(store):
    def imported(labels, *by):
        """Return how many labels were added, were there already, and name nobody."""
        counts = import_label_table(labels, store, *by)
        return counts.added, counts.already_stored, counts.unattributed

    labels = table(("a", "fail", "anna", THEN), ("a", "pass", "anna", None), ("b", "pass", None, THEN))
    assert [imported(labels) for _ in range(2)] == [(2, 0, 1), (0, 2, 1)]
    # without a time it is older than any
    assert current(store) == [["a", "anna", "fail"]]
    assert export_label_table(store)["labelled_at"].tolist() == [pd.Timestamp(THEN)]
    with pytest.raises(InputError, match=r'label of "c": labelled_at="2999-.* is in the future'):
        imported(table(("c", "fail", "anna", datetime(2999, 1, 1, tzinfo=UTC))))
    assert imported(labels, "carl") == (1, 2, 0)
    assert current(store) == [["a", "anna", "fail"], ["b", "carl", "pass"]]


def test_a_label_without_a_time_is_answered_without_one(store):
    import_label_table(table(("a", "pass", "anna", None), ("b", "pass", "anna", THEN)), store)
    rows = store.current_labels().drop(columns="annotator").to_dict("records")
    answered = {label.comparison_id: label.labelled_at for label in CurrentLabels(labels=rows).labels}
    assert answered == {"a": None, "b": THEN}
    histories = [LabelEntry.model_validate(store.label_history(name)[0]) for name in "ab"]
    assert [entry.labelled_at for entry in histories] == [None, THEN]


NANOSECONDS = [pd.Timestamp(f"2026-11-22T09:30:00.123456{nanoseconds}Z") for nanoseconds in ("001", "999")]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("times", [(None, None), (THEN, THEN), NANOSECONDS], ids=["none", "equal", "ns"])
def test_of_labels_with_the_same_time_the_last_in_a_table_counts(store, times):
    both = [*zip(("pass", "fail"), times, strict=True)]
    rows = [(f"c{n}", status, "anna", time) for n in range(20) for status, time in both]
    for added in (20, 0):
        counts = import_label_table(table(*rows, *rows[-2:]), store)
        assert counts == ImportedLabelCounts(added, 22 - added, 0, 20)
        assert {row[2] for row in current(store)} == {"fail"}
    if times is NANOSECONDS:
        assert store.label_history("c0")[0].labelled_at == THEN.replace(microsecond=123456)


def test_a_withdrawn_label_is_not_exported_with_the_data(store):
    labels = table(("a", "fail", "anna", THEN), ("a", "fail", "ben", THEN), ("b", "pass", None, THEN))
    import_label_table(labels, store)
    store.add_label(given("a", None, "anna"))
    store.add_label(given("a", "pass", "ben"))
    out = export_label_table(store, labels)
    assert out[["comparison_id", "status"]].to_numpy().tolist() == [["b", "pass"], ["a", "pass"]]
    assert out["annotator"].fillna("nobody").tolist() == ["nobody", "ben"]


@pytest.mark.parametrize("address", ["geheim", "mysql://me:geheim@h/x", "postgresql://h:geheim/x"])
def test_a_wrong_address_is_refused_and_not_quoted(address):
    told = refusal(LabelStore, address)
    assert "expected sqlite:///FILE or postgresql://" in told
    assert "geheim" not in told


def test_sqlite_waits_for_the_disk_and_lets_others_read(tmp_path):
    url = f"sqlite:///{tmp_path}/labels.db"
    LabelStore.open(url).close()
    engine = StoreAddress.from_address(url).new_engine()
    with engine.connect() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "journal_mode")
        ]
    # 2: FULL
    assert found == [2, "wal"]
    engine.dispose()


def test_the_first_label_creates_the_label_store(tmp_path):
    with closing(LabelStore(f"sqlite:///{tmp_path}/labels.db")) as store:
        store.check_reachable()
        assert (store.label_history("a"), len(store.current_labels())) == ([], 0)
        assert list(tmp_path.iterdir()) == []
        store.add_label(given())
        later = store.add_label(given(labelled_at=datetime.now(UTC) - timedelta(days=1), status="pass"))
        assert store.label_history("a")[0] == later


PEOPLE, EACH = 12, 15
SOURCE = ROOT / "data/raw/measured"


def label_all(name, port, comparison_ids, acknowledged):
    """Label one comparison after the other, and send again what was not acknowledged."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/labels/", timeout=30) as client:
        for number, comparison_id in enumerate(comparison_ids):
            key = f"{name}-{number}"
            given = {"status": ("pass", "fail")[number % 2], "key": key, "labelled_by": name}
            while key not in acknowledged:
                with suppress(httpx.TransportError):
                    answer = client.put(quote(comparison_id), json=given)
                    assert answer.status_code in {200, 503}, answer.text
                    if answer.status_code == 200:
                        acknowledged[key] = answer.json()["label"]["number"]
                time.sleep(0.1 * (key not in acknowledged))


def labelled(port, accidents):
    """Let all label while each accident happens, at its share of all labels; return numbers by key."""
    acknowledged = {}
    ids = ComparisonTables.SPECS["comparisons"].read(SOURCE / "comparisons.parquet")["comparison_id"].tolist()
    with ThreadPoolExecutor(PEOPLE) as people:
        writing = [
            people.submit(label_all, f"p{one}", port, ids[one * 20 :][:EACH], acknowledged)
            for one in range(PEOPLE)
        ]
        for share, accident in accidents:
            while len(acknowledged) < share * PEOPLE * EACH and not all(one.done() for one in writing):
                time.sleep(0.02)
            accident()
        for one in writing:
            one.result()
    return acknowledged


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_acknowledged_label_is_lost_or_kept_twice(kind, request, tmp_path, model_directory):
    postgres = request.getfixturevalue("postgres") if kind == "postgresql" else None
    url, port = postgres.url("survive") if postgres else f"sqlite:///{tmp_path}/labels.db", free_port()
    options = {"--model": model_directory, "--labels": url, "--comparisons": SOURCE, "--port": port}
    arguments = [str(part) for option in options.items() for part in option]
    servers = [Listening(*arguments)]

    def kill_server():
        servers[-1].process.kill()
        servers[-1].stop()
        servers.append(Listening(*arguments))

    def kill_database():
        postgres.kill()
        time.sleep(0.3)
        postgres.start()

    try:
        acknowledged = labelled(port, [(0.3, kill_server), *([(0.7, kill_database)] if postgres else [])])
    finally:
        servers[-1].stop()
    engine = StoreAddress.from_address(url).new_engine()
    with engine.connect() as connection:
        kept = [tuple(row) for row in connection.execute(select(LABELS.c.key, LABELS.c.number))]
    engine.dispose()
    assert len(kept) == len({number for _, number in kept}) == len(acknowledged) == PEOPLE * EACH
    assert dict(kept) == acknowledged
