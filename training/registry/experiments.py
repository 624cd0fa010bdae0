"""Differences between two states of the project."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.families import FAMILIES
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.files import yaml_content
from training.evaluation.paired_bootstrap import (
    BootstrapSettings,
    EntryComparison,
    OutOfFoldPredictions,
    compare_entries,
)
from training.plugins import PredictionReaders, family_plugin
from training.registry.champions import client, find_version, import_mlflow
from training.registry.origins import commit_of, git_output

#: The name of the state in the working directory.
WORKSPACE = "workspace"
PARAMS = "params.yaml"
_MODELS = "models:/"


@dataclass(frozen=True)
class FamilyState:
    """The data, results and out-of-fold predictions of one family in a state of the project."""

    data: Mapping[str, Any]  # address, digest and counts of the training data
    champions: Mapping[str, str]  # the entries that evaluation chose, by subject
    out_of_fold: Sequence[OutOfFoldPredictions]  # empty where files are missing
    figures: Mapping[str, Any] = field(default_factory=dict)  # summary.json


@dataclass(frozen=True)
class ProjectState:
    """Parameters and results of the project at one commit, experiment or registered version."""

    name: str
    commit: str  # empty for the working directory
    params: Mapping[str, Any]  # params.yaml by dotted names
    families: Mapping[str, FamilyState]
    root: Path  # a directory with its files, laid out as in the project
    notes: tuple[str, ...] = ()  # missing files, and differences from the commit
    chosen: Mapping[str, Any] = field(default_factory=dict)  # parameters of a registered version


@contextmanager
def open_state(name: str, project: Path, tell: Callable[[str], object]) -> Iterator[ProjectState]:
    """Yield the parameters and results of a state; temporary files are deleted when the block ends.

    `name` is ``workspace`` (the present files of `project`), a revision of git, an experiment of DVC or a
    registered version (``models:/NAME/VERSION`` or ``models:/NAME@ALIAS``); `tell` is called with messages on
    the progress. OSError if out-of-fold predictions of a registered version are missing; those missing in
    another state are only named in ``notes``. InputError if the state does not exist, has nothing evaluated,
    or is a version without files; ImportError if DVC or MLflow is needed.
    """
    tell(f"reading {name}")
    if name == WORKSPACE:
        missing = list[str]()
        for family, source in _prediction_readers().items():
            if FamilyPaths(family, project).metrics.is_file():
                missing += (path for path in source.files if not (project / path).exists())
        note = f"{_list_missing(missing, 'not here')}; make what is missing with: uv run dvc repro"
        yield _read_state(name, "", project, [note] if missing else [])
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if name.startswith(_MODELS):
            yield _state_of_version(name, project, root)
        else:
            commit, notes = _fetch_files(name, project, root)
            yield _read_state(name, commit, root, notes)


def _fetch_files(name: str, project: Path, root: Path) -> tuple[str, list[str]]:
    """Copy the files of a commit or experiment to `root`; return the commit, and notes on missing files."""
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.scm import resolve_rev

    try:
        with Repo(str(project)) as here:
            # git first: DVC takes HEAD as the baseline of an experiment that runs in any worktree
            commit = git_output(project, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
            commit, remotes = commit or resolve_rev(here.scm, name), here.config["remote"]
            checked_out, changed = here.scm.get_rev(), here.scm.is_dirty()
        with Repo(str(project), rev=commit) as repo:
            files = DVCFileSystem(repo=repo)
            wanted = [PARAMS]
            for family, source in _prediction_readers().items():
                paths = FamilyPaths(family)
                metrics, summary = paths.metrics.as_posix(), paths.summary.as_posix()
                if files.isfile(metrics):
                    wanted += [metrics, *filter(files.isfile, [summary]), *source.files]
            missing = [path for path in wanted if not _copy_path(files, path, root)]
    except DvcException as exc:
        expected = f"expected a commit, an experiment of DVC, {WORKSPACE} or {_MODELS}NAME/VERSION"
        raise InputError(f"{exc}; {expected}", place=f'"{name}"') from exc
    if not missing:
        return commit, []
    absent = _list_missing(missing, "neither in git nor in DVC's cache")
    if remotes:
        return commit, [f"{absent}; get what is missing with: uv run dvc fetch --all-commits"]
    repeated = f"again-{commit[:10]}"
    how = f"uv run dvc exp run --temp --name {repeated}"
    if commit != checked_out:
        how = f"git checkout {commit[:10]} && {how} && git checkout -"
    if changed:
        how = f"git stash && {how} && git stash pop"
    advice = f"make what is missing with: {how}; then compare with {repeated}"
    return commit, [f"{absent}, and no remote is configured; {advice}"]


def _list_missing(missing: Sequence[str], place: str) -> str:
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} {place}"


def _prediction_readers() -> dict[str, PredictionReaders]:
    sources = {family: family_plugin(family).out_of_fold for family in FAMILIES}
    return {family: source() for family, source in sources.items() if source is not None}


def _copy_path(files: Any, path: str, root: Path) -> bool:
    from dvc.exceptions import DvcException
    from dvc_data.index import DataIndexError
    from dvc_objects.errors import ObjectFormatError

    try:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        files.get(path, str(root / path), recursive=True)
    # for a directory from another machine, the list of its files may be missing in the cache, too
    except (DvcException, DataIndexError, ObjectFormatError, OSError):
        shutil.rmtree(root / path, ignore_errors=True)
        return False
    return True


def _read_state(name: str, commit: str, root: Path, lacking: Sequence[str]) -> ProjectState:
    notes, families = list(lacking), {}
    for family, reader in _prediction_readers().items():
        paths = FamilyPaths(family)
        if not (root / paths.metrics).is_file():
            continue
        try:
            metrics = written(root / paths.metrics, "evaluate")
            figures = written(root / paths.summary, "evaluate") if (root / paths.summary).is_file() else {}
        except InputError as error:
            notes.append(str(error).replace(f"{root}/", ""))
            continue
        try:
            out_of_fold = reader.read(root, metrics)
        except (InputError, OSError) as error:
            out_of_fold = ()
            if not any(file in note for file in reader.files for note in lacking):
                notes.append(str(error).replace(f"{root}/", ""))
        # the champion is the first of each subject
        champions: dict[str, str] = {}
        for predictions in out_of_fold:
            champions.setdefault(predictions.what, predictions.entry)
        families[family] = FamilyState(metrics["data"], champions, out_of_fold, figures)
    if not families:
        raise InputError("; ".join(["no family was evaluated", *notes]), place=f'"{name}"')
    return ProjectState(name, commit, params_of(root / PARAMS), families, root, tuple(notes))


def params_of(path: Path) -> dict[str, Any]:
    """Return a YAML file's values by dotted name, without empty sections; InputError if it is no mapping."""
    content = yaml_content(path) if path.is_file() else None
    if not isinstance(content, dict | None):
        raise InputError("holds no parameters by name; expected a mapping", file=path)
    return _dotted_names(content or {}, "")


def _dotted_names(section: Mapping[str, Any], above: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in section.items():
        key = f"{above}{name}"
        flat |= _dotted_names(value, f"{key}.") if isinstance(value, dict) else {key: value}
    return flat


def _state_of_version(name: str, project: Path, root: Path) -> ProjectState:
    version = find_version(name)
    if version is None:
        raise InputError("no such version is registered", place=f'"{name}"')
    store = client()
    try:
        run = store.get_run(store.get_model_version(version.name, version.version).run_id)
    except import_mlflow().exceptions.MlflowException as exc:
        raise InputError(f"its run cannot be read ({exc.message})", place=f'"{version.uri}"') from exc
    family = store.get_experiment(run.info.experiment_id).name
    if not version.has_files:
        raise InputError("its files are gone", file=version.directory, place=f'"{version.uri}"')
    reader = _prediction_readers().get(family)
    if reader is None:
        raise InputError(f"the family {family!r} stores no out-of-fold predictions", place=f'"{version.uri}"')
    with version.open_files() as directory:
        out_of_fold = reader.read_stored(directory, run.info.run_name, project)
    commit, dirty = commit_of(run.data.tags)
    notes = [] if commit else ["it was trained outside of git: its params.yaml is not known"]
    try:
        if commit:
            _fetch_files(commit, project, root)
    except InputError as error:
        notes.append(str(error))
    if dirty:
        notes.append(f"{name} was trained in a working tree that differed from commit {commit[:10]}")
    data = {"digest": version.tags.get("data_digest", "")}
    for source in (run.inputs.dataset_inputs if run.inputs else ())[:1]:
        counts = json.loads(source.dataset.profile or "{}")
        data = {"path": source.dataset.name, "format": source.dataset.source_type, **counts, **data}
    state = FamilyState(data, {out_of_fold.what: out_of_fold.entry}, [out_of_fold])
    chosen = {f"{family}: {param}": value for param, value in run.data.params.items()}
    return ProjectState(name, commit, params_of(root / PARAMS), {family: state}, root, tuple(notes), chosen)


@dataclass(frozen=True)
class ValueChange:
    """A parameter or a property of the data with its value in both states; None where it is missing."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FamilyDifference:
    """The differences of two states in one family."""

    family: str
    data: tuple[ValueChange, ...]
    champions: tuple[EntryComparison, ...]  # by subject
    entries: tuple[EntryComparison, ...]  # entries of the same name, without flips
    only: tuple[str, ...]  # entries of one state alone
    figures: tuple[ValueChange, ...] = ()
    compared: bool = True  # False where predictions are missing in one state


@dataclass(frozen=True)
class ExperimentsDifference:
    """The differences of two states, with notes on parts that could not be compared."""

    before: str
    after: str
    commits: tuple[str, str]
    params: tuple[ValueChange, ...]
    families: tuple[FamilyDifference, ...]
    notes: tuple[str, ...]
    drawing: BootstrapSettings


def compare_states(before: ProjectState, after: ProjectState) -> ExperimentsDifference:
    """Return the differences of two states in the families of both; InputError without such a family.

    Changed ``params`` are those of params.yaml, except those of families that are not compared; and
    ``FAMILY: NAME``, those of the models, if both states are registered versions. Champions, and entries of
    the same name, are compared on their common cases, `after` minus `before`.
    """
    how = BootstrapSettings(seed=int(after.params.get("seed", before.params.get("seed", 0))))
    old, new = before.families, after.families
    common = [family for family in FAMILIES if family in old and family in new]
    if not common:
        lists = (f"{state.name} has {', '.join(state.families)}" for state in (before, after))
        raise InputError(f"nothing can be compared: {'; '.join(lists)}")
    families = tuple(_compare_family(name, old[name], new[name], how) for name in common)
    # without the parameters of families that are not compared
    left_out = {*FAMILIES} - {*common}
    params = changed_values(before.params, after.params)
    kept = (change for change in params if change.name.partition(".")[0] not in left_out)
    chosen = changed_values(before.chosen, after.chosen) if before.chosen and after.chosen else ()
    names, commits = (before.name, after.name), (before.commit, after.commit)
    # a state that is compared with itself has its notes twice
    notes = tuple(dict.fromkeys(_comparison_notes(before, after, families)))
    return ExperimentsDifference(*names, commits, (*kept, *chosen), families, notes, how)


def changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    """Return the values that differ, sorted by name; a missing value is None, and equal to a None."""
    pairs = (ValueChange(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))
    return tuple(change for change in pairs if change.before != change.after)


def _compare_family(
    family: str, before: FamilyState, after: FamilyState, how: BootstrapSettings
) -> FamilyDifference:
    old = {(predictions.what, predictions.entry): predictions for predictions in before.out_of_fold}
    new = {(predictions.what, predictions.entry): predictions for predictions in after.out_of_fold}
    best = [
        compare_entries(old[what, before.champions[what]], new[what, entry], how)
        for what, entry in after.champions.items()
        if what in before.champions
    ]
    paired = (compare_entries(old[key], newer, how) for key, newer in new.items() if key in old)
    entries = tuple(replace(entry, flipped=()) for entry in paired)
    # a registered version has a single entry
    unpaired = sorted({*old} ^ {*new}) if min(len(old), len(new)) > 1 else []
    only = tuple(f"{what}: {entry}" for what, entry in unpaired)
    data = changed_values(before.data, after.data)
    figures = changed_values(before.figures, after.figures) if before.figures and after.figures else ()
    return FamilyDifference(family, data, tuple(best), entries, only, figures, bool(old and new))


def _comparison_notes(
    before: ProjectState, after: ProjectState, families: Sequence[FamilyDifference]
) -> Iterator[str]:
    yield from (f"{state.name}: {note}" for state in (before, after) for note in state.notes)
    for state, other in ((before, after), (after, before)):
        left_out = [family for family in state.families if family not in other.families]
        if left_out:
            yield f"{', '.join(left_out)} cannot be compared: missing in {other.name}"
    if incomplete := [difference.family for difference in families if not difference.compared]:
        compared = "parameters, data and the figures of summary.json are compared"
        missing = f"{', '.join(incomplete)}: predictions of one state are missing"
        yield f"{missing}; {compared}, without intervals and flipped verdicts"
    for best in [champion for difference in families for champion in difference.champions]:
        if best.only_before or best.only_after:
            only = f"{best.only_before} are only in the first, {best.only_after} only in the second"
            yield f"{best.what}: {best.common} cases are in both and are compared, {only}"
        if best.relabelled:
            changed = f"{len(best.relabelled)} cases are labelled otherwise in the second"
            yield f"{best.what}: {changed}; both are scored by these labels"
        if best.common and best.other_folds is None:
            yield f"{best.what}: the folds of the cases are not known for one of the states"
        if best.other_folds:
            moved = f"{best.other_folds} of {best.common} cases are in another fold"
            yield f"{best.what}: {moved}, and were judged by models trained on other cases"
