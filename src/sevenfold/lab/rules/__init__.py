"""The rules of a Messages request: why the server would refuse it, in the server's own wording.

`refusals` is pure: from decoded messages and a few facts about the model and API version, it lists every broken rule
in the order the server checks them; the server itself reports only the first.
The rules are defined only here: the simulator enforces them, and tests check every request of the engine against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from sevenfold.lab.rules import base
from sevenfold.lab.rules.base import Json, Placed, Refusal, RuleFacts, Turn, blocks_of, kind_of
from sevenfold.lab.rules.cache import Prompt, cache_refusals
from sevenfold.record.blocks import THINKING
from sevenfold.record.wire import SERVER_CALLS

__all__ = ["Refusal", "RuleFacts", "pending_server_calls", "refusals"]

ROLE_BY_BLOCK_KIND = {
    **dict.fromkeys(("image", "document", "search_result", "tool_result", "container_upload"), "user"),
    **dict.fromkeys((*THINKING, "tool_use", *SERVER_CALLS), "assistant"),
    **dict.fromkeys(("tool_addition", "tool_removal"), "system"),
}
"""The only role allowed to use each kind of block."""
EMPTY_MESSAGE = "all messages must have non-empty content except for the optional final assistant message"


def refusals(
    messages: Sequence[Json],
    *,
    facts: RuleFacts,
    tools: Sequence[Json] = (),
    system: Sequence[Json] | str = (),
    automatic: Json | None = None,
) -> list[Refusal]:
    """Every reason why the server would refuse these messages; tools and system matter for cache markers."""
    if not messages:
        return [Refusal("messages", "messages: at least one message is required", "messages_missing")]
    if wrong := list(_roles(messages)):
        return wrong
    as_turns = base.turns(messages)
    parts = [part for turn in as_turns for part in turn.blocks]
    return [
        *_sizes(len(messages), parts, facts),
        *_first(as_turns),
        *_system_places(as_turns, facts),
        *_contents(messages, facts),
        *_kinds(messages, parts, facts),
        *_compactions(messages, parts),
        *_tools(as_turns),
        *_ending(as_turns, facts),
        *cache_refusals(Prompt(messages, tools, system, automatic), facts),
    ]


def _roles(messages: Sequence[Json]) -> Iterator[Refusal]:
    for number, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant", "system"):
            words = "Input should be 'user', 'assistant' or 'system'"
            yield Refusal.at(f"messages.{number}.role", words, "role")


def _sizes(count: int, parts: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    if count > facts.messages:
        words = f"List should have at most {facts.messages} items after validation, not {count}"
        yield Refusal.at("messages", words, "message_count")
    shown = [block for part in parts for block in (part.block, *base.inner_blocks(part.block))]
    images = sum(kind_of(block) == "image" for block in shown)
    documents = sum(map(base.pages, shown))
    if images + documents > facts.images:
        words = f"Too much media: {documents} document pages + {images} images > {facts.images}"
        yield Refusal.at("messages", words, "image_count")


def _first(as_turns: list[Turn]) -> Iterator[Refusal]:
    if not as_turns or as_turns[0].role != "assistant":
        return
    opening = as_turns[0].blocks[:1]
    if not opening or opening[0].kind != "compaction":
        yield Refusal.at("messages", 'first message must use the "user" role', "first_role")


def _system_places(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    for before, turn, after in _neighbours(as_turns):
        if turn.role != "system":
            continue
        path = f"messages.{turn.start}"
        if not facts.system_messages:
            yield Refusal(path, "role 'system' is not supported on this model", "system_unsupported")
            return
        if why := _misplaced_system(before, after):
            yield Refusal.at(path, why, "system_place")


def _neighbours(turns: list[Turn]) -> Iterator[tuple[Turn | None, Turn, Turn | None]]:
    """Every turn with the previous and the next one."""
    return zip([None, *turns], turns, [*turns[1:], None], strict=False)


def _misplaced_system(before: Turn | None, after: Turn | None) -> str:
    """Why a system turn is not allowed between these two; empty if it is."""
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
    ends_in_result = bool(turn.blocks) and base.is_server_result(turn.blocks[-1].kind)
    return ends_in_result and not any(part.kind == "tool_use" for part in turn.blocks)


def _contents(messages: Sequence[Json], facts: RuleFacts) -> Iterator[Refusal]:
    for number, message in enumerate(messages):
        if base.is_directive(message):
            continue
        blocks = blocks_of(message)
        if not blocks and not _may_be_empty(messages, number, facts):
            yield Refusal.at(f"messages.{number}", EMPTY_MESSAGE, "message_empty")
        yield from _texts(number, blocks)


def _may_be_empty(messages: Sequence[Json], number: int, facts: RuleFacts) -> bool:
    return facts.prefill and number == len(messages) - 1 and messages[number]["role"] == "assistant"


def _texts(number: int, blocks: list[Json]) -> Iterator[Refusal]:
    """Refuse an empty text anywhere, but a blank one only if all texts of the message are blank."""
    texts = [str(block.get("text", "")) for block in blocks if kind_of(block) == "text"]
    if "" in texts or any(
        inner.get("text") == "" for block in blocks for inner in base.inner_blocks(block)
    ):
        yield Refusal(f"messages.{number}", "messages: text content blocks must be non-empty", "text_empty")
    elif texts and not any(text.strip() for text in texts):
        words = "messages: text content blocks must contain non-whitespace text"
        yield Refusal(f"messages.{number}", words, "text_blank")


def _kinds(messages: Sequence[Json], parts: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    for part in parts:
        kind = part.kind
        role = str(messages[part.message]["role"])
        if facts.strict and kind == "document" and role == "assistant":
            words = "`document` blocks are not permitted in assistant messages"
            yield Refusal.at(part.path, words, "document_place")
        elif why := _wrong_role(kind, role):
            yield Refusal.at(part.path, why, "block_role")
        elif facts.strict and kind == "text" and role == "user" and part.block.get("citations"):
            words = "citations are not permitted on text blocks in user messages"
            yield Refusal.at(f"{part.path}.text.citations", words, "citations_place")


def _wrong_role(kind: str, role: str) -> str:
    """Why this role may not use a block of this kind; empty if it may."""
    home = ROLE_BY_BLOCK_KIND.get(kind) or ("assistant" if base.is_server_result(kind) else role)
    if home != role:
        return f"`{kind}` blocks can only be in `{home}` messages"
    if role == "system" and kind not in ("text", "compaction", "tool_addition", "tool_removal"):
        return f"`{kind}` blocks are not permitted in `system` messages"
    return ""


def _compactions(messages: Sequence[Json], parts: Sequence[Placed]) -> Iterator[Refusal]:
    """Refuse misplaced summaries: an on-demand one must be first and alone; threshold ones may stay where they are."""
    found = [part for part in parts if part.kind == "compaction"]
    for part in found:
        if part.block.get("content") == "":
            path = f"{part.path}.compaction.content"
            yield Refusal.at(path, "String should have at least 1 character", "summary_empty")
    on_demand = any(part.block.get("signature") for part in found)
    full = [part for part in found if part.block.get("content")]
    if on_demand and len(full) > 1:
        words = "`messages` holds more than one `compaction` block with content."
        yield Refusal.at(full[1].path, words, "compaction_block_ambiguous")
    for part in full:
        in_system = messages[part.message].get("role") == "system"
        if in_system or (on_demand and part is not parts[0]):
            words = "the `compaction` block must be the first block of the conversation."
            yield Refusal.at(part.path, words, "compaction_block_misplaced")
            return


def _ending(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    """Refuse a final assistant turn as a prefill, unless the server left it open for the client to send back."""
    last = as_turns[-1] if as_turns else None
    if facts.prefill or last is None or last.role != "assistant" or not last.blocks:
        return
    ending = last.blocks[-1].kind
    if ending in SERVER_CALLS or base.is_server_result(ending) or ending == "compaction":
        return
    words = (
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message."
    )
    yield Refusal(f"messages.{last.end - 1}", words, "prefill")


# -- tool calls and their results: every call is answered at once, every result has its call ----


def _tools(turns: list[Turn]) -> Iterator[Refusal]:
    """Every reason to refuse the tool calls and results."""
    yield from _doubled_calls(turns)
    yield from _orphan_server_results(turns)
    for before, turn, after in _neighbours(turns):
        if turn.role == "assistant":
            yield from _unanswered(turn, after)
            yield from _talk_while_pending(turn, after)
        if turn.role == "user":
            yield from _unasked(turn, before)


def _calls_of(turn: Turn | None) -> dict[str, Placed]:
    """The tool calls of a turn by id."""
    parts = turn.blocks if turn is not None and turn.role == "assistant" else ()
    return {part.id: part for part in parts if part.kind == "tool_use"}


def pending_server_calls(turn: Turn) -> list[Placed]:
    """Calls to the server's own tools that have no result in the same turn."""
    answered = {part.id for part in turn.blocks if base.is_server_result(part.kind)}
    return [part for part in turn.blocks if part.kind in SERVER_CALLS and part.id not in answered]


def _doubled_calls(turns: list[Turn]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for part in (part for turn in turns for part in turn.blocks if part.kind == "tool_use"):
        if part.id in seen:
            yield Refusal.at(part.path, "`tool_use` ids must be unique", "tool_use_doubled")
        seen.add(part.id)


def _orphan_server_results(turns: list[Turn]) -> Iterator[Refusal]:
    """Refuse results of the server's own tools without an earlier call."""
    asked: set[str] = set()
    for part in (part for turn in turns if turn.role == "assistant" for part in turn.blocks):
        if part.kind in SERVER_CALLS:
            asked.add(part.id)
        elif base.is_server_result(part.kind) and part.id not in asked:
            call = "mcp_tool_use" if part.kind == "mcp_tool_result" else "server_tool_use"
            yield Refusal.at(
                part.path,
                f"unexpected `tool_use_id` found in `{part.kind}` blocks: {part.id}. "
                f"Each `{part.kind}` block must have a corresponding `{call}` block before it.",
                "server_result_orphan",
            )


def _unanswered(turn: Turn, after: Turn | None) -> Iterator[Refusal]:
    replies = after.blocks if after is not None and after.role == "user" else ()
    # Only results at the very beginning of the reply count as answers.
    answered = {part.id for part in takewhile(lambda part: part.kind == "tool_result", replies)}
    missing: dict[int, list[str]] = {}
    for name, part in _calls_of(turn).items():
        if name not in answered:
            missing.setdefault(part.message, []).append(name)
    for message, names in missing.items():
        yield Refusal.at(
            f"messages.{message}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(names)}. Each `tool_use` block must have a corresponding `tool_result` block "
            "in the next message.",
            "tool_use_unanswered",
        )


def _unasked(turn: Turn, before: Turn | None) -> Iterator[Refusal]:
    calls = _calls_of(before)
    seen: set[str] = set()
    for part in (part for part in turn.blocks if part.kind == "tool_result"):
        name = part.id
        call = calls.get(name)
        if call is None:
            yield Refusal.at(
                part.path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
                "tool_result_orphan",
            )
        elif name in seen:
            words = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            yield Refusal.at(part.path, f"{words}: {name}", "tool_result_doubled")
        elif (found := part.block.get("toolset_name")) != (wanted := call.block.get("toolset_name")):
            words = f"must repeat the `toolset_name` of its `tool_use` block: expected {wanted!r}, found {found!r}"
            yield Refusal.at(f"{part.path}.toolset_name", words, "toolset_name")
        seen.add(name)


def _talk_while_pending(turn: Turn, after: Turn | None) -> Iterator[Refusal]:
    replies = after.blocks if after is not None and after.role == "user" else ()
    said = [part for part in replies if part.kind != "tool_result"]
    if said and pending_server_calls(turn):
        words = "while a `server_tool_use` is pending, the reply may contain only `tool_result` blocks"
        yield Refusal.at(said[0].path, words, "server_tool_pending")
