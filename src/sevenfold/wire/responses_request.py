"""The Responses API: translates requests of the Messages API.

The whole history is sent each time and nothing is stored at the provider. A model's reasoning comes back encrypted, as
a redacted thinking block with its own id, and is sent back unchanged; so is a summary made by the provider, which is a
compaction item. So are tools and items that only this API has: they keep their bytes and their place. Tools, histories
and structures of the Messages API that Chat Completions cannot express are refused here for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sevenfold.errors import RequestRefused
from sevenfold.record.sendable import TAKEN_KINDS
from sevenfold.wire import openai
from sevenfold.wire.openai import Json


def responses_request(
    body: bytes, *, stream: bool, cache_key: str = "", previous: str | None = None, covered: int = 0
) -> bytes:
    """The equivalent Responses request body.

    With ``previous`` the provider is to store the response. If it is not empty, it names the response that is
    continued, and the first ``covered`` messages are left out, because the provider has them.
    """
    fields = openai.expressible(body, "The Responses API")
    fields = {**fields, "messages": fields["messages"][covered:]}
    if fields.get("stop_sequences"):
        raise RequestRefused("The Responses API has no stop sequences: leave them out for this model")
    effort, schema = openai.effort_and_schema(fields)
    return openai.encoded(
        model=fields["model"],
        store=previous is not None,
        previous_response_id=previous or None,
        prompt_cache_key=cache_key or None,
        prompt_cache_options=_cache_options(fields),
        include=["reasoning.encrypted_content"],
        instructions=fields["system"] or None,
        **openai.tool_fields(fields, lambda function: {"type": "function", **function}, {"strict": False}),
        reasoning={"effort": effort} if effort else None,
        text={"format": {"type": "json_schema", **schema}} if schema else None,
        **{name: fields.get(name) for name in openai.SAME},
        max_output_tokens=fields["max_tokens"],
        input=_input(fields),
        stream=stream or None,
    )


def _cache_options(fields: Json) -> Json | None:
    """The options that ask how the cache fared since an earlier response; None if the request does not ask."""
    compared = (fields.get("diagnostics") or {}).get("previous_message_id")
    return {"comparison_response_id": compared} if compared else None


def compact_request(body: bytes, cache_key: str = "") -> bytes:
    """The request body that asks the provider to summarise the same conversation.

    It contains neither tools nor instructions for the summary: the provider decides what that contains.
    """
    fields = openai.expressible(body, "The Responses API", frozenset({"compaction"}))
    if fields["compaction"].get("instructions"):
        raise RequestRefused("The Responses API's compaction takes no instructions: leave them out")
    return openai.encoded(
        model=fields["model"],
        prompt_cache_key=cache_key or None,
        instructions=fields["system"] or None,
        input=_input(fields),
    )


def _input(fields: Json) -> list[Json]:
    items: list[Json] = []
    for index, message in enumerate(fields["messages"]):
        items += _items(message, f"messages.{index}")
    return items


def _items(message: Json, path: str) -> Iterator[Json]:
    """The items for a message: neighbouring texts and images share one, every other block has its own."""
    role = message["role"]
    content: list[Json] = []
    for index, block in enumerate(openai.blocks_of(message["content"])):
        block_path = f"{path}.content.{index}"
        if (part := _part(block, role)) is not None:
            content.append(part)
            continue
        if content:
            yield {"role": role, "content": content}
            content = []
        yield from _item(block, role, block_path)
    if content:
        yield {"role": role, "content": content}


def _part(block: Json, role: str) -> Json | None:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        case {"type": "image" | "document" as kind, "source": {"type": "file", "file_id": file}}:
            return {"type": "input_image" if kind == "image" else "input_file", "file_id": file}
        case {"type": "image", "source": source} if url := openai.image_url(source):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "document", "source": {"type": "url", "url": url}}:
            return {"type": "input_file", "file_url": url}
        case {"type": "document", "source": source} if url := openai.image_url(source):
            named = {"filename": block.get("title") or "document.pdf"}
            return {"type": "input_file", **named, "file_data": url}
        case _:
            return None


def _unmarked(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _item(block: Json, role: str, path: str) -> Iterator[Json]:
    match block["type"]:
        case "tool_use":
            arguments = msgspec.json.encode(block["input"]).decode()
            named = {"call_id": block["id"], "name": block["name"]}
            yield {"type": "function_call", **named, "arguments": arguments}
        case "tool_result":
            text, media = openai.result_parts(block)
            parts = [_part(medium, "user") for medium in media]
            if None in parts:
                raise openai.inexpressible(media[parts.index(None)], path)
            output = [{"type": "input_text", "text": text}, *parts] if parts else text
            yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}
        case "redacted_thinking" if "id" in block:
            reasoned = {"id": block["id"], "encrypted_content": block["data"]}
            yield {"type": "reasoning", **reasoned, "summary": []}
        case "thinking" | "redacted_thinking":
            return
        case "compaction" if openai.is_sealed(block):
            yield _unmarked(block)
        case kind if role == "assistant" and kind not in TAKEN_KINDS:
            yield _unmarked(block)  # an item of the API's own, as it came in an answer
        case _:
            raise openai.inexpressible(block, path)
