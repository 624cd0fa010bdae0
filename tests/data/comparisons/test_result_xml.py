from pathlib import Path

import pytest

from data.comparisons import formats
from data.comparisons.params import Measure
from data.comparisons.sides import Sides
from tests.data.refusals import refusal

FIGURES = Path(__file__).parent / "figures"


def run_xml(*operations, settings=""):
    return f"<beaker_run_result>{settings}<test_run>{''.join(operations)}</test_run></beaker_run_result>"


def operation(name="mg", results=("mops='1'", "mops='2'"), threads=2, suite="nas"):
    inner = "".join(f"<result {result}/>" for result in results)
    of_threads = f"<threads number='{threads}'>{inner}</threads>"
    return f"<{suite}_result benchmark_name='{name}'>{of_threads}</{suite}_result>"


@pytest.fixture
def files(tmp_path):
    def write(*contents):
        paths = [tmp_path / f"v{index}.xml" for index in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_text(content)
        return paths

    return write


def read(paths, **options):
    return formats.read_tables("result-xml", paths, **options)


def problem(paths):
    return refusal(read, paths).replace(f"{paths[0].parent}/", "")


def test_figures_have_equal_five_numbers_and_keep_raw_times():
    tables = read([FIGURES / "figure_4_1.xml", FIGURES / "figure_4_2.xml"]).tables
    sides = Sides.from_tables(tables)
    assert sides.threads.tolist() == [2, 4]
    assert sides.baseline_five.tolist() == sides.target_five.tolist()
    assert sides.baseline_five[0].tolist() == [5376.1, 5407.4, 5411.4, 5499.3, 5560.4]
    first = tables.results.iloc[0]
    assert first[["operation", "unit", "better", "threads"]].tolist() == ["mg_C_x", "mops", "higher", 2]
    assert first[["order", "value", "real_seconds", "out_of_cpu_seconds"]].tolist() == [0, 5560.4, 31.0, 0.9]
    assert tables.results.query("order == 1")["real_seconds"].isna().all()


def test_every_version_is_compared_with_the_one_before(files):
    paths = files(*(run_xml(operation(results=[f"mops='{v}'"] * 2)) for v in (1, 2, 3)))
    tables = read(paths).tables
    assert tables.comparisons["comparison_id"].tolist() == ["v1/mg", "v2/mg"]
    sides = Sides.from_tables(tables)
    assert sides.baseline_five[:, 2].tolist() == [1, 2]
    assert sides.target_five[:, 2].tolist() == [2, 3]
    assert sides.history.lengths.tolist() == [0, 2]
    assert sides.later.lengths.tolist() == [2, 0]


def test_files_of_one_name_in_two_directories_get_distinct_identifiers(tmp_path):
    paths = [tmp_path / directory / "run.xml" for directory in ("a", "b", "c")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(run_xml(operation()))
    assert read(paths).tables.comparisons["comparison_id"].tolist() == ["run/mg", "run#2/mg"]


@pytest.mark.parametrize(
    ("result", "unit", "better"),
    [
        ("real_time='1' bops='7'", "bops", "higher"),
        ("out_of_cpu_time='1' total_time='2'", "total_time", "lower"),
    ],
)
def test_the_first_metric_other_than_time_is_used(files, result, unit, better):
    content = run_xml(operation(results=[result] * 2))
    row = read(files(content, content)).tables.results.iloc[0]
    assert row[["unit", "better"]].tolist() == [unit, better]


def test_neighbouring_settings_name_version_and_benchmark_of_results(files):
    paths = files(run_xml(operation()), run_xml(operation()))
    settings = (FIGURES / "figure_4_3.xml").read_text()
    (paths[0].parent / "settings.xml").write_text(settings)
    row = read([paths[0].parent]).tables.results.iloc[0]
    version = "kernel-3.10.0-862.el7.x86_64"
    assert row[["benchmark", "version", "machine"]].tolist() == ["NASParallel", version, "unknown"]


def test_the_hostname_is_the_machine_of_all_files(files):
    settings = "<settings><Hostname value='{}'/></settings>"
    ant, bee = (run_xml(operation(), settings=settings.format(host)) for host in ("ant", "bee"))
    assert set(read(files(ant, ant)).tables.results["machine"]) == {"ant"}
    assert problem(files(ant, bee)) == 'v1.xml: was measured on "bee", but v0.xml on "ant"'


def test_a_single_file_is_too_few(files):
    message = "v0.xml: is one result file; two are needed, the older version's first"
    assert problem(files(run_xml(operation()))) == message


#: What is said of a file behind its name, and what it holds.
BAD = {
    ":1: <report> is not a benchmark run; expected <beaker_run_result>": "<report/>",
    ": <beaker_run_result> holds no result of an operation": run_xml(),
    ":1: <nas_result> has no attribute benchmark_name": run_xml("<nas_result/>"),
    ":1 settings: <Kernel> has no attribute value": run_xml(
        operation(), settings="<settings><Kernel/></settings>"
    ),
}
#: What is said of the operation, which stands in the file like this.
ONE = ("mops='1'",)
BAD_OPERATIONS = {
    ": has no <threads>": "<nas_result benchmark_name='mg'/>",
    ': number="four" is not a whole number': operation(threads="four"),
    ': <threads number="2"> holds no measurement': operation(results=()),
    ': <threads number="2"> holds no measurement; <reslut> is unknown; did you mean "result"?': (
        operation(results=ONE).replace("<result ", "<reslut ")
    ),
    ': has no <threads>; <treads> is unknown; did you mean "threads"?': (
        operation(results=ONE * 3).replace("threads", "treads")
    ),
    ": threads 2: the target has one repetition only": operation(results=ONE),
    ' threads="2": mops="x" is not a number': operation(results=(*ONE, "mops='x'")),
    ' threads="2": <result> has no attribute mops': operation(results=(*ONE, "bops='2'")),
    ' threads="2": real_time="nan" is not a finite number': operation(results=("mops='1' real_time='nan'",)),
    ": <nas_result> appears twice": operation() * 2,
    ': benchmark "spec" is not that of v0.xml, "nas"': operation(suite="spec"),
    ': metric "bops" is not that of v0.xml, "mops"': operation(results=("bops='1'", "bops='2'")),
}


@pytest.mark.parametrize(
    ("message", "content"),
    [
        *((f"v1.xml{told}", content) for told, content in BAD.items()),
        *((f'v1.xml:1 operation "mg"{told}', run_xml(one)) for told, one in BAD_OPERATIONS.items()),
        ('v0.xml:1 operation "mg": is not in v1.xml', run_xml(operation("ft"))),
    ],
)
def test_bad_result_xml_gives_a_one_line_error(files, content, message):
    assert problem(files(run_xml(operation()), content)) == message


def test_keep_going_skips_only_the_wrong_operation(files):
    broken = operation("ft", ["mops='x'"])
    paths = files(run_xml(operation(), operation("ft")), run_xml(broken, operation()))
    reading = read(paths, keep_going=True)
    assert reading.tables.comparisons["operation"].tolist() == ["mg"]
    assert len(reading.skipped) == 1
    assert 'mops="x" is not a number' in str(reading.skipped[0])


@pytest.mark.parametrize("better", [None, "lower"])
def test_higher_is_assumed_better_with_one_note_per_file(files, better):
    content = run_xml(operation(), operation("cg"), operation("ep", ["total_time='1'", "total_time='2'"]))
    paths = files(content, content)
    reading = read(paths, measure=Measure(better=better))
    assumed = "does not say which values are better; higher is assumed (--better says otherwise)"
    assert reading.notes == (() if better else tuple(f"{path} {assumed}" for path in paths))
    found = reading.tables.results.groupby("operation")["better"].first().to_dict()
    assert found == {"cg": better or "higher", "ep": "lower", "mg": better or "higher"}


@pytest.mark.parametrize("place", range(3))
def test_a_sample_in_a_misspelt_element_is_an_error(files, place):
    parts = run_xml(operation(results=["mops='1'"] * 3)).split("<result ")
    content = "<result ".join(parts[: place + 1]) + "<reslut " + "<result ".join(parts[place + 1 :])
    told = 'v1.xml:1 operation "mg" threads="2": <reslut> is unknown; did you mean "result"?'
    assert problem(files(run_xml(operation()), content)) == told
