"""The commands ``perfjudge irup profile`` and ``irup diff``, and the endpoint for profiles."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from pathlib import Path

import data.fingerprints.formats as fingerprint_formats
from data.errors import InputError, one_line
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import direction_of_metric
from data.tables.problems import SHOWN, Problems
from serving.answering import print_skipped, write_output
from serving.fingerprints.inputs import (
    RequestedApplication,
    complete_application,
    read_machines,
    requested_application,
    tables_of,
    with_application,
)
from serving.fingerprints.json import (
    difference_lines,
    difference_text,
    file_text,
    nothing_learned,
    profile_answer,
    profile_text,
    read_measurements,
)
from serving.fingerprints.profile_bars import difference_page, profile_page
from serving.fingerprints.schemas import IrupRequest, ProfileAnswer
from serving.http.bodies import JSON, Answered, request_of
from serving.http.schemas import RefusedError
from serving.plugins import MEBIBYTE, Counts, Endpoint
from training.fingerprints.differences import profile_difference
from training.fingerprints.prediction import Prediction, predict_performance
from training.fingerprints.profiles import infer_profile

#: Default random seed.
SEED = 20261121


@dataclass(frozen=True)
class Learning:
    """Settings of learning: metric and direction of values (None: not given), the seed, and parameters."""

    metric: str | None = None
    better: str | None = None
    keep_going: bool = False
    seed: int = SEED
    section: Fingerprints = field(default_factory=Fingerprints)


def learning_settings(
    metric: str | None, better: str | None, seed: int | None, *, keep_going: bool
) -> Learning:
    """Return the settings of `irup profile` and `irup diff`; InputError if `metric` is empty or blank.

    `metric` and `better` describe values in CSV files, None: not given; `seed` None is 20261121. Parameters
    are defaults.
    """
    metric = metric if metric is None else metric.strip()
    if metric == "":
        raise InputError('--metric="" must name the values, such as "seconds"')
    return Learning(metric, better, keep_going, SEED if seed is None else seed)


def profile_machines(
    machines: Path, application: str, learning: Learning, *, form: str, output: Path | None, predicting: bool
) -> int:
    """Write the profile of an application as text, json or html (`form`), and return the exit code 0.

    `output` None is standard output. `application` is a name in the fingerprints `machines`, or else a CSV
    file, which `learning` describes; `predicting` adds predictions for the machines without a value. Warnings
    are in json and html, and for text and html on stderr. InputError if data is invalid or missing, fewer
    than three machines remain, or machines are to be predicted and all measured ones have one CPU model.
    """
    (data,) = _read_applications(machines, [application], learning)
    learned = infer_profile(data.measured, learning.section.profile, learning.seed)
    predictions = predict_unmeasured(data, learning) if predicting else ()
    if form != "json":
        _print_warnings(data.warning_lines(SHOWN))
    if form == "text":
        text = profile_text(learned, predictions, predicting=predicting)
    else:
        as_text = profile_page if form == "html" else file_text
        text = as_text(learned, predictions, data.warning_lines())
    write_output(text.encode(), output)
    return 0


def compare_profiles(
    a: str,
    b: str,
    machines: Path | None,
    learning: Learning,
    *,
    form: str,
    output: Path | None,
    fail_on_regression: bool,
) -> int:
    """Write the difference b - a of two profiles as text, json or html (`form`), and return the exit code.

    Without `machines`, `a` and `b` are files of ``irup profile --json``; with it, applications as for
    `profile_machines`. Profiles are learned from the stressors of both. With `fail_on_regression`, the exit
    code is 1 if the test is reliable and a stressor changed significantly, in either direction; else 0. A
    warning on stderr names metrics or directions that differ.
    InputError if an input cannot be used, or there is no stressor in common.
    """
    if machines is None:
        sides = [read_measurements(Path(name)) for name in (a, b)]
    else:
        data = _read_applications(machines, [a, b], learning)
        _print_warnings(dict.fromkeys(chain.from_iterable(one.warning_lines(SHOWN) for one in data)))
        sides = [application.measured for application in data]
    before, after = (f"{side.metric} ({side.better} is better)" for side in sides)
    if before != after:
        _print_warnings([f"A is in {before}, B in {after}: a difference may be one of these metrics"])
    common = [column for column in sides[0].columns if column in sides[1].columns]
    if not common:
        raise InputError("the two profiles have no stressor in common", place=f'"{a}" and "{b}"')
    params, seed = learning.section.profile, learning.seed
    first, second = (infer_profile(side.select_columns(common), params, seed) for side in sides)
    difference = profile_difference(first, second, params, seed)
    as_text = {"text": difference_lines, "json": difference_text, "html": difference_page}
    write_output(as_text[form](difference).encode(), output)
    return 1 if fail_on_regression and difference.significant and not difference.reasons else 0


def predict_unmeasured(data: RequestedApplication, learning: Learning) -> Sequence[Prediction]:
    """Return predictions for machines with a fingerprint but no value, sorted by machine; may be empty.

    Each has ``machine, value, low, high`` (interval), and ``reasons`` not to rely on it. InputError if there
    are such machines, and the application was measured on one CPU model only.
    """
    if not len(data.unmeasured):
        return ()
    how = learning.section.profile.confidence, learning.seed
    return predict_performance(data.measured, data.unmeasured, data.unmeasured_rates, *how)


def _read_applications(
    machines: Path, names: Sequence[str], learning: Learning
) -> list[RequestedApplication]:
    reading = read_machines(machines, keep_going=learning.keep_going)
    problems = Problems(learning.keep_going, [*reading.skipped])
    for measured in reading.tables.applications.drop_duplicates("application").itertuples():
        for option in ("metric", "better") if measured.application in names else ():
            stored, requested = (getattr(of, option) for of in (measured, learning))
            if requested not in {None, stored}:
                place = f'application "{measured.application}"'
                raise InputError(f"--{option}={requested} contradicts {stored}", file=machines, place=place)
    stated = learning.metric, learning.better
    try:
        tables_by_name = [with_application(reading.tables, name, *stated, problems) for name in names]
    finally:
        print_skipped(problems.skipped)
    return [requested_application(tables, learning.section) for tables in tables_by_name]


def _print_warnings(warnings: Iterable[str]) -> None:
    sys.stderr.writelines(f"{one_line(warning)}\n" for warning in warnings)


def imported(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the fingerprints in `sources`, of the format `kind`, to `directory`; return counts and errors.

    The result has ``rows``, with the numbers of ``machines, rates, applications, values``, and ``skipped``.
    Existing tables are replaced. With `keep_going`, rows with wrong values are skipped; else the first is an
    InputError. InputError also if `kind` is unknown, a source cannot be read, or no rate is left.
    """
    reading = fingerprint_formats.read(kind, sources, keep_going=keep_going)
    tables = reading.tables
    tables.write(directory)
    rows = {
        "machines": tables.machines["machine"].nunique(),
        "rates": len(tables.machines),
        "applications": tables.applications["application"].nunique(),
        "values": len(tables.applications),
    }
    return Counts(rows, reading.skipped)


def answer_irup(body: bytes) -> Answered:
    """Return the JSON answer to a request to profile an application, with predictions for other machines.

    Invalid parts are left out with a warning. Predictions are for the machines without a value. With too
    little data the profile is empty, with the reason in ``trust.reasons``. If all measured machines have one
    CPU model, a warning replaces the predictions. RefusedError: 400 if the body is not JSON, 422 if it is not
    a request, 413 if it has over 1,000,000 lists, objects and keys, or over 500,000 rates and values.
    """
    request, problems, learning = request_of(body, IrupRequest), Problems(keep_going=True), Learning()
    data = complete_application(request, learning.section.checks.max_missing_fraction)
    if data is None:
        try:
            tables = tables_of(request, problems)
        except InputError as exc:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(exc)) from exc
    warnings = [f"left out: {problem}" for problem in problems.skipped]
    about = request.application
    if "better" not in about.model_fields_set and direction_of_metric(about.metric) is None:
        warnings.append(f'application.better is missing; assumed that lower "{about.metric}" is better')
    predictions: Sequence[Prediction] = ()
    try:
        data = data or requested_application(tables, learning.section)
        learned = infer_profile(data.measured, learning.section.profile, learning.seed)
    except InputError as exc:
        # too few machines or stressors, or no application
        return Answered.from_schema(nothing_learned(request, str(exc), warnings))
    warnings += data.warning_lines()
    try:
        predictions = predict_unmeasured(data, learning)
    except InputError as exc:
        warnings.append(f"nothing is predicted: {exc}")
    return Answered.from_schema(profile_answer(learned, predictions, warnings))


def fingerprint_endpoints() -> list[Endpoint]:
    """Return a list with the endpoint ``/v1/irup`` for profiles, which needs no model."""
    return [
        Endpoint(
            "/v1/irup",
            "profile_application",
            "Infer the resources that an application depends on, and predict it on other machines.",
            IrupRequest,
            ProfileAnswer,
            {JSON: lambda body, _: answer_irup(body)},
            16 * MEBIBYTE,
            alone=True,
        )
    ]
