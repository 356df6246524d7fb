"""One recorded session of any tool, opened for reading: what `sevenfold.transcript` returns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from sevenfold.archive import facts, requests, search, sessions
from sevenfold.archive.audit import Audit, audit
from sevenfold.archive.export import speaker_of, text_of
from sevenfold.archive.formats import open_log
from sevenfold.archive.profile.figures import SessionProfile
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.requests import Comparison
from sevenfold.conversation import history
from sevenfold.conversation.resume import read, resume
from sevenfold.errors import InputError
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.search import Hit
from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.stores.log import LineLog

Speaker = Literal["user", "model", "tool", "note", "summary"]


class ArchivedRecord(Struct, frozen=True):
    """One record of a session."""

    id: str
    speaker: Speaker
    """Whose text it is; ``note`` stands for what a program put in, such as reminders and attachments."""
    text: str
    timestamp: str
    in_context: bool
    """Whether the model sees it, unchanged, at the end of the session."""


class ArchivedSession:
    """A recorded session, without a lease on it: it may be written meanwhile, and nothing of it is changed.

    Everything is read when it is asked for. Use it as a context manager, or call `close`, to let go of the index.
    """

    def __init__(self, path: Path) -> None:
        """Open a transcript; raises `TranscriptError` if the file holds no session that can be read."""
        self.path = path
        self.log: LineLog = open_log(path)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the recall index, if a search built one."""
        self._held.close()

    def records(self) -> list[ArchivedRecord]:
        """Every record of the conversation, in order, including what compactions have hidden since."""
        visible = search.visible_records(self.log)
        return [
            _record(item, item.record.blocks, in_context=item.record.uuid in visible)
            for item in history.every_record(self.log)
        ]

    def context(self, at: str | None = None) -> list[ArchivedRecord]:
        """What the model sees at the end of the session or, with ``at``, saw once that record had been written.

        Raises `InputError` if no record has the id ``at``.
        """
        view = resume(self.log) if at is None else self._view_at(at)
        return [_record(item, item.shown, in_context=True) for item in view.items if item.shown]

    def recall(
        self, query: str, *, k: int = 10, kind: str | None = None, around: int = 1, everything: bool = False
    ) -> list[Hit]:
        """Search what has left the context, best first; with ``everything``, what is still in it as well."""

        def ask(**more: object) -> list[Hit]:
            return self._index.search(query, kind=kind, k=k, around=around, **more)  # type: ignore[arg-type]

        return ask() if everything else search.outside_context(ask, self.log)[0]

    def facts(self, characters: int, part: facts.Part | None = None, *, all_leaves: bool = False) -> str:
        """What left the context and matters, in at most ``characters``: from the whole history, nothing of it twice.

        Without ``part``, the text has all three: the user's words, permissions and open work; files and names;
        failures and the current step. With it, only that one, as if each of the three were given so many characters,
        so that the three together repeat nothing. ``all_leaves`` counts everything said so far as gone: for a
        compaction that is under way.
        """
        if part is not None and part not in facts.PARTS:
            raise InputError(f"part must be one of {', '.join(facts.PARTS)}; got {part!r}")
        context = facts.StillSeen() if all_leaves else facts.StillSeen.of(resume(self.log))
        rooms = facts.rooms(characters, split=part is None)
        texts = facts.parts(history.every_record(self.log), context, rooms)
        return texts[part] if part else "\n\n".join(filter(None, texts.values()))

    def audit(self) -> Audit:
        """Which facts the session's compactions kept in the context, and which left it."""
        return audit(self.log, self._index)

    def profile(self) -> SessionProfile:
        """Where the session's context and money went."""
        session, _ = profile_file(self.path)
        return session

    def request(self, number: int = -1) -> bytes:
        """The exact body of a request of a Sevenfold session, counted from 0; negative numbers from the newest."""
        return history.past(self.log, number).body

    def compare_requests(self, first: int = -2, second: int = -1) -> Comparison:
        """Whether the second request could read from the cache what the first one wrote, and why not."""
        _, earlier = requests.recorded(self.log, first, self.path.stem)
        _, later = requests.recorded(self.log, second, self.path.stem)
        return requests.compare(earlier, later)

    def recall_index(self) -> RecallIndex:
        """The session's recall index, up to date; it is closed with the session."""
        return self._index

    @cached_property
    def _opened_index(self) -> RecallIndex:
        _, index = self._held.enter_context(search.indexed(self.path))
        return index

    @property
    def _index(self) -> RecallIndex:
        """The index, up to date: the session may have been written since the last search."""
        self._opened_index.catch_up()
        return self._opened_index

    def _view_at(self, record: str) -> View:
        view = View()
        for position, entry in read(self.log):
            view.add(entry, position)
            if isinstance(entry, Said) and entry.uuid == record:
                return view
        raise InputError(f"{record}: {self.path} has no record with this id; records() lists them")


def transcript(session: str | Path) -> ArchivedSession:
    """Open a recorded session of any tool for reading, by path, id, title or ``last``; see `ArchivedSession`."""
    return ArchivedSession(sessions.find(str(session)))


def _record(item: Item, blocks: Sequence[Block], *, in_context: bool) -> ArchivedRecord:
    text = text_of(blocks)
    return ArchivedRecord(
        item.record.uuid, speaker_of(item.record), text, item.record.timestamp, in_context
    )
