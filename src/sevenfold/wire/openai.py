"""What requests and answers of OpenAI's two APIs have in common: fields, tools, contents, usage.

Usage is counted differently: in OpenAI's APIs cached tokens are part of the prompt, in the Messages API they are
counted separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from sevenfold.errors import InputError, RequestRefused
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, read_fields, tool_input
from sevenfold.record.usage import counted
from sevenfold.record.wire import SERVER_CALLS

Json = Mapping[str, Any]
CallKind = Literal["function", "custom"]
"""The kinds of tools that a program offers."""

SAME = ("temperature", "top_p")
"""Fields with the same name and meaning in all APIs."""
EXPRESSED = frozenset(SAME) | (
    {"model", "max_tokens", "system", "messages", "tools", "tool_choice", "stop_sequences", "output_config"}
)
DROPPED_FIELDS = frozenset(
    {"stream", "thinking", "cache_control", "diagnostics", "metadata", "service_tier", "speed"}
    | {"inference_geo", "user_profile_id", "workspace_id"}
)
"""Fields that are dropped because they do not change the question."""

CALL_INPUTS: Mapping[str, str] = {"custom": "input", "function": "arguments"}
"""The field that holds a call's input as text, by the kind of its tool."""
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def expressible(body: bytes, api: str, also: frozenset[str] = frozenset()) -> Json:
    """The decoded request, with its system prompt as text, and tools of the API's own as bytes.

    Raises `RequestRefused` for fields that ``api`` cannot express, except those in ``also``.
    """
    fields = msgspec.json.decode(body)
    tools = fields.get("tools") or []
    if any(_is_of_the_api(tool) for tool in tools):
        written = msgspec.json.decode(body, type=_Tools).tools
        fields["tools"] = [
            raw if _is_of_the_api(tool) else tool for tool, raw in zip(tools, written, strict=True)
        ]
    if foreign := sorted(set(fields) - EXPRESSED - DROPPED_FIELDS - also):
        raise RequestRefused(f"{api} does not support {', '.join(foreign)}: leave it out for this model")
    return {**fields, "system": text_of(fields.get("system") or "", "system")}


def encoded(**fields: Any) -> bytes:
    """A request body with these fields; None values are left out."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


class _Tools(Struct, frozen=True):
    tools: list[Raw]


_ANTHROPICS_TOOL = re.compile(r"\w+_20\d{6}")
"""How Anthropic names the types of the tools that run on its servers: with a date."""


def _is_of_the_api(tool: Json) -> bool:
    """Whether a tool is neither a function nor one that runs at Anthropic: only the provider knows its fields."""
    kind = tool.get("type") or "custom"
    return kind != "custom" and _ANTHROPICS_TOOL.fullmatch(kind) is None


def tool_fields(fields: Json, wrapped: Callable[[Json], Json], defaults: Mapping[str, Any] = {}) -> Json:
    """The tools in their order and the tool choice; ``wrapped`` puts a function, or its name, into the API's form."""
    tools: list[Any] = []
    for tool in fields.get("tools") or ():
        is_of_the_api = isinstance(tool, Raw)
        tools.append(tool if is_of_the_api else wrapped({**defaults, **function(tool)}))
    written: dict[str, Any] = {"tools": tools or None}
    if choice := fields.get("tool_choice"):
        written["tool_choice"] = CHOICES.get(choice["type"]) or wrapped({"name": choice["name"]})
        if choice.get("disable_parallel_tool_use"):
            written["parallel_tool_calls"] = False
    return written


def effort_and_schema(fields: Json) -> tuple[str | None, Json | None]:
    """The reasoning effort, and the schema that the answer must follow."""
    output = fields.get("output_config") or {}
    schema = {"name": "answer", "schema": output["format"]["schema"]} if output.get("format") else None
    return output.get("effort") or None, schema


def text_of(content: str | Sequence[Json], path: str) -> str:
    """The text of content that may contain only text; raises `RequestRefused` for anything else."""
    if isinstance(content, str):
        return content
    for index, block in enumerate(content):
        if block["type"] != "text":
            raise inexpressible(block, f"{path}.{index}")
    return "\n\n".join(str(block["text"]) for block in content)


def function(tool: Json) -> dict[str, Any]:
    """A tool definition as an OpenAI function; raises `RequestRefused` for a tool that runs at Anthropic."""
    if tool.get("type") not in (None, "custom"):
        raise RequestRefused(
            f"the tool {tool.get('name') or tool['type']} runs on Anthropic's servers: leave it out for this model"
        )
    definition = {"name": tool["name"], "parameters": tool["input_schema"]}
    return definition | {key: tool[key] for key in ("description", "strict") if key in tool}


def from_function(tool: Json) -> Json:
    """A tool definition from a function of either OpenAI API; any other definition is returned unchanged."""
    if tool.get("type") != "function":
        return tool
    declared = tool.get("function", tool)
    if not isinstance(declared, Mapping) or not declared.get("name"):
        raise InputError(
            'a tool of type "function" has a name: {"type": "function", "function": {"name": …}}'
        )
    definition = {key: declared[key] for key in ("name", "description") if declared.get(key) is not None}
    definition["input_schema"] = declared.get("parameters") or {"type": "object", "properties": {}}
    return definition if declared.get("strict") is None else definition | {"strict": declared["strict"]}


def image_url(source: Json) -> str:
    """The URL of an image or a document, possibly a data URL; empty if the provider stores it."""
    if source.get("type") == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return str(source.get("url", ""))


def result_parts(block: Json) -> tuple[str, list[Json]]:
    """The text of a tool result, and its other parts, which a tool message cannot contain."""
    parts = blocks_of(block.get("content") or "")
    texts: list[str] = []
    others: list[Json] = []
    for part in parts:
        if part["type"] == "text":
            texts.append(str(part["text"]))
        else:
            others.append(part)
    return "\n\n".join(texts), others


def blocks_of(content: str | Sequence[Json]) -> list[Json]:
    """The content of a message or a result as blocks, without those that only Anthropic's servers can read."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(chain.from_iterable(map(in_words, content)))


def in_words(block: Json) -> Iterator[Json]:
    """A block of the Messages API without a counterpart, as text; any other block unchanged."""
    match block:
        case {"type": "search_result", "title": title, "source": source, "content": results}:
            text = "\n".join(str(part["text"]) for part in results)
            yield {"type": "text", "text": f"{title} ({source})\n{text}"}
        case {"type": "document", "source": {"type": "text", "data": plain}}:
            yield {"type": "text", "text": plain}
        case {"type": "document", "source": {"type": "content", "content": inside}}:
            yield from blocks_of(inside)
        case {"type": "compaction", "content": str() as summary}:
            yield {"type": "text", "text": summary}
        case {"type": "tool_reference" | "browser_state"}:
            yield {"type": "text", "text": msgspec.json.encode(block).decode()}
        case {"type": str() as kind} if kind in SERVER_CALLS or kind.endswith("_tool_result"):
            return  # the model's own text has the outcome
        case {"type": "tool_addition" | "tool_removal"}:
            return  # the request lists the tools that there are now
        case _:
            yield block


def is_sealed(block: Json) -> bool:
    """Whether it is a summary that only the Responses API can read; a readable one is always sent with it."""
    return block["type"] == "compaction" and block.get("content") is None and "encrypted_content" in block


def inexpressible(block: Json, path: str) -> RequestRefused:
    """The error for a block without a counterpart in this API."""
    return RequestRefused(f"{path}: this API has no {block['type']} blocks; leave it out for this model")


def tool_use(id_: str, name: str, arguments: str) -> Block:
    """A tool call as a block."""
    arguments_json = Raw(tool_input(arguments))
    fields = {"type": "tool_use", "id": id_, "name": name, "input": arguments_json}
    return Block("tool_use", blocks.encode_json(fields), id_)


def call_input(block: Json, kind: CallKind) -> dict[str, str]:
    """The input of a tool call as OpenAI sends it: plain text for a custom tool, JSON for a function."""
    value = block["input"]
    if kind == "custom" and set(value) == {"input"}:
        return {CALL_INPUTS[kind]: str(value["input"])}
    return {CALL_INPUTS[kind]: msgspec.json.encode(value).decode()}


def thinking(text: str) -> Block:
    """Reasoning without a signature, as a block."""
    fields = {"type": "thinking", "thinking": text, "signature": ""}
    return Block("thinking", blocks.encode_json(fields))


def usage(reported: Raw) -> Raw:
    """OpenAI's usage, whose prompt includes cached tokens, in the format of the Messages API.

    Each OpenAI API has its own names. A missing or invalid count becomes 0: the answer should not be lost for that.
    """
    counts_reported = read_fields(reported)
    prompt = counted(counts_reported, "prompt_tokens") or counted(counts_reported, "input_tokens")
    split = _details(counts_reported, "prompt_tokens_details", "input_tokens_details")
    # Some servers report cached tokens outside the details.
    hit = min(
        counted(split, "cached_tokens") or counted(counts_reported, "prompt_cache_hit_tokens"), prompt
    )
    stored = min(counted(split, "cache_write_tokens"), prompt - hit)
    counts: dict[str, Any] = {
        "input_tokens": prompt - hit - stored,
        "cache_creation_input_tokens": stored,
        "cache_read_input_tokens": hit,
        "output_tokens": counted(counts_reported, "completion_tokens")
        or counted(counts_reported, "output_tokens"),
    }
    written = _details(counts_reported, "completion_tokens_details", "output_tokens_details")
    if written.get("reasoning_tokens") is not None:
        counts["output_tokens_details"] = {"thinking_tokens": counted(written, "reasoning_tokens")}
    return Raw(blocks.encode_json(counts))


def _details(fields: Json, *names: str) -> Json:
    """The breakdown of a count; empty if there is none."""
    return next((split for name in names if isinstance(split := fields.get(name), dict)), {})
