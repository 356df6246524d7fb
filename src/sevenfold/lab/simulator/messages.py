"""Answering a Messages request: compact if due, ask the brain, then sign and bill its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.rules.base import blocks_of, is_directive
from sevenfold.lab.simulator.brains import Json, ModelPrompt, ModelReply, NoSummary, SummaryRequest, text
from sevenfold.lab.simulator.cache import Billing, CachePlan
from sevenfold.lab.simulator.errors import invalid
from sevenfold.lab.simulator.output import Output, limit
from sevenfold.lab.simulator.parameters import BINDING, THRESHOLD
from sevenfold.lab.simulator.preparation import PreparedRequest
from sevenfold.lab.simulator.prompt import PromptPart
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.thinking import Bindings, SummarySeal, ThinkingRun
from sevenfold.lab.simulator.tokens import chained, digest, value_digest
from sevenfold.lab.simulator.tool_search import is_search, loaded_tools, result_of
from sevenfold.profiles import COMPACT

DEFAULT_TRIGGER = 150_000
"""Tokens at which threshold compaction starts if the request sets no trigger."""
FinishedMessage = tuple[dict[str, Any], Sequence[CachePlan]]
"""A message, and the cache plans to commit with it."""


class ModelTurn(Struct, frozen=True):
    """The output and the cost of one model call."""

    output: Output
    """The output, signed."""
    plan: CachePlan

    def free(self) -> ModelTurn:
        """A copy at no cost, because a summary's cost is reported in its own iteration."""
        return replace(
            self, output=replace(self.output, tokens=0), plan=replace(self.plan, billing=Billing())
        )


def answer(sim: Simulator, ready: PreparedRequest) -> FinishedMessage:
    """Answer a request that passed every check; raises when it does not fit the window."""
    _check_fits(ready)
    if ready.body.get("compaction") is not None:
        return _compact(sim, ready)
    edit = _due_summary(ready.body.get("context_management"), ready.tokens)
    if edit is not None:
        return _compact_and_continue(sim, ready, edit)
    turn = _ask_model(sim, ready)
    iterations = [_iteration("message", turn)] if THRESHOLD in ready.features.betas else None
    return _message(sim, ready, turn, iterations), [turn.plan]


def count(ready: PreparedRequest) -> dict[str, Any]:
    """The answer to a token-counting request."""
    counted: dict[str, Any] = {"input_tokens": ready.tokens}
    if ready.body.get("context_management") is not None:
        counted["context_management"] = {"original_input_tokens": ready.original}
    return counted


def _check_fits(ready: PreparedRequest) -> None:
    """Raise if the prompt, or on older models the prompt plus `max_tokens`, exceeds the window."""
    window = ready.window
    max_tokens = ready.body["max_tokens"]
    if ready.tokens > window:
        raise invalid(f"prompt is too long: {ready.tokens} tokens > {window} maximum")
    if not ready.profile.output_may_overrun and ready.tokens + max_tokens > window:
        raise invalid(
            f"input length and `max_tokens` exceed context limit: {ready.tokens} + {max_tokens} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )


def _messages_of(items: Sequence[PromptPart]) -> list[Json]:
    grouped = groupby(items, key=lambda item: (item.message, item.role))
    return [{"role": role, "content": [item.block for item in run]} for (_, role), run in grouped]


def _system_text(body: Json) -> str:
    system = body.get("system") or ""
    return system if isinstance(system, str) else "\n".join(str(block["text"]) for block in system)


def _plan(sim: Simulator, ready: PreparedRequest) -> CachePlan:
    parts = (*ready.head, *ready.shown)
    return sim.cache.plan(parts, ready.salts, ready.profile.cache, sim.clock.now())


def _ask_model(sim: Simulator, ready: PreparedRequest) -> ModelTurn:
    body = ready.body
    plan = _plan(sim, ready)
    max_tokens = body["max_tokens"]
    if max_tokens == 0:
        return ModelTurn(Output((), "max_tokens", None, 0, 0), plan)
    messages = _messages_of(ready.shown)
    tools = body.get("tools") or ()
    reply = _think(sim, ModelPrompt(body["model"], _system_text(body), tools, messages, max_tokens, body))
    if (body.get("thinking") or {}).get("type") == "disabled":
        spoken = [block for block in reply.blocks if block["type"] not in ("thinking", "redacted_thinking")]
        reply = replace(reply, blocks=spoken)
    stops = body.get("stop_sequences") or ()
    room = ready.window - ready.tokens
    output = limit(reply, stops, max_tokens, room, sim.scales.counter, ready.profile.tokenizer)
    if (reported := reply.usage) is not None:
        billing = plan.billing
        billing = Billing(
            fresh=billing.fresh if reported.input is None else reported.input,
            read=billing.read if reported.cache_read is None else reported.cache_read,
            write_5m=billing.write_5m if reported.cache_write is None else reported.cache_write,
            write_1h=billing.write_1h if reported.cache_write is None else 0,
        )
        plan = replace(plan, billing=billing)
        output = replace(output, tokens=output.tokens if reported.output is None else reported.output)
    return ModelTurn(replace(output, blocks=tuple(_sign(sim, ready, output.blocks))), plan)


def _think(sim: Simulator, prompt: ModelPrompt) -> ModelReply:
    """The model's reply; after a search for tools it continues in the same answer, and sees the tools that match."""
    tools = prompt.tools
    said: list[Json] = []
    while True:
        so_far = [*prompt.messages, {"role": "assistant", "content": said}] if said else prompt.messages
        shown = loaded_tools(tools, so_far)
        reply = sim.think(replace(prompt, messages=so_far, tools=shown))
        searches = False
        for block in reply.blocks:
            if not is_search(block):
                said.append(block)
                continue
            searches = True
            call = {**block, "id": block.get("id") or sim.new_id("srvtoolu_")}
            said += [call, result_of(call, tools)]
        waits = any(block["type"] == "tool_use" for block in said)
        if not searches or waits:
            return replace(reply, blocks=said)


def _sign(sim: Simulator, ready: PreparedRequest, blocks: Sequence[Json]) -> Iterator[Json]:
    """Yield the blocks with signatures and ids, each thinking block bound to everything before it."""
    display = (ready.body.get("thinking") or {}).get("display")
    profile = ready.profile
    shows = display in ("summarized", "updates") or (display is None and not profile.thinking.bound)
    bindings = ready.bindings
    for index, block in enumerate(blocks):
        if block["type"] in ("thinking", "redacted_thinking"):
            redacted = block["type"] == "redacted_thinking"
            shown_text = str(block["thinking"]) if shows and not redacted else ""
            size = sim.scales.counter.block(block, profile.tokenizer)
            seal, bindings = sim.binder.sign(shown_text, size, bindings, ready.prompt, profile.name)
            content = {"data": seal} if redacted else {"thinking": shown_text, "signature": seal}
            yield {"type": block["type"], **content}
        else:
            with_id = _with_id(block, bindings, index)
            weighed = sim.scales.weigh(with_id, profile.tokenizer, "assistant")
            bindings = replace(
                bindings, prefixes=tuple(chained(prefix, weighed.digest) for prefix in bindings.prefixes)
            )
            yield with_id


def _with_id(block: Json, bindings: Bindings, index: int) -> Json:
    if block["type"] != "tool_use" or block.get("id"):
        return block
    name = digest(bindings.prefixes[-1], index.to_bytes(4, "big")).hex()[:24]
    return {"type": "tool_use", "id": f"toolu_{name}", "name": block["name"], "input": block["input"]}


def _compact(sim: Simulator, ready: PreparedRequest) -> FinishedMessage:
    """Compact on demand: the answer is only the signed block, and its cost is reported in an iteration."""
    body = ready.body
    profile = ready.profile
    plan = _plan(sim, ready)
    summary = _summary(sim, ready, (body["compaction"].get("instructions") or "").strip() or None)
    size = sim.scales.counter.text(summary, profile.tokenizer) if isinstance(summary, str) else 0
    if isinstance(summary, str) and size > body["max_tokens"]:
        summary = NoSummary("max_tokens")
        size = body["max_tokens"]
    if isinstance(summary, str) and ready.tokens + size > ready.window:
        summary = NoSummary("model_context_window_exceeded")
    if isinstance(summary, str):
        output = Output((_signed_block(sim, ready, summary),), "compaction", None, size, 0)
    else:
        output = Output((), summary.stop_reason, None, size, 0)
    spent = ModelTurn(output, plan)
    return _message(sim, ready, spent.free(), [_iteration("compaction", spent)]), [plan]


def _compact_and_continue(sim: Simulator, ready: PreparedRequest, edit: Json) -> FinishedMessage:
    """Compact at a threshold, then answer from the summary, unless the request asks for a pause."""
    plan = _plan(sim, ready)
    summary = _summary(sim, ready, edit.get("instructions"))
    block: dict[str, Any] = {"type": "compaction", "content": summary if isinstance(summary, str) else None}
    size = sim.scales.counter.text(block["content"] or "", ready.profile.tokenizer)
    spent = ModelTurn(Output((block,), "compaction", None, size, 0), plan)
    costs = _iteration("compaction", spent)
    if isinstance(summary, str):
        ready = _from_summary(sim, ready, block)
        if edit.get("pause_after_compaction"):
            return _message(sim, ready, spent.free(), [costs]), [plan]
    turn = _ask_model(sim, ready)
    turn = replace(turn, output=replace(turn.output, blocks=(block, *turn.output.blocks)))
    return _message(sim, ready, turn, [costs, _iteration("message", turn)]), [plan, turn.plan]


def _from_summary(sim: Simulator, ready: PreparedRequest, block: Json) -> PreparedRequest:
    """The request with a summary in place of all its messages."""
    name, tokens = sim.scales.weigh(block, ready.profile.tokenizer, "assistant")
    tokens += sim.scales.counter.per_message
    content = text(str(block["content"]))
    shown = PromptPart("summary", "user", "compaction", content, name, tokens, None, 0, 0)
    prefix = chained(digest(*ready.prompt.seals), name)
    bindings = Bindings(ready.bindings.checks, (prefix,), ThinkingRun())
    return replace(ready, shown=(shown,), bindings=bindings)


def _summary(sim: Simulator, ready: PreparedRequest, instructions: str | None) -> str | NoSummary:
    body = ready.body
    messages = _messages_of(ready.shown)
    request = SummaryRequest(body["model"], _system_text(body), messages, instructions)
    return sim.summarise(request) or NoSummary()


def _message(
    sim: Simulator, ready: PreparedRequest, turn: ModelTurn, iterations: list[Json] | None
) -> dict[str, Any]:
    body = ready.body
    message_id = sim.new_id("msg_")
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(turn.output.blocks),
        "stop_reason": turn.output.stop_reason,
        "stop_sequence": turn.output.stop_sequence,
        "stop_details": None,
        "container": None,
        "usage": _usage(ready, turn, iterations),
        "diagnostics": sim.diagnosis.explain(
            body.get("diagnostics"), message_id, ready.prompt, ready.salts
        ),
    }
    if BINDING in ready.features.betas and ready.profile.thinking.modes:
        message["input_transformations"] = list(ready.transformations)
    if body.get("context_management") is not None:
        message["context_management"] = {"applied_edits": list(ready.applied)}
    return message


def _usage(ready: PreparedRequest, turn: ModelTurn, iterations: list[Json] | None) -> dict[str, Any]:
    usage: dict[str, Any] = {
        **_tokens(turn.plan.billing),
        "output_tokens": turn.output.tokens,
        "output_tokens_details": {"thinking_tokens": turn.output.thinking_tokens},
        "server_tool_use": None,
        "service_tier": "standard",
        "speed": ready.body.get("speed") or "standard",
    }
    if iterations is not None:
        usage["iterations"] = iterations
    if ready.deleted:
        usage["cache_deleted_input_tokens"] = ready.deleted
    return usage


def _tokens(billing: Billing) -> dict[str, Any]:
    return {
        "input_tokens": billing.fresh,
        "cache_creation_input_tokens": billing.write_5m + billing.write_1h,
        "cache_read_input_tokens": billing.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billing.write_5m,
            "ephemeral_1h_input_tokens": billing.write_1h,
        },
    }


def _iteration(kind: str, turn: ModelTurn) -> Json:
    return {"type": kind, **_tokens(turn.plan.billing), "output_tokens": turn.output.tokens}


def _signed_block(sim: Simulator, ready: PreparedRequest, summary: str) -> Json:
    """The signed compaction block that can replace all messages of a request."""
    messages = ready.prompt.messages
    profile = ready.profile
    changes = _tool_changes(messages)
    spoken = [message for message in messages if not is_directive(message)]
    seal = SummarySeal(
        profile.name,
        sim.binder.organisation,
        profile.thinking.bound,
        digest(summary.encode()),
        value_digest(changes),
        *ready.prompt.seals,
        ready.bindings.prefixes,
        str(spoken[-1]["role"]),
    )
    signed = {"content": summary, "signature": sim.binder.seal(seal), "tool_changes": changes}
    return {"type": "compaction", **signed}


def _tool_changes(messages: Sequence[Json]) -> list[Json]:
    """The latest addition or removal of each tool in a range of messages."""
    last: dict[str, Json] = {}
    for message in messages:
        for block in blocks_of(message):
            earlier = block.get("tool_changes") or () if block.get("type") == "compaction" else ()
            for change in (*earlier, block):
                if change.get("type") in ("tool_addition", "tool_removal"):
                    tool = change["tool"]
                    name = str(tool.get("name") or (tool.get("definition") or {}).get("name"))
                    last.pop(name, None)
                    last[name] = {key: value for key, value in change.items() if key != "cache_control"}
    return list(last.values())


def _due_summary(config: Json | None, tokens: int) -> Json | None:
    """The edit that asks for compaction at a threshold, if the prompt has reached it; otherwise None."""
    for edit in (config or {}).get("edits") or ():
        if edit["type"] == COMPACT:
            return edit if tokens >= (edit.get("trigger") or {}).get("value", DEFAULT_TRIGGER) else None
    return None
