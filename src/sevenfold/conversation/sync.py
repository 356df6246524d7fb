"""Conversations kept elsewhere: brought in once, or followed as they grow.

A caller that keeps its own list of messages hands it over before each request. What the session already has is
recognised block by block, by what it says rather than by its bytes, and by the hash of what was offloaded. Where
the list differs a branch begins: what was said before on the other one stays in the transcript.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.conversation import intake
from sevenfold.errors import InputError, Refused
from sevenfold.layers.offload import policy as offload
from sevenfold.record import blocks, calls
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, THINKING, Block
from sevenfold.record.entries import Stored
from sevenfold.record.layout import Item

ROLES = ("user", "assistant")
_IGNORED = frozenset({"cache_control", "citations"})


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
    """Is it the line that stands for a result that was cleared?"""
    return blocks.words_of(block) == PLACEHOLDER_CLEARED


def same(ours: Block, theirs: Block, stored: Stored | None) -> bool:
    """Do two blocks say the same? Of a result that was ``stored`` the whole is known by its hash."""
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    if stored is not None:
        text = offload.whole(theirs).text.encode(errors="surrogatepass")
        return hashlib.sha256(text).hexdigest() == stored.sha256
    if ours.kind == "tool_result" and offload.nothing(theirs):
        theirs = offload.filled(theirs)
    return ours.raw == theirs.raw or _plain(ours) == _plain(theirs)


def _plain(block: Block) -> Any:
    """What a block says, without what SDKs add to it or leave out; a text is the same as a list with one."""
    value = {
        name: inner
        for name, inner in msgspec.json.decode(block.raw, type=dict[str, Any]).items()
        if inner is not None and name not in _IGNORED and not (name == "is_error" and inner is False)
    }
    if block.kind == "tool_result":
        match value.get("content"):
            case [{"type": "text", "text": str() as words}]:
                value["content"] = words
            case None | []:
                value["content"] = ""
    return value
