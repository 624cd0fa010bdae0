"""What a family supplies to the room where models answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.errors import InputError
from data.families import FAMILIES

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Typer

    from serving.doors.bodies import Answered

#: Options of a command that several families share: by name, as typer takes them; None where not given.
Options = Callable[[], Mapping[str, Any]]
#: Answers a body with the model of the door, if it needs one.
Handle = Callable[[bytes, Any], "Answered"]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Loader:
    """How a registered model is read and told of.

    Attributes
    ----------
    name : callable
        Returns the name under which its versions are registered.
    load : callable
        Takes an address (None: the champion) and the options that were given; returns what doors answer with,
        which has a ``ref``.
    told : callable
        Takes what `load` or `card` returns; returns what ``/v1/models`` says of its card.
    shape : type
        What all of that becomes in JSON.
    card : callable or None
        Takes an address; returns what is known without loading, with its ``ref``. None: the model is loaded
        before the server listens, which is not ready without it.
    """

    name: Callable[[], str]
    load: Callable[..., Any]
    told: Callable[[Any], Mapping[str, Any]]
    shape: type[BaseModel]
    card: Callable[[str | None], Any] | None = None


@dataclass(frozen=True)
class Registered:
    """A registered model that a server answers with.

    Attributes
    ----------
    key : str
        The option of ``perfjudge serve``, as an identifier.
    says : str
        What ``--help`` says of the option.
    loader : callable
        Returns how it is read.
    knobs : callable
        Further options of ``perfjudge serve``, which loading takes as keywords.
    """

    key: str
    says: str
    loader: Callable[[], Loader]
    knobs: Options = dict


@dataclass(frozen=True)
class Further:
    """Media types beside JSON that a door takes, and answers in the first of them.

    Attributes
    ----------
    types : tuple of str
    handle : callable
    example : callable
        Returns a body.
    """

    types: tuple[str, ...]
    handle: Handle
    example: Callable[[], str]


@dataclass(frozen=True)
class Door:
    """An address that questions are posted to.

    Attributes
    ----------
    path, name, says : str
    shapes : callable
        Returns the types of a request and of its answer.
    handle : callable
        Answers JSON.
    limit : int
        The largest body that is read, in bytes.
    model : Registered or None
        What it needs; without it, the door answers 503.
    alone : bool
        Whether only one question at a time is answered, as one keeps every core busy.
    further : Further or None
    """

    path: str
    name: str
    says: str
    shapes: Callable[[], tuple[type[BaseModel], type[BaseModel]]]
    handle: Handle
    limit: int
    model: Registered | None = None
    alone: bool = False
    further: Further | None = None


@dataclass(frozen=True)
class Judging:
    """How ``perfjudge judge`` judges what one family measured.

    Attributes
    ----------
    what : str
        What sources hold, in a word.
    judge : callable
        Takes the source, the model's address, how to answer, ``keep_going``, and the `options` that were
        given; returns the exit code.
    options : callable
    recognised : callable or None
        Tells whether a source is the family's; None: whatever no other family recognises.
    """

    what: str
    judge: Callable[..., int]
    options: Options = dict
    recognised: Callable[[Path], bool] | None = None


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind were imported, what was skipped, and what had to be assumed."""

    rows: Mapping[str, int]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importing:
    """How ``perfjudge import`` reads what one family measured.

    Attributes
    ----------
    what : str
        What sources hold, in a word.
    read : callable
        Takes the format, the sources, the directory that gets the tables, ``keep_going``, and the `options`
        that were given; returns what it counted.
    formats : callable
    options : callable
    recognised : callable or None
        Takes a format and a source, and tells whether that is the family's; None: whatever no other family
        recognises.
    """

    what: str
    read: Callable[..., Counts]
    formats: Callable[[], Collection[str]]
    options: Options = dict
    recognised: Callable[[str, Path], bool] | None = None


@dataclass(frozen=True)
class ServingSupply:
    """A family's part of this room; what it calls is imported when it is called.

    Attributes
    ----------
    page : callable
        Returns the report of the project at a path as one self-contained HTML text.
    importing : Importing or None
    judging : Judging or None
    models : tuple of Registered
    doors : tuple of Door
    commands : callable or None
        Adds the family's own commands to the command line.
    """

    page: Callable[[Path], str]
    importing: Importing | None = None
    judging: Judging | None = None
    models: tuple[Registered, ...] = ()
    doors: tuple[Door, ...] = ()
    commands: Callable[[Typer], None] | None = None


def supply(family: str) -> ServingSupply:
    """Return what `family` supplies to this room."""
    supplied: ServingSupply = import_module(f"serving.{family}").SUPPLY
    return supplied


def supplies() -> Sequence[ServingSupply]:
    """Return what all families supply to this room."""
    return [supply(family) for family in FAMILIES]


def registered() -> Iterator[Registered]:
    """Yield the models that a server answers with."""
    return (model for one in supplies() for model in one.models)


def doors() -> Iterator[Door]:
    """Yield the addresses that questions are posted to."""
    return (door for one in supplies() for door in one.doors)
