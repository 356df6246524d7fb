"""The server's rules about messages, one by one, and mending what breaks them."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.lab.rules import RuleFacts, refusals

Message = dict[str, Any]
FACTS = RuleFacts()


def user(*blocks: Any) -> Message:
    return {"role": "user", "content": [_block(block) for block in blocks]}


def assistant(*blocks: Any) -> Message:
    return {"role": "assistant", "content": [_block(block) for block in blocks]}


def system(*blocks: Any, **fields: Any) -> Message:
    return {"role": "system", "content": [_block(block) for block in blocks], **fields}


def _block(block: Any) -> dict[str, Any]:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def call(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}, **fields}


def result(name: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **fields}


def marked(text: str = "words", ttl: str | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": control(ttl)}


def control(ttl: str | None = None) -> dict[str, str]:
    return {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}


def summary(text: str | None = "what was said", signature: str | None = "signed") -> dict[str, Any]:
    return {"type": "compaction", "content": text} | ({"signature": signature} if signature else {})


def server_call(name: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}}


def server_result(name: str) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": []}


THOUGHT = {"type": "thinking", "thinking": "", "signature": "s"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}

UNANSWERED = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
EMPTY_MESSAGE = (
    "messages.{}: all messages must have non-empty content except for the optional final assistant message"
)
AFTER_ANSWER = (
    "messages.2: role 'system' must follow a 'user' message or "
    "an 'assistant' turn ending in a server tool result"
)

VALID = {
    "one question": [user("hi")],
    "a string is short for a text": [{"role": "user", "content": "hi"}],
    "neighbours of one role are joined": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")],
    "a call and its result": [user("go"), assistant("ok", call("a")), user(result("a"), "next")],
    "parallel calls": [user("go"), assistant(call("a"), call("b")), user(result("b"), result("a"))],
    "results in two neighbouring messages": [
        user("go"),
        assistant(call("a"), call("b")),
        user(result("a")),
        user(result("b"), "next"),
    ],
    "an empty result": [
        user("go"),
        assistant(call("a")),
        user({"type": "tool_result", "tool_use_id": "a"}),
    ],
    "blanks beside words": [user(" ", "words")],
    "a signed summary alone in front": [assistant(summary()), assistant("kept"), user("next")],
    "a signed summary as the first block": [user(summary(), "next")],
    "summaries made at thresholds": [
        user("a"),
        assistant(summary(signature=None), "b"),
        user("c"),
        assistant(summary(signature=None)),
        user("d"),
    ],
    "a summary the client sends back to go on": [user("a"), assistant(summary(signature=None))],
    "a paused server tool sent back": [user("a"), assistant(server_call("s"))],
    "a server tool between turns of a client tool": [
        user("a"),
        assistant(server_call("s"), call("t")),
        user(result("t")),
        assistant(server_result("s")),
        user("b"),
    ],
    "a system message at the end": [user("a"), system("be brief")],
    "a system message after results": [
        user("a"),
        assistant(call("t")),
        user(result("t")),
        system("x"),
        assistant("y"),
        user("z"),
    ],
    "two system messages are one section": [user("a"), system("x"), system("y"), assistant("b"), user("c")],
    "a system message after a server result": [
        user("a"),
        assistant(server_call("s"), server_result("s")),
        system("x"),
    ],
    "settings alone may stand anywhere": [
        system(output_config={"effort": "low"}),
        user("a"),
        assistant("b"),
        user("c"),
    ],
    "four markers, long ones first": [user(marked(ttl="1h"), marked(ttl="1h"), marked(), marked(ttl="5m"))],
    "a marker inside a result": [user("a"), assistant(call("t")), user(result("t", [marked()]))],
    "toolset echoed": [
        user("a"),
        assistant(call("t", toolset_name="browser")),
        user(result("t", toolset_name="browser")),
    ],
}

REFUSED: dict[str, tuple[list[Message], str, str]] = {
    "no messages": ([], "messages", "messages: at least one message is required"),
    "an unknown role": (
        [{"role": "tool", "content": "x"}],
        "messages.0.role",
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "an answer first": (
        [assistant("hi"), user("a")],
        "messages",
        'messages: first message must use the "user" role',
    ),
    "a system message first": (
        [system("x"), user("a")],
        "messages.0",
        "messages.0: use the top-level 'system' parameter for the initial system prompt; "
        "the directive-only form (content: [] with output_config) is accepted at any position",
    ),
    "a system message before the user": (
        [user("a"), system("x"), user("b")],
        "messages.1",
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
    ),
    "a system message after an answer": (
        [user("a"), assistant("b"), system("x")],
        "messages.2",
        AFTER_ANSWER,
    ),
    "an unfinished answer": (
        [user("a"), assistant("b")],
        "messages.1",
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message.",
    ),
    "a call without a result": (
        [user("a"), assistant(call("x")), user("b")],
        "messages.1",
        UNANSWERED.format(1, "x"),
    ),
    "two calls without results": (
        [user("a"), assistant(call("x"), call("y")), user("b")],
        "messages.1",
        UNANSWERED.format(1, "x, y"),
    ),
    "a call at the end": ([user("a"), assistant(call("x"))], "messages.1", UNANSWERED.format(1, "x")),
    "words before results": (
        [user("a"), assistant(call("x")), user("b", result("x"))],
        "messages.1",
        UNANSWERED.format(1, "x"),
    ),
    "a message between call and result": (
        [user("a"), assistant(call("x")), system("s"), user(result("x"))],
        "messages.2",
        AFTER_ANSWER,
    ),
    "a result nobody asked for": (
        [user("a", result("x"))],
        "messages.0.content.1",
        ORPHAN.format(0, 1, "x"),
    ),
    "a result two turns late": (
        [user("a"), assistant(call("x")), user(result("x")), assistant("b"), user(result("x"))],
        "messages.4.content.0",
        ORPHAN.format(4, 0, "x"),
    ),
    "a doubled result": (
        [user("a"), assistant(call("x")), user(result("x"), result("x"))],
        "messages.2.content.1",
        "messages.2.content.1: each tool_use must have a single result. "
        "Found multiple `tool_result` blocks with id: x",
    ),
    "a doubled call": (
        [user("a"), assistant(call("x")), user(result("x")), assistant(call("x")), user(result("x"))],
        "messages.3.content.0",
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "a server result nobody asked for": (
        [user("a"), assistant(server_result("s")), user("b")],
        "messages.1.content.0",
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: s. Each "
        "`web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    "talk while a server tool is pending": (
        [user("a"), assistant(server_call("s"), call("x")), user(result("x"), "b")],
        "messages.2.content.1",
        "messages.2.content.1: while a `server_tool_use` is pending, "
        "the reply may contain only `tool_result` blocks",
    ),
    "a toolset not echoed": (
        [user("a"), assistant(call("x", toolset_name="browser")), user(result("x"))],
        "messages.2.content.0.toolset_name",
        "messages.2.content.0.toolset_name: must repeat the `toolset_name` of its `tool_use` block: "
        "expected 'browser', found None",
    ),
    "an empty text": ([user("", "b")], "messages.0", "messages: text content blocks must be non-empty"),
    "an empty text in a result": (
        [user("a"), assistant(call("x")), user(result("x", [_block("")]))],
        "messages.2",
        "messages: text content blocks must be non-empty",
    ),
    "blanks alone": (
        [user(" \n")],
        "messages.0",
        "messages: text content blocks must contain non-whitespace text",
    ),
    "an empty message": (
        [user("a"), assistant(), user("b")],
        "messages.1",
        EMPTY_MESSAGE.format(1),
    ),
    "an empty string": (
        [{"role": "user", "content": ""}],
        "messages.0",
        EMPTY_MESSAGE.format(0),
    ),
    "five markers": (
        [user(*[marked()] * 5)],
        "cache_control",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a marker on thinking": (
        [user("a"), assistant({**THOUGHT, "cache_control": control()}, "b"), user("c")],
        "messages.1.content.0.thinking.cache_control",
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "a long marker after a short one": (
        [user("a", marked()), assistant("b"), user(marked(ttl="1h"))],
        "messages.2.content.0.cache_control.ttl",
        "messages.2.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
        "ttl='5m' cache_control block. Note that blocks are processed in the following order: tools, "
        "system, messages.",
    ),
    "an unknown lifetime": (
        [user(marked(ttl="2h"))],
        "messages.0.content.0.text.cache_control",
        "messages.0.content.0.text.cache_control.ttl: Input should be '5m' or '1h'",
    ),
    "a marker of another kind": (
        [user({"type": "text", "text": "a", "cache_control": {"type": "forever"}})],
        "messages.0.content.0.text.cache_control",
        "messages.0.content.0.text.cache_control.type: Input should be 'ephemeral'",
    ),
    "a marker on a message that vanishes": (
        [user("a"), system(marked(), clear_at="next_user_message")],
        "messages.1.content.0.text.cache_control",
        "messages.1.content.0.text.cache_control: Extra inputs are not permitted",
    ),
    "a document said by the model": (
        [user("a"), assistant(DOCUMENT), user("b")],
        "messages.1.content.0",
        "messages.1.content.0: `document` blocks are not permitted in assistant messages",
    ),
    "citations on the user's words": (
        [user({"type": "text", "text": "a", "citations": [{}]})],
        "messages.0.content.0.text.citations",
        "messages.0.content.0.text.citations: citations are not permitted on text blocks in user messages",
    ),
    "a call by the user": (
        [user(call("x"))],
        "messages.0.content.0",
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "a signed summary in the middle": (
        [user("a"), assistant(summary()), user("b")],
        "messages.1.content.0",
        "messages.1.content.0: the `compaction` block must be the first block of the conversation.",
    ),
    "two signed summaries": (
        [assistant(summary()), assistant(summary()), user("b")],
        "messages.1.content.0",
        "messages.1.content.0: `messages` holds more than one `compaction` block with content.",
    ),
    "an empty summary": (
        [assistant(summary("", None)), user("b")],
        "messages.0.content.0.compaction.content",
        "messages.0.content.0.compaction.content: String should have at least 1 character",
    ),
}


@pytest.mark.parametrize("messages", VALID.values(), ids=VALID)
def test_what_the_server_takes_is_not_refused(messages: list[Message]) -> None:
    assert refusals(messages, facts=FACTS) == []


@pytest.mark.parametrize(("messages", "path", "words"), REFUSED.values(), ids=REFUSED)
def test_what_the_server_refuses_is_refused_in_its_words(
    messages: list[Message], path: str, words: str
) -> None:
    first = refusals(messages, facts=FACTS)[0]
    assert (first.path, first.message) == (path, words)


def test_an_empty_text_cannot_be_marked() -> None:
    found = {refusal.code for refusal in refusals([user(marked(""))], facts=FACTS)}
    assert found == {"text_empty", "cache_control_empty"}


def test_an_unfinished_answer_is_taken_where_the_model_takes_prefill() -> None:
    messages = [user("a"), assistant("b")]
    assert refusals(messages, facts=RuleFacts(prefill=True)) == []


def test_a_model_without_system_messages_refuses_them() -> None:
    found = refusals([user("a"), system("b")], facts=RuleFacts(system_messages=False))
    assert [refusal.message for refusal in found] == ["role 'system' is not supported on this model"]


def test_older_api_versions_take_documents_in_answers_and_citations_from_users() -> None:
    cited = {"type": "text", "text": "a", "citations": [{}]}
    assert refusals([user(cited)], facts=RuleFacts(strict=False)) == []


def test_markers_are_counted_over_tools_system_and_messages() -> None:
    tool = {"name": "Read", "input_schema": {}, "cache_control": control("1h")}
    found = refusals(
        [user(marked(), marked(), marked())], facts=FACTS, tools=[tool], system=[marked(ttl="1h")]
    )
    assert [refusal.message for refusal in found] == [
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    ]


def test_a_long_marker_in_messages_may_not_follow_a_short_one_in_system() -> None:
    found = refusals([user(marked(ttl="1h"))], facts=FACTS, system=[marked()])
    assert [refusal.path for refusal in found] == ["messages.0.content.0.cache_control.ttl"]


def test_automatic_caching_takes_one_of_the_four_places() -> None:
    four = [user(*[marked()] * 4), assistant("b"), user("c")]
    found = refusals(four, facts=FACTS, automatic=control())
    assert [refusal.code for refusal in found] == ["cache_control_count"]


@pytest.mark.parametrize(
    "fields", [{"system": [marked(ttl="1h")]}, {"tools": [{"cache_control": control("1h")}]}]
)
def test_automatic_caching_falls_back_on_what_can_carry_a_marker(fields: dict[str, Any]) -> None:
    vanishing = [user(""), system("x", clear_at="next_user_message")]
    found = refusals(vanishing, facts=FACTS, automatic=control("5m"), **fields)
    assert "cache_control_automatic" in [refusal.code for refusal in found]


def test_automatic_caching_on_a_block_marked_alike_changes_nothing() -> None:
    assert refusals([user(*[marked()] * 4)], facts=FACTS, automatic=control()) == []


def test_automatic_caching_may_not_contradict_the_last_marker() -> None:
    found = refusals([user(marked(ttl="1h"))], facts=FACTS, automatic=control("5m"))
    assert [refusal.code for refusal in found] == ["cache_control_automatic"]


def test_images_are_counted_inside_results_too() -> None:
    messages = [user(IMAGE), assistant(call("x")), user(result("x", [IMAGE, IMAGE]))]
    found = refusals(messages, facts=RuleFacts(images=2))
    assert [refusal.message for refusal in found] == [
        "messages: Too much media: 0 document pages + 3 images > 2"
    ]


def test_more_than_a_hundred_thousand_messages_are_refused() -> None:
    found = refusals([user("a")] * 100_001, facts=FACTS)
    assert [refusal.code for refusal in found] == ["message_count"]


def test_every_refusal_is_listed_not_only_the_first() -> None:
    messages = [assistant(call("x")), user("", result("y"))]
    codes = [refusal.code for refusal in refusals(messages, facts=FACTS)]
    assert codes == ["first_role", "text_empty", "tool_use_unanswered", "tool_result_orphan"]
