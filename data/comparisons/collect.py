"""Measure comparisons of real programs with real and injected changes, and their reference slowdowns."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd

from data.comparisons import suite as suites
from data.comparisons.builds import BuildRun, Slowdown, Trial, Workshop
from data.comparisons.suite import METRICS, PlannedBuildRun, Suite, SuiteOperation, Variant, plan_runs
from data.comparisons.tables import ComparisonTables, LabelRow, Series
from data.errors import InputError
from data.measure.child import TimedOutError
from data.measure.machine import Disturbance, Pinned, machine_name
from data.measure.session import Journal, Screen, Session
from data.tables.files import replacing

BENCHMARK = "perfjudge"
#: Numbers of passes of a baseline, and of the target of an unchanged build; one is drawn for each.
SPANS = (1, 1, 1, 2, 3, 5)
#: Key of an operation's run: its change and its number.
RunKey = tuple[str, int]


#: Columns of the reference slowdowns of configurations, measured by running both builds in turn.
REFERENCE = ["comparison_id", "threads", "slowdown", "low", "high", "repetitions"]


@dataclass(frozen=True)
class Pairing:
    """A comparison of runs of one operation.

    `baseline` and `target` are the first and the last order of their runs. `slowdowns` maps numbers of
    threads to the reference slowdown; it is empty where both sides are the same build.
    """

    comparison_id: str
    variant: Variant
    baseline: tuple[int, int]
    target: tuple[int, int]
    slowdowns: dict[int, Slowdown]

    @property
    def label_source(self) -> str:
        """Source of the true label: "reference measurement", or "the same build"."""
        return "reference measurement" if self.variant.change else "the same build"

    @property
    def largest_slowdown(self) -> Slowdown:
        """The largest slowdown of any configuration; zeros where the builds are the same."""
        slowdowns = self.slowdowns.values()
        return max(slowdowns, key=lambda slowdown: slowdown.share, default=Slowdown(0.0, 0.0, 0.0, 0))

    @property
    def status(self) -> str | None:
        """The label: "fail" if any configuration is slower for certain, "pass" if none is, else None."""
        statuses = {slowdown.status for slowdown in self.slowdowns.values()}
        if "fail" in statuses:
            return "fail"
        return None if None in statuses else "pass"


def tables_of_journal(suite: Suite, journal: Journal[BuildRun]) -> tuple[ComparisonTables, pd.DataFrame]:
    """Return the tables of a measurement, and its reference slowdowns.

    The order of an unchanged run is the number of its pass, from 0. Runs of changed builds have higher
    orders, so that none is history of a comparison. All runs of a changed build with reference slowdowns for
    all numbers of threads are compared with the last one, two, three or five passes (drawn) before them, the
    unchanged build up to ``suite.same`` times with itself; the first ``suite.history`` passes are only
    history. Runs that do not cover all numbers of threads are dropped. Reference slowdowns have the columns
    ``comparison_id, threads, slowdown, low, high`` (its 95 % interval) and ``repetitions`` (pairs of
    samples). A slowdown is changed / unchanged value - 1 (of a rate, unchanged / changed - 1), positive is
    worse, estimated from samples of both builds taken in turn. The intervals of a comparison give its label:
    fail if any begins at 3 % or more, pass if all end at 2 % or less, else none. The unchanged build against
    itself is a pass. Labels have the current time. Columns ``truth_*`` of the comparisons must not be
    features.
    """
    by_operation: dict[str, list[BuildRun]] = defaultdict(list)
    for entry in sorted(journal.entries, key=lambda entry: entry.at):
        by_operation[entry.operation].append(entry)
    results: list[dict[str, object]] = []
    pairings: list[Pairing] = []
    for operation in suite.operations:
        orders = _run_orders(operation, suite, by_operation[operation.name])
        results += _result_rows(operation, orders, by_operation[operation.name])
        pairings += _iterate_pairings(operation, suite, orders, by_operation[operation.name])
    trials = {note.operation: note for note in journal.notes if not note.change}
    comparisons = [_comparison_row(pairing, trials) for pairing in pairings]
    now = datetime.now(UTC)
    labels = [
        LabelRow(pairing.comparison_id, pairing.status, pairing.label_source, labelled_at=now)._asdict()
        for pairing in pairings
        if pairing.status is not None
    ]
    references = [
        (pairing.comparison_id, threads, *astuple(slowdown))
        for pairing in pairings
        for threads, slowdown in pairing.slowdowns.items()
    ]
    reference = pd.DataFrame(references, columns=REFERENCE)
    return ComparisonTables.from_rows(results, comparisons, labels), reference


def _run_orders(operation: SuiteOperation, suite: Suite, entries: Sequence[BuildRun]) -> dict[RunKey, int]:
    runs: dict[RunKey, list[BuildRun]] = defaultdict(list)
    for entry in entries:
        if entry.purpose == "run":
            runs[entry.change, entry.number].append(entry)
    complete = sorted(key for key, entries in runs.items() if len(entries) == len(operation.threads))
    changed = [key for key in complete if key[0]]
    unchanged = {key: key[1] for key in complete if not key[0]}
    return unchanged | {key: suite.passes + place for place, key in enumerate(changed)}


def _result_rows(
    operation: SuiteOperation, orders: dict[RunKey, int], entries: Sequence[BuildRun]
) -> Iterator[dict[str, object]]:
    names = (operation.group, BENCHMARK, operation.name, machine_name(), *METRICS[operation.metric])
    for entry in entries:
        key = entry.change, entry.number
        if entry.purpose == "run" and key in orders:
            series = Series(f"{operation.name}/{entry.threads}", *names, entry.threads)
            version, at = entry.change or f"pass {entry.number + 1}", pd.Timestamp(entry.at)
            run = {**series._asdict(), "version": version, "order": orders[key], "measured_at": at}
            for value in entry.values:  # noqa: PD011 - a field, not pandas'
                yield {**run, "value": value}


def _iterate_pairings(
    operation: SuiteOperation, suite: Suite, orders: dict[RunKey, int], entries: Sequence[BuildRun]
) -> Iterator[Pairing]:
    begun = {(entry.change, entry.number): entry.at for entry in reversed(entries) if entry.purpose == "run"}
    passes = sorted(number for change, number in orders if not change)[suite.history :]
    generator = random.Random(f"{suite.seed} {operation.name}")
    for before, target in _pairs_of_passes(passes, generator)[: suite.same]:
        identifier = f"{operation.name}/pass {before[1] + 1} and {target[0] + 1}"
        yield Pairing(identifier, operation.unchanged_build, before, target, {})
    for variant in suite.changed_builds(operation):
        runs = sorted(key for key in orders if key[0] == variant.change)
        better = METRICS[operation.metric][1]
        slowdowns = {
            entry.threads: Slowdown.from_samples(entry.unchanged, entry.values, better)
            for entry in entries
            if (entry.change, entry.purpose) == (variant.change, "reference")
        }
        first = min((begun[key] for key in runs), default="")
        earlier = [number for number in passes if begun["", number] < first]
        if earlier and slowdowns.keys() == set(operation.threads):
            before = _last_passes(earlier, generator.choice(SPANS))
            after = orders[runs[0]], orders[runs[-1]]
            yield Pairing(f"{operation.name}/{variant.change}", variant, before, after, slowdowns)


def _pairs_of_passes(
    passes: Sequence[int], generator: random.Random
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pair the last passes with earlier ones, at short and at random distances in turn."""
    pairs = []
    for place in range(len(passes) - 1, 0, -1):
        length = min(generator.choice(SPANS), len(passes) - place)
        gap = place if place % 2 else generator.randrange(1, place + 1)
        target = passes[place], passes[place + length - 1]
        pairs.append((_last_passes(passes[:gap], generator.choice(SPANS)), target))
    return pairs


def _last_passes(passes: Sequence[int], length: int) -> tuple[int, int]:
    return passes[max(0, len(passes) - length)], passes[-1]


def _comparison_row(pairing: Pairing, trials: Mapping[str, Trial]) -> dict[str, object]:
    worst, operation = pairing.largest_slowdown, pairing.variant.operation
    return {
        "comparison_id": pairing.comparison_id,
        "benchmark": BENCHMARK,
        "operation": operation.name,
        "machine": machine_name(),
        "baseline_from": pairing.baseline[0],
        "baseline_to": pairing.baseline[1],
        "target_from": pairing.target[0],
        "target_to": pairing.target[1],
        "injected_change": "work" if pairing.variant.extra else pairing.variant.change or "none",
        "injected_size": pairing.variant.extra,
        "usual_noise": trials[operation.name].noise,
        "truth_source": pairing.label_source,
        "truth_slowdown": worst.share,
        "truth_low": worst.low,
        "truth_high": worst.high,
    }


#: Pairs of a reference that are measured before its label is computed again.
MORE_PAIRS = 4


@dataclass(frozen=True)
class MeasurementSession:
    """Measures the planned runs of a suite, and writes them and the results of trials to a journal."""

    suite: Suite
    workshop: Workshop
    journal: Journal[BuildRun]
    screen: Screen

    def load_or_run_trial(self, operation: SuiteOperation) -> Trial:
        """Return the trial of an operation; run it, and write it to the journal, if the journal has none."""
        notes = (note for note in self.journal.notes if note.operation == operation.name and not note.change)
        return next(notes, None) or self._note_trial(self.workshop.choose_work_per_sample(operation))

    def cannot_measure(self, variant: Variant) -> bool:
        """Return whether a trial or run of the build (or the unchanged one) has failed here before."""
        notes = (note for note in self.journal.notes if note.operation == variant.operation.name)
        return any(note.change in {"", variant.change} and note.problem for note in notes)

    def measure_tasks(self, tasks: Sequence[PlannedBuildRun]) -> tuple[list[BuildRun], float]:
        """Measure planned runs; return their results and the largest processor share of other processes.

        A build that fails is noted in the journal and skipped, as are its later runs. The share is 0 without
        results. TimedOutError if a program runs too long.
        """
        entries = [entry for task in tasks for entry in self._measure_task(task)]
        return entries, max((entry.foreign for entry in entries), default=0.0)

    def _measure_task(self, task: PlannedBuildRun) -> list[BuildRun]:
        trial = self.load_or_run_trial(task.variant.operation)
        if self.cannot_measure(task.variant):
            return []
        at, watch = datetime.now(UTC).isoformat(), Disturbance(processor=self.suite.processor)
        unchanged: list[float] = []
        try:
            if task.purpose == "reference":
                unchanged, values = self._measure_pairs(task, trial.work)
            else:
                n_samples = task.draw_sample_count(self.suite, trial.samples)
                measure = partial(self.workshop.measure_sample, task.variant, trial.work, task.threads)
                values = [measure() for _ in range(n_samples)]
        except TimedOutError:
            raise
        except InputError as exc:
            self._note_trial(Trial(task.variant.operation.name, task.variant.change, 0, 0, 0.0, str(exc)))
            return []
        return [BuildRun(*task.journal_key, at, watch.foreign_share(), tuple(values), tuple(unchanged))]

    def _measure_pairs(self, task: PlannedBuildRun, work: int) -> tuple[list[float], list[float]]:
        fewest, largest = self.suite.pairs
        better = METRICS[task.variant.operation.metric][1]
        builds = [task.variant.operation.unchanged_build, task.variant]
        values: tuple[list[float], list[float]] = ([], [])
        shuffle = random.Random(str(task.journal_key))
        while len(values[0]) < fewest or (
            len(values[0]) < largest and Slowdown.from_samples(*values, better).status is None
        ):
            for _ in range(fewest if not values[0] else MORE_PAIRS):
                for side in shuffle.sample((0, 1), 2):
                    values[side].append(self.workshop.measure_sample(builds[side], work, task.threads))
        return values

    def _note_trial(self, trial: Trial) -> Trial:
        self.journal.add_note(trial)
        if trial.problem:
            build = f"build {trial.change!r} of " if trial.change else ""
            self.screen.print_note(f'leaving out {build}operation "{trial.operation}": {trial.problem}')
        return trial


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure or resume a suite and write its tables to `directory`; return False if Ctrl-C ended it early.

    Writes ``results``, ``comparisons``, ``labels`` and ``reference.parquet`` (reference slowdowns), also
    after Ctrl-C, without runs that do not have values for all numbers of threads. ``settings.json`` lists the
    runs over their time limit (``invalid``) and the errors of builds that failed (``left_out``); neither
    makes the result False. `screen` shows notes and progress. InputError if the suite is invalid, `directory`
    holds the measurement of another suite, or, after writing, the tables have no result.
    """
    suite = suites.load_suite(path)
    session = Session.begin_or_resume(directory, suite, screen, "runs", BuildRun, note=Trial)
    workshop = Workshop(suite, directory, session.limits)
    measurement = MeasurementSession(suite, workshop, session.journal, screen)
    with Pinned(suite.processor, suite.nice) as pinned, session:
        for setting, value in pinned.settings.items():
            screen.print_note(f"{setting}: {value}")
        tasks = [task for task in plan_runs(suite) if not measurement.cannot_measure(task.variant)]
        session.measure_missing(tasks, measurement.measure_tasks)
    measured, reference = tables_of_journal(suite, session.journal)
    with replacing(directory / "reference.parquet") as temporary:
        reference.to_parquet(temporary, index=False, compression="zstd")
    left_out = sorted({note.problem for note in session.journal.notes} - {""})
    settings, n_results = {"pinned": pinned.settings, "left_out": left_out}, len(measured.results)
    return session.write_results(path, suite, measured, measured=n_results, failures=left_out, **settings)
