"""Conversations kept elsewhere: imported once, or followed as they grow.

A caller that keeps its own list of messages passes it in before each request, in the shape of any of the APIs. Messages
the session already has are recognised turn by turn, by content rather than by bytes: clients write a block as a
string, reorder parallel results, leave out thinking, and move system messages elsewhere. Where the list really differs,
a new branch starts; the messages of the old branch stay in the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, zip_longest
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sevenfold.conversation import edits, intake, reporting
from sevenfold.conversation.history import whole
from sevenfold.conversation.results import same
from sevenfold.errors import InputError, Refused
from sevenfold.record import blocks, calls, redact
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, THINKING, Block
from sevenfold.record.known_secrets import KnownSecrets
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.wire import CUT_START, NO_RESULT

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

ROLES = ("user", "assistant", "system")
SYSTEM = "system_message"
"""The kind of attachment that a system message in a list becomes."""


class Given(Struct, frozen=True):
    """A message of the caller's list."""

    role: str
    blocks: tuple[Block, ...]


class Ours(Struct, frozen=True):
    """A block of the session, with its record and that record's index."""

    record: int
    item: Item
    block: Block


class Theirs(Struct, frozen=True):
    """A block of the caller's list, with the index of its message and its index there."""

    message: int
    part: int
    block: Block


Matches = dict[tuple[int, int], int]
"""Maps list blocks that the session has, by message and part index, to a record's index, or to -1 if there is none."""


def adopt(c: Conversation, messages: Iterable[Mapping[str, Any]]) -> None:
    """Import a conversation from elsewhere; raises `Refused` unless the session is empty."""
    with c.lock:
        view = c.transcript.view
        if len(view) or view.boundary:
            raise Refused("messages() needs an empty session; use sync() to follow a list")
        follow(c, messages)


def follow(c: Conversation, messages: Iterable[Mapping[str, Any]]) -> int:
    """Update the session to match a list of messages kept elsewhere; returns how many of them are new."""
    with c.lock:
        listed = read(messages)
        view = c.transcript.view
        # Compare with the whole live branch, including what a compaction has hidden.
        items = (view if view.boundary is None else whole(c.transcript.log)).items
        if items and c.gate is not None:
            # Compare with what would be recorded: everything but the model's messages has its secrets masked.
            listed = [
                _masked(message, c.gate.known) if message.role != "assistant" else message
                for message in listed
            ]
        records, fresh = compare(items, listed, _system_texts(c, items))
        branches = records < len(items)
        with c.atomic():
            if branches:
                _refuse_other_results(c, fresh)
                edits.go_back(c, items[records - 1].record.uuid if records else None)
            _take_in(c, fresh)
        if branches:
            c.forget_request()
        reporting.epochs(c)
        c.follow()
        return len(fresh)


def read(messages: Iterable[Any]) -> list[Given]:
    """Convert the messages of a list to blocks; raises an `InputError` that names an invalid one."""
    converted = []
    for index, message in enumerate(intake.converted_messages(messages)):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ROLES:
            kind = message.get("type") if isinstance(message, Mapping) else None
            problem = (
                f"is an item of the type {kind!r}" if kind and role is None else f"has the role {role!r}"
            )
            raise InputError(
                f"messages[{index}] {problem}; only messages of the user, the assistant, the system and tools, "
                "and calls of functions with their outputs can be taken in"
            )
        try:
            blocks_of = intake.user_blocks if role == "user" else intake.answer_blocks
            entry = Given(role, tuple(blocks_of(message.get("content") or ())))
        except InputError as error:
            raise InputError(f"messages[{index}]: {error}") from None
        if role == "user" and not entry.blocks:
            raise InputError(f"messages[{index}]: {intake.NOTHING}")
        converted.append(entry)
    return converted


def _masked(message: Given, secrets: KnownSecrets) -> Given:
    return Given(message.role, tuple(redact.mask_blocks(message.blocks, secrets).blocks))


def _system_texts(c: Conversation, items: Sequence[Item]) -> frozenset[str]:
    """The texts of the system prompt and of all imported system messages."""
    imported = chain.from_iterable(item.record.blocks for item in items if item.record.attachment == SYSTEM)
    prompt = map(blocks.read, c.epoch.wanted.system)
    return frozenset(blocks.words_of(block).strip() for block in (*imported, *prompt))


def _is_known_system(message: Given, texts: frozenset[str]) -> bool:
    return message.role == "system" and all(_words(block) in texts for block in message.blocks)


def _refuse_other_results(c: Conversation, fresh: Sequence[Given]) -> None:
    """Refuse a changed result for an answered call, even on another branch, where only random ids identify a call."""
    for block in chain.from_iterable(message.blocks for message in fresh):
        is_result = block.kind == "tool_result" and calls.is_random_id(block.id)
        if is_result and not c.finder.same_result(block):
            raise Refused(
                f"the call {block.id} has another result already, and a recorded tool result cannot be changed. "
                "Bring the list into a new session with messages()"
            )


# Importing


def _take_in(c: Conversation, fresh: Sequence[Given]) -> None:
    for role, run in groupby(fresh, key=lambda message: message.role):
        if role != "assistant":
            for message in run:
                _take_message(c, message)
        elif answer_blocks := tuple(chain.from_iterable(message.blocks for message in run)):
            # Consecutive messages, or items, of the model form one answer.
            answer = Answer(f"{edits.IMPORTED}{c.transcript.new_id()}", c.epoch.frame.model, answer_blocks)
            c.transcript.model(c.transcript.distinct(answer))
    if any(block.kind in THINKING for block in chain.from_iterable(message.blocks for message in fresh)):
        # Imported thinking is bound to what preceded it where it was produced.
        c.open_epoch("imported", drops_thinking=True)


def _take_message(c: Conversation, message: Given) -> None:
    if message.role == "system":
        if message.blocks:
            role = "system" if c.profile.system_messages else "user"
            c.transcript.attach(SYSTEM, {}, message.blocks, role=role)
        return
    results = [block for block in message.blocks if block.kind == "tool_result"]
    fitting, orphans = calls.matched(results, c.transcript.view.pending_calls)
    if fitting:
        c.tool_results(list(fitting.values()))
    # A result without its call is recorded unchanged; the model gets it as text.
    remaining = [block for block in message.blocks if block.kind != "tool_result"]
    if user_blocks := [*orphans, *remaining]:
        c.transcript.user(user_blocks)


# Comparing


def compare(
    items: Sequence[Item], listed: Sequence[Given], system: frozenset[str] = frozenset()
) -> tuple[int, list[Given]]:
    """How many of the session's first records the list contains too, and which of its messages are new.

    ``system`` are known system texts, which match anywhere in the list.
    """
    system_blocks = chain.from_iterable(message.blocks for message in listed if message.role == "system")
    theirs_system = {*map(_words, system_blocks)}
    aside = frozenset({*system, *theirs_system, CUT_START})
    ours = _turns((located.item.record.role, located) for located in _our_blocks(items))
    theirs = _turns((listed[located.message].role, located) for located in _their_blocks(listed))
    records = len(items)
    matched = Matches()
    starts = [*(turn[0].record for _, turn in ours[1:]), len(items)]
    for mine, yours, end in zip_longest(ours, theirs, starts):
        if mine is None:
            break
        role, our_turn = mine
        if yours is None or yours[0] != role:
            records = our_turn[0].record
            break
        lacking, matches = _match(our_turn, yours[1], aside)
        matched |= matches
        records = min(lacking) if lacking else end
        if lacking or len(matches) < len(yours[1]):
            break
    return records, _fresh(listed, {at for at, record in matched.items() if record < records}, system)


def _our_blocks(items: Sequence[Item]) -> Iterable[Ours]:
    """The blocks that a list kept elsewhere would contain too: no attachments or program messages, no thinking."""
    for number, item in enumerate(items):
        message = item.record
        if not (message.meta or message.synthetic or message.attachment or message.role == "system"):
            for block in message.blocks:
                if block.kind not in THINKING and not block.blank:
                    yield Ours(number, item, block)


def _their_blocks(listed: Sequence[Given]) -> Iterable[Theirs]:
    for index, message in enumerate(listed):
        if message.role != "system":
            for number, block in enumerate(message.blocks):
                if block.kind not in THINKING:
                    yield Theirs(index, number, block)


def _turns(blocks_by_role: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [
        (role, [block for _, block in run])
        for role, run in groupby(blocks_by_role, key=lambda pair: pair[0])
    ]


def _match(
    ours: Sequence[Ours], theirs: Sequence[Theirs], aside: frozenset[str]
) -> tuple[list[int], Matches]:
    """Compare one turn: returns records with a block that the list lacks, and the list's blocks that the session has.

    Calls, results and images match in any order, by id and content; texts must be in the same order.
    """
    texts = [located for located in ours if located.block.kind == "text"]
    unmatched, matches = _match_text(
        texts, [located for located in theirs if located.block.kind == "text"], aside
    )
    unpaired = [located for located in ours if located.block.kind != "text"]
    for heard in (located for located in theirs if located.block.kind != "text"):
        counterpart = next(
            (located for located in unpaired if equal(located.block, heard.block, located.item)), None
        )
        if counterpart is not None:
            unpaired.remove(counterpart)
            matches[heard.message, heard.part] = counterpart.record
        elif blocks.words_of(heard.block) == NO_RESULT:
            matches[heard.message, heard.part] = -1
        elif any(_changed_result(located.block, heard.block) for located in unpaired):
            raise Refused(
                f"messages[{heard.message}] has another result for the call {heard.block.id} than the session; "
                "a recorded tool result cannot be changed. Give the list as it was, or bring it into a new session "
                "with messages()"
            )
    return [*unmatched, *(located.record for located in unpaired)], matches


def _match_text(ours: list[Ours], theirs: list[Theirs], aside: frozenset[str]) -> tuple[list[int], Matches]:
    """Like `_match`, for texts: one block on one side may be several on the other, ignoring whitespace between them."""
    ours = [located for located in ours if _words(located.block) not in aside]
    matched = {(located.message, located.part): -1 for located in theirs if _words(located.block) in aside}
    theirs = [located for located in theirs if (located.message, located.part) not in matched]
    mine = yours = ""
    first = ahead = 0  # how many of our texts are matched, and how many after them are matched in part
    pending: list[Theirs] = []
    waiting = iter(theirs)
    while True:
        if not mine and not yours:
            first += ahead
            matched |= {(located.message, located.part): ours[first - 1].record for located in pending}
            ahead = 0
            pending = []
        if not mine:
            if first + ahead == len(ours):
                break
            mine = _words(ours[first + ahead].block)
            ahead = ahead + 1
        if not yours:
            if (heard := next(waiting, None)) is None:
                break
            yours = _words(heard.block)
            pending.append(heard)
        if not (mine.startswith(yours) or yours.startswith(mine)):
            break
        size = min(len(mine), len(yours))
        mine = mine[size:].lstrip()
        yours = yours[size:].lstrip()
    return [located.record for located in ours[first:]], matched


def _fresh(listed: Sequence[Given], matched: set[tuple[int, int]], system: frozenset[str]) -> list[Given]:
    """The messages, or parts of messages, that the session does not have yet."""
    new_indices = [
        located.message
        for located in _their_blocks(listed)
        if (located.message, located.part) not in matched
    ]
    begin = min(new_indices, default=len(listed))
    while begin and listed[begin - 1].role == "assistant" and (begin - 1, 0) not in matched:
        begin -= 1  # thinking in a separate item belongs to the answer after it
    fresh = []
    for index, message in enumerate(listed):
        if message.role == "system":
            if not _is_known_system(message, system):
                fresh.append(message)
        elif index >= begin:
            begun = any((index, number) in matched for number in range(len(message.blocks)))
            unseen = [
                block
                for number, block in enumerate(message.blocks)
                if (index, number) not in matched and not (begun and block.kind in THINKING)
            ]
            if unseen:
                fresh.append(Given(message.role, tuple(unseen)))
    return fresh


def _words(block: Block) -> str:
    return blocks.words_of(block).strip()


def _changed_result(ours: Block, theirs: Block) -> bool:
    same_call = calls.original_id(ours.id) == calls.original_id(theirs.id)
    return ours.kind == theirs.kind == "tool_result" and same_call


def equal(ours: Block, theirs: Block, item: Item) -> bool:
    """Whether a list's block has the same content as the recorded one, or as what the session shows instead."""
    if ours.kind == theirs.kind and theirs.id == calls.original_id(ours.id):
        theirs = calls.renamed(theirs, ours.id)
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if ours.kind == "tool_result" and (theirs in item.shown or cleared(theirs)):
        return True
    return same(ours, theirs, item.record.stored.get(ours.id) if ours.kind == "tool_result" else None)


def cleared(block: Block) -> bool:
    """Whether the block is the placeholder of a cleared result."""
    return blocks.words_of(block) == PLACEHOLDER_CLEARED
