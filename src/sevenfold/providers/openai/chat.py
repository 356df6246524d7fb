"""A Messages request as a Chat Completions request.

Servers that speak Chat Completions know no content blocks: tool calls stand beside the text, results are
messages of their own, and caching is the server's affair. The translation is a pure function of the
request: the same history gives the same bytes, and a longer one begins with them. What only steers the
provider (cache markers, thinking settings, metadata) is left out; what changes the question is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.errors import InputError, RequestRefused
from sevenfold.record.blocks import THINKING

Json = Mapping[str, Any]

EXPRESSED = frozenset(
    {"model", "max_tokens", "system", "messages", "tools", "tool_choice", "stop_sequences", "output_config"}
)
SILENT = frozenset(
    {"stream", "thinking", "cache_control", "diagnostics", "metadata", "service_tier", "speed"}
    | {"inference_geo", "user_profile_id", "workspace_id"}
)
"""Fields that are left out because the question is the same without them."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(body: bytes, *, stream: bool, room: str, reasoning: str | None) -> bytes:
    """The body of the Chat Completions request that asks the same.

    ``room`` is the server's name for the most tokens it may say; ``reasoning`` its field for what a model
    thought before, None where it takes none.
    """
    asked = decoded(body, "Chat Completions")
    request: dict[str, Any] = {"model": asked["model"]}
    system = text_of(asked.get("system") or "", "system")
    request["messages"] = [{"role": "system", "content": system}] if system else []
    for place, message in enumerate(asked["messages"]):
        request["messages"] += _messages(message, f"messages.{place}", reasoning)
    if asked.get("tools"):
        request["tools"] = [{"type": "function", "function": function(tool)} for tool in asked["tools"]]
    choice = asked.get("tool_choice") or {}
    if choice:
        request["tool_choice"] = CHOICES.get(choice["type"]) or {
            "type": "function",
            "function": {"name": choice["name"]},
        }
    if choice.get("disable_parallel_tool_use"):
        request["parallel_tool_calls"] = False
    if asked.get("stop_sequences"):
        request["stop"] = asked["stop_sequences"]
    wanted = asked.get("output_config") or {}
    if wanted.get("effort"):
        request["reasoning_effort"] = wanted["effort"]
    if wanted.get("format"):
        schema = {"name": "answer", "schema": wanted["format"]["schema"], "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": schema}
    request[room] = asked["max_tokens"]
    if stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(request)


def decoded(body: bytes, api: str, also: frozenset[str] = frozenset()) -> Json:
    """A request decoded, if all that matters in it can be said in that API, which may know more."""
    asked: Json = msgspec.json.decode(body)
    if foreign := sorted(set(asked) - EXPRESSED - SILENT - also):
        raise RequestRefused(f"{api} has nothing like {', '.join(foreign)}: leave it out for this model")
    return asked


def text_of(content: str | Sequence[Json], where: str) -> str:
    """The words of some content that can hold nothing else."""
    if isinstance(content, str):
        return content
    for place, block in enumerate(content):
        if block["type"] != "text":
            raise inexpressible(block, f"{where}.{place}")
    return "\n\n".join(str(block["text"]) for block in content)


def function(tool: Json) -> dict[str, Any]:
    """A tool's definition as a function."""
    if tool.get("type") not in (None, "custom"):
        raise RequestRefused(f"the tool {tool.get('name') or tool['type']} runs at Anthropic: leave it out")
    made = {"name": tool["name"], "parameters": tool["input_schema"]}
    return made | {key: tool[key] for key in ("description", "strict") if key in tool}


def from_function(tool: Json) -> Json:
    """A function, as either of OpenAI's APIs has them, as a tool's definition; any other definition as it is."""
    if tool.get("type") != "function":
        return tool
    told = tool.get("function", tool)
    if not isinstance(told, Mapping) or not told.get("name"):
        raise InputError(
            'a tool of type "function" has a name: {"type": "function", "function": {"name": …}}'
        )
    made = {key: told[key] for key in ("name", "description") if told.get(key) is not None}
    made["input_schema"] = told.get("parameters") or {"type": "object", "properties": {}}
    return made if told.get("strict") is None else made | {"strict": told["strict"]}


def image_url(block: Json, where: str) -> str:
    """The address of an image, which may hold the image itself."""
    source = block["source"]
    if source["type"] == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    if source["type"] == "url":
        return str(source["url"])
    raise inexpressible(block, where)


def result_parts(block: Json, where: str) -> tuple[str, list[Json]]:
    """The words of a tool result, and its images, which a tool's message cannot hold."""
    content = block.get("content") or ""
    if isinstance(content, str):
        return content, []
    words = [part for part in content if part["type"] != "image"]
    return text_of(words, f"{where}.content"), [part for part in content if part["type"] == "image"]


def blocks_of(message: Json) -> Sequence[Json]:
    """The content of a message as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def is_sealed(block: Json) -> bool:
    """Is it a summary that only the Responses API can read? The readable one is always sent with it."""
    return block["type"] == "compaction" and block.get("content") is None and "encrypted_content" in block


def inexpressible(block: Json, where: str) -> RequestRefused:
    """The error for a block that has no counterpart."""
    return RequestRefused(f"{where}: this API has no {block['type']} blocks; leave it out for this model")


def _messages(message: Json, where: str, reasoning: str | None) -> Iterator[Json]:
    match message["role"]:
        case "assistant":
            yield from _assistant(blocks_of(message), where, reasoning)
        case "system":
            yield {"role": "system", "content": text_of(blocks_of(message), where)}
        case _:
            yield from _user(blocks_of(message), where)


def _assistant(blocks: Sequence[Json], where: str, reasoning: str | None) -> Iterator[Json]:
    texts, calls, thoughts = [], [], []
    for place, block in enumerate(blocks):
        if block["type"] == "text":
            texts.append(str(block["text"]))
        elif block["type"] == "tool_use":
            given = msgspec.json.encode(block["input"]).decode()
            called = {"name": block["name"], "arguments": given}
            calls.append({"id": block["id"], "type": "function", "function": called})
        elif block["type"] in THINKING:
            thoughts.append(str(block.get("thinking") or ""))
        else:
            raise inexpressible(block, f"{where}.content.{place}")
    said: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    if calls:
        said["tool_calls"] = calls
    if reasoning and any(thoughts):
        said[reasoning] = "".join(thoughts)
    if texts or calls:
        yield said


def _user(blocks: Sequence[Json], where: str) -> Iterator[Json]:
    parts: list[Json] = []
    for place, block in enumerate(blocks):
        path = f"{where}.content.{place}"
        if block["type"] == "tool_result":
            words, images = result_parts(block, path)
            parts += [_image(image, path) for image in images]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": words}
        elif block["type"] == "text":
            parts.append({"type": "text", "text": block["text"]})
        elif block["type"] == "image":
            parts.append(_image(block, path))
        elif not is_sealed(block):
            raise inexpressible(block, path)
    if all(part["type"] == "text" for part in parts):
        # Many servers' templates take a plain string and nothing else.
        words = "\n\n".join(str(part["text"]) for part in parts)
        if words:
            yield {"role": "user", "content": words}
    else:
        yield {"role": "user", "content": parts}


def _image(block: Json, where: str) -> Json:
    return {"type": "image_url", "image_url": {"url": image_url(block, where)}}
