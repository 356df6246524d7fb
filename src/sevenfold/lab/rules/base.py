"""What the rules of a Messages request share: the refusal, the facts, and messages seen as turns.

The server joins neighbouring messages of one role into one turn, so rules about order and pairing look at
turns, while every refusal names the message and block it was found in. A system message that carries only
settings says nothing to the model and may stand anywhere: it belongs to no turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from sevenfold.profiles import Profile
from sevenfold.record.blocks import THINKING
from sevenfold.record.wire import SERVER_CALLS

Json = Mapping[str, Any]

HOMES = {
    **dict.fromkeys(("image", "document", "search_result", "tool_result", "container_upload"), "user"),
    **dict.fromkeys((*THINKING, "tool_use", *SERVER_CALLS), "assistant"),
    **dict.fromkeys(("tool_addition", "tool_removal"), "system"),
}
"""Who alone may say blocks of a kind."""


class Refusal(Struct, frozen=True):
    """One reason why the server would answer a request with a 400."""

    path: str
    """Where, in the form the server uses: ``messages.3.content.0``."""
    message: str
    """The server's words, path included where the server includes it."""
    code: str
    """A stable name of the rule; those that begin with ``compaction_`` are the server's own error codes."""


class RuleFacts(Struct, frozen=True):
    """What the rules depend on besides the messages; the defaults are those of a current model."""

    prefill: bool = False
    """Whether the conversation may end in the middle of an answer."""
    system_messages: bool = True
    """Whether messages may have the role ``system``."""
    images: int = 600
    """How many images and documents one request may hold."""
    messages: int = 100_000
    """How many messages one request may hold."""
    markers: int = 4
    """How many blocks may carry `cache_control`."""
    strict: bool = True
    """The rules that came with API version 2026-10-21."""

    @classmethod
    def of(cls, profile: Profile, *, strict: bool = True) -> RuleFacts:
        """The facts of one model."""
        return cls(
            prefill=profile.prefill,
            system_messages=profile.system_messages,
            images=profile.images or cls().images,
            markers=profile.cache.markers,
            strict=strict,
        )


class Placed(Struct, frozen=True):
    """A content block with its place in the list of messages."""

    message: int
    index: int
    block: Json
    kind: str
    """The block's type."""

    @property
    def path(self) -> str:
        """Where the block is, as the server writes it."""
        return f"messages.{self.message}.content.{self.index}"

    @property
    def id(self) -> str:
        """The id that pairs a call with its result."""
        key = "tool_use_id" if self.kind.endswith("tool_result") else "id"
        return str(self.block.get(key, ""))


class Turn(Struct, frozen=True):
    """Neighbouring messages of one role, which the server reads as one."""

    role: str
    start: int
    end: int
    """One past the last message."""
    blocks: tuple[Placed, ...]


def kind_of(block: Json) -> str:
    """The type of a content block, empty when it has none."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def blocks_of(message: Json) -> list[Json]:
    """The content of a message as blocks; a string is short for one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def placed(messages: Iterable[tuple[int, Json]]) -> Iterator[Placed]:
    """Every content block of numbered messages in order, with its place."""
    for number, message in messages:
        for index, block in enumerate(blocks_of(message)):
            yield Placed(number, index, block, kind_of(block))


def is_directive(message: Json) -> bool:
    """True for a system message without content that only changes settings."""
    return message.get("role") == "system" and not blocks_of(message) and bool(message.get("output_config"))


def turns(messages: Sequence[Json]) -> list[Turn]:
    """The messages as turns; messages that only change settings belong to none."""
    spoken = [(number, message) for number, message in enumerate(messages) if not is_directive(message)]
    runs = groupby(spoken, key=lambda pair: str(pair[1].get("role", "")))
    return [
        Turn(role, run[0][0], run[-1][0] + 1, tuple(placed(run)))
        for role, run in ((role, list(run)) for role, run in runs)
    ]


def is_server_result(kind: str) -> bool:
    """True for the results of tools that the server runs itself."""
    return kind.endswith("_tool_result")


def signed(block: Json) -> bool:
    """True for a compaction block the server made on demand."""
    return kind_of(block) == "compaction" and bool(block.get("signature"))


def misplaced_system(before: Turn | None, after: Turn | None) -> str:
    """Why a system turn may not stand between these two; empty when it may."""
    if before is None:
        return (
            "use the top-level 'system' parameter for the initial system prompt; the directive-only form "
            "(content: [] with output_config) is accepted at any position"
        )
    if before.role == "assistant" and not _lets_system_follow(before):
        server_tool = "an 'assistant' turn ending in a server tool result"
        return f"role 'system' must follow a 'user' message or {server_tool}"
    if after is not None and after.role != "assistant":
        return "role 'system' must precede an 'assistant' message or end the array"
    return ""


def _lets_system_follow(turn: Turn) -> bool:
    ends_in_result = bool(turn.blocks) and is_server_result(turn.blocks[-1].kind)
    return ends_in_result and not any(part.kind == "tool_use" for part in turn.blocks)


def wrong_role(kind: str, role: str) -> str:
    """Why a block of this kind may not be said by this role; empty when it may."""
    home = HOMES.get(kind) or ("assistant" if is_server_result(kind) else role)
    if home != role:
        return f"`{kind}` blocks can only be in `{home}` messages"
    if role == "system" and kind not in ("text", "compaction", "tool_addition", "tool_removal"):
        return f"`{kind}` blocks are not permitted in `system` messages"
    return ""
