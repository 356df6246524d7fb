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

from sevenfold.errors import InputError, Refused
from sevenfold.layers import offload
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.layout import Item
from sevenfold.runtime import intake

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


def read(messages: Iterable[Mapping[str, Any]]) -> list[Given]:
    """Messages as they are, each with its blocks; an `InputError` names the one that is none."""
    found = []
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ROLES:
            raise InputError(
                f"messages[{place}] has the role {role!r}; only user and assistant messages can be taken in"
            )
        try:
            found.append(Given(role, tuple(intake.message(message.get("content") or ()))))
        except InputError as error:
            raise InputError(f"messages[{place}]: {error}") from None
    return found


def common(items: Sequence[Item], given: Sequence[Given]) -> tuple[int, int]:
    """How many records of the session, and how many messages of the list, say the same from the start on."""
    said = [
        (number, item, block)
        for number, item in enumerate(items)
        if not (item.said.meta or item.said.synthetic or item.said.role == "system")
        for block in item.said.blocks
    ]
    heard = [
        (place, message.role, block) for place, message in enumerate(given) for block in message.blocks
    ]
    same = 0
    for (_, item, ours), (_, role, theirs) in zip(said, heard, strict=False):
        if item.said.role != role or not _equal(ours, theirs, item):
            break
        same += 1
    records = said[same][0] if same < len(said) else len(items)
    messages = heard[same][0] if same < len(heard) else len(given)
    if same < len(said) and same and said[same - 1][0] == records:
        raise Refused(
            f"message {messages + 1} of the list goes on in another way than what the session has of the same record; "
            "open a new session and bring the list in with messages()"
        )
    return records, messages


def _equal(ours: Block, theirs: Block, item: Item) -> bool:
    if ours.kind != theirs.kind or ours.id != theirs.id:
        return False
    stored = item.said.stored.get(ours.id) if ours.kind == "tool_result" else None
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


def answer_id(given: Given, number: int) -> str:
    """A name for an answer that came without one: the same for the same words in the same place."""
    content = b",".join(block.raw for block in given.blocks)
    return f"imported_{number}_{hashlib.sha256(content).hexdigest()[:12]}"


def results_in(given: Given) -> list[Block]:
    """The tool results among a message's blocks."""
    return [block for block in given.blocks if block.kind == "tool_result"]


def words_in(given: Given) -> list[Block]:
    """Everything else."""
    return [block for block in given.blocks if block.kind != "tool_result" and not block.blank]
