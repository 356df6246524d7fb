"""Chat Completions: the API that most servers besides Anthropic's offer, hosted or local."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from sevenfold.lab.simulator import openai
from sevenfold.lab.simulator.brains import Json
from sevenfold.lab.simulator.errors import invalid
from sevenfold.lab.simulator.openai import OpenAiReply, OpenAiRequest, OpenAiTool
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.wire.chat_events import assistant_message, completion_events, finish_reason

OVERFLOW = (
    "This model's maximum context length is {window} tokens. "
    "However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
)
PARTS = ("text", "image_url", "input_audio", "refusal", "audio", "file")
ROLES = ("system", "developer", "user", "assistant", "tool")


class _Called(Struct):
    name: str
    arguments: str = ""
    input: str = ""


class _Call(Struct):
    id: str
    function: _Called | None = None
    custom: _Called | None = None


class _ChatMessage(Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _ChatBody(Struct):
    model: str
    messages: Annotated[list[_ChatMessage], Meta(min_length=1)]
    tools: list[OpenAiTool] | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None


def complete(sim: Simulator, body: Any) -> dict[str, Any]:
    """Answer a chat completion request."""
    request = _read(sim, body)
    reply = openai.ask(sim, request)
    return {
        "id": sim.new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(sim.clock.now()),
        "model": request.body["model"],
        "choices": [{"index": 0, "logprobs": None, **_choice(sim, request, reply)}],
        "usage": _usage(reply),
        "system_fingerprint": "fp_simulated",
    }


def chunks(completion: Json, body: Json, size: int) -> Iterator[bytes]:
    """Yield a finished completion as the events of a stream."""
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return completion_events(completion, size, with_usage=with_usage)


def _read(sim: Simulator, body: Any) -> OpenAiRequest:
    profile = openai.check_body(sim, body, _ChatBody, nested=True)
    _check_parts(body["messages"])
    _check_tools_answered(body["messages"])
    stops = body.get("stop") or ()
    return OpenAiRequest(
        body=body,
        profile=profile,
        tools=[openai.tool(tool["type"], tool[tool["type"]]) for tool in body.get("tools") or ()],
        messages=[_message(message) for message in body["messages"]],
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        overflow=OVERFLOW,
        stops=[stops] if isinstance(stops, str) else stops,
    )


def _message(message: Json) -> Json:
    role = message.get("role")
    if role not in ROLES:
        raise openai.unsupported_value(role, ROLES, "messages.role")
    if role == "tool":
        return openai.tool_result(message.get("tool_call_id"), message.get("content"))
    blocks = openai.content_blocks(message.get("content"))
    for call in message.get("tool_calls") or ():
        kind = "function" if call.get("custom") is None else "custom"
        if call.get(kind) is None:
            raise openai.missing_parameter("messages.tool_calls.function", "messages")
        blocks.append(openai.tool_use(call["id"], kind, call[kind]))
    return {"role": "system" if role == "developer" else role, "content": blocks}


def _check_parts(messages: Sequence[Json]) -> None:
    """Raise for content blocks of another API."""
    for number, message in enumerate(messages):
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if block.get("type") not in PARTS:
                path = f"messages[{number}].content[{index}].type"
                raise openai.unsupported_value(block.get("type"), PARTS, path, "invalid_value")


def _check_tools_answered(messages: Sequence[Json]) -> None:
    """Raise unless every call has its tool message right after it, and every tool message answers a call."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                problem = "must be a response to a preceeding message with 'tool_calls'."
                path = f"messages.[{number}].role"
                raise invalid(f"Invalid parameter: messages with role 'tool' {problem}", param=path)
            open_calls.remove(str(message["tool_call_id"]))
            continue
        if open_calls:
            break
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    if open_calls:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_calls)}",
            param="messages",
        )


def _choice(sim: Simulator, request: OpenAiRequest, reply: OpenAiReply) -> dict[str, Any]:
    blocks = [_with_id(sim, block) for block in reply.output.blocks]
    message = assistant_message(blocks, request.kind)
    return {"message": message, "finish_reason": finish_reason(reply.output.stop_reason)}


def _with_id(sim: Simulator, block: Json) -> Json:
    """The block; a tool call without an id gets one."""
    if block["type"] != "tool_use" or block.get("id"):
        return block
    return {**block, "id": sim.new_id("call_")}


def _usage(reply: OpenAiReply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.output.tokens,
        "total_tokens": reply.prompt_tokens + reply.output.tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reply.output.thinking_tokens, "audio_tokens": 0},
    }
