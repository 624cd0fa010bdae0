"""Programs that measure SQLite."""

import random
import sqlite3
import tempfile


def _shop(rows, where=":memory:", page=4096, cache=-2000, journal="memory", sync=0):
    path = where if where == ":memory:" else tempfile.mkdtemp(prefix="perfjudge-", dir=where) + "/shop.db"
    connection = sqlite3.connect(path, isolation_level=None)
    pragmas = {"page_size": page, "cache_size": cache, "journal_mode": journal, "synchronous": sync}
    for name, value in pragmas.items():
        connection.execute(f"pragma {name}={value}")
    connection.execute("create table customer (id integer primary key, city text, name text)")
    connection.execute("create table sale (id integer primary key, customer integer, amount real, day text)")
    drawn = random.Random(1)
    people = [(i, f"city{i % 40}", f"name {drawn.random()}") for i in range(rows // 10)]
    sales = [
        (i, drawn.randrange(rows // 10), drawn.random(), f"2026-{i % 12 + 1:02d}-{i % 28 + 1:02d}")
        for i in range(rows)
    ]
    connection.execute("begin")
    connection.executemany("insert into customer values (?, ?, ?)", people)
    connection.executemany("insert into sale values (?, ?, ?, ?)", sales)
    connection.execute("commit")
    return connection


def lookup(rows=3000, index=1, width=1):
    """Return a function that sums the sales of a random customer, of `rows` sales in SQLite.

    The index is by customer, if `width` > 1 also by amount.
    """
    shop = _shop(rows)
    if index:
        shop.execute("create index by_customer on sale (customer" + (", amount)" if width > 1 else ")"))
    drawn = random.Random(3)
    query = "select sum(amount) from sale where customer = ?"
    return lambda: shop.execute(query, (drawn.randrange(rows // 10),)).fetchone()


def join(rows=2000, analyze=1, order="planned", index=1):
    """Return a function that counts and sums a city's sales, of `rows`, by a join in SQLite.

    `order` is "planned", "sales first" or (any other) customers first.
    """
    shop = _shop(rows)
    if index:
        shop.execute("create index by_customer on sale (customer)")
        shop.execute("create index by_city on customer (city)")
    if analyze:
        shop.execute("analyze")
    between = "join" if order == "planned" else "cross join"
    tables = ("sale", "customer") if order == "sales first" else ("customer", "sale")
    query = (
        f"select count(*), sum(amount) from {tables[0]} {between} {tables[1]}"
        " on sale.customer = customer.id where customer.city = ?"
    )
    return lambda: shop.execute(query, ("city7",)).fetchone()


def aggregate(rows=2000, index=0, distinct=0):
    """Return a function that sums `rows` sales (if `distinct`, counts customers) by day by SQL."""
    shop = _shop(rows)
    if index:
        shop.execute("create index by_day on sale (day, amount)")
    what = "count(distinct customer)" if distinct else "sum(amount)"
    return lambda: shop.execute(f"select day, {what} from sale group by day").fetchall()


def sorted_rows(rows=2000, index=0, limit=100):
    """Return a function that lists the `limit` largest of `rows` sales, by amount, in SQLite.

    If `index` is not 0, there is an index by amount.
    """
    shop = _shop(rows)
    if index:
        shop.execute("create index by_amount on sale (amount)")
    return lambda: shop.execute("select * from sale order by amount desc limit ?", (limit,)).fetchall()


def text_search(rows=2000, how="like"):
    """Return a function that selects the number of names with "77" in SQLite by "like", "glob" or "instr"."""
    shop = _shop(rows)
    where = {"like": "name like '%77%'", "glob": "name glob '*77*'", "instr": "instr(name, '77') > 0"}[how]
    return lambda: shop.execute(f"select count(*) from customer where {where}").fetchone()


def insert(batch=100, where=":memory:", page=4096, journal="memory", sync=0, indexes=1):
    """Return a function that inserts `batch` sales in one transaction of SQLite; `indexes` is up to 3."""
    shop = _shop(1000, where, page, -2000, journal, sync)
    for number in range(indexes):
        shop.execute(f"create index insert{number} on sale ({('customer', 'amount', 'day')[number]})")
    drawn = random.Random(5)

    def unit():
        shop.execute("begin")
        rows = [(drawn.randrange(100), drawn.random(), "2026-01-01") for _ in range(batch)]
        shop.executemany("insert into sale (customer, amount, day) values (?, ?, ?)", rows)
        shop.execute("commit")

    return unit


def update(where="/dev/shm", cache=-2000, page=4096, journal="wal", sync=0, rows=6000):
    """Return a function that updates and reads ten of `rows` sales in one transaction of SQLite."""
    shop = _shop(rows, where, page, cache, journal, sync)
    drawn = random.Random(7)

    def unit():
        shop.execute("begin")
        for _ in range(10):
            row = drawn.randrange(rows)
            shop.execute("update sale set amount = amount + 1 where id = ?", (row,))
            shop.execute("select amount from sale where id = ?", (row,)).fetchone()
        shop.execute("commit")

    return unit


def scan(where="/dev/shm", cache=-2000, page=4096, rows=4000):
    """Return a function that reads all `rows` sales of a SQLite file in the directory `where`."""
    shop = _shop(rows, where, page, cache, "memory", 0)
    return lambda: shop.execute("select sum(length(day)), count(amount > 0.5) from sale").fetchone()


def window(rows=800, frame=0):
    """Return a function that adds up running totals of `rows` sales per customer by SQL."""
    shop = _shop(rows)
    rows_between = " rows between 3 preceding and current row" if frame else ""
    over = f"partition by customer order by amount{rows_between}"
    query = f"select sum(r) from (select sum(amount) over ({over}) as r from sale)"
    return lambda: shop.execute(query).fetchone()
