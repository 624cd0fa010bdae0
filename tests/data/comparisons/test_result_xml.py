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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<report/>", "v1.xml:1: <report> is not a benchmark run; expected <beaker_run_result>"),
        (run_xml(), "v1.xml: <beaker_run_result> holds no result of an operation"),
        (run_xml("<nas_result/>"), "v1.xml:1: <nas_result> has no attribute benchmark_name"),
        (run_xml("<nas_result benchmark_name='mg'/>"), 'v1.xml:1 operation "mg": has no <threads>'),
        (run_xml(operation(threads="four")), 'v1.xml:1 operation "mg": number="four" is not a whole number'),
        (
            run_xml(operation(results=())),
            'v1.xml:1 operation "mg": <threads number="2"> holds no measurement',
        ),
        *(
            (
                run_xml(operation(results=["mops='1'"] * 3).replace(right, wrong)),
                f'v1.xml:1 operation "mg": {told}',
            )
            for right, wrong, told in (
                (
                    "<result ",
                    "<reslut ",
                    '<threads number="2"> holds no measurement; <reslut> is unknown; did you mean "result"?',
                ),
                ("threads", "treads", 'has no <threads>; <treads> is unknown; did you mean "threads"?'),
            )
        ),
        (
            run_xml(operation(results=("mops='1'",))),
            'v1.xml:1 operation "mg": threads 2: the target has one repetition only',
        ),
        (
            run_xml(operation(results=("mops='1'", "mops='x'"))),
            'v1.xml:1 operation "mg" threads="2": mops="x" is not a number',
        ),
        (
            run_xml(operation(results=("mops='1'", "bops='2'"))),
            'v1.xml:1 operation "mg" threads="2": <result> has no attribute mops',
        ),
        (
            run_xml(operation(results=("mops='1' real_time='nan'",))),
            'v1.xml:1 operation "mg" threads="2": real_time="nan" is not a finite number',
        ),
        (run_xml(operation(), operation()), 'v1.xml:1 operation "mg": <nas_result> appears twice'),
        (run_xml(operation("ft")), 'v0.xml:1 operation "mg": is not in v1.xml'),
        (
            run_xml(operation(suite="spec")),
            'v1.xml:1 operation "mg": benchmark "spec" is not that of v0.xml, "nas"',
        ),
        (
            run_xml(operation(results=("bops='1'", "bops='2'"))),
            'v1.xml:1 operation "mg": metric "bops" is not that of v0.xml, "mops"',
        ),
        (
            run_xml(operation(), settings="<settings><Kernel/></settings>"),
            "v1.xml:1 settings: <Kernel> has no attribute value",
        ),
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


def test_higher_is_assumed_better_with_one_note_per_file(files):
    content = run_xml(operation(), operation("cg"), operation("ep", ["total_time='1'", "total_time='2'"]))
    paths = files(content, content)
    silent, said = (read(paths, measure=Measure(better=better)) for better in (None, "lower"))
    assert silent.notes == tuple(
        f"{path} does not say which values are better; higher is assumed (--better says otherwise)"
        for path in paths
    )
    assert said.notes == ()
    directions = [reading.tables.results.groupby("operation")["better"].first() for reading in (silent, said)]
    assert [direction.to_dict() for direction in directions] == [
        {"cg": "higher", "ep": "lower", "mg": "higher"}, {"cg": "lower", "ep": "lower", "mg": "lower"}
    ]  # fmt: skip


@pytest.mark.parametrize("place", range(3))
def test_a_sample_in_a_misspelt_element_is_an_error(files, place):
    parts = run_xml(operation(results=["mops='1'"] * 3)).split("<result ")
    content = "<result ".join(parts[: place + 1]) + "<reslut " + "<result ".join(parts[place + 1 :])
    told = 'v1.xml:1 operation "mg" threads="2": <reslut> is unknown; did you mean "result"?'
    assert problem(files(run_xml(operation()), content)) == told
