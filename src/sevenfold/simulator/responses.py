"""The Responses API, as far as a client that keeps its own history needs it: text, calls, streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.simulator.openai_common import (
    Asked,
    Said,
    ask,
    bad,
    call_arguments,
    check_body,
    content_blocks,
    decoded_arguments,
    unknown_model,
)
from sevenfold.simulator.provider import Simulator

Json = Mapping[str, Any]
OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."
STATEFUL = ("previous_response_id", "conversation")


class _Tool(Struct):
    type: str
    name: str | None = None
    parameters: dict[str, Any] | None = None


class _Body(Struct):
    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    tools: list[_Tool] | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None


def respond(sim: Simulator, body: Any) -> dict[str, Any]:
    """Answer a request of the Responses API."""
    asked = _read(sim, body)
    said = ask(sim, asked)
    cut = said.output.stop_reason in ("max_tokens", "model_context_window_exceeded")
    return {
        "id": sim.new_id("resp_"),
        "object": "response",
        "created_at": int(sim.clock.now()),
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": asked.body.get("instructions"),
        "max_output_tokens": asked.body.get("max_output_tokens"),
        "model": asked.body["model"],
        "output": list(_items(sim, said, "incomplete" if cut else "completed")),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "tool_choice": asked.body.get("tool_choice") or "auto",
        "tools": asked.body.get("tools") or [],
        "truncation": "disabled",
        "usage": _usage(said),
        "metadata": {},
    }


def response_events(response: Json, size: int) -> Iterator[bytes]:
    """A finished response as the events of a stream."""
    number = 0

    def event(kind: str, **data: Any) -> bytes:
        nonlocal number
        number += 1
        payload = msgspec.json.encode({"type": kind, "sequence_number": number - 1, **data})
        return f"event: {kind}\n".encode() + b"data: " + payload + b"\n\n"

    empty = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=empty)
    yield event("response.in_progress", response=empty)
    for place, item in enumerate(response["output"]):
        empty_item: Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
        opening = {**item, "status": "in_progress", **empty_item}
        yield event("response.output_item.added", output_index=place, item=opening)
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.content_part.added", **where, content_index=0, part={**part, "text": ""})
            for start in range(0, len(part["text"]), size):
                piece = part["text"][start : start + size]
                yield event(
                    "response.output_text.delta", **where, content_index=0, delta=piece, logprobs=[]
                )
            yield event(
                "response.output_text.done", **where, content_index=0, text=part["text"], logprobs=[]
            )
            yield event("response.content_part.done", **where, content_index=0, part=part)
        else:
            given = item["arguments"]
            for start in range(0, len(given), size):
                yield event(
                    "response.function_call_arguments.delta", **where, delta=given[start : start + size]
                )
            yield event(
                "response.function_call_arguments.done", **where, name=item["name"], arguments=given
            )
        yield event("response.output_item.done", output_index=place, item=item)
    yield event(f"response.{response['status']}", response=response)


def _read(sim: Simulator, body: Any) -> Asked:
    check_body(body, _Body)
    profile = sim.profile(body["model"])
    if profile is None:
        raise unknown_model(body.get("model"))
    for name in STATEFUL:
        if body.get(name) is not None:
            raise bad(f"'{name}' is not simulated: send the whole input.", param=name)
    messages = [_message(item, place) for place, item in enumerate(_input(body["input"]))]
    if body.get("instructions"):
        messages.insert(0, {"role": "system", "content": content_blocks(body["instructions"])})
    _check_calls_answered(messages)
    return Asked(
        body=body,
        profile=profile,
        tools=[_tool(tool) for tool in body.get("tools") or ()],
        messages=messages,
        max_tokens=body.get("max_output_tokens"),
        overflow=OVERFLOW,
    )


def _input(given: Any) -> list[Json]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _tool(tool: Json) -> Json:
    described = {"name": tool.get("name"), "description": tool.get("description")}
    return {"type": tool.get("type"), **described, "input_schema": tool.get("parameters")}


def _message(item: Json, place: int) -> Json:
    match item.get("type", "message"):
        case "message":
            role = {"developer": "system"}.get(str(item.get("role")), str(item.get("role")))
            return {"role": role, "content": content_blocks(item.get("content"))}
        case "function_call":
            given = decoded_arguments(item.get("arguments"))
            call = {
                "type": "tool_use",
                "id": str(item.get("call_id")),
                "name": item.get("name"),
                "input": given,
            }
            return {"role": "assistant", "content": [call]}
        case "function_call_output":
            content = content_blocks(item.get("output"))
            result = {"type": "tool_result", "tool_use_id": str(item.get("call_id")), "content": content}
            return {"role": "user", "content": [result]}
        case "reasoning" | "compaction":
            return {"role": "assistant", "content": []}
        case kind:
            raise bad(f"Invalid value: '{kind}'.", param=f"input[{place}].type", code="invalid_value")


def _check_calls_answered(messages: list[Json]) -> None:
    blocks = [block for message in messages for block in message["content"]]
    asked = {block["id"] for block in blocks if block["type"] == "tool_use"}
    answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    for name in sorted(asked - answered):
        raise bad(f"No tool output found for function call {name}.", param="input")
    for name in sorted(answered - asked):
        raise bad(f"No tool call found for function call output with call_id {name}.", param="input")


def _items(sim: Simulator, said: Said, status: str) -> Iterator[Json]:
    for block in said.output.blocks:
        if block["type"] == "text":
            part = {"type": "output_text", "text": block["text"], "annotations": [], "logprobs": []}
            yield {
                "type": "message",
                "id": sim.new_id("msg_"),
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        elif block["type"] == "tool_use":
            yield {
                "type": "function_call",
                "id": sim.new_id("fc_"),
                "call_id": block.get("id") or sim.new_id("call_"),
                "name": block["name"],
                "arguments": call_arguments(block),
                "status": status,
            }


def _usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.prompt_tokens,
        "input_tokens_details": {"cached_tokens": said.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": said.output.tokens,
        "output_tokens_details": {"reasoning_tokens": said.output.thinking_tokens},
        "total_tokens": said.prompt_tokens + said.output.tokens,
    }
