"""The part of the Responses API that a client with its own history needs: text, calls, streams, compaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator import openai
from sevenfold.lab.simulator.brains import Json, NoSummary, SummaryRequest
from sevenfold.lab.simulator.errors import ApiError, invalid
from sevenfold.lab.simulator.openai import OpenAiReply, OpenAiRequest, OpenAiTool
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.thinking import OpaqueSeal
from sevenfold.wire.responses_events import ID_PREFIXES, call_item, response_events, text_item

OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."
SEALED = "reasoning.encrypted_content"
TRIGGER = "compaction_trigger"
"""An item type that, as the last item of the input, asks for nothing but a summary."""
STATEFUL = ("previous_response_id", "conversation")
COMPACT_FIELDS = frozenset(
    {"model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options"}
    | {"prompt_cache_retention", "service_tier", "image"}
)

COUNT_FIELDS = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"}
    | {"conversation", "previous_response_id", "truncation", "personality"}
)


class _Management(Struct):
    type: str
    compact_threshold: int | None = None


class _ResponsesBody(Struct):
    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    tools: list[OpenAiTool] | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    background: bool | None = None
    context_management: list[_Management] | None = None


class CompactedInput(Struct, frozen=True):
    """A request whose conversation was summarised before the model is called."""

    request: OpenAiRequest
    """The request with the summary in place of the conversation."""
    item: Json
    """The sealed summary."""
    usage: tuple[int, int, int]
    """Tokens of the prompt, of its cached part and of the summary."""


def respond(sim: Simulator, body: Any) -> dict[str, Any]:
    """Answer a Responses request, or return only a summary if it asks for one; compacts first above its threshold."""
    request = _read(sim, body)
    if request.body["input"] and _kind(request.body["input"][-1]) == TRIGGER:
        compacted = _compacted(sim, request)
        return _response(sim, request, [compacted.item], _usage(*compacted.usage))
    items: Iterable[Json] = ()
    # What a compaction that comes first reads and writes is part of the same bill.
    tokens_before = summary_tokens = 0
    if _passes_threshold(sim, request):
        compacted = _compacted(sim, request)
        items = [compacted.item]
        request = compacted.request
        tokens_before, _, summary_tokens = compacted.usage
    reply = openai.ask(sim, request)
    cut = reply.output.stop_reason in ("max_tokens", "model_context_window_exceeded")
    items = chain(items, _items(sim, request, reply, "incomplete" if cut else "completed"))
    spent = _usage(
        tokens_before + reply.prompt_tokens,
        reply.cached_tokens,
        summary_tokens + reply.output.tokens,
        reply.output.thinking_tokens,
    )
    response = _response(sim, request, items, spent, cut=cut)
    prompt_blocks = openai.weigh(sim, request)
    report = sim.response_diagnosis.explain(
        request.body, response["id"], prompt_blocks, len(request.tools), reply.cached_tokens
    )
    if sim.setup.threads and body.get("store") is not False:
        # The request has the items of the response that it continues as well.
        sim.histories.store(response, _listed(request.body["input"]))
    return response if report is None else {**response, "prompt_cache_diagnostics": report}


def count(sim: Simulator, body: Any) -> dict[str, Any]:
    """Count the tokens of a Responses request's input; raises if they exceed the window."""
    if isinstance(body, dict) and (unknown := sorted(body.keys() - COUNT_FIELDS)):
        raise invalid(f"Unknown parameter: '{unknown[0]}'.", param=unknown[0], code="unknown_parameter")
    blocks = openai.weigh(sim, _read(sim, body))
    return {"object": "response.input_tokens", "input_tokens": sum(block.tokens for block in blocks)}


def _listed(input_field: str | list[Json]) -> list[Json]:
    return [{"role": "user", "content": input_field}] if isinstance(input_field, str) else input_field


def _response(
    sim: Simulator, request: OpenAiRequest, items: Iterable[Json], usage: Json, *, cut: bool = False
) -> dict[str, Any]:
    return {
        "id": sim.new_id("resp_"),
        "object": "response",
        "created_at": int(sim.clock.now()),
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": request.body.get("instructions"),
        "max_output_tokens": request.body.get("max_output_tokens"),
        "model": request.body["model"],
        "output": list(items),
        "parallel_tool_calls": True,
        "previous_response_id": request.body.get("previous_response_id"),
        "store": sim.setup.threads and request.body.get("store") is not False,
        "tool_choice": request.body.get("tool_choice") or "auto",
        "tools": request.body.get("tools") or [],
        "truncation": "disabled",
        "usage": usage,
        "metadata": {},
    }


def _passes_threshold(sim: Simulator, request: OpenAiRequest) -> bool:
    """Whether the request exceeds its compaction threshold; raises if its model does not support one."""
    asks = [
        managed
        for managed in request.body.get("context_management") or ()
        if managed["type"] == "compaction"
    ]
    if not asks or (threshold := asks[-1].get("compact_threshold")) is None:
        return False
    if not request.profile.threshold_compaction:
        message = f"Compaction is not supported with the model '{request.body['model']}'."
        raise invalid(message, param="context_management", code="unsupported_model")
    return sum(block.tokens for block in openai.weigh(sim, request)) > int(threshold)


def _read(sim: Simulator, body: Any) -> OpenAiRequest:
    profile = openai.check_body(sim, body, _ResponsesBody, nested=False)
    for name in STATEFUL:
        if body.get(name) is not None and not (sim.setup.threads and name == "previous_response_id"):
            raise invalid(f"'{name}' is not simulated: send the whole input.", param=name)
    if body.get("prompt_cache_options") and not profile.cache.reports_misses:
        message = f"Unsupported parameter: 'prompt_cache_options' is not supported with this model ({body['model']})."
        raise invalid(message, param="prompt_cache_options", code="unsupported_parameter")
    if body.get("background"):
        message = "'background' is not simulated: leave it out, or stream the response."
        raise invalid(message, param="background", code="unsupported_parameter")
    input_field = body["input"]
    items = _listed(input_field)
    if (previous := body.get("previous_response_id")) is not None:
        items = [*sim.histories.stored(previous), *items]
        body = {**body, "input": items}
    *earlier_items, last_item = items or [{}]  # an input may be empty
    conversation = earlier_items if _kind(last_item) == TRIGGER else items
    messages = [_message(sim, body, item, index) for index, item in enumerate(conversation)]
    _check_calls_answered(messages)
    newest = max(
        (index for index, item in enumerate(conversation) if _kind(item) == "compaction"), default=0
    )
    # Items that a summary replaces may stay in the input, but the model no longer sees them.
    visible_messages = [*filter(_outlives_summary, messages[:newest]), *messages[newest:]]
    if body.get("instructions"):
        visible_messages.insert(
            0, {"role": "system", "content": openai.content_blocks(body["instructions"])}
        )
    return OpenAiRequest(
        body=body,
        profile=profile,
        tools=[openai.tool(tool.get("type"), tool) for tool in body.get("tools") or ()],
        messages=visible_messages,
        max_tokens=body.get("max_output_tokens"),
        overflow=OVERFLOW,
    )


def _kind(item: Any) -> str:
    return str(item.get("type", "message")) if isinstance(item, Mapping) else "message"


def _outlives_summary(message: Json) -> bool:
    """Whether a message is from the user or the system, so that a summary does not replace it."""
    results = any(block["type"] == "tool_result" for block in message["content"])
    return message["role"] != "assistant" and not results


def _message(sim: Simulator, body: Json, item: Json, index: int) -> Json:
    match item.get("type", "message"):
        case "message":
            role = {"developer": "system"}.get(str(item.get("role")), str(item.get("role")))
            return {"role": role, "content": openai.content_blocks(item.get("content"))}
        case "function_call" | "custom_tool_call" as kind:
            call = openai.tool_use(str(item.get("call_id")), kind.partition("_")[0], item)
            return {"role": "assistant", "content": [call]}
        case "function_call_output" | "custom_tool_call_output":
            return openai.tool_result(str(item.get("call_id")), item.get("output"))
        case "reasoning":
            # Reasoning without content is known by its id to a provider that stored it: let it pass.
            if item.get("encrypted_content") is not None:
                _unsealed(sim, body, item, index)
            return {"role": "assistant", "content": []}
        case "compaction":
            summary = _unsealed(sim, body, item, index)
            return {"role": "assistant", "content": openai.content_blocks(summary)}
        case kind:
            raise invalid(f"Invalid value: '{kind}'.", param=f"input[{index}].type", code="invalid_value")


def _unsealed(sim: Simulator, body: Json, item: Json, index: int) -> str:
    """The text of an encrypted item; raises unless the same model made it for the same organisation."""
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str):
        raise openai.missing_parameter(f"input[{index}].encrypted_content")
    seal = sim.binder.open(sealed, OpaqueSeal)
    if seal is None or (seal.model, seal.organisation) != (body["model"], sim.setup.organisation):
        problem = f"The encrypted content {sealed[:4]}...{sealed[-4:]} could not be verified. "
        reason = "Reason: Encrypted content could not be decrypted or parsed."
        raise invalid(problem + reason, code="invalid_encrypted_content")
    return seal.summary


def _check_calls_answered(messages: list[Json]) -> None:
    blocks = [*chain.from_iterable(message["content"] for message in messages)]
    call_ids = {block["id"] for block in blocks if block["type"] == "tool_use"}
    answered_ids = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    for name in sorted(call_ids - answered_ids):
        raise invalid(f"No tool output found for function call {name}.", param="input")
    for name in sorted(answered_ids - call_ids):
        raise invalid(f"No tool call found for function call output with call_id {name}.", param="input")


def _items(sim: Simulator, request: OpenAiRequest, reply: OpenAiReply, status: str) -> Iterator[Json]:
    for block in reply.output.blocks:
        if block["type"] == "thinking":
            reasoning = {"type": "reasoning", "id": sim.new_id("rs_"), "summary": []}
            yield {**reasoning, **_sealed(sim, request, block)}
        elif block["type"] == "text":
            yield text_item(sim.new_id(ID_PREFIXES["text"]), block["text"], status)
        elif block["type"] == "tool_use":
            kind = request.kind(block)
            item_id = sim.new_id(ID_PREFIXES[kind])
            call = {**block, "id": block.get("id") or sim.new_id("call_")}
            yield call_item(item_id, call, kind, status)


def _sealed(sim: Simulator, request: OpenAiRequest, block: Json) -> Json:
    """Encrypted reasoning, if the client asks for it because it keeps its own history."""
    if SEALED not in (request.body.get("include") or ()):
        return {}
    seal = OpaqueSeal(request.body["model"], sim.setup.organisation, str(block["thinking"]))
    return {"encrypted_content": sim.binder.seal(seal)}


def _usage(prompt: int, cached: int, output: int, reasoning: int = 0) -> dict[str, Any]:
    """The `usage` of a response."""
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + output,
    }


def compact(sim: Simulator, body: Any) -> dict[str, Any]:
    """Answer a compaction request with the user's messages and one sealed summary."""
    if unknown := sorted(set(body) - COMPACT_FIELDS if isinstance(body, Mapping) else ()):
        raise invalid(f"Unknown parameter: '{unknown[0]}'.", param=unknown[0], code="unknown_parameter")
    request = _read(sim, body)
    compacted = _compacted(sim, request)
    return {
        "id": sim.new_id("resp_"),
        "object": "response.compaction",
        "created_at": int(sim.clock.now()),
        "output": [*_said_by_user(sim, body["input"]), compacted.item],
        "usage": _usage(*compacted.usage),
    }


def _compacted(sim: Simulator, request: OpenAiRequest) -> CompactedInput:
    """Summarise a conversation; raises if the model cannot, if it is empty or if no summary is made."""
    model = request.body["model"]
    if not request.profile.on_demand_compaction:
        refusal = f"Compaction is not supported with the model '{model}'."
        raise invalid(refusal, param="model", code="unsupported_model")
    if not any(message["content"] for message in request.spoken):
        raise invalid("There is nothing in 'input' to compact.", param="input")
    blocks = openai.weigh(sim, request)
    summary = sim.summarise(SummaryRequest(model, request.system, request.spoken, None))
    if isinstance(summary, NoSummary):
        raise ApiError(500, "server_error", "The server had an error while compacting the conversation.")
    sealed = sim.binder.seal(OpaqueSeal(model, sim.setup.organisation, summary))
    item = {"id": sim.new_id("cmp_"), "type": "compaction", "encrypted_content": sealed}
    outliving = [message for message in request.messages if _outlives_summary(message)]
    summary_message = {"role": "assistant", "content": openai.content_blocks(summary)}
    return CompactedInput(
        replace(request, messages=[*outliving, summary_message]),
        item,
        (
            sum(block.tokens for block in blocks),
            openai.read_cache(sim, request, blocks),
            sim.scales.counter.text(summary, request.profile.tokenizer),
        ),
    )


def _said_by_user(sim: Simulator, conversation: str | list[Json]) -> list[Json]:
    """The user's messages as sent, with ids."""
    if isinstance(conversation, str):
        conversation = [{"role": "user", "content": [{"type": "input_text", "text": conversation}]}]
    from_user = [item for item in conversation if _kind(item) == "message" and item.get("role") == "user"]
    fields = {"type": "message", "status": "completed"}
    return [{"id": sim.new_id("msg_"), **fields, **item} for item in from_user]


def events(response: Json, _: Json, size: int) -> Iterator[bytes]:
    """Yield a finished response as the events of a stream."""
    return response_events(response, size)
