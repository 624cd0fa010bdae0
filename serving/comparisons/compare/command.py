"""The command ``perfjudge compare``: read, judge, confirm, excuse and print."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.assembly import NO_MEASUREMENTS
from data.comparisons.formats.tools.benchmark_json import ASV_MACHINE
from data.comparisons.formats.tools.criterion import is_one_run
from data.comparisons.pair import (
    CONFIGURATION,
    SIDES,
    MatchedOperations,
    NamedOperation,
    TwoRuns,
    list_names,
    matched_operations,
    number_with_noun,
    paired_runs,
    under_names_of,
)
from data.comparisons.params import Measure
from data.comparisons.tables import ComparisonTables, version_ranges
from data.errors import InputError
from data.measure.child import end_in_good_order, execute
from data.tables.files import digest_of, in_natural_order
from data.tables.problems import Problems
from features.comparisons.between_run_variation import ASSUMED
from serving.answering import require_outputs, write_output
from serving.comparisons.compare import rows
from serving.comparisons.compare.acknowledging import (
    DEFAULT,
    AcknowledgedFile,
    Acknowledgements,
    Revision,
    head_commit,
)
from serving.comparisons.compare.weighing import AdjustedJudgement, judge_runs
from serving.comparisons.model import Judge
from serving.comparisons.xml.report import as_xml


@dataclass(frozen=True)
class ComparedRun:
    """The results of one run."""

    path: Path
    version: str  # as in the file, or the name of the file
    results: pd.DataFrame  # with the columns of ``RESULT_DTYPES``
    content: str = ""  # the digest of a temporary file

    @classmethod
    def from_file(cls, path: Path, results: pd.DataFrame) -> ComparedRun:
        """Return the run of the file `path`, with its version in the column ``version`` of `results`.

        The version is the only one that `results` names, else the file's name without suffix.
        """
        names = results["version"].dropna().unique()
        version = str(names[0]) if len(names) == 1 else path.stem
        return cls(path, version, results.assign(version=version))


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of both sides, and earlier runs, oldest first; results of the target under matched names."""

    baseline: tuple[ComparedRun, ...]
    target: tuple[ComparedRun, ...]
    earlier: tuple[ComparedRun, ...] = ()
    matched: MatchedOperations = field(default_factory=MatchedOperations)

    @property
    def side_names(self) -> tuple[str, str]:
        """The names of the two sides in messages: the first path of each, and the number of further ones."""
        sides = self.baseline, self.target
        before, after = (f" and {len(side) - 1} more" if len(side) > 1 else "" for side in sides)
        return f"{self.baseline[0].path}{before}", f"{self.target[0].path}{after}"

    def pair_runs(self) -> TwoRuns:
        """Return a comparison per operation of both sides, with earlier runs as their history.

        Raises InputError if no operation is common, or its sides have opposite directions or incompatible
        units.
        """
        sides = self.baseline, self.target, self.earlier
        baseline, target, earlier = ([run.results for run in side] for side in sides)
        files = [str(run.path) for run in (*self.earlier, *self.baseline, *self.target)]
        return paired_runs(baseline, target, earlier, self.side_names, files)

    def match_operations(
        self, renamed: Mapping[NamedOperation, NamedOperation], note: Callable[[str], object]
    ) -> ComparedRuns:
        """Return a copy that compares operations of different names with each other.

        `renamed`: maps (benchmark, operation) of the target to (benchmark, operation) of the baseline. If
        both sides are the same files, no other operations are compared.
        `note`: called with one line of text for each pair of operations.
        """
        same = {run.path.resolve() for run in self.baseline} == {run.path.resolve() for run in self.target}
        matched = MatchedOperations(renamed, only=same)
        for (_, new), (_, old) in renamed.items():
            note(f'"{new}" of {self.side_names[1]} is compared with "{old}" of {self.side_names[0]}')
        baseline = tuple(replace(run, results=matched.of_baseline(run.results)) for run in self.baseline)
        target = tuple(replace(run, results=matched.of_target(run.results)) for run in self.target)
        return replace(self, baseline=baseline, target=target, matched=matched)


@dataclass(frozen=True)
class RunReader:
    """Reads runs with common settings."""

    problems: Problems
    measure: Measure
    kind: str | None = None  # their format; None: detected from the content

    def read_runs(self, paths: Sequence[Path], other_side: Sequence[Path] = ()) -> tuple[ComparedRun, ...]:
        """Return the runs of `paths`; a directory that is not itself a run holds one run per file.

        Files are in natural order (9 before 10). A run with the content of an earlier one is left out, with a
        note, and so are runs of `other_side`, unless there are no others.
        Raises InputError if a run cannot be read, or a directory is empty.
        """
        files = [*self._without_copies(run_files(paths))]
        if len(files) > 1:
            shared = {_content_key(path) for path in run_files(other_side)}
            repeated = [path for path in files if _content_key(path) in shared]
            if len(repeated) < len(files):
                files = [path for path in files if path not in repeated]
                for path in repeated:
                    self.problems.add_note(f"{path} is a run of the target; it does not count as baseline")
        return tuple(
            ComparedRun.from_file(path, results_of_run(path, self.problems, self.measure, self.kind))
            for path in files
        )

    def read_history(self, paths: Sequence[Path], sides: Sequence[ComparedRun]) -> tuple[ComparedRun, ...]:
        """Return the runs of `paths` like `read_runs`, without `sides`; a source gives a run per version.

        Copies of `sides` are left out, too. Of a source with several versions, only those before the first
        version of `sides` are returned.
        Raises InputError if a run cannot be read, or a directory is empty.
        """
        versions, files = {run.version for run in sides}, [run.path.resolve() for run in sides]
        # a directory that is one run may have the file of a side
        excluded = {place for file in files for place in (file, *file.parents)}
        earlier: list[ComparedRun] = []
        for path in self._without_copies(run_files(paths), [run.path for run in sides]):
            runs = self._runs_of_versions(path)
            if len(runs) > 1:
                earlier += takewhile(lambda run: run.version not in versions, runs)
            elif path.resolve() not in excluded:
                earlier += runs
        return tuple(earlier)

    def _without_copies(self, paths: Iterable[Path], sides: Sequence[Path] = ()) -> Iterator[Path]:
        """Yield `paths` without those with the content of an earlier one or of `sides`, and note these."""
        first = {_content_key(path): path for path in sides}
        for path in paths:
            if (original := first.setdefault(_content_key(path), path)) is path:
                yield path
            elif str(original) != str(path):
                self.problems.add_note(f"{path} is the same as {original}; it counts once")
            elif path not in sides:
                self.problems.add_note(f"{path} is given several times; it counts once")

    def two_commands(self, run: ComparedRun) -> dict[NamedOperation, NamedOperation]:
        """Return ``{second: first}`` for the two commands of a hyperfine file; the first is the baseline.

        Each is a pair of benchmark and operation.
        Raises InputError if the run is of another format, or does not have exactly two commands.
        """
        kind = self.kind or formats.recognise_format(run.path)
        operations = list(run.results[["benchmark", "operation"]].drop_duplicates().itertuples(False, None))
        if kind == "hyperfine" and len(operations) == len(SIDES):
            return {operations[1]: operations[0]}
        names = [name for _, name in operations]
        found, expected = f"of {number_with_noun(len(names), 'operation')}", "TARGET, or --target FILE"
        if len(names) > 1:
            expected += f", or two operations of this file: --match {shlex.quote('='.join(names[:2]))}"
        raise InputError(f"is one run, {found} ({list_names(names)}); expected {expected}", file=run.path)

    def _runs_of_versions(self, path: Path) -> Sequence[ComparedRun]:
        kind = self.kind or formats.recognise_format(path)
        if kind not in TOOLS or not TOOLS[kind].versions:
            return self.read_runs([path])
        chunks = formats.stream_tables(kind, [path], self.problems, measure=self.measure, chunk_rows=None)
        results = ComparisonTables.join_tables(list(chunks)).results
        return [ComparedRun.from_file(path, part) for _, part in results.groupby("order")]


def run_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files and directories that are one run each; a missing path is yielded, too.

    A file is itself a run, and so is a directory that has ``results.parquet``, or that asv or criterion
    fills: asv's ``results`` or the directory of one machine in it, and ``target/criterion``. Any other
    directory yields the files and directories in it, without hidden ones and files of `NO_MEASUREMENTS`, in
    natural order (9 before 10); these are not searched further. InputError if there are none.
    """
    for path in paths:
        if not path.is_dir() or _is_one_source(path):
            yield path
            continue
        runs = (file for file in path.iterdir() if file.name[0] != "." and file.name not in NO_MEASUREMENTS)
        inside = in_natural_order(runs)
        if not inside:
            raise InputError("holds no run", file=path)
        yield from inside


def _content_key(path: Path) -> str:
    files = [file for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()]
    # a pipe can be read only once
    return digest_of(*files) if files else str(path)


def _is_one_source(directory: Path) -> bool:
    if (directory / "results.parquet").exists():
        return True
    try:
        kind = formats.recognise_format(directory)
        if kind == "asv":
            # other directories of asv's files hold a run per file
            return (directory / ASV_MACHINE).exists() or formats.FORMATS[kind].matches_path(directory)
        return kind == "criterion" and is_one_run(directory)
    except InputError:
        # reading the files explains the error
        return False


#: Placeholders of a command: the file to write, and the operations in doubt.
OUTPUT, OPERATIONS = "{output}", "{operations}"
#: The environment variable with the operations in doubt, one per line.
VARIABLE = "PERFJUDGE_OPERATIONS"


@dataclass(frozen=True)
class ConfirmationRuns:
    """Commands of confirmation runs, which must contain ``{output}``, their number and their time limit."""

    times: int = 0
    target: tuple[str, ...] = ()  # measures the target and writes `OUTPUT`
    baseline: tuple[str, ...] = ()  # measures the baseline, alternating with the target; empty: none
    seconds: float = 0.0  # time limit of one run

    def __post_init__(self) -> None:
        for command in (self.target, self.baseline):
            if command and not any(OUTPUT in part for part in command):
                problem = f"names no {OUTPUT}, where it is to write its results"
                raise InputError(problem, place=_command_place(command))

    def measure_again(
        self,
        number: int,
        runs: ComparedRuns,
        tables: ComparisonTables,
        doubted: NDArray[np.bool_],
        reader: RunReader,
    ) -> ComparedRuns:
        """Measure target and baseline once more, and return `runs` with the new runs at the end.

        `number`: the number of this repetition, from 1.
        `tables`: the comparisons; measurements of other configurations are dropped.
        `doubted`: shape (n_comparisons,), true for comparisons that a command must measure.
        A run with the content of an earlier one of its side is left out, with a note of `reader`. Notes and
        errors name a new run by the first file of its side, such as ``new.json, again 1``.
        Raises InputError if a command fails, exceeds its time limit, or measures no operation in doubt.
        """
        end_in_good_order()
        doubtful = list(tables.comparisons.loc[doubted, ["benchmark", "operation"]].itertuples(False, None))
        names, matched = [operation for _, operation in doubtful], runs.matched
        target_names = [matched.name_in_target(*operation) or operation[1] for operation in doubtful]
        sides = {
            "target": (self.target, runs.target, matched.of_target, target_names),
            "baseline": (self.baseline, runs.baseline, matched.of_baseline, names),
        }
        repeated: dict[str, Any] = {}
        with TemporaryDirectory(prefix="perfjudge-") as directory:
            for side, (command, measured, select, wanted) in sides.items():
                if not command:
                    continue
                output = Path(directory, f"{side}-{number}{runs.target[0].path.suffix}")
                operations = list(dict.fromkeys(wanted))
                sys.stderr.write(f"confirming: run {number} of {self.times} of the {side}\n")
                _run_command(command, output, operations, self.seconds)
                first = {run.content or _content_key(run.path): run for run in measured}
                if original := first.get(content := _content_key(output)):
                    problem = f"is the same as {original.version}; it counts once"
                    reader.problems.add_note(f"confirming run {number} of the {side} {problem}")
                    continue
                # the output is deleted
                name, notes = Path(f"{measured[0].path}, again {number}"), reader.problems.notes
                try:
                    (run,) = reader.read_runs([output])
                except InputError as exc:
                    raise InputError(exc.problem, file=name, line=exc.line, place=exc.place) from exc
                notes[:] = [note.replace(str(output), str(name)) for note in notes]
                results = under_names_of(tables.results, select(run.results))
                results = results.merge(tables.results[CONFIGURATION].drop_duplicates(), on=CONFIGURATION)
                if not results["operation"].isin(names).any():
                    problem = f"measured none of the operations in doubt: {list_names(operations)}"
                    raise InputError(problem, place=_command_place(command))
                version = f"{measured[0].version}, again {number}"
                repetition = ComparedRun(name, version, results.assign(version=version), content)
                repeated[side] = (*measured, repetition)
        return replace(runs, **repeated)


def _command_place(command: Sequence[str]) -> str:
    return f"the command {shlex.join(command)!r}"


def _run_command(command: Sequence[str], output: Path, operations: Sequence[str], seconds: float) -> None:
    for name in operations:
        if set(name) & {"\0", "\n"}:
            raise InputError(f"operation {name!r} has a control character, so it cannot be measured again")
    filled = [part.replace(OUTPUT, str(output)).replace(OPERATIONS, " ".join(operations)) for part in command]
    place, environment = _command_place(command), {VARIABLE: "\n".join(operations)}
    execute(filled, place, limit=seconds, environment=environment).require_success()
    if not output.exists():
        raise InputError(f"ended well, but wrote no {OUTPUT}", place=place)


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """The runs to compare, and how; without a target, two operations of the baseline are compared."""

    baseline: Sequence[Path]
    target: Sequence[Path]
    history: Sequence[Path] = ()
    served: Judge
    measure: Measure = field(default_factory=Measure)
    #: assumed standard deviation between runs; see `features.comparisons.run_shifts.RunShifts.from_sides`
    assumed: float = ASSUMED
    kind: str | None = None  # the format of all runs; None: detected from the content
    confirming: ConfirmationRuns = field(default_factory=ConfirmationRuns)
    #: the file of reviewed exceptions and its content
    acknowledged: tuple[Path, AcknowledgedFile] = (DEFAULT, AcknowledgedFile())
    #: commits of baseline and target; None: unknown, and the checked-out one
    commits: tuple[str | None, str | None] = (None, None)
    matched: Sequence[str] = ()  # as of `data.comparisons.pair.matched_operations`

    def compare_sides(self) -> rows.ComparedSides:
        """Read and judge the runs, measure doubtful operations again if requested, and return the results.

        Raises InputError if an input cannot be read, the sides have nothing in common or cannot be compared,
        or a confirmation command fails.
        """
        reader = RunReader(Problems(), self.measure, self.kind)
        runs = self._read_runs(reader)
        acknowledgements = self._read_acknowledgements(runs)
        runs = replace(runs, earlier=tuple(_current_runs(runs.earlier, acknowledgements)))
        pair = runs.pair_runs()
        weighed, spans = self._weigh_pair(pair, reader), version_ranges(pair.tables)
        for number in range(1, self.confirming.times + 1):
            excuses = acknowledgements.find_excuses(weighed.judgement.verdicts)
            doubted = weighed.in_doubt(is_first=number == 1) & [excuse is None for excuse in excuses]
            if not doubted.any():
                break
            runs = self.confirming.measure_again(number, runs, pair.tables, doubted, reader)
            pair = replace(runs.pair_runs(), missing=pair.missing, notes=pair.notes)
            weighed = weighed.replace_rows(self._weigh_pair(pair, reader), doubted)
            spans = np.where(doubted, version_ranges(pair.tables), spans).tolist()
        verdicts = weighed.judgement.verdicts
        excuses = acknowledgements.find_excuses(verdicts)
        return rows.ComparedSides(
            rows=tuple(rows.compared_rows(weighed, pair.tables, spans, excuses, runs.matched)),
            weighed=weighed,
            tables=pair.tables,
            missing=pair.missing,
            sides=runs.side_names,
            notes=(*weighed.judgement.notes, *acknowledgements.entry_notes(verdicts)),
        )

    def _read_runs(self, reader: RunReader) -> ComparedRuns:
        baseline = reader.read_runs(self.baseline, self.target)
        target = reader.read_runs(self.target) if self.target else baseline
        runs = ComparedRuns(baseline, target, reader.read_history(self.history, (*baseline, *target)))
        if self.matched:
            before, after = (pd.concat([run.results for run in side]) for side in (baseline, target))
            renamed = matched_operations(self.matched, before, after, runs.side_names)
            return runs.match_operations(renamed, reader.problems.add_note)
        if self.target:
            return runs
        if len(baseline) > 1:
            raise InputError("holds several runs; expected TARGET", file=self.baseline[0])
        return runs.match_operations(reader.two_commands(baseline[0]), reader.problems.add_note)

    def _read_acknowledgements(self, runs: ComparedRuns) -> Acknowledgements:
        directory, (path, content) = Path.cwd(), self.acknowledged
        # only entries need the commit
        checked_out = head_commit(directory) if content != AcknowledgedFile() else None
        commits = self.commits[0], self.commits[1] or checked_out
        baseline, target = (
            Revision((*dict.fromkeys(run.version for run in side), *filter(None, [commit])), directory)
            for side, commit in zip((runs.baseline, runs.target), commits, strict=True)
        )
        every_run = (*runs.baseline, *runs.target, *runs.earlier)
        measured = {name for run in every_run for name in run.results["operation"].unique()}
        today = datetime.now(UTC).astimezone().date()
        return Acknowledgements(path, content, baseline, target, today, measured)

    def _weigh_pair(self, pair: TwoRuns, reader: RunReader) -> AdjustedJudgement:
        return judge_runs(pair.tables, self.served, self.assumed, (*reader.problems.notes, *pair.notes))


def compare_runs(
    comparing: CompareRequest,
    form: str,
    output: Path | None,
    failing: Collection[str],
    *,
    files: Mapping[str, Path | None],
    annotations: bool,
    step_summary: bool,
    name: str,
    explain: bool,
) -> int:
    """Compare both sides, write all outputs, and return 1 if a row without excuse is `failing`, else 0.

    `form`: table, json, xml, markdown or junit; written to `output`, or to stdout if that is None. `failing`:
    outcomes such as "regression"; "missing" stands for a machine, an operation or a configuration that only
    one side has. `files`: additional files, by form. `annotations`: write GitHub's annotations to stderr.
    `step_summary`: append Markdown to the summary of GitHub's step. `name`: distinguishes this comment from
    those of other comparisons. `explain`: a table has the details of rows that need attention.
    InputError after all outputs if every row is invalid; before them if an input cannot be read, the sides
    have nothing in common or cannot be compared, a confirmation command fails, the directory of an output
    does not exist, two outputs are one file, an output is an input, or the step summary cannot be written;
    OSError if another output cannot be written; ModelError if the model computes a number that is not finite.
    """
    inputs = (*comparing.baseline, *comparing.target, *comparing.history, comparing.acknowledged[0])
    require_outputs((*files.values(), output), inputs)
    compared, terminal = comparing.compare_sides(), output is None and sys.stdout.isatty()
    rendered: dict[str, Callable[[], str | bytes]] = {
        "table": lambda: rows.as_table(compared, terminal=terminal, explain=explain),
        "json": lambda: rows.as_compare_json(compared),
        "xml": lambda: as_xml(compared.judgement, compared.tables),
        "markdown": lambda: rows.as_comment(compared, name),
        "junit": lambda: rows.as_junit_xml(compared),
        "html": lambda: rows.as_page(compared, name),
    }
    if step_summary:
        rows.append_step_summary(rows.as_comment(compared, name))
    for file_form, path in files.items():
        if path is not None:
            write_output(rendered[file_form](), path)
    if annotations:
        sys.stderr.writelines(rows.github_annotations(compared))
    write_output(rendered[form](), output, styled=terminal and form == "table")
    if compared.outcome_counts.keys() == {"invalid"}:
        number, first = number_with_noun(len(compared.rows), "operation"), compared.rows[0]
        problem = f"nothing can be judged: {number} invalid; {first.full_name}: {first.reason}"
        raise InputError(problem, file=" and ".join(compared.sides))
    present = {row.outcome for row in compared.rows if row.excuse is None}
    return 1 if present.union(["missing"] if compared.missing else []).intersection(failing) else 0


def _current_runs(
    earlier: Sequence[ComparedRun], acknowledgements: Acknowledgements
) -> Iterator[ComparedRun]:
    for run in earlier:
        names = pd.MultiIndex.from_frame(run.results[["benchmark", "operation"]])
        revision = Revision((run.version,), acknowledgements.target.directory)
        stale = acknowledgements.stale_operations(names.unique().tolist(), revision)
        current = ~names.isin(stale) if stale else np.ones(len(names), bool)
        if current.any():
            yield replace(run, results=run.results[current])
