"""The rules of a Messages request: why the server would refuse it, in the server's own wording.

`refusals` is pure: from decoded messages and a few facts about the model and API version, it lists every broken rule
in the order the server checks them; the server itself reports only the first.
The rules are defined only here: the simulator enforces them, and tests check every request of the engine against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

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
    if role_refusals := list(_roles(messages)):
        return role_refusals
    as_turns = base.turns(messages)
    blocks = [*chain.from_iterable(turn.blocks for turn in as_turns)]
    return [
        *_sizes(len(messages), blocks, facts),
        *_first(as_turns),
        *_system_places(as_turns, facts),
        *_contents(messages, facts),
        *_kinds(messages, blocks, facts),
        *_compactions(messages, blocks),
        *_tools(as_turns),
        *_ending(as_turns, facts),
        *cache_refusals(Prompt(messages, tools, system, automatic), facts),
    ]


def _roles(messages: Sequence[Json]) -> Iterator[Refusal]:
    for number, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant", "system"):
            expected = "Input should be 'user', 'assistant' or 'system'"
            yield Refusal.at(f"messages.{number}.role", expected, "role")


def _sizes(count: int, blocks: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    if count > facts.messages:
        message = f"List should have at most {facts.messages} items after validation, not {count}"
        yield Refusal.at("messages", message, "message_count")
    shown: list[Json] = []
    for placed_block in blocks:
        shown += [placed_block.block, *base.inner_blocks(placed_block.block)]
    images = sum(kind_of(block) == "image" for block in shown)
    documents = sum(map(base.pages, shown))
    if images + documents > facts.images:
        message = f"Too much media: {documents} document pages + {images} images > {facts.images}"
        yield Refusal.at("messages", message, "image_count")


def _first(as_turns: list[Turn]) -> Iterator[Refusal]:
    if not as_turns or as_turns[0].role != "assistant":
        return
    opening = as_turns[0].blocks[:1]
    if not opening or opening[0].kind != "compaction":
        yield Refusal.at("messages", 'first message must use the "user" role', "first_role")


def _system_places(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    for previous, turn, following in _neighbours(as_turns):
        if turn.role != "system":
            continue
        path = f"messages.{turn.start}"
        if not facts.system_messages:
            yield Refusal(path, "role 'system' is not supported on this model", "system_unsupported")
            return
        if reason := _misplaced_system(previous, following):
            yield Refusal.at(path, reason, "system_place")


def _neighbours(turns: list[Turn]) -> Iterator[tuple[Turn | None, Turn, Turn | None]]:
    """Every turn with the previous and the next one."""
    return zip([None, *turns], turns, [*turns[1:], None], strict=False)


def _misplaced_system(previous: Turn | None, following: Turn | None) -> str:
    """Why a system turn is not allowed between these two; empty if it is."""
    if previous is None:
        return (
            "use the top-level 'system' parameter for the initial system prompt; the directive-only form "
            "(content: [] with output_config) is accepted at any position"
        )
    if previous.role == "assistant" and not _lets_system_follow(previous):
        server_tool = "an 'assistant' turn ending in a server tool result"
        return f"role 'system' must follow a 'user' message or {server_tool}"
    if following is not None and following.role != "assistant":
        return "role 'system' must precede an 'assistant' message or end the array"
    return ""


def _lets_system_follow(turn: Turn) -> bool:
    ends_in_result = bool(turn.blocks) and base.is_server_result(turn.blocks[-1].kind)
    return ends_in_result and not any(block.kind == "tool_use" for block in turn.blocks)


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
    inner_texts = [inner.get("text") for inner in chain.from_iterable(map(base.inner_blocks, blocks))]
    if "" in texts or "" in inner_texts:
        yield Refusal(f"messages.{number}", "messages: text content blocks must be non-empty", "text_empty")
    elif texts and not any(text.strip() for text in texts):
        message = "messages: text content blocks must contain non-whitespace text"
        yield Refusal(f"messages.{number}", message, "text_blank")


def _kinds(messages: Sequence[Json], blocks: Sequence[Placed], facts: RuleFacts) -> Iterator[Refusal]:
    for placed_block in blocks:
        kind = placed_block.kind
        role = str(messages[placed_block.message]["role"])
        if facts.strict and kind == "document" and role == "assistant":
            message = "`document` blocks are not permitted in assistant messages"
            yield Refusal.at(placed_block.path, message, "document_place")
        elif reason := _wrong_role(kind, role):
            yield Refusal.at(placed_block.path, reason, "block_role")
        elif facts.strict and kind == "text" and role == "user" and placed_block.block.get("citations"):
            message = "citations are not permitted on text blocks in user messages"
            yield Refusal.at(f"{placed_block.path}.text.citations", message, "citations_place")


def _wrong_role(kind: str, role: str) -> str:
    """Why this role may not use a block of this kind; empty if it may."""
    required_role = ROLE_BY_BLOCK_KIND.get(kind) or ("assistant" if base.is_server_result(kind) else role)
    if required_role != role:
        return f"`{kind}` blocks can only be in `{required_role}` messages"
    if role == "system" and kind not in ("text", "compaction", "tool_addition", "tool_removal"):
        return f"`{kind}` blocks are not permitted in `system` messages"
    return ""


def _compactions(messages: Sequence[Json], blocks: Sequence[Placed]) -> Iterator[Refusal]:
    """Refuse misplaced summaries: an on-demand one must be first and alone; threshold ones may stay where they are."""
    compactions = [placed_block for placed_block in blocks if placed_block.kind == "compaction"]
    for placed_block in compactions:
        if placed_block.block.get("content") == "":
            path = f"{placed_block.path}.compaction.content"
            yield Refusal.at(path, "String should have at least 1 character", "summary_empty")
    on_demand = any(placed_block.block.get("signature") for placed_block in compactions)
    with_content = [placed_block for placed_block in compactions if placed_block.block.get("content")]
    if on_demand and len(with_content) > 1:
        message = "`messages` holds more than one `compaction` block with content."
        yield Refusal.at(with_content[1].path, message, "compaction_block_ambiguous")
    for placed_block in with_content:
        in_system = messages[placed_block.message].get("role") == "system"
        if in_system or (on_demand and placed_block is not blocks[0]):
            message = "the `compaction` block must be the first block of the conversation."
            yield Refusal.at(placed_block.path, message, "compaction_block_misplaced")
            return


def _ending(as_turns: list[Turn], facts: RuleFacts) -> Iterator[Refusal]:
    """Refuse a final assistant turn as a prefill, unless the server left it open for the client to send back."""
    last = as_turns[-1] if as_turns else None
    if facts.prefill or last is None or last.role != "assistant" or not last.blocks:
        return
    ending = last.blocks[-1].kind
    if ending in SERVER_CALLS or base.is_server_result(ending) or ending == "compaction":
        return
    message = (
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message."
    )
    yield Refusal(f"messages.{last.end - 1}", message, "prefill")


# -- tool calls and their results: every call is answered at once, every result has its call ----


def _tools(turns: list[Turn]) -> Iterator[Refusal]:
    """Every reason to refuse the tool calls and results."""
    yield from _doubled_calls(turns)
    yield from _orphan_server_results(turns)
    for previous, turn, following in _neighbours(turns):
        if turn.role == "assistant":
            yield from _unanswered(turn, following)
            yield from _talk_while_pending(turn, following)
        if turn.role == "user":
            yield from _unasked(turn, previous)


def _calls_of(turn: Turn | None) -> dict[str, Placed]:
    """The tool calls of a turn by id."""
    blocks = turn.blocks if turn is not None and turn.role == "assistant" else ()
    return {block.id: block for block in blocks if block.kind == "tool_use"}


def pending_server_calls(turn: Turn) -> list[Placed]:
    """Calls to the server's own tools that have no result in the same turn."""
    answered = {block.id for block in turn.blocks if base.is_server_result(block.kind)}
    return [block for block in turn.blocks if block.kind in SERVER_CALLS and block.id not in answered]


def _doubled_calls(turns: list[Turn]) -> Iterator[Refusal]:
    ids: set[str] = set()
    for block in chain.from_iterable(turn.blocks for turn in turns):
        if block.kind != "tool_use":
            continue
        if block.id in ids:
            yield Refusal.at(block.path, "`tool_use` ids must be unique", "tool_use_doubled")
        ids.add(block.id)


def _orphan_server_results(turns: list[Turn]) -> Iterator[Refusal]:
    """Refuse results of the server's own tools without an earlier call."""
    called_ids: set[str] = set()
    for block in chain.from_iterable(turn.blocks for turn in turns if turn.role == "assistant"):
        if block.kind in SERVER_CALLS:
            called_ids.add(block.id)
        elif base.is_server_result(block.kind) and block.id not in called_ids:
            call = "mcp_tool_use" if block.kind == "mcp_tool_result" else "server_tool_use"
            yield Refusal.at(
                block.path,
                f"unexpected `tool_use_id` found in `{block.kind}` blocks: {block.id}. "
                f"Each `{block.kind}` block must have a corresponding `{call}` block before it.",
                "server_result_orphan",
            )


def _unanswered(turn: Turn, following: Turn | None) -> Iterator[Refusal]:
    replies = following.blocks if following is not None and following.role == "user" else ()
    # Only results at the very beginning of the reply count as answers.
    answered = {block.id for block in takewhile(lambda block: block.kind == "tool_result", replies)}
    missing: dict[int, list[str]] = {}
    for call_id, block in _calls_of(turn).items():
        if call_id not in answered:
            missing.setdefault(block.message, []).append(call_id)
    for message, names in missing.items():
        yield Refusal.at(
            f"messages.{message}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(names)}. Each `tool_use` block must have a corresponding `tool_result` block "
            "in the next message.",
            "tool_use_unanswered",
        )


def _unasked(turn: Turn, previous: Turn | None) -> Iterator[Refusal]:
    calls = _calls_of(previous)
    answered_ids: set[str] = set()
    for result in turn.blocks:
        if result.kind != "tool_result":
            continue
        call_id = result.id
        call = calls.get(call_id)
        if call is None:
            yield Refusal.at(
                result.path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
                "tool_result_orphan",
            )
        elif call_id in answered_ids:
            message = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            yield Refusal.at(result.path, f"{message}: {call_id}", "tool_result_doubled")
        elif (toolset := result.block.get("toolset_name")) != (expected := call.block.get("toolset_name")):
            rule = "must repeat the `toolset_name` of its `tool_use` block"
            message = f"{rule}: expected {expected!r}, found {toolset!r}"
            yield Refusal.at(f"{result.path}.toolset_name", message, "toolset_name")
        answered_ids.add(call_id)


def _talk_while_pending(turn: Turn, following: Turn | None) -> Iterator[Refusal]:
    replies = following.blocks if following is not None and following.role == "user" else ()
    other_blocks = [block for block in replies if block.kind != "tool_result"]
    if other_blocks and pending_server_calls(turn):
        message = "while a `server_tool_use` is pending, the reply may contain only `tool_result` blocks"
        yield Refusal.at(other_blocks[0].path, message, "server_tool_pending")
