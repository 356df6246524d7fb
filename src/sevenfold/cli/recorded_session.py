"""A recorded session, ours or another tool's, opened so that the engine can work on it without touching its file.

What the engine writes is a draft. It becomes a new file, or is appended to the old one, in one step at the end; until
then, and after any error or interruption, everything is as it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any, cast

import msgspec
from msgspec import Struct

from sevenfold.cli import transcripts
from sevenfold.conversation.epoch import frame_of, in_force
from sevenfold.conversation.resume import resume
from sevenfold.errors import InputError, Refused
from sevenfold.lab.profile.files import not_a_conversation
from sevenfold.ports import Client
from sevenfold.providers.offline import OfflineClient
from sevenfold.recall.index import RecallIndex, side_file
from sevenfold.record.blocks import read_field
from sevenfold.record.decisions import Segment
from sevenfold.record.view import View
from sevenfold.session import factory as opened
from sevenfold.session.factory import Lifetime, Options, Recalled, Store, Tool
from sevenfold.session.session import Session
from sevenfold.stores.atomic import Staged
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.draft import DraftLog
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.notes import FileNotes
from sevenfold.stores.jsonl.results import FileResults
from sevenfold.stores.settings_files import FileSource

NO_MODEL = "<synthetic>"
"""What some tools name as the model of messages that no model wrote."""


class Recorded(Struct, frozen=True):
    """What a transcript tells about the session in it."""

    path: Path
    session: str
    folder: Path
    """The project it belongs to."""
    model: str
    own: bool
    """Did Sevenfold write what precedes its messages? Then system prompt and tools are on record."""
    records: int
    start: int
    """Where what is in view begins in the file."""
    options: Options

    @property
    def notes(self) -> Path:
        """Where its notes are kept."""
        return user_home().project(self.folder).session(self.session).notes


def look(path: Path, model: str = "") -> Recorded:
    """What is known about a transcript; raises if it is none, or if nobody says which model it is for."""
    log = JsonlLog(path)
    view = resume(log)
    if not view.items:
        raise not_a_conversation(path)
    identity = log.identity()
    model = model or _model(view)
    if not model:
        raise InputError(f"{path}: no answer in it names its model; say which one is meant with --model")
    return Recorded(
        path=path,
        session=identity.session or path.stem,
        folder=_folder(identity.folder, path),
        model=model,
        own=view.epoch is not None,
        records=len(view),
        start=_start(view),
        options=_options(view),
    )


@contextmanager
def engaged(
    recorded: Recorded, client: Client, shown: Path, *, recall: bool = False
) -> Iterator[tuple[Session, DraftLog]]:
    """The session at work on a draft; ``shown`` is the path under which the model may read all of it later.

    With ``recall`` it is made ready first for what will be looked for in it.
    """
    log = DraftLog(recorded.path)
    results = FileResults(recorded.path.parent / "tool-results" / recorded.path.stem)
    recalled = Recalled(log, None, results, index=partial(_index, recorded, log, results))
    if recall:
        recalled.catch_up()
    store = Store(
        name=recorded.session,
        log=log,
        results=results,
        settings=FileSource(recorded.folder),
        notes=FileNotes(recorded.notes),
        recall=recalled,
        cwd=str(recorded.folder),
        path=str(shown.absolute()),
    )
    session = Session(opened.engine(store, recorded.model, recorded.options), store, client)
    try:
        yield session, log
    finally:
        session.close()


def _index(recorded: Recorded, log: DraftLog, results: FileResults) -> RecallIndex:
    """What was said, to be looked through. Only what is in view can be hidden, so what came before is not read."""
    beside = side_file(recorded.path)
    index = RecallIndex.for_reading(log, beside, fetch=results.fetch, since=recorded.start)
    with transcripts.progress(recorded.path, "indexing") as progress:
        index.catch_up(progress)
    return index


@contextmanager
def waiting(doing: str) -> Iterator[None]:
    """Something that moves on the error stream, if somebody is there to see it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


def is_offline(client: Client) -> bool:
    """Does the offline model stand in because nothing is configured?"""
    return isinstance(client, OfflineClient)


def write_new(target: Path, draft: DraftLog) -> None:
    """The file's bytes and the draft's in a new file, complete or not at all."""
    staged = Staged(target, draft.whole())
    try:
        os.link(staged.path, target)
    except FileExistsError:
        raise exists(target) from None
    except OSError:
        # Not every file system has links; then the name is taken in the second-best way.
        if target.exists():
            raise exists(target) from None
        staged.commit()
    finally:
        staged.discard()


def exists(target: Path) -> InputError:
    """The error for a file that must not be overwritten."""
    return InputError(f"{target}: this file exists and is not overwritten; name another one with --output")


@contextmanager
def held(path: Path) -> Iterator[JsonlLog]:
    """The transcript for writing; raises, and says who holds it, if somebody else does."""
    log = JsonlLog.open(path)
    try:
        yield log
    finally:
        log.close()


def append(log: JsonlLog, draft: DraftLog) -> None:
    """Put the draft behind the file it began with, in one write; raises if the file has grown meanwhile."""
    if log.path.stat().st_size != draft.size:
        raise Refused(
            f"{log.path}: another program wrote to it meanwhile, so nothing was appended; "
            "end that program and try again, or write a new file instead"
        )
    log.append(draft.added, durable=True)


def _model(view: View) -> str:
    """The model of the newest answer."""
    for item in reversed(view.items):
        if item.said.role == "assistant" and item.said.model not in ("", NO_MODEL):
            return item.said.model
    return view.epoch.model if view.epoch else ""


def _folder(cwd: str, path: Path) -> Path:
    """Where the session worked, on whatever system; beside its file where nothing says so."""
    named = PureWindowsPath(cwd).is_absolute() or cwd.startswith("/")
    return Path(cwd) if named else path.absolute().parent


def _start(view: View) -> int:
    whole = Segment(view.items[0].said.uuid, "", view.items[-1].said.uuid)
    return view.start_of(whole) or 0


def _options(view: View) -> Options:
    """What precedes the messages, exactly as it is on record, so that the engine goes on with it."""
    if view.epoch is None:
        return Options()
    frame = frame_of(view.epoch)
    system, tools = in_force(view, frame)
    return Options(
        system=[read_field(part, "text") for part in system],
        tools=[Tool(msgspec.json.decode(raw, type=dict[str, Any])) for raw in tools],
        max_tokens=frame.max_tokens,
        fields={name: msgspec.json.decode(raw) for name, raw in frame.settings},
        betas=frame.betas,
        lifetime=cast(Lifetime, view.epoch.lifetimes.get("tail", "5m")),
    )
