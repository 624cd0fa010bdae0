"""The plugin interface of the serving layer: the parts that each model family provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from data.errors import InputError
from data.families import FAMILIES
from data.tables.formats import Format
from data.tables.problems import unknown

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic import BaseModel
    from typer import Typer

    from serving.http.bodies import Answered

#: Options of a command that several families share: by name, as typer takes them; None where not given.
Options = Mapping[str, Any]
#: Answers a body with the model of the door, if it needs one.
Handle = Callable[[bytes, Any], "Answered"]
#: Answers bodies that wait together: for each its answer, or what its handler would raise.
Together = Callable[[Sequence[bytes], Any], "Sequence[Answered | Exception]"]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Loader:
    """Functions to read and describe a registered model.

    Attributes
    ----------
    name : callable
        Returns the name under which versions of the model are registered.
    load : callable
        Takes an address (None: the champion) and the given options; returns the model, with a ``ref``.
    told, shape : callable, type
        Takes a model or card and returns its ``/v1/models`` entry without the ``ref``; the type of that
        entry.
    card : callable or None
        Takes an address; returns the card with its ``ref``. None: the server loads the model first.
    trial : callable or None
        Sends a trial request to a model; raises if it cannot answer.
    others : callable
        Returns further names under which such models are registered.
    """

    name: Callable[[], str]
    load: Callable[..., Any]
    told: Callable[[Any], Mapping[str, Any]]
    shape: type[BaseModel]
    card: Callable[[Any], Any] | None = None
    trial: Callable[[Any], None] | None = None
    others: Callable[[], Sequence[str]] = tuple

    def tried(self, address: Any, knobs: Options | None = None) -> Any:
        """Load a version that answers a question; InputError if it cannot be loaded, or does not answer."""
        from training.registry.champions import FOREIGN

        model = self.load(address, **(knobs or {}))
        if self.trial is not None:
            try:
                self.trial(model)
            except FOREIGN as exc:
                raise InputError(f"{model.ref.uri} does not answer a question ({exc})") from exc
        return model


@dataclass(frozen=True)
class Registered:
    """A registered model that a server uses.

    ``key`` and ``says`` are the option of ``perfjudge serve`` and its help; ``knobs`` are further options,
    passed to the
    loader as keywords.
    """

    key: str
    says: str
    knobs: Options = field(default_factory=dict)


class Opinion(NamedTuple):
    """A model's verdict on one case: case name, subject, verdict and probability."""

    case: str
    about: str
    verdict: str
    probability: float | None


@dataclass(frozen=True)
class ShadowSupply:
    """Functions to compare two models' answers to the same body.

    Attributes
    ----------
    given : callable
        Takes the media type and the content of an answer; returns the opinion on each case.
    asked : callable
        Takes the media type, a body and a model; returns its opinion on each case, in the same order.
    """

    given: Callable[[str, bytes], Sequence[Opinion]]
    asked: Callable[[str, bytes, Any], Sequence[Opinion]]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint with the method POST.

    Attributes
    ----------
    request, answer : type
        Models of the JSON bodies.
    handlers : mapping
        Handlers by the media type of the body: JSON first, then others that are answered in the second.
    limit : int
        The largest body, in bytes.
    model, loader : Registered, Loader or None
        The model that the endpoint needs, and its loader; without the model, the answer is 503.
    alone : bool
        Whether only one request at a time is handled, because one keeps every core busy.
    described, told : mapping
        The JSON Schemas of bodies and of answers of the other types.
    together : callable or None
        Answers several JSON bodies at once; each answer equals the one it would get alone.
    refusals : tuple of int
        Statuses of refusals that no other endpoint has.
    beside : ShadowSupply or None
        Functions for a challenger in shadow mode; None: not supported.
    without : bool
        Whether the endpoint also answers without a champion, with None for the model.
    """

    path: str
    name: str
    says: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handlers: Mapping[str, Handle]
    limit: int
    model: Registered | None = None
    loader: Loader | None = None
    alone: bool = False
    described: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    together: Together | None = None
    refusals: tuple[int, ...] = ()
    beside: ShadowSupply | None = None
    without: bool = False

    @property
    def others(self) -> list[str]:
        """The media types other than JSON."""
        return list(self.handlers)[1:]


@dataclass(frozen=True)
class Judging:
    """The part of ``perfjudge judge`` for one family.

    Attributes
    ----------
    what : str
        A word for the content of sources.
    judge : callable
        Takes the source, the model's address, the output settings, ``keep_going`` and the `options` that were
        given;
        returns the exit code.
    recognised : callable or None
        Returns whether a source is the family's; None: the family takes sources that no other one recognises.
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

    ``read`` takes the format, the sources, the output directory, ``keep_going``, and the `options` that were
    given;
    ``what`` is a word for the content of sources.
    """

    what: str
    read: Callable[..., Counts]
    formats: Callable[[], Mapping[str, Format[Any]]]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Pages:
    """A family's routes other than its endpoints.

    Attributes
    ----------
    add : callable
        Adds the routes to the application; ``app.state.settings.options`` has the given options.
    begun : callable
        Takes the given options before the server listens; returns them with the defaults. Raises `InputError`
        if they
        cannot be used.
    unseen : callable or None
        Counts the labels that no training has used; returns None if that is not known now.
    """

    add: Callable[[FastAPI], None]
    options: Options = field(default_factory=dict)
    begun: Callable[[Options], Options] = dict
    unseen: Callable[[FastAPI], int | None] | None = None


@dataclass(frozen=True)
class FamilyPlugin:
    """A family's part of the serving layer; its functions are imported on first use.

    Attributes
    ----------
    page : callable
        Returns the report of the project at a path as one self-contained HTML text.
    commands : callable or None
        Adds the family's commands to the command line.
    labels : callable or None
        Counts the stored labels by status. None: the family stores none.
    words : callable or None
        Describes the measurements of named cases of the project at a path.
    """

    page: Callable[[Path], str]
    importing: Importing | None = None
    judging: Judging | None = None
    models: tuple[Registered, ...] = ()
    doors: Callable[[], Sequence[Endpoint]] = tuple
    pages: Pages | None = None
    commands: Callable[[Typer], None] | None = None
    labels: Callable[[], Mapping[str, int]] | None = None
    words: Callable[[Path, Sequence[str]], Mapping[str, tuple[str, ...]]] | None = None


def named(name: str) -> Any:
    """Import and return the attribute with this dotted name."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(module), own)


def deferred(name: str, *given: Any) -> Callable[..., Any]:
    """Return a function that imports the one of this dotted name, and calls it, with `given` first."""

    def called(*arguments: Any, **keywords: Any) -> Any:
        return named(name)(*given, *arguments, **keywords)

    return called


def supply(family: str) -> FamilyPlugin:
    """Return what `family` supplies to this room."""
    supplied: FamilyPlugin = import_module(f"serving.{family}").SUPPLY
    return supplied


def supplies() -> Sequence[FamilyPlugin]:
    """Return the plugins of all families."""
    return [supply(family) for family in FAMILIES]


def registered() -> Iterator[Registered]:
    """Yield the models that a server answers with."""
    return (model for one in supplies() for model in one.models)


def pages() -> Iterator[Pages]:
    """Yield the further routes of the families that have any."""
    return (one.pages for one in supplies() if one.pages is not None)


def doors() -> Iterator[Endpoint]:
    """Yield the addresses that questions are posted to."""
    return (door for one in supplies() for door in one.doors())


def door_of(name: str) -> Endpoint:
    """Return the endpoint of the models registered under `name`; InputError if none has it."""
    names = {
        known: door
        for door in doors()
        if door.loader
        for known in (door.loader.name(), *door.loader.others())
    }
    if name not in names:
        raise InputError(f'model "{name}" {unknown(name, names)}')
    return names[name]
