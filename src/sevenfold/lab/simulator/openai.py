"""Code shared by OpenAI's two APIs: checking a request, converting it to the simulator's own form, answering it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.brains import Json, ModelPrompt
from sevenfold.lab.simulator.errors import ApiError, invalid, unknown_model
from sevenfold.lab.simulator.output import Output, limit
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.tokens import WeighedBlock, digest
from sevenfold.profiles import Profile
from sevenfold.wire.openai import CALL_INPUTS, CallKind

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAiTool(Struct):
    """The fields of a tool whose types are checked; Chat Completions nests them under the tool's kind."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    function: OpenAiTool | None = None
    custom: OpenAiTool | None = None


class OpenAiRequest(Struct, frozen=True):
    """A request to either API, in the simulator's own form."""

    body: Json
    profile: Profile
    tools: Sequence[Json]
    """Tools with `type`, `name`, `description` and `input_schema`; custom tools take a text and have no schema."""
    messages: Sequence[Json]
    """Messages with content blocks, including system messages."""
    max_tokens: int | None
    overflow: str
    """The error message of this API for a prompt that is too long."""
    stops: Sequence[str] = ()

    @property
    def system(self) -> str:
        """The text of all system messages."""
        contents = (message["content"] for message in self.messages if message["role"] == "system")
        return "\n".join(str(block.get("text", "")) for block in chain.from_iterable(contents))

    def kind(self, call: Json) -> CallKind:
        """The kind of the called tool: ``custom`` or ``function``."""
        custom = any(tool["name"] == call["name"] for tool in self.tools if tool["type"] == "custom")
        return "custom" if custom else "function"

    @property
    def spoken(self) -> list[Json]:
        """The messages of the user and the model."""
        return [message for message in self.messages if message["role"] != "system"]


class OpenAiReply(Struct, frozen=True):
    """A reply and its cost."""

    output: Output
    prompt_tokens: int
    cached_tokens: int


def ask(sim: Simulator, request: OpenAiRequest) -> OpenAiReply:
    """Ask the brain for a reply; raises if the prompt is larger than the window."""
    body = request.body
    profile = request.profile
    blocks = weigh(sim, request)
    size = sum(block.tokens for block in blocks)
    max_tokens = request.max_tokens or profile.max_output
    prompt = ModelPrompt(body["model"], request.system, request.tools, request.spoken, max_tokens, body)
    reply = sim.think(prompt)
    max_tokens = min(max_tokens, profile.max_output)
    room = profile.window - size
    output = limit(reply, request.stops, max_tokens, room, sim.scales.counter, profile.tokenizer)
    read = read_cache(sim, request, blocks)
    if (reported := reply.usage) is not None:
        fresh = size - read if reported.input is None else reported.input
        read = read if reported.cache_read is None else reported.cache_read
        size = fresh + read + (reported.cache_write or 0)
        output = replace(output, tokens=output.tokens if reported.output is None else reported.output)
    return OpenAiReply(output, size, read)


def weigh(sim: Simulator, request: OpenAiRequest) -> list[WeighedBlock]:
    """Weigh the blocks of a prompt; raises if they do not fit the window."""
    scales = sim.scales
    profile = request.profile
    blocks = [scales.weigh(tool, profile.tokenizer, "tools") for tool in request.tools]
    for message in request.messages:
        extra = scales.counter.per_message
        for block in message["content"]:
            name, tokens = scales.weigh(block, profile.tokenizer, message["role"])
            blocks.append(WeighedBlock(name, tokens + extra))
            extra = 0
    size = sum(block.tokens for block in blocks)
    if size > profile.window:
        overflow = request.overflow.format(window=profile.window, tokens=size)
        param = "messages" if "messages" in request.body else "input"
        raise invalid(overflow, param=param, code="context_length_exceeded")
    return blocks


def read_cache(sim: Simulator, request: OpenAiRequest, blocks: Sequence[WeighedBlock]) -> int:
    """Return how many tokens of a prompt were cached, and cache all of it."""
    root = digest(str(request.body["model"]).encode())
    return sim.cache.read(root, blocks, request.profile.cache, sim.clock.now())


def check_body(sim: Simulator, body: Any, shape: type[Struct], *, nested: bool) -> Profile:
    """Check the shape, model and tools of a body; returns the model's profile.

    Unknown fields are allowed, as on the real servers. ``nested`` tools have their definition in a separate field.
    """
    try:
        msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        complaint, _, location = str(error).partition(" - at `$.")
        path = location.rstrip("`")
        if "missing required field" in complaint:
            name = complaint.split("`")[1]
            raise missing_parameter(f"{path}.{name}".lstrip("."), name) from None
        raise invalid(f"Invalid type for '{path}': {complaint}.", param=path, code="invalid_type") from None
    profile = sim.profile(body["model"])
    if profile is None:
        raise unknown_model(body.get("model"))
    for number, tool in enumerate(body.get("tools") or ()):
        _check_tool(tool, f"tools[{number}]", nested=nested)
    return profile


def _check_tool(tool: Json, path: str, *, nested: bool) -> None:
    """Raise if this is not a valid tool of this API, for example if it has another API's shape."""
    kind = _required(tool, "type", path)
    if nested and kind not in CALL_INPUTS:
        message = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
        raise invalid(message, param=f"{path}.type", code="invalid_value")
    if nested:
        tool = _required(tool, kind, path)
        path = f"{path}.{kind}"
    if kind in CALL_INPUTS and not _TOOL_NAME.fullmatch(_required(tool, "name", path)):
        raise invalid(
            f"Invalid '{path}.name': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            param=f"{path}.name",
            code="invalid_value",
        )
    schema_type = (tool.get("parameters") or {"type": "object"}).get("type")
    if kind == "function" and schema_type != "object":
        raise invalid(
            f"Invalid schema for function '{tool['name']}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{schema_type}\"'.",
            param=f"{path}.parameters",
            code="invalid_function_parameters",
        )


def _required(fields: Json, name: str, path: str) -> Any:
    if fields.get(name) is None:
        raise missing_parameter(f"{path}.{name}")
    return fields[name]


def missing_parameter(path: str, param: str = "") -> ApiError:
    """The error for a missing required parameter."""
    message = f"Missing required parameter: '{path}'."
    return invalid(message, param=param or path, code="missing_required_parameter")


def unsupported_value(
    value: object, supported: Iterable[str], param: str, code: str | None = None
) -> ApiError:
    """The error for a parameter whose value is none of the known ones."""
    names = ", ".join(f"'{name}'" for name in supported)
    message = f"Invalid value: '{value}'. Supported values are: {names}."
    return invalid(message, param=param, code=code)


def tool_use(call_id: Any, kind: str, call: Json) -> Json:
    """Convert a tool call to a content block; input that is no JSON object is kept as text under its field's name."""
    raw_input = call.get(CALL_INPUTS[kind])
    decoded = None
    if kind == "function":
        with suppress(msgspec.DecodeError):
            decoded = msgspec.json.decode(str(raw_input or "{}"))
    decoded = decoded if isinstance(decoded, dict) else {CALL_INPUTS[kind]: str(raw_input or "")}
    return {"type": "tool_use", "id": call_id, "name": call.get("name"), "input": decoded}


def tool_result(call_id: Any, content: Any) -> Json:
    """The message with a tool result."""
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content_blocks(content)}
    return {"role": "user", "content": [result]}


def tool(kind: Any, definition: Json) -> Json:
    """Convert a tool to the simulator's own form."""
    return {
        "type": kind,
        "name": definition.get("name"),
        "description": definition.get("description"),
        "input_schema": definition.get("parameters"),
    }


def content_blocks(content: Any) -> list[Json]:
    """Convert a message's content, from either API, to blocks."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise invalid("Invalid type for 'content': expected a string or an array.", param="content")
    return [_block(part) for part in content if isinstance(part, dict)]


def _block(part: Json) -> Json:
    if "text" in part:
        return {"type": "text", "text": str(part["text"])}
    return {"type": "image" if "image_url" in part else "document", "source": part}
