"""Conversations kept elsewhere: brought in once, or followed as they grow.

A caller that keeps its own list of messages hands it over before each request. What the session already has is
recognised block by block, by what it says rather than by its bytes, and by the hash of what was offloaded. Where
the list differs a branch begins: what was said before on the other one stays in the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sevenfold.conversation import edits, events, intake
from sevenfold.conversation.history import whole
from sevenfold.conversation.results import same
from sevenfold.errors import InputError, Refused
from sevenfold.record import blocks, calls, redact
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, THINKING, Block
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

ROLES = ("user", "assistant")


class Given(Struct, frozen=True):
    """A message from elsewhere."""

    role: str
    blocks: tuple[Block, ...]

    @property
    def thinks(self) -> bool:
        """Does it hold reasoning?"""
        return any(block.kind in THINKING for block in self.blocks)

    @property
    def results(self) -> list[Block]:
        """The tool results in it."""
        return [block for block in self.blocks if block.kind == "tool_result"]

    @property
    def words(self) -> list[Block]:
        """Everything else."""
        return [block for block in self.blocks if block.kind != "tool_result" and not block.blank]


class Common(Struct, frozen=True):
    """How far a session and a list say the same, from the start on."""

    records: int
    """Records of the session…"""
    messages: int
    """…messages of the list that it has…"""
    parts: int = 0
    """…and blocks of the next one."""

    def rest(self, given: Sequence[Given]) -> list[Given]:
        """What the session does not have yet."""
        fresh = list(given[self.messages :])
        if fresh and self.parts:
            fresh[0] = Given(fresh[0].role, fresh[0].blocks[self.parts :])
        return fresh


def adopt(c: Conversation, messages: Iterable[Mapping[str, Any]]) -> None:
    """Take in a conversation from elsewhere, once, before anything was said here."""
    with c.lock:
        view = c.transcript.view
        if len(view) or view.boundary:
            raise Refused("messages are taken in once, into an empty session; use sync() to follow a list")
        _take_in(c, read(messages))
        _taken_in(c)


def follow(c: Conversation, messages: Iterable[Mapping[str, Any]]) -> int:
    """Follow a list kept elsewhere; returns how many of its messages are new."""
    with c.lock:
        given = [_as_recorded(c, message) for message in read(messages)]
        view = c.transcript.view
        # Everything that led to the present counts, also what was compacted since.
        items = (view if view.boundary is None else whole(c.transcript.log)).items
        shared = common(items, given)
        fresh = shared.rest(given)
        if shared.records < len(items):
            _refuse_other_results(c, fresh)
            edits.rewind(c, items[shared.records - 1].said.uuid if shared.records else None)
        _take_in(c, fresh)
        _taken_in(c)
        return len(fresh)


def _taken_in(c: Conversation) -> None:
    events.epochs(c)
    c.follow()


def _as_recorded(c: Conversation, given: Given) -> Given:
    """A message as it would be recorded: secrets masked, if they are, in what is not the model's."""
    if given.role == "assistant" or not c.redacts:
        return given
    return Given(given.role, tuple(redact.mask_blocks(given.blocks).blocks))


def _refuse_other_results(c: Conversation, fresh: Sequence[Given]) -> None:
    """A call has one result for good, also on another branch; a counted name may mean another call there."""
    results = (block for message in fresh for block in message.results)
    for block in filter(lambda block: calls.drawn(block.id), results):
        if not c.finder.same_result(block):
            raise Refused(
                f"the call {block.id} has a result already, and the list gives another one; what a tool said once "
                "stays. Bring the list into a new session with messages()"
            )


def _take_in(c: Conversation, given: Sequence[Given]) -> None:
    transcript = c.transcript
    for message in given:
        if message.role == "assistant":
            if message.blocks:
                name = f"imported_{transcript.new_id()}"
                transcript.model(transcript.distinct(Answer(name, c.frame.model, message.blocks)))
            continue
        fitting, _ = calls.matched(message.results, transcript.view.pending_calls)
        if fitting:
            c.tool_results(list(fitting.values()))
        if message.words:
            transcript.user(c.masked(message.words))
    if any(message.thinks for message in given):
        # Reasoning from elsewhere is bound to what preceded it there.
        c.open_epoch("imported", drops_thinking=True)


def read(messages: Iterable[Mapping[str, Any]]) -> list[Given]:
    """Messages as they are, each with its blocks; an `InputError` names the one that is none."""
    found = []
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ROLES:
            raise InputError(
                f"messages[{place}] has the role {role!r}; only user and assistant messages can be taken in"
            )
        content = message.get("content") or ()
        if role == "assistant" and not content:
            found.append(Given(role, ()))
            continue
        try:
            found.append(Given(role, tuple(intake.blocks_in(content))))
        except InputError as error:
            raise InputError(f"messages[{place}]: {error}") from None
    return found


def common(items: Sequence[Item], given: Sequence[Given]) -> Common:
    """How far the session's records and the list say the same."""
    said = [
        (number, item, block)
        for number, item in enumerate(items)
        if not (item.said.meta or item.said.synthetic or item.said.role == "system")
        for block in item.said.blocks
    ]
    heard = [
        (place, part, block)
        for place, message in enumerate(given)
        for part, block in enumerate(message.blocks)
    ]
    same = 0
    for (_, item, ours), (place, _, theirs) in zip(said, heard, strict=False):
        if item.said.role != given[place].role or not equal(ours, theirs, item):
            break
        same += 1
    if same == len(said):
        return _up_to(len(items), same, heard, given)
    if same < len(heard) and _changed_result(said[same][2], heard[same][2]):
        raise Refused(
            f"messages[{heard[same][0]}] has another result for the call {heard[same][2].id} than the session; "
            "what a tool said once stays. Give the list as it was, or bring it into a new session with messages()"
        )
    record = said[same][0]
    while same and said[same - 1][0] == record:
        same -= 1  # the record that differs is left behind whole
    return _up_to(record, same, heard, given)


def _up_to(
    records: int, same: int, heard: Sequence[tuple[int, int, Block]], given: Sequence[Given]
) -> Common:
    if same == len(heard):
        return Common(records, len(given))
    place, part, _ = heard[same]
    return Common(records, place, part)


def _changed_result(ours: Block, theirs: Block) -> bool:
    same_call = calls.given(ours.id) == calls.given(theirs.id)
    return ours.kind == theirs.kind == "tool_result" and same_call


def equal(ours: Block, theirs: Block, item: Item) -> bool:
    """Does a block of a list say what the session has on record, or what it shows in its place?"""
    if ours.kind == theirs.kind and theirs.id == calls.given(ours.id):
        theirs = calls.renamed(theirs, ours.id)
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if ours.kind == "tool_result" and (theirs in item.shown or cleared(theirs)):
        return True
    return same(ours, theirs, item.said.stored.get(ours.id) if ours.kind == "tool_result" else None)


def cleared(block: Block) -> bool:
    """Is it the placeholder of a cleared result?"""
    return blocks.words_of(block) == PLACEHOLDER_CLEARED
