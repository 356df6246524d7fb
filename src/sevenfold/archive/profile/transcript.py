"""Reads transcripts of parent-linked messages: Claude Code's of every version, converted rollouts, and our own.

The fold of `sevenfold.record` computes what the model saw at each moment; this module reports its changes to the
books. Each sub-agent in the same file gets its own fold and lane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from sevenfold.archive.profile import cache as caching
from sevenfold.archive.profile import labels
from sevenfold.archive.profile.books import Books, Scope, SessionWatch, seconds
from sevenfold.archive.profile.cache import CallReport
from sevenfold.archive.profile.figures import SessionProfile
from sevenfold.archive.profile.labels import CallLabel, ContextPiece
from sevenfold.archive.profile.lane import Lane
from sevenfold.archive.profile.thinning import is_position, without_content
from sevenfold.archive.readers import codex
from sevenfold.record import entries
from sevenfold.record.authorship import Queue, users_words
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Billed, Epoch, OwnDecision, Relayed, Rewound, Undone
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.entries import Boundary, Clearing, Damaged, Decision, Entry, Label, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.log import title_of
from sevenfold.record.usage import Usage
from sevenfold.record.view import View
from sevenfold.record.weight import measure
from sevenfold.stores.home import branch_of
from sevenfold.stores.jsonl.log import Line

_T = TypeVar("_T")
Fetch = Callable[[str], bytes | None]
"""Gives the line of a message by its id, from wherever the transcript is stored."""

KNOWN_TYPES = frozenset(
    {
        *("agent-name", "ai-title", "assistant", "attachment", "bridge-session", "custom-title"),
        *("file-history-delta", "file-history-snapshot", "last-prompt", "mode", "permission-mode"),
        *("pr-link", "progress", "queue-operation", "sevenfold", "summary", "system", "user"),
    }
)
_STREAM_START = 8
"""The most output tokens in a usage report made at the start of an answer.

Claude Code writes each block of an answer as a record, the early ones with the usage that `message_start` reports: a
few output tokens, whatever the answer becomes.
"""


class _Reason(Struct, frozen=True):
    type: str = ""


class _Diagnostics(Struct, frozen=True):
    cache_miss_reason: _Reason | None = None


class _Message(Struct, frozen=True):
    stop_reason: str | None = None
    diagnostics: _Diagnostics | None = None


class _Head(Struct, frozen=True, rename="camel"):
    """The fields of a record that the fold does not use."""

    type: str = ""
    session_id: str | None = None
    cwd: str | None = None
    agent_id: str | None = None
    request_id: str | None = None
    context_window: int | None = None
    message: Raw = Raw(b"{}")


_head = msgspec.json.Decoder(_Head)
_message = msgspec.json.Decoder(_Message)


class TranscriptWatch(SessionWatch, Protocol):
    """Looks on as a transcript is read, record by record."""

    def took(self, entry: Entry, line: Line) -> None:
        """A record was read, and everything that follows from it has been told."""


class TranscriptReader:
    """Reads a transcript line by line."""

    def __init__(
        self,
        form: str = "transcript",
        scope: Scope | None = None,
        watch: TranscriptWatch | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """With ``fetch``, no content is kept in memory, and repairs of the conversation are not counted."""
        self.fetch = fetch
        self.format = form
        self.scope = scope or Scope()
        self.project = ""
        self.books = Books(watch)
        self._watch = watch
        self.session_ids: list[str] = []
        self.agent_ids: set[str] = set()
        self.call_ids: set[str] = set()
        self._labels: dict[str, str] = {}
        self._first_words = ""
        self._queue = Queue()
        """The user's messages that Claude Code records only as queued."""
        self._main: _Conversation | None = None
        self._side: dict[str, _Conversation] = {}
        self._side_of: dict[str, str] = {}
        """The sub-agent of each record of one, by the record's id."""
        self._speaking: _Conversation | None = None
        """The conversation of the newest record."""

    def take(self, line: Line) -> None:
        """Read the next line."""
        entry = Damaged(line.problem) if line.problem else entries.read(line.raw)
        head = _Head() if isinstance(entry, Damaged) else _decode(_head, line.raw, _Head())
        if head.session_id and head.session_id not in self.session_ids:
            self.session_ids.append(head.session_id)
        self.agent_ids.add(head.agent_id or "")
        self.project = self.project or head.cwd or ""
        if isinstance(entry, Label):
            self._labels[entry.kind] = entry.text
        elif not self._first_words and isinstance(entry, Said):
            self._first_words = users_words(entry)
        self.books.window = head.context_window or self.books.window
        if isinstance(entry, Decision) and isinstance(entry.record, Epoch) and entry.record.window:
            self.books.window = entry.record.window
        self._count(entry, head)
        if isinstance(entry, Decision) and isinstance(entry.record, Billed):
            self._bill(entry.record)
        for _, queued in self._queue.due(line.offset, entry):
            self._conversation(queued, _Head()).take(queued, _Head(), stored=False)
        self._conversation(entry, head).take(entry, head)
        if self._watch is not None:
            self._watch.took(entry, line)

    @property
    def title(self) -> str:
        """The session's title so far, or the user's first words."""
        return labels.one_line(title_of(self._labels) or self._first_words)

    def _bill(self, billed: Billed) -> None:
        call = f"billed {billed.request}"
        at = seconds(billed.timestamp)
        if call not in self.call_ids:
            self.call_ids.add(call)
            if self.scope.counts(call, at):
                self.books.billed(CallReport(model=billed.model, usage=Usage.read(billed.usage), at=at))

    def profile(self, file: Path) -> SessionProfile:
        """Finish reading and return the profile; call it after the last line of the file."""
        for conversation in (self._main, *self._side.values()):
            if conversation:
                conversation.finish()
        return self.books.close(**self._identity(file))

    def figures(self, file: Path) -> SessionProfile:
        """The profile if the file ended here; changes nothing, so more can be read."""
        return self.books.figures(**self._identity(file))

    def _identity(self, file: Path) -> dict[str, Any]:
        ids = self.session_ids
        agents = self.agent_ids
        session = file.stem if file.stem in ids or not ids else ids[0]
        agent = next(iter(agents)) if len(agents) == 1 else ""
        parent = session if agent else ""
        if branch := branch_of(file):
            # A branch of ours is named by its folder: its records have the id of the branch.
            session = parent = branch.session
            agent = agent or branch.name
        return {
            "file": str(file),
            "session_id": session,
            "agent_id": agent or None,
            "parent": parent or None,
            "format": self.format,
            "title": self.title,
            "project": self.project,
        }

    def _count(self, entry: Entry, head: _Head) -> None:
        match entry:
            case Damaged():
                self.books.damaged += 1
            case entries.UnknownDecision(kind=kind):
                self.books.unknown[f"sevenfold/{kind}"] += 1
            case Said() | Boundary() | Clearing():
                if self.scope.is_late(seconds(entry.timestamp)):
                    self.books.seen_at(entry.timestamp)
            case _ if head.type and head.type not in KNOWN_TYPES:
                self.books.unknown[head.type] += 1

    def _conversation(self, entry: Entry, head: _Head) -> _Conversation:
        """The conversation of a record: the main one, or a sub-agent's."""
        match entry:
            case Said() | Boundary() | Clearing() if entry.sidechain:
                name = head.agent_id or self._agent(entry)
                if name not in self._side:
                    self._side[name] = _Conversation(self, side=True)
                self._speaking = self._side[name]
                return self._side[name]
            case Link() if head.agent_id in self._side:
                return self._side[head.agent_id]
            case Link(parent=parent) if parent in self._side_of:
                self._side_of[entry.uuid] = self._side_of[parent]
                return self._side[self._side_of[parent]]
            case Damaged() if self._speaking:
                return self._speaking
            case _:
                self._main = self._main or _Conversation(self, side=False)
                if isinstance(entry, Said | Boundary | Clearing):
                    self._speaking = self._main
                return self._main

    def _agent(self, entry: Said | Boundary | Clearing) -> str:
        """The sub-agent of a record; one without an id is named by its first record."""
        parent = entry.logical_parent if isinstance(entry, Boundary) else entry.parent
        name = self._side_of.get(parent or "")
        if name is None and self._speaking and self._speaking.damaged:
            name = next(
                (name for name, conversation in self._side.items() if conversation is self._speaking), None
            )
        self._side_of[entry.uuid] = name or entry.uuid
        return self._side_of[entry.uuid]


class _Prefix(Struct, frozen=True):
    """Hashes of what requests begin with."""

    tools: int
    system: int

    @classmethod
    def of(cls, epoch: Epoch) -> _Prefix:
        return cls(hash(tuple(map(bytes, epoch.tools))), hash(tuple(map(bytes, epoch.system))))


class _Conversation:
    """One conversation: its fold, and its lane of the books."""

    def __init__(self, reader: TranscriptReader, *, side: bool) -> None:
        self.damaged = False
        """Whether the newest entry is a damaged line."""
        self._reader = reader
        self._lane: Lane = reader.books.open_lane(side=side)
        self._view = self._new_view()
        self._layout = 0
        """The version of the view's layout that the context reflects."""
        self._shrunk: set[str] = set()
        """The ids of all compactions and clearings so far."""
        self._restarting = False
        """Whether the fold restarted at a boundary, and what the compaction keeps is not known yet."""
        self._calls: dict[str, CallLabel] = {}
        self._newest = ""
        """The id of the newest call that is counted: several records may report it."""
        self._heard_at: float | None = None
        """The time of the newest record: what the model then answers was asked at that time."""
        self._repairs: set[tuple[str, str]] = set()
        self._prefix: _Prefix | None = None
        """What requests of our own begin with; None in transcripts of other tools, which do not record it."""
        self._heard: Said | None = None
        """The newest record with its content, if the view has it without."""

    def _new_view(self) -> View:
        # Sizes are needed once, when a piece enters, and messages not at all.
        return View(weighs=self._reader.fetch is None)

    def take(self, entry: Entry, head: _Head, *, stored: bool = True) -> None:
        """Read the next entry of this conversation; ``stored`` says whether it can be fetched again."""
        if isinstance(entry, Boundary):
            self._note_repairs()
        self._heard = None
        if isinstance(entry, Said) and stored and self._reader.fetch is not None:
            self._heard = entry
            parent = self._view.entry(entry.parent or "")
            self._view.add(without_content(entry, parent.uuid if parent else entry.parent))
        else:
            self._view.add(entry)
        if isinstance(entry, Decision):
            self._note_changes(entry.record)
        if isinstance(entry, Clearing) and entry.uuid not in self._shrunk:
            self._shrunk.add(entry.uuid)
            self._lane.cleared(entry.about.trigger, len(entry.about.compacted_tool_ids))
        self._note_compaction()
        if self._view.version[0] != self._layout or self._restarting:
            self._update_context(entry)
            self._layout = self._view.version[0]
        if isinstance(entry, Said):
            self._note_message(entry, head)
        self.damaged = isinstance(entry, Damaged)

    def _note_changes(self, decision: OwnDecision) -> None:
        """Note what requests begin with from now on, if that is not what they began with before."""
        if isinstance(decision, Relayed):
            for change in decision.changes:
                self._lane.changed(f"{change}_changed")
        elif isinstance(decision, Epoch):
            earlier = self._prefix
            self._prefix = _Prefix.of(decision)
            # At a compaction the cache is lost anyway, whatever else changes with it.
            if earlier is None or decision.boundary is not None:
                return
            if self._prefix.tools != earlier.tools:
                self._lane.changed("tools_changed")
            if self._prefix.system != earlier.system:
                self._lane.changed("system_changed")

    def finish(self) -> None:
        """Count the repairs; called after the last entry."""
        self._note_repairs()
        self._reader.books.repairs.update(kind for kind, _ in self._repairs)

    # -- what leaves the context -------------------------------------------------------------

    def _note_compaction(self) -> None:
        """Record a compaction when the fold restarts at it; for one of ours, that is at its commit."""
        boundary = self._view.entry(self._view.boundary or "")
        if isinstance(boundary, Boundary) and boundary.uuid not in self._shrunk:
            self._shrunk.add(boundary.uuid)
            self._restarting = True
            self._lane.compacted(boundary.about.trigger or "auto", boundary.about.pre_tokens)

    def _update_context(self, entry: Entry) -> None:
        """Update the context after the fold was recomputed: some of its content may have left."""
        own_record = entry.uuid if isinstance(entry, Said) else ""
        items = self._view.items
        other_items = [item for item in items if item.record.uuid != own_record]
        live = dict(chain.from_iterable(map(self._pieces, other_items)))
        if not self._restarting:
            if self._lane.context.show(live):
                self._lane.happened(_cause(entry))
        elif items:
            # Not at the boundary itself: only with the summary after it is it known what the compaction keeps.
            self._restarting = False
            self._lane.context.restart(live)
            in_view = {*chain.from_iterable(item.record.calls for item in items)}
            self._calls = {call: label for call, label in self._calls.items() if call in in_view}
            self._forget(items)

    def _forget(self, items: list[Item]) -> None:
        """Replace the fold by a new one of the records in view, to free the memory of those that compactions hid.

        Only a rewind across the compaction would need them; it finds the conversation cut off there.
        """
        boundary = self._view.entry(self._view.boundary or "")
        first = items[0].seq
        if not isinstance(boundary, Boundary):
            return
        view = self._new_view()
        for item in sorted(items, key=lambda item: item.seq):
            if item.seq == first:
                # As another tool's: a boundary of our own counts only with its commit, which is not added here.
                view.add(structs.replace(boundary, own=False))
            view.add(item.record)
        # A new fold does not know what was cleared in a kept message: if that differs, keep the old fold.
        if [item.shown for item in view.items] == [item.shown for item in items]:
            self._view = view

    def _note_repairs(self) -> None:
        if self._reader.fetch is None:
            self._repairs.update((repair.kind, repair.subject) for repair in self._view.repairs)

    # -- what enters the context -------------------------------------------------------------

    def _note_message(self, message: Said, head: _Head) -> None:
        """Report the call that produced a record, and what the record adds to the context."""
        at = seconds(message.timestamp)
        # A rollout reports calls separately: an answer without usage belongs to the next reported call.
        if (
            message.role == "assistant"
            and not message.synthetic
            and (message.usage or self._reader.format != codex.FORMAT)
        ):
            self._answered(message, head, at)
        self._heard_at = at or self._heard_at
        item = self._view.item(message.uuid)
        if item is None:
            return
        for block in item.shown:
            key = _key(item, block)
            self._label(item, block)
            if key not in self._lane.context:
                self._lane.context.enter(key, partial(self._piece, item, block))
                self._lane.context.note_read(key, self._original(item, block), self._calls.get(block.id))

    def _answered(self, answer: Said, head: _Head, at: float | None) -> None:
        message = _decode(_message, head.message, _Message())
        usage = answer.usage
        if usage is None and not answer.model:
            # A program's own list had it, from a call that nobody here has seen.
            self._newest = ""
            return
        call = answer.message_id or head.request_id or answer.uuid
        at_start = (
            message.stop_reason is None and usage is not None and usage.output_tokens <= _STREAM_START
        )
        reason = message.diagnostics.cache_miss_reason if message.diagnostics else None
        report = CallReport(
            model=answer.model,
            usage=usage,
            last_prompt=_prompt(usage) if usage else None,
            at=self._heard_at or at,
            reason=reason.type if reason else "",
            whole=not at_start,
        )
        if call == self._newest:
            self._lane.update_report(report)
        elif call not in self._reader.call_ids:
            self._reader.call_ids.add(call)
            if self._reader.scope.counts(call, report.at):
                self._newest = call
                self._lane.called(report)
            else:
                self._newest = ""
                self._lane.skipped(report)

    def _pieces(self, item: Item) -> Iterator[tuple[Hashable, Callable[[], ContextPiece]]]:
        """Yield the shown blocks of a record, named."""
        for block in item.shown:
            self._label(item, block)
            yield _key(item, block), partial(self._piece, item, block)

    def _label(self, item: Item, block: Block) -> None:
        if block.kind.endswith("tool_use") and block.id not in self._calls:
            self._calls[block.id] = labels.label_of_block(self._original(item, block))

    def _piece(self, item: Item, block: Block) -> ContextPiece:
        original = self._original(item, block)
        weighed = len(item.shown) == 1 and self._reader.fetch is None
        weight = item.weight if weighed else measure(original)
        call = self._calls.get(block.id) if block.id else None
        return labels.piece_of(item.record, original, weight, call)

    def _original(self, item: Item, block: Block) -> Block:
        """The block with its content."""
        if not is_position(block.raw):
            return block
        message = self._heard
        if message is None or message.uuid != item.record.uuid:
            raw = self._reader.fetch(item.record.uuid) if self._reader.fetch else None
            entry = entries.read(raw) if raw is not None else None
            message = entry if isinstance(entry, Said) else None
        index = int(block.raw)
        return message.blocks[index] if message is not None and index < len(message.blocks) else block


def _key(item: Item, block: Block) -> Hashable:
    """The name of a shown block; it includes its bytes or their hash, as a block may be replaced."""
    raw = block.raw
    return (item.record.uuid, raw if is_position(raw) else hash(raw))


def _cause(entry: Entry) -> str:
    """The cause for content leaving the context without a compaction."""
    if isinstance(entry, Decision) and isinstance(entry.record, Undone | Rewound):
        return caching.REWIND
    # A message takes nothing out by itself: if content leaves with it, it was written on another branch.
    return caching.CLEARING if isinstance(entry, Clearing | Decision) else caching.REWIND


def _prompt(usage: Usage) -> int:
    """The size of the last prompt of a call, which may consist of several iterations."""
    rounds = [iteration.usage for iteration in usage.iterations if iteration.answers]
    return (rounds[-1] if rounds else usage).prompt


def _decode(decoder: msgspec.json.Decoder[_T], raw: bytes | Raw, otherwise: _T) -> _T:
    try:
        return decoder.decode(raw)
    except NOT_JSON:
        return otherwise
