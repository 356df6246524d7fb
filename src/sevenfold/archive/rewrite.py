"""Opens a recorded session, ours or another tool's, for the engine without touching its file.

The engine writes to a draft, which becomes a new file, or is appended to the old one, in one step at the end. Until
then, and after any error or interruption, the session's file on disk is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path, PureWindowsPath
from typing import Any, cast

import msgspec
from msgspec import Struct

from sevenfold.archive.formats import not_a_conversation, open_log
from sevenfold.archive.search import Step, open_index
from sevenfold.conversation.epoch import frame_of, in_force
from sevenfold.conversation.resume import resume
from sevenfold.errors import InputError, Refused
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.ports import Client
from sevenfold.providers.registry import is_offline, quick_client_for
from sevenfold.recall.index import RecallIndex, SessionRecall
from sevenfold.record.blocks import read_field
from sevenfold.record.decisions import Segment
from sevenfold.record.view import View
from sevenfold.session import factory
from sevenfold.session.factory import OFFLINE_JOBS, Lifetime, Options, SessionParts, Tool
from sevenfold.session.session import Session
from sevenfold.stores.files import Staged, opened
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog, end_of
from sevenfold.stores.jsonl.store import FileResults, FileText
from sevenfold.stores.log import BranchLog
from sevenfold.stores.memory import MemoryLog
from sevenfold.stores.settings_files import FileSource

NO_MODEL = "<synthetic>"
"""The model name that other tools record for messages no model wrote."""
CHUNK = 256 * 1024
"""Bytes copied at a time."""
Progress = Callable[[Path], AbstractContextManager[Step | None]]
"""Entered while a file is indexed; gives what is told how many bytes have been."""


def _unwatched(path: Path) -> AbstractContextManager[None]:
    return nullcontext()


class DraftLog(BranchLog):
    """A log of a file's lines followed by appended lines, which stay in memory until they are written or discarded.

    The file is read as it was when the draft began, and never changed. New lines have the positions they will have
    once they follow the file's bytes, in the file itself or in a copy of it.
    """

    def __init__(self, path: Path, converted: MemoryLog | None = None) -> None:
        """``converted`` holds the lines to start with, if the file is in another format."""
        self.path = path
        self.size, self.torn = end_of(path) if converted is None else (converted.end, False)
        """The size of the file in bytes when the draft began, and whether its tail was torn."""
        self.added: list[bytes] = []
        """The appended lines, which are not in the file."""
        self._converted = converted
        start = self.size + self.torn
        super().__init__(converted or JsonlLog(path).upto(self.size), MemoryLog(start=start), start)

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Add lines to the draft; see `sevenfold.ports.Log`."""
        self.added.extend(lines)
        return super().append(lines)

    def whole(self) -> Iterator[bytes]:
        """The file's bytes followed by the appended lines, in pieces."""
        remaining = self.size
        if self._converted is not None:
            yield from (line for _, line in self._converted.read())
            yield from self.added
            return
        with opened(self.path) as file:
            while remaining and (chunk := file.read(min(remaining, CHUNK))):
                remaining -= len(chunk)
                yield chunk
        if self.torn and self.added:
            yield b"\n"
        yield from self.added


class RecordedSession(Struct, frozen=True):
    """What is known about the session in a transcript."""

    path: Path
    session: str
    folder: Path
    """The folder of the project the session belongs to."""
    model: str
    own: bool
    """Whether Sevenfold wrote the transcript; if so, it also records the system prompt and tools."""
    records: int
    start: int
    """The offset in the file of the first record in view."""
    options: Options
    converted: MemoryLog | None = None
    """The converted records, if the file is in another format and so can only be read."""

    @property
    def notes(self) -> Path:
        """The file with the session's notes."""
        return user_home().project(self.folder).session(self.session).notes

    @property
    def offline(self) -> bool:
        """Whether the offline model answers: it was named, or neither a key nor an address is configured."""
        return is_offline(self.model)


def inspect(path: Path, model: str = "") -> RecordedSession:
    """Read what is known about a transcript; raises `UserError` if it is not one, or if no model is known or given."""
    log = open_log(path)
    view = resume(log)
    if not view.items:
        raise not_a_conversation(path)
    answers = (item.record.model for item in reversed(view.items) if item.record.role == "assistant")
    model = model or next((answering for answering in answers if answering not in ("", NO_MODEL)), "")
    model = model or (view.epoch.model if view.epoch else "")
    if not model:
        raise InputError(f"{path}: the transcript does not say which model answered; name one with --model")
    identity = log.identity()
    whole = Segment(view.items[0].record.uuid, "", view.items[-1].record.uuid)
    # The folder may have been recorded on another system.
    named = PureWindowsPath(identity.folder).is_absolute() or identity.folder.startswith("/")
    return RecordedSession(
        path=path,
        session=identity.session or path.stem,
        folder=Path(identity.folder) if named else path.absolute().parent,
        model=model,
        own=view.epoch is not None,
        records=len(view),
        start=view.start_of(whole) or 0,
        options=_options(view),
        converted=log if isinstance(log, MemoryLog) else None,
    )


@contextmanager
def edit(
    recorded: RecordedSession, target: Path | None, *, recall: bool = False, progress: Progress = _unwatched
) -> Iterator[tuple[Session, Client]]:
    """Open the session on a draft, with the client of its model; at the end, write the draft to a file.

    ``target`` is the session's own file, or a new one, whose path the model is given to read the full record later. If
    it is None, the draft is discarded, as after any error. With ``recall``, index the session first; ``progress``
    is entered while it is indexed.
    """
    with ExitStack() as held:
        client = held.enter_context(closing(quick_client_for(recorded.model, OFFLINE_JOBS)))
        file = held.enter_context(closing(JsonlLog.open(target))) if target == recorded.path else None
        log = DraftLog(recorded.path, recorded.converted)
        results = FileResults(recorded.path.parent / "tool-results" / recorded.path.stem)
        recalled = SessionRecall(
            log, None, results, index=partial(_index, recorded, log, results, progress)
        )
        if recall:
            recalled.catch_up()
        store = SessionParts(
            name=recorded.session,
            log=log,
            results=results,
            settings=FileSource(recorded.folder),
            notes=FileText(recorded.notes),
            recall=recalled,
            cwd=str(recorded.folder),
            path=str((target or recorded.path).absolute()),
        )
        conversation = factory.conversation(store, recorded.model, recorded.options)
        yield held.enter_context(Session(conversation, store, client)), client
        if file is not None:
            append_draft(file, log)
        elif target is not None:
            write_new(target, log)


def _index(
    recorded: RecordedSession, log: DraftLog, results: FileResults, progress: Progress
) -> RecallIndex:
    """The recall index. A compaction can hide only what is in view, so earlier records are not indexed."""
    with progress(recorded.path) as step:
        return open_index(recorded.path, log, results, since=recorded.start, step=step)


def write_new(target: Path, draft: DraftLog) -> None:
    """Write the file's bytes and the draft's to a new file, completely or not at all; raises if it exists."""
    with Staged(target, draft.whole()) as staged:
        try:
            os.link(staged.path, target)
        except FileExistsError:
            raise already_exists(target) from None
        except OSError:
            # Not every file system has hard links; renaming is second best, because it could overwrite a file.
            if target.exists():
                raise already_exists(target) from None
            staged.commit()


def already_exists(target: Path) -> InputError:
    """The error for a file that must not be overwritten."""
    return InputError(f"{target}: this file exists and is not overwritten; choose another with --output")


def append_draft(log: JsonlLog, draft: DraftLog) -> None:
    """Append the draft to the file it started from, in one write; raises `Refused` if the file changed meanwhile."""
    if log.path.stat().st_size != draft.size:
        raise Refused(
            f"{log.path}: another program wrote to it in the meantime, so nothing was appended; "
            "close that program and try again, or write a new file instead"
        )
    log.append(draft.added, durable=True)


def _options(view: View) -> Options:
    """The system prompt, tools and parameters exactly as recorded, so that the engine continues with them."""
    if view.epoch is None:
        return Options()
    frame = frame_of(view.epoch)
    system, tools = in_force(view, frame)
    return Options(
        system=[read_field(block, "text") for block in system],
        tools=[Tool(msgspec.json.decode(raw, type=dict[str, Any])) for raw in tools],
        max_tokens=frame.max_tokens,
        fields={name: msgspec.json.decode(raw) for name, raw in frame.settings},
        betas=frame.betas,
        lifetime=cast(Lifetime, view.epoch.lifetimes.get("tail", "5m")),
    )


# -- the records in view ---------------------------------------------------------------------

MOST_CUT_POINTS = 8
SHOWN_OF_ID = 8
"""Characters shown of an id; more if another id begins the same way."""
LONGEST_SAID = 200


def record_named(session: Session, start: str) -> str:
    """The one record in view whose id begins with the given text; raises `InputError` if there are none or several."""
    ids = [item.record.uuid for item in session.conversation.transcript.view.items]
    matching = [start] if start in ids else [uuid for uuid in ids if uuid.startswith(start)]
    if not matching:
        raise InputError(
            f"{start}: no record in view has an id that begins like this; --dry-run lists some, sevenfold recall "
            "finds others"
        )
    if len(matching) > 1:
        raise InputError(
            f"{start}: {len(matching)} records have an id that begins like this, among them {matching[0]} and "
            f"{matching[1]}; give more of it"
        )
    return matching[0]


def cut_points(session: Session) -> list[dict[str, str]]:
    """The newest messages of the user at which the conversation can be cut, each with a short id and its words."""
    view = session.conversation.transcript.view
    ids = [item.record.uuid for item in view.items]

    def shortest(uuid: str) -> str:
        """The shortest prefix that no other id has."""
        for size in range(SHOWN_OF_ID, len(uuid)):
            prefix = uuid[:size]
            if sum(another_id.startswith(prefix) for another_id in ids) == 1:
                return prefix
        return uuid

    texts = ((item.record.uuid, " ".join(users_words(item).split())) for item in reversed(view.items[1:]))
    points = ((uuid, text) for uuid, text in texts if text and view.begins_round(uuid))
    newest = [*islice(points, MOST_CUT_POINTS)][::-1]
    return [{"id": shortest(uuid), "says": text[:LONGEST_SAID]} for uuid, text in newest]
