"""Why a Messages request would be refused, said in the server's own words, before it is sent.

`refusals` is pure: it looks at decoded messages and at a few facts about model and API version, and lists
every rule that is broken, in the order the server checks them; the server itself reports only the first.
This is the one place where these rules are written: the simulator refuses by them, and tests hold against them
whatever the engine would send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sevenfold.lab.rules.base import (
    Json,
    Placed,
    Refusal,
    RuleFacts,
    Turn,
    blocks_of,
    is_directive,
    is_server_result,
    kind_of,
    misplaced_system,
    signed,
    turns,
    wrong_role,
)
from sevenfold.lab.rules.cache import Prompt, cache_refusals
from sevenfold.lab.rules.tools import tool_refusals
from sevenfold.record.wire import SERVER_CALLS

__all__ = ["Refusal", "RuleFacts", "refusals"]

EMPTY_MESSAGE = "all messages must have non-empty content except for the optional final assistant message"


def refusals(
    messages: Sequence[Json],
    *,
    facts: RuleFacts,
    tools: Sequence[Json] = (),
    system: Sequence[Json] | str = (),
    automatic: Json | None = None,
) -> list[Refusal]:
    """Every reason why the server would refuse these messages; tools and system matter for markers."""
    if not messages:
        return [Refusal("messages", "messages: at least one message is required", "messages_missing")]
    if wrong := list(_roles(messages)):
        return wrong
    as_turns = turns(messages)
    parts = [part for turn in as_turns for part in turn.blocks]
    return [
        *_sizes(len(messages), parts, facts),
        *_first(as_turns),
        *_system_places(as_turns, facts),
        *_contents(messages, facts),
        *_kinds(messages, parts, facts),
        *_compactions(messages, parts),
        *tool_refusals(as_turns),
        *_ending(as_turns, facts),
        *cache_refusals(Prompt(messages, tools, system, automatic), facts),
    ]


def _roles(messages: Sequence[Json]) -> Iterator[Refusal]:
    for number, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant", "system"):
            path = f"messages.{number}.role"
            yield Refusal(path, f"{path}: Input should be 'user', 'assistant' or 'system'", "role")


def _sizes(count: int, parts: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    if count > facts.messages:
        limit = f"at most {facts.messages} items after validation, not {count}"
        yield Refusal("messages", f"messages: List should have {limit}", "message_count")
    kinds = [kind for part in parts for kind in _kinds_inside(part)]
    images, documents = kinds.count("image"), kinds.count("document")
    if images + documents > facts.images:
        text = f"Too much media: {documents} document pages + {images} images > {facts.images}"
        yield Refusal("messages", f"messages: {text}", "image_count")


def _kinds_inside(part: Placed) -> list[str]:
    content = part.block.get("content") if part.kind == "tool_result" else None
    inside = content if isinstance(content, list) else ()
    return [part.kind, *(kind_of(inner) for inner in inside if isinstance(inner, dict))]


def _first(as_turns: list[Turn]) -> Iterator[Refusal]:
    if not as_turns or as_turns[0].role != "assistant":
        return
    opening = as_turns[0].blocks[:1]
    if not opening or opening[0].kind != "compaction":
        yield Refusal("messages", 'messages: first message must use the "user" role', "first_role")


def _system_places(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    for number, turn in enumerate(as_turns):
        if turn.role != "system":
            continue
        path = f"messages.{turn.start}"
        if not facts.system_messages:
            yield Refusal(path, "role 'system' is not supported on this model", "system_unsupported")
            return
        before = as_turns[number - 1] if number else None
        after = as_turns[number + 1] if number + 1 < len(as_turns) else None
        if why := misplaced_system(before, after):
            yield Refusal(path, f"{path}: {why}", "system_place")


def _contents(messages: Sequence[Json], facts: RuleFacts) -> Iterator[Refusal]:
    for number, message in enumerate(messages):
        if is_directive(message):
            continue
        blocks = blocks_of(message)
        if not blocks and not _may_be_empty(messages, number, facts):
            yield Refusal(f"messages.{number}", f"messages.{number}: {EMPTY_MESSAGE}", "message_empty")
        yield from _texts(number, blocks)


def _may_be_empty(messages: Sequence[Json], number: int, facts: RuleFacts) -> bool:
    return facts.prefill and number == len(messages) - 1 and messages[number]["role"] == "assistant"


def _texts(number: int, blocks: list[Json]) -> Iterator[Refusal]:
    """An empty text is refused anywhere; blanks only where nothing else in the message is said in words."""
    texts = [str(block.get("text", "")) for block in blocks if kind_of(block) == "text"]
    for block in blocks:
        content = block.get("content")
        if kind_of(block) == "tool_result" and isinstance(content, list):
            empty = any(isinstance(inner, dict) and inner.get("text") == "" for inner in content)
            texts += [""] if empty else []
    if "" in texts:
        yield Refusal(f"messages.{number}", "messages: text content blocks must be non-empty", "text_empty")
    elif texts and not any(text.strip() for text in texts):
        words = "messages: text content blocks must contain non-whitespace text"
        yield Refusal(f"messages.{number}", words, "text_blank")


def _kinds(messages: Sequence[Json], parts: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    for part in parts:
        kind, role = part.kind, str(messages[part.message]["role"])
        if facts.strict and kind == "document" and role == "assistant":
            words = f"{part.path}: `document` blocks are not permitted in assistant messages"
            yield Refusal(part.path, words, "document_place")
        elif why := wrong_role(kind, role):
            yield Refusal(part.path, f"{part.path}: {why}", "block_role")
        elif facts.strict and kind == "text" and role == "user" and part.block.get("citations"):
            path = f"{part.path}.text.citations"
            words = f"{path}: citations are not permitted on text blocks in user messages"
            yield Refusal(path, words, "citations_place")


def _compactions(messages: Sequence[Json], parts: Sequence[Placed]) -> Iterator[Refusal]:
    """Blocks made on demand come first and alone; those made at a threshold stay where they came."""
    found = [part for part in parts if part.kind == "compaction"]
    for part in found:
        if part.block.get("content") == "":
            path = f"{part.path}.compaction.content"
            yield Refusal(path, f"{path}: String should have at least 1 character", "summary_empty")
    on_demand = any(signed(part.block) for part in found)
    full = [part for part in found if part.block.get("content")]
    if on_demand and len(full) > 1:
        words = f"{full[1].path}: `messages` holds more than one `compaction` block with content."
        yield Refusal(full[1].path, words, "compaction_block_ambiguous")
    for part in full:
        in_system = messages[part.message].get("role") == "system"
        if in_system or (on_demand and part is not parts[0]):
            words = f"{part.path}: the `compaction` block must be the first block of the conversation."
            yield Refusal(part.path, words, "compaction_block_misplaced")
            return


def _ending(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    """A final answer is a prefill, unless the server itself left it open for the client to send back."""
    last = as_turns[-1] if as_turns else None
    if facts.prefill or last is None or last.role != "assistant" or not last.blocks:
        return
    ending = last.blocks[-1].kind
    if ending in SERVER_CALLS or is_server_result(ending) or ending == "compaction":
        return
    words = (
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message."
    )
    yield Refusal(f"messages.{last.end - 1}", words, "prefill")
