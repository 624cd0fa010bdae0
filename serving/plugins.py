"""The plugin interface of the serving layer: the parts that each model family provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from data.errors import InputError
from data.families import FAMILIES
from data.tables.formats import Format
from data.tables.problems import unknown_message

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic import BaseModel
    from typer import Typer

    from serving.http.bodies import Answered

#: Options of a command that several families share: typer's annotations, or values, by name.
Options = Mapping[str, Any]
#: Takes a body and the endpoint's model (None if it needs none); returns the answer.
Handle = Callable[[bytes, Any], "Answered"]
#: Takes several bodies and the model; returns for each its answer, or the exception of its handler.
HandleBatch = Callable[[Sequence[bytes], Any], "Sequence[Answered | Exception]"]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Loader:
    """Functions to read and describe a registered model."""

    name: Callable[[], str]  # returns the registered name
    #: Takes an address (None: the champion) and the given options; returns the model, with a ``ref``.
    load: Callable[..., Any]
    #: Takes a model or card; returns its ``/v1/models`` entry without the ``ref``, of the type ``shape``.
    describe_model: Callable[[Any], Mapping[str, Any]]
    shape: type[BaseModel]
    #: Takes an address; returns the card with its ``ref``. None: the server loads the model first.
    card: Callable[[Any], Any] | None = None
    trial: Callable[[Any], None] | None = None  # sends a test request; raises if the model cannot answer
    others: Callable[[], Sequence[str]] = tuple  # returns further names of such models

    def load_and_test(self, address: Any, params: Options | None = None) -> Any:
        """Return the model at `address` (None: the champion), loaded with the options `params`.

        InputError if loading or its test request fails.
        """
        from training.registry.champions import FOREIGN

        model = self.load(address, **(params or {}))
        if self.trial is not None:
            try:
                self.trial(model)
            except FOREIGN as exc:
                raise InputError(f"{model.ref.uri} does not answer a question ({exc})") from exc
        return model


@dataclass(frozen=True)
class Registered:
    """A registered model that a server uses.

    ``key`` and ``says`` are the option of ``perfjudge serve`` and its help; ``params`` are further
    options, passed to the loader as keywords.
    """

    key: str
    says: str
    params: Options = field(default_factory=dict)


class Opinion(NamedTuple):
    """A model's verdict on one case: case name, subject, verdict and probability."""

    case: str
    about: str
    verdict: str
    probability: float | None


@dataclass(frozen=True)
class OpinionReaders:
    """Functions to compare two models' answers to the same body.

    Both return the opinion on each case, in the same order, for a media type and the content of an
    answer, or a media type, a body and a model.
    """

    opinions_in_answer: Callable[[str, bytes], Sequence[Opinion]]
    opinions_of_model: Callable[[str, bytes, Any], Sequence[Opinion]]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint with the method POST."""

    path: str
    name: str
    says: str
    #: request, answer: models of the JSON bodies.
    request: type[BaseModel]
    answer: type[BaseModel]
    #: By the media type of the body: JSON first, then others, whose answers have the second type.
    handlers: Mapping[str, Handle]
    limit: int  # maximum size of a body in bytes
    #: model, loader: the model that the endpoint needs; without the model, the answer is 503.
    model: Registered | None = None
    loader: Loader | None = None
    alone: bool = False  # only one request at a time is handled, because one keeps every core busy
    #: other_body_schema, other_answer_schema: JSON Schemas of bodies and of answers of the other types.
    other_body_schema: Mapping[str, Any] = field(default_factory=dict)
    other_answer_schema: Mapping[str, Any] = field(default_factory=dict)
    #: Answers several JSON bodies at once; each answer equals the one to a single body.
    handle_batch: HandleBatch | None = None
    batch_in_thread: bool = False  # because a body takes milliseconds; else batches run in the event loop
    refusals: tuple[int, ...] = ()  # statuses of refusals that no other endpoint has
    shadow: OpinionReaders | None = None  # functions for a challenger in shadow mode; None: not supported
    champion_optional: bool = False  # also answers without a champion, with None for the model

    @property
    def other_media_types(self) -> list[str]:
        """The media types other than JSON."""
        return list(self.handlers)[1:]


@dataclass(frozen=True)
class Judging:
    """The part of ``perfjudge judge`` for one family.

    ``what`` is a word for the content of sources. ``judge`` takes the source, the model's address, the
    output settings, ``keep_going`` and the given `options`; it returns the exit code. ``recognised``
    returns whether a source is the family's; None: the family accepts sources that no other recognises.
    """

    what: str
    judge: Callable[..., int]
    options: Options = field(default_factory=dict)
    recognised: Callable[[Path], bool] | None = None


@dataclass(frozen=True)
class Counts:
    """Numbers of imported rows by kind, the skipped errors, and the assumptions made."""

    rows: Mapping[str, int]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importing:
    """The part of ``perfjudge import`` for one family.

    ``read`` takes the format, the sources, the output directory, ``keep_going``, and the given `options`;
    ``what`` is a word for the content of sources.
    """

    what: str
    read: Callable[..., Counts]
    formats: Callable[[], Mapping[str, Format[Any]]]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Pages:
    """A family's routes other than its endpoints.

    ``add`` adds them to the application, whose ``app.state.settings.options`` has the given options.
    ``complete_options`` takes the given options before the server listens and returns them with the
    defaults; InputError if they are invalid. ``count_new_labels`` counts the labels that no training has
    used; None if that is unknown.
    """

    add: Callable[[FastAPI], None]
    options: Options = field(default_factory=dict)
    complete_options: Callable[[Options], Options] = dict
    count_new_labels: Callable[[FastAPI], int | None] | None = None


@dataclass(frozen=True)
class FamilyPlugin:
    """A family's part of the serving layer; its functions are imported on first use.

    ``page`` returns the report of the project at a path as one self-contained HTML text, ``commands`` adds
    the family's commands to the command line, ``labels`` counts a project's labels by status,
    ``describe_cases`` describes the measurements of named cases of the project at a path. None: the family
    has no such part.
    """

    page: Callable[[Path], str]
    importing: Importing | None = None
    judging: Judging | None = None
    models: tuple[Registered, ...] = ()
    endpoints: Callable[[], Sequence[Endpoint]] = tuple
    pages: Pages | None = None
    commands: Callable[[Typer], None] | None = None
    labels: Callable[[Path], Mapping[str, int]] | None = None
    describe_cases: Callable[[Path, Sequence[str]], Mapping[str, tuple[str, ...]]] | None = None


def deferred_function(name: str, *first_arguments: Any) -> Callable[..., Any]:
    """Return a function that imports ``MODULE:FUNCTION`` and calls it with `first_arguments` first.

    Nothing is imported or checked before a call.
    """
    return lambda *arguments, **keywords: resolve_name(name)(*first_arguments, *arguments, **keywords)


def family_plugin(family: str) -> FamilyPlugin:
    """Return the plugin of a family; ModuleNotFoundError if there is no such family."""
    return import_module(f"serving.{family}").PLUGIN


def all_plugins() -> Sequence[FamilyPlugin]:
    """Return the plugins of all families, in the order ``comparisons, matrices, corun, fingerprints``."""
    return [family_plugin(family) for family in FAMILIES]


def served_models() -> Iterator[Registered]:
    """Yield the key, help and options of each model that a server uses, family by family."""
    return (model for plugin in all_plugins() for model in plugin.models)


def all_pages() -> Iterator[Pages]:
    """Yield the routes other than endpoints of each family that has some."""
    return (plugin.pages for plugin in all_plugins() if plugin.pages is not None)


def all_endpoints() -> Iterator[Endpoint]:
    """Yield the endpoints of all families, family by family; several may use the same model."""
    return (endpoint for plugin in all_plugins() for endpoint in plugin.endpoints())


def registered_names() -> list[str]:
    """Return the main names of the endpoints' models, each once, in the order of the endpoints."""
    names = (endpoint.loader.name() for endpoint in all_endpoints() if endpoint.loader is not None)
    return list(dict.fromkeys(names))


def endpoint_of_model(name: str) -> Endpoint:
    """Return the endpoint that uses a registered model, the last one if there are several.

    `name` is the main name of the endpoint's model or one of its further names; InputError for any other.
    """
    endpoints: dict[str, Endpoint] = {}
    for endpoint in all_endpoints():
        if endpoint.loader:
            endpoints |= dict.fromkeys((endpoint.loader.name(), *endpoint.loader.others()), endpoint)
    if name not in endpoints:
        raise InputError(f'model "{name}" {unknown_message(name, endpoints)}')
    return endpoints[name]


def kind_problem(address: Any, name: str) -> str | None:
    """Return that a model is of another kind than those registered as `name`; None if no kind is known."""
    kinds = {
        f"{family} ({endpoint.loader.name()})": endpoint.loader
        for family in FAMILIES
        for endpoint in family_plugin(family).endpoints()
        if endpoint.loader
    }
    expected = next((kind for kind, other in kinds.items() if other.name() == name), name)
    for kind, other in kinds.items():
        if other.name() != name:
            with suppress(InputError):
                (other.card or other.load)(address)
                return f"is a model of {kind}; expected one of {expected}"
    return None


@contextmanager
def naming_kind(address: Any, name: str) -> Iterator[None]:
    """Replace an InputError of the block if the model at `address` is not registered as `name`."""
    try:
        yield
    except InputError as exc:
        if isinstance(address, str) and (problem := kind_problem(address, name)):
            raise InputError(problem, file=address) from exc
        raise
