"""Turns live records into the messages of a request, each encoded once.

Records that form one message are joined: everything on the user's side between two answers, and all records of one
answer. A message is final (sealed) when the next one begins. Its bytes are those of its blocks, which are copied only
when the body of a request is joined. What a server would refuse in a list of messages (a call without its result, a
result without its call, a call made twice, a conversation that starts with an answer) is repaired here, always the
same way, and reported; the records themselves are not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import Block, read_field
from sevenfold.record.sendable import (
    PLAIN,
    SEALED_REASONING,
    SYSTEM_MESSAGES,
    is_sealed_reasoning,
    sendable,
)

NO_RESULT = "[No result: the call was interrupted]"
CUT_START = "[The conversation before this point is not available]"
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_ENDS = {
    "user": (b'{"role":"user","content":[', b"]},"),
    "assistant": (b'{"role":"assistant","content":[', b"]},"),
    "system": (b'{"role":"system","content":[', b"]},"),
    "": (b"", b","),
}
"""Role → the bytes before and after a message's content in a list of messages."""
PIECES = 3
"""How many pieces a message in a list consists of; its content is the middle one."""
ORPHAN = "[Result of a tool call that is not in view]"


class Repair(Struct, frozen=True, gc=False):
    """Something in the records that a server would refuse, and that is sent differently."""

    kind: str
    """unanswered_call, orphan_result, second_call, second_result, cut_start or unsendable"""
    subject: str
    """The id of the tool call or the kind of block; empty for the start of the conversation."""


class Message(Struct, frozen=True, gc=False):
    """One message of a request: its role, its blocks in order, and its bytes."""

    role: str
    """Empty if only the message's bytes are known: then ``content`` is all of them."""
    parts: tuple[Block, ...]
    content: bytes
    """The encoded blocks, joined with commas; if there is only one, the same bytes object."""
    repairs: tuple[Repair, ...] = ()

    @classmethod
    def of(cls, role: str, parts: Sequence[Block], repairs: tuple[Repair, ...] = ()) -> Message:
        """A message with these blocks."""
        content = parts[0].raw if len(parts) == 1 else b",".join([part.raw for part in parts])
        return cls(role, tuple(parts), content, repairs)

    @property
    def raw(self) -> bytes:
        """The bytes of the whole message."""
        opening, closing = _ENDS[self.role]
        return b"%b%b%b" % (opening, self.content, closing[:-1])

    @property
    def size(self) -> int:
        """The number of bytes in `raw`."""
        opening, closing = _ENDS[self.role]
        return len(opening) + len(self.content) + len(closing) - 1


def pieces_of(messages: Iterable[Message]) -> list[bytes]:
    """The bytes of several messages as a list in a request, in pieces to be joined."""
    pieces: list[bytes] = []
    for message in messages:
        opening, closing = _ENDS[message.role]
        pieces += (opening, message.content, closing)
    if pieces:
        pieces[-1] = pieces[-1][:-1]
    return pieces


class _Draft(Struct, gc=False):
    """A message being built from items ``first`` to ``last``."""

    role: str
    key: str
    first: int
    last: int
    blocks: tuple[Block, ...] | list[Block] = ()
    calls: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    server: bool = False
    """Whether the provider's own tools were called in this answer, which may span several messages."""

    def put(self, parts: Sequence[Block]) -> None:
        """Add the blocks of another record; a message of a single record shares that record's tuple."""
        if isinstance(self.blocks, list):
            self.blocks.extend(parts)
        else:
            self.blocks = [*self.blocks, *parts]


class Wire:
    """The messages so far. Items are added in order, each with its index.

    ``unsupported`` is what the model that gets them does not take, as in `Epoch.unsupported`.
    """

    def __init__(self, unsupported: Collection[str] = ()) -> None:
        self._takes_system = SYSTEM_MESSAGES not in unsupported
        self._takes_sealed = SEALED_REASONING not in unsupported
        self._drafts: list[_Draft] = []
        self._sealed: list[Message] = []
        self._pieces: list[bytes] = []
        """The bytes of the sealed messages."""
        self._calls: set[str] = set()
        self._open: list[Message] | None = None
        """The messages not yet sealed, as they are now; None: not yet built."""
        self._pending: dict[str, None] | None = {}
        """The calls of the newest answer that have no result yet; None: not yet determined."""

    def add(
        self,
        number: int,
        role: str,
        key: str,
        parts: Sequence[Block],
        begins: bool = False,
        new_kinds: Sequence[str] = (),
    ) -> None:
        """Add an item's blocks; ``key`` is the id of the answer they belong to, empty if none.

        With ``begins`` they start a new message. ``new_kinds`` are kinds of blocks that only the provider knows.
        """
        if role == "assistant" and not self._takes_sealed:
            parts = _without_sealed_reasoning(parts)
        drafts = self._drafts
        opens = begins or not drafts or drafts[-1].role == "assistant"
        if role == "system" and (opens or not self._takes_system):
            # A message of the system may only follow one of the user.
            role = "user"
        parts, repairs = _sendable(role, parts, new_kinds)
        if not parts:
            return
        self._open = None
        if role == "assistant":
            self._pending = None
            draft = self._answer(number, key, parts)
        elif opens:
            draft = self._begin("user", "", number, parts)
        elif role == "system":
            draft = self._begin("system", "", number, parts)
        else:
            draft = self._users(number, parts)
        draft.last = number
        if repairs:
            draft.repairs = (*draft.repairs, *repairs)
        if self._pending:
            for block in parts:
                self._pending.pop(block.id, None)

    def copy(self) -> Wire:
        """The same messages, to be truncated and continued apart from these."""
        copied = Wire()
        copied._takes_system = self._takes_system
        copied._takes_sealed = self._takes_sealed
        # Truncating a message builds a new one, so messages and drafts can be shared.
        copied._drafts = self._drafts.copy()
        copied._sealed = self._sealed.copy()
        copied._pieces = self._pieces.copy()
        copied._calls = self._calls.copy()
        copied._pending = None
        return copied

    def truncate(self, number: int) -> int:
        """Remove every message with an item from ``number`` on; returns the first item to add again."""
        self._open = self._pending = None
        cut = len(self._drafts)
        for index in range(len(self._drafts) - 1, -1, -1):
            draft = self._drafts[index]
            if draft.last >= number:
                cut = index
                number = min(number, draft.first)
            elif draft.role != "system":
                break
        self._calls.difference_update(*(draft.calls for draft in self._drafts[cut:]))
        del self._drafts[cut:]
        final = len(self._drafts) - 1
        while final > 0 and self._drafts[final].role == "system":
            final -= 1
        del self._sealed[max(0, final) :], self._pieces[PIECES * max(0, final) :]
        return number

    def pieces(self) -> list[bytes]:
        """The bytes of all messages, in pieces to be joined."""
        return self._pieces + pieces_of(self._tail())

    def encoded(self) -> list[bytes]:
        """The bytes of each message."""
        return [message.raw for message in self.messages()]

    def messages(self) -> list[Message]:
        """All messages, sealed or not."""
        return self._sealed + self._tail()

    def repairs(self) -> list[Repair]:
        """The repairs in the current messages."""
        repairs: list[Repair] = []
        for message in self.messages():
            repairs += message.repairs
        return repairs

    def pending(self) -> list[str]:
        """Tool calls of the newest answer that have no result yet."""
        if self._pending is None:
            self._pending = {}
            answered: set[str] = set()
            for draft in reversed(self._drafts):
                if draft.role == "assistant":
                    self._pending = {call: None for call in draft.calls if call not in answered}
                    break
                answered.update([block.id for block in draft.blocks])
        return list(self._pending)

    def _answer(self, number: int, key: str, parts: Sequence[Block]) -> _Draft:
        """Add blocks to the draft of an answer and return it; calls already made earlier are left out."""
        # Fast path: nearly every answer is one new call.
        if len(parts) == 1 and (first := parts[0]).kind == "tool_use" and first.id not in self._calls:
            self._calls.add(first.id)
            draft = self._speak(number, key, parts)
            draft.calls = (*draft.calls, first.id)
            return draft
        new_blocks: list[Block] = []
        calls: dict[str, None] = {}
        repairs: list[Repair] = []
        server = False
        for block in parts:
            if block.kind == "tool_use":
                if block.id in self._calls or block.id in calls:
                    repairs.append(Repair("second_call", block.id))
                    continue
                calls[block.id] = None
            elif block.kind in SERVER_CALLS or block.kind.endswith("_tool_result"):
                server = True
            new_blocks.append(block)
        draft = self._speak(number, key, new_blocks) if new_blocks else self._drafts[-1]
        self._calls.update(calls)
        draft.calls = (*draft.calls, *calls)
        draft.repairs = (*draft.repairs, *repairs)
        draft.server = draft.server or server
        return draft

    def _speak(self, number: int, key: str, parts: Sequence[Block]) -> _Draft:
        """The draft of an answer, with these blocks: a new draft, or the one that it continues."""
        last = self._drafts[-1] if self._drafts else None
        if last is not None and last.role != "assistant":
            return self._begin("assistant", key, number, parts)
        if last is not None and key and last.key == key:
            last.put(parts)
            return last
        if last is None and parts[0].kind != "compaction":
            opening = self._begin("user", "", number, (blocks.text(CUT_START),))
            opening.repairs = (Repair("cut_start", ""),)
        elif last is not None and last.calls:
            self._begin("user", "", number, ())
        draft = self._begin("assistant", key, number, parts)
        draft.server = last is not None and last.server
        return draft

    def _users(self, number: int, parts: Sequence[Block]) -> _Draft:
        """Add blocks to the current user message, before any system messages that follow it; or start a new one."""
        for draft in reversed(self._drafts):
            if draft.role == "user":
                draft.put(parts)
                return draft
            if draft.role == "assistant":
                break
        return self._begin("user", "", number, parts)

    def _begin(self, role: str, key: str, number: int, parts: Sequence[Block]) -> _Draft:
        """Start a new message and seal those before it; a system message leaves them open.

        So does a user message after an unanswered call of the provider's own tools: whether that call can be sent
        depends on everything in the user message.
        """
        drafts = self._drafts
        sealed = self._sealed
        if drafts and role != "system":
            end = self._settled() if drafts[-1].server else len(drafts)
            for index in range(len(sealed), end):
                message = self._finish(index, role == "assistant")
                sealed.append(message)
                opening, closing = _ENDS[message.role]
                self._pieces += (opening, message.content, closing)
        draft = _Draft(role, key, number, number, tuple(parts))
        drafts.append(draft)
        return draft

    def _tail(self) -> list[Message]:
        if self._open is None:
            unsealed = range(len(self._sealed), len(self._drafts))
            self._open = [self._finish(index, False) for index in unsealed]
        return self._open

    def _finish(self, index: int, closing: bool) -> Message:
        draft = self._drafts[index]
        parts: Sequence[Block] = draft.blocks
        repairs = draft.repairs
        if draft.server:
            parts, repaired = self._server_tools(index)
            repairs = (*repairs, *repaired)
        if draft.role == "user":
            parts, repaired = _answered(parts, self._drafts[index - 1] if index else None, closing)
            repairs = (*repairs, *repaired) if repaired else repairs
        return Message.of(draft.role, parts, repairs)

    def _settled(self) -> int:
        """How many messages are final, whatever the user says next."""
        end = len(self._drafts)
        while end and self._drafts[end - 1].role == "assistant":
            end -= 1
        unfinished = open_server_calls(_blocks_of(self._drafts[end:]))
        while end < len(self._drafts) and not unfinished & {block.id for block in self._drafts[end].blocks}:
            end += 1
        return end

    def _server_tools(self, index: int) -> tuple[list[Block], list[Repair]]:
        """The blocks to send for an answer in which the provider's own tools were called, and the repairs.

        A call without a result stays only while nothing but tool results follows it; a result needs its call in the
        same answer, which may span several messages.
        """
        first = end = index
        while first and self._drafts[first - 1].role == "assistant":
            first -= 1
        while end < len(self._drafts) and self._drafts[end].role == "assistant":
            end += 1
        answer = _blocks_of(self._drafts[first:end])
        following = _blocks_of(self._drafts[end : end + 1])
        # A result of any other call is sent as text, see `_answered`, and so is more than a result, too.
        calls = self._drafts[end - 1].calls
        talks = any(block.kind != "tool_result" or block.id not in calls for block in following)
        gone = open_server_calls(answer) if talks else set[str]()
        made_calls = {block.id for block in answer if block.kind in SERVER_CALLS}
        sent = list[Block]()
        repairs = list[Repair]()
        for block in self._drafts[index].blocks:
            if block.kind in SERVER_CALLS and block.id in gone:
                repairs.append(Repair("unanswered_call", block.id))
            elif (
                _answers_server(block) and (call := read_field(block.raw, "tool_use_id")) not in made_calls
            ):
                repairs.append(Repair("orphan_result", call))
            else:
                sent.append(block)
        return sent or [blocks.text(NO_RESULT)], repairs


def _blocks_of(drafts: Iterable[_Draft]) -> list[Block]:
    return list(chain.from_iterable(draft.blocks for draft in drafts))


def _without_sealed_reasoning(content: Sequence[Block]) -> Sequence[Block]:
    for block in content:
        if is_sealed_reasoning(block):
            return [block for block in content if not is_sealed_reasoning(block)]
    return content


def _sendable(
    role: str, content: Sequence[Block], new_kinds: Sequence[str]
) -> tuple[Sequence[Block], list[Repair]]:
    """The blocks as a provider takes them, and the repairs that took; usually the same blocks, and none."""
    if role in PLAIN:
        is_plain = PLAIN[role].match
        for block in content:
            if is_plain(block.raw) is None:
                break
        else:
            return content, []
    sound: list[Block] = []
    repairs: list[Repair] = []
    for block in content:
        replacement = sendable(role, block, new_kinds)
        if replacement is not block:
            repairs.append(Repair("unsendable", block.id or block.kind))
        if replacement is not None:
            sound.append(replacement)
    return (sound, repairs) if repairs else (content, repairs)


def open_server_calls(content: Sequence[Block]) -> set[str]:
    """Calls of the provider's own tools that have no result in the same answer."""
    if not any(block.kind in SERVER_CALLS for block in content):
        return set()
    answered = {read_field(block.raw, "tool_use_id") for block in content if _answers_server(block)}
    return {block.id for block in content if block.kind in SERVER_CALLS} - answered


def _answers_server(block: Block) -> bool:
    return block.kind.endswith("_tool_result")


def _answered(
    content: Sequence[Block], answer: _Draft | None, closing: bool
) -> tuple[Sequence[Block], list[Repair]]:
    """A user message as servers accept it: results first, one for each call ``answer`` it, then the rest."""
    calls = answer.calls if answer else ()
    if len(content) == 1 == len(calls) and content[0].kind == "tool_result" and content[0].id == calls[0]:
        return content, []
    result_ids = tuple([block.id if block.kind == "tool_result" else "" for block in content])
    if result_ids == calls or not (calls or any(result_ids)):
        return content, []
    waiting = dict.fromkeys(calls)
    results: dict[str, Block] = {}
    other_blocks: list[Block] = []
    repairs: list[Repair] = []
    for block in content:
        if block.kind != "tool_result":
            other_blocks.append(block)
        elif block.id in results:
            repairs.append(Repair("second_result", block.id))
        elif block.id in waiting:
            results[block.id] = block
        else:
            repairs.append(Repair("orphan_result", block.id))
            other_blocks.append(blocks.text(f"{ORPHAN}\n{blocks.words_of(block)}"))
    missing = [call for call in waiting if call not in results]
    if answer and missing and (closing or other_blocks or not content):
        toolsets = {block.id: blocks.toolset_of(block) for block in answer.blocks}
        for call in missing:
            results[call] = blocks.result(call, NO_RESULT, is_error=True, toolset=toolsets[call])
            repairs.append(Repair("unanswered_call", call))
    return [*results.values(), *other_blocks], repairs
