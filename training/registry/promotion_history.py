"""Promotion history: how, when and why a version becomes champion or challenger.

A move is stored as a tag of the registered model, and as tags of the versions and of their runs. Moves made
by hand in MLflow are detected by the tags that they leave unchanged, and recorded the next time this code
runs.
"""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from data.errors import InputError
from training.registry.champions import (
    CANDIDATE,
    CHALLENGER,
    CHAMPION,
    ROLE_TAG,
    Tracked,
    Version,
    add_note,
    client,
    find_version,
    import_mlflow,
    local_store,
    tracking_uri,
    version_of,
)

#: How a version became champion: by the pipeline's champion/challenger test, by a person, by a person's
#: rollback, or by moving the alias in MLflow.
Way = Literal["challenger test", "promote", "rollback", "by hand"]
#: Prefixes of the tags of a registered model with its promotions, and of the tags of a version with its own.
MOVED, CROWNED = "champion ", "champion_"
#: The tag of a version that a person replaced, with the reason.
REPLACED = "replaced"
#: The reason of a champion whose alias was moved in MLflow.
BY_HAND = "the alias was moved in MLflow"
#: Largest length of a reason, in characters.
LONGEST = 2000


def current_user() -> str:
    """Return the current user's name, or the user's number if there is no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@dataclass(frozen=True)
class ChampionRecord:
    """The record of one promotion."""

    version: str
    way: Way
    reason: str
    by: str = field(default_factory=current_user)  # the user who promoted it, or ran the test
    #: UTC, ISO 8601
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))

    @property
    def summary_line(self) -> str:
        """User, time, way and reason in one line."""
        return f"{_DID[self.way]} by {self.by or 'somebody'} on {self.at[:10]}: {self.reason}"

    @property
    def version_tags(self) -> dict[str, str]:
        """The record as tags of the version."""
        return {f"{CROWNED}{name}": value for name, value in asdict(self).items() if name != "version"}

    @classmethod
    def from_version(cls, version: Version) -> ChampionRecord | None:
        """Return the latest promotion in the tags of a version; None if it was never champion."""
        tags = version.tags.items()
        values = {name.removeprefix(CROWNED): value for name, value in tags if name.startswith(CROWNED)}
        return cls(version.version, **values) if values.keys() == {"way", "reason", "by", "at"} else None  # type: ignore[arg-type]


_DID = {
    "challenger test": "chosen by the challenger test, run",
    "promote": "promoted",
    "rollback": "restored",
    "by hand": "moved",
}


def champion_reason(champion: Version) -> str:
    """Return why a version is champion, in one line; empty if that is not recorded.

    After a promotion or rollback by a person, it is like "promoted by ann on 2026-11-22: REASON", else the
    reason of the version's champion/challenger test, or that the alias was moved in MLflow.
    """
    if champion.tags.get(ROLE_TAG, CANDIDATE) not in {CANDIDATE, CHAMPION}:
        return BY_HAND  # and `_sync_tags` has not run since
    record = ChampionRecord.from_version(champion)
    if record is not None and record.way != "challenger test":
        return record.summary_line
    return champion.tags.get("reason", "")


def challenger_reason(challenger: Version) -> str:
    """Return the reason of the person who replaced a version, else that of its challenger test, or ""."""
    return challenger.tags.get(REPLACED) or challenger.tags.get("reason", "")


def read_promotions(name: str) -> list[ChampionRecord]:
    """Return all promotions of model `name`, oldest first; InputError if it is not registered."""
    return _parse_promotions(_registered_model(client(), name).tags)


def _parse_promotions(tags: Mapping[str, str]) -> list[ChampionRecord]:
    return [ChampionRecord(**json.loads(tags[key])) for key in sorted(tags) if key.startswith(MOVED)]


def rollback_target(moves: Sequence[ChampionRecord]) -> str | None:
    """Return the version that a rollback restores: the champion before the present one; None without one.

    `moves` are all promotions, oldest first. Consecutive rollbacks go further back.
    """
    line: list[str] = []
    for move in moves:
        if move.way == "rollback" and move.version in line:
            del line[len(line) - line[::-1].index(move.version) :]
        elif line[-1:] != [move.version]:
            line.append(move.version)
    return line[-2] if len(line) > 1 else None


def register_version(name: str, tracked: Tracked, tags: Mapping[str, str], alias: str, former: str) -> str:
    """Register a logged model as a new version of `name`, and move an alias to it; return that alias.

    `alias` ("champion" or "challenger") is the outcome of the test; `former` the champion it was compared
    with (empty: no champion), which does not become challenger. If another version has become champion
    meanwhile, the new version is challenger, and its ``reason`` says so. `tags` must have ``evidence, model,
    reason``. A version that an interrupted test registered on this evidence is used instead of a new one.
    """
    store = client()
    with lock_aliases(name):
        try:
            model = _registered_model(store, name)
        except InputError:
            model = store.create_registered_model(name)
        now = _versions_by_alias(model).get(CHAMPION, "")
        if alias == CHAMPION and now != former:
            alias, tags = CHALLENGER, {**tags, "reason": f"v{now} became champion meanwhile"}
        version = _interrupted_version(store, name, tags["evidence"]) or store.create_model_version(
            name,
            tracked.model_uri,
            run_id=tracked.run_id,
            tags=dict(tags),
            model_id=tracked.model_id,
            description=f"{tags['model']}: {tags['reason']}",
        )
        if alias == CHAMPION:
            record = ChampionRecord(str(version.version), "challenger test", tags["reason"])
            _make_champion(store, name, record)
        else:
            _make_challenger(store, name, version.version, {"reason": tags["reason"]})
        _sync_tags(store, name)
    return alias


def _interrupted_version(store: Any, name: str, evidence: str) -> Any:
    for version in store.search_model_versions(f"name = '{name}'"):
        if version.tags.get("evidence") == evidence:
            # its run may have been deleted
            with suppress(import_mlflow().exceptions.MlflowException):
                if store.get_run(version.run_id).data.tags.get(ROLE_TAG) == CANDIDATE:
                    return version
    return None


def promote_version(name: str, version: str, record: ChampionRecord, former: str) -> None:
    """Make a version champion; the former champion becomes challenger, with the reason in its tags.

    The version, that of `record`, must exist, which is not checked. `former` is another version, which was
    champion at the decision (empty: no champion, and the version loses the alias "challenger"); InputError if
    it is not champion any more, or if nothing is registered as `name`. The caller must not hold
    `lock_aliases`.
    """
    store = client()
    with lock_aliases(name):
        model = _registered_model(store, name)
        aliases, moves = _versions_by_alias(model), _parse_promotions(model.tags)
        now = aliases.get(CHAMPION, "")
        if now != former:
            reason = f" ({moves[-1].summary_line})" if moves and moves[-1].version == now else ""
            change = f"v{now} is champion of {name} meanwhile" if now else f"{name} has no champion any more"
            raise InputError(f"{change}{reason}; review the champion, then decide again")
        if former:
            reason = f"{record.by} preferred v{version}: {record.reason}"
            _make_challenger(store, name, former, {REPLACED: reason, "judged_against": version})
        elif aliases.get(CHALLENGER) == version:
            store.delete_registered_model_alias(name, CHALLENGER)
        _make_champion(store, name, record)
        _sync_tags(store, name)


def _make_challenger(store: Any, name: str, version: str, tags: Mapping[str, str]) -> None:
    """Set `tags` on a version, and move the alias "challenger" to it; the caller holds `lock_aliases`."""
    for tag, value in tags.items():
        store.set_model_version_tag(name, version, tag, value)
    store.set_registered_model_alias(name, CHALLENGER, version)


def _make_champion(store: Any, name: str, record: ChampionRecord) -> None:
    """Record a promotion in tags, then move the alias "champion"; the caller holds `lock_aliases`."""
    # a role of before would mean that the alias was moved in MLflow
    store.set_model_version_tag(name, record.version, ROLE_TAG, CANDIDATE)
    if REPLACED in store.get_model_version(name, record.version).tags:
        store.delete_model_version_tag(name, record.version, REPLACED)
    _store_record(store, name, record)
    # last, so that the reason is visible whenever the alias is
    store.set_registered_model_alias(name, CHAMPION, record.version)


def _store_record(store: Any, name: str, record: ChampionRecord) -> None:
    for tag, value in record.version_tags.items():
        store.set_model_version_tag(name, record.version, tag, value)
    # keys in MLflow must not contain "+"
    key = f"{MOVED}{record.at.replace('+00:00', 'Z')}"
    store.set_registered_model_tag(name, key, json.dumps(asdict(record)))


def _sync_tags(store: Any, name: str) -> None:
    """Update the tag ``role`` of the versions and runs of model `name` to match its aliases.

    A move of "champion" by hand is recorded as a promotion. The caller holds `lock_aliases`.
    """
    model = _registered_model(store, name)
    aliases, moves = _versions_by_alias(model), _parse_promotions(model.tags)
    now = aliases.get(CHAMPION)
    if now is not None and (not moves or moves[-1].version != now):
        moves.append(ChampionRecord(now, "by hand", BY_HAND, by=""))
        _store_record(store, name, moves[-1])
    former_champions = {bearer.version for bearer in moves}
    for version in store.search_model_versions(f"name = '{name}'"):
        number = str(version.version)
        alias = next((bearer for bearer in (CHAMPION, CHALLENGER) if aliases.get(bearer) == number), "")
        last = version.tags.get(ROLE_TAG, "").removeprefix("former ")
        former = CHAMPION if number in former_champions else last if last == CHALLENGER else ""
        role = alias or (f"former {former}" if former else version.tags.get(ROLE_TAG, ""))
        if role and role != version.tags.get(ROLE_TAG):
            _write_role(store, version, role, aliases.get(role.removeprefix("former "), ""))


def _write_role(store: Any, entry: Any, role: str, bearer: str) -> None:
    store.set_model_version_tag(entry.name, entry.version, ROLE_TAG, role)
    shown = f"[{entry.name} v{{0}}](#/models/{entry.name}/versions/{{0}})"
    if role.startswith("former "):
        since = f" since {shown.format(bearer)}" if bearer else ""
        paragraph = f"No longer {role.removeprefix('former ')}{since}."
    else:
        version = find_version(f"models:/{entry.name}/{entry.version}")
        describe = champion_reason if role == CHAMPION else challenger_reason
        reason = "" if version is None else describe(version)
        paragraph = f"**{role.capitalize()}**: {shown.format(entry.version)}; {reason}."
    # a version made by hand has no run, and a run may have been deleted
    if entry.run_id:
        with suppress(import_mlflow().exceptions.MlflowException):
            store.set_tag(entry.run_id, ROLE_TAG, role)
            add_note(store, entry.run_id, paragraph)


def sync_if_moved(name: str) -> None:
    """Update the tags ``role`` of model `name`, if it exists, after an alias was moved by hand in MLflow.

    A new champion is recorded as a promotion; a deleted alias is not noticed. The caller must not hold
    `lock_aliases`. InputError if the registry cannot be read.
    """
    bearers = {alias: version_of(name, alias) for alias in (CHAMPION, CHALLENGER)}
    if any(version is not None and version.tags.get(ROLE_TAG) != alias for alias, version in bearers.items()):
        with lock_aliases(name):
            _sync_tags(client(), name)


@contextmanager
def lock_aliases(name: str) -> Iterator[None]:
    """Hold a lock on the aliases of `name` on this machine in a ``with`` block; wait for any other lock.

    With a local store (an SQLite file, whose directory must exist), the lock is on the aliases of all names;
    with a server, it excludes only processes of the same user. A second lock inside the first waits for ever.
    """
    local = local_store()
    if local is not None:
        path = local.with_name(f"{local.name}-moving")
    else:
        key = hashlib.sha256(f"{current_user()} {tracking_uri()} {name}".encode()).hexdigest()[:20]
        path = Path(tempfile.gettempdir()) / f"perfjudge-{key}.lock"
    # not opened for writing: the file may be another user's
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _versions_by_alias(model: Any) -> dict[str, str]:
    return {alias: str(version) for alias, version in model.aliases.items()}


def _registered_model(store: Any, name: str) -> Any:
    try:
        return store.get_registered_model(name)
    except import_mlflow().exceptions.MlflowException as exc:
        raise InputError(f"nothing is registered as {name!r} in MLflow ({exc.message})") from exc
