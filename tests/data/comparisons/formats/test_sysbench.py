"""What sysbench itself prints here."""

from tests.data.comparisons.formats.reading import needs, ran, run, written

OLTP = """sysbench 1.0.20 (using LuaJIT)
Number of threads: 8
[ 1s ] thds: 8 tps: 100.50 qps: 2010.00 (r/w/o: 1/2/3) lat (ms,95%): 9.1 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 8 tps: 101.50 qps: 2030.00 (r/w/o: 1/2/3) lat (ms,95%): 9.1 err/s: 0.00 reconn/s: 0.00
SQL statistics:
    transactions:                        202    (101.00 per sec.)
    queries:                             4040   (2020.00 per sec.)
Latency (ms):
         avg:                                    7.25
"""


@needs("sysbench")
def test_successive_real_runs_are_read_as_repetitions(tmp_path):
    command = ("sysbench", "--threads=2", "--events=200", "--time=5", "cpu", "--cpu-max-prime=2000", "run")
    path = written(tmp_path / "a.txt", ran(*command) + ran(*command))
    found = run(path, "sysbench")
    rate = found["sysbench", "events[prime_numbers_limit=2000]", "unknown", 2, "events/s", "higher"]
    latency = found["sysbench", "latency[prime_numbers_limit=2000]", "unknown", 2, "ms", "lower"]
    assert (len(rate), len(latency)) == (2, 2)
    assert min(rate) > 0


@needs("sysbench")
def test_memory_runs_have_rates_of_their_own(tmp_path):
    path = written(tmp_path / "a.txt", ran("sysbench", "memory", "--memory-total-size=64M", "run"))
    names = {(key[1].partition("[")[0], *key[4:]) for key in run(path, "sysbench")}
    assert names >= {("operations", "op/s", "higher"), ("transferred", "MiB/s", "higher")}


def test_intervals_replace_the_total_of_a_run(tmp_path):
    """As sysbench prints it with ``--report-interval`` of a database, which is not there."""
    key = ("unknown", 8)
    assert run(written(tmp_path / "a.txt", OLTP), "sysbench") == {
        ("sysbench", "transactions", *key, "transactions/s", "higher"): [100.5, 101.5],
        ("sysbench", "queries", *key, "queries/s", "higher"): [2010, 2030],
        ("sysbench", "latency", *key, "ms", "lower"): [7.25],
    }
