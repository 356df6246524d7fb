"""Answering a Messages request: the prompt is ready, the model speaks, the answer is signed and billed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.brains import ModelPrompt, NoSummary, SummaryRequest, text
from sevenfold.lab.simulator.cache import Billing, CachePlan, fingerprint
from sevenfold.lab.simulator.compaction import signed_block, threshold, trigger_of
from sevenfold.lab.simulator.conversation import PromptPart
from sevenfold.lab.simulator.errors import invalid, too_long
from sevenfold.lab.simulator.output import Output, Room, limit
from sevenfold.lab.simulator.parameters import BINDING, THRESHOLD
from sevenfold.lab.simulator.prepare import PreparedRequest
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.thinking import Bindings, ThinkingRun, Thought
from sevenfold.lab.simulator.tokens import BlockDigest, chained, digest

Json = Mapping[str, Any]


class FinishedMessage(Struct, frozen=True):
    """A finished message and the cache entries that come with it."""

    message: dict[str, Any]
    plans: tuple[CachePlan, ...]


class ModelTurn(Struct, frozen=True):
    """What one call of the model said and cost."""

    blocks: tuple[Json, ...]
    """What goes out, signed."""
    output: Output
    plan: CachePlan


def answer(sim: Simulator, ready: PreparedRequest) -> FinishedMessage:
    """Answer a request that passed every check."""
    check_fits(ready)
    if ready.body.get("compaction") is not None:
        return _compact(sim, ready)
    edit = threshold(ready.body.get("context_management"))
    if edit is not None and ready.tokens >= trigger_of(edit):
        return _compact_and_go_on(sim, ready, edit)
    turn = _speak(sim, ready)
    iterations = [_iteration("message", turn)] if THRESHOLD in ready.dialect.betas else None
    return FinishedMessage(_message(sim, ready, turn, turn.blocks, iterations), (turn.plan,))


def check_fits(ready: PreparedRequest) -> None:
    """Raise when the prompt, or on older models the prompt with the answer, exceeds the window."""
    window, asked = ready.window, ready.body["max_tokens"]
    if ready.tokens > window:
        raise too_long(ready.tokens, window)
    if not ready.profile.output_may_overrun and ready.tokens + asked > window:
        raise invalid(
            f"input length and `max_tokens` exceed context limit: {ready.tokens} + {asked} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )


def messages_of(items: Sequence[PromptPart]) -> list[Json]:
    """Items put together to messages again."""
    grouped = groupby(items, key=lambda item: (item.message, item.role))
    return [{"role": role, "content": [item.block for item in run]} for (_, role), run in grouped]


def _speak(sim: Simulator, ready: PreparedRequest) -> ModelTurn:
    body, profile = ready.body, ready.profile
    plan = sim.cache.plan((*ready.head, *ready.shown), ready.salts, profile.cache, sim.clock.now())
    if body["max_tokens"] == 0:
        return ModelTurn((), Output((), "max_tokens", None, 0, 0), plan)
    prompt = ModelPrompt(
        model=body["model"],
        system=system_text(body),
        tools=body.get("tools") or (),
        messages=messages_of(ready.shown),
        max_tokens=body["max_tokens"],
        body=body,
    )
    reply = sim.brain.reply(prompt)
    if (body.get("thinking") or {}).get("type") == "disabled":
        spoken = [block for block in reply.blocks if block["type"] not in ("thinking", "redacted_thinking")]
        reply = replace(reply, blocks=spoken)
    room = Room(body["max_tokens"], ready.window - ready.tokens)
    output = limit(reply, body.get("stop_sequences") or (), room, sim.scales.counter, profile.tokenizer)
    return ModelTurn(tuple(_sign(sim, ready, output.blocks)), output, plan)


def _sign(sim: Simulator, ready: PreparedRequest, blocks: Sequence[Json]) -> Iterator[Json]:
    """The blocks with signatures and ids, each thinking block bound to all that stands before it."""
    display = (ready.body.get("thinking") or {}).get("display")
    shows = display in ("summarized", "updates") or (display is None and not ready.profile.thinking.bound)
    at = ready.bindings
    for place, block in enumerate(blocks):
        size = sim.scales.counter.tokens(sim.scales.counter.measure(block), ready.profile.tokenizer)
        if block["type"] == "thinking":
            words = str(block["thinking"]) if shows else ""
            seal, at = sim.binder.sign(Thought(words, size), at, ready.talk, ready.profile.name)
            yield {"type": "thinking", "thinking": words, "signature": seal}
        elif block["type"] == "redacted_thinking":
            seal, at = sim.binder.sign(Thought("", size), at, ready.talk, ready.profile.name)
            yield {"type": "redacted_thinking", "data": seal}
        else:
            done = _with_id(block, at, place)
            piece = sim.scales.weigh(done, ready.profile.tokenizer, "assistant")
            at = replace(at, prefixes=tuple(chained(prefix, piece.digest) for prefix in at.prefixes))
            yield done


def _with_id(block: Json, at: Bindings, place: int) -> Json:
    if block["type"] != "tool_use" or block.get("id"):
        return block
    name = digest(at.prefixes[-1], place.to_bytes(4, "big")).hex()[:24]
    return {"type": "tool_use", "id": f"toolu_{name}", "name": block["name"], "input": block["input"]}


def _compact(sim: Simulator, ready: PreparedRequest) -> FinishedMessage:
    """Summarise on demand: the answer is the signed block alone, and the cost stands in an iteration."""
    body, profile = ready.body, ready.profile
    plan = sim.cache.plan((*ready.head, *ready.shown), ready.salts, profile.cache, sim.clock.now())
    summary = _summary(sim, ready, (body["compaction"].get("instructions") or "").strip() or None)
    size = sim.scales.counter.text(summary, profile.tokenizer) if isinstance(summary, str) else 0
    if isinstance(summary, str) and size > body["max_tokens"]:
        summary, size = NoSummary("max_tokens"), body["max_tokens"]
    if isinstance(summary, str) and ready.tokens + size > ready.window:
        summary = NoSummary("model_context_window_exceeded")
    blocks: tuple[Json, ...] = ()
    if isinstance(summary, str):
        blocks = (signed_block(summary, ready.talk, ready.bindings, sim.binder, profile),)
    reason = "compaction" if isinstance(summary, str) else summary.stop_reason
    spent = ModelTurn(blocks, Output(blocks, reason, None, size, 0), plan)
    free = replace(
        spent, output=replace(spent.output, tokens=0), plan=replace(plan, billing=Billing(0, 0, 0, 0))
    )
    message = _message(sim, ready, free, blocks, [_iteration("compaction", spent)])
    return FinishedMessage(message, (plan,))


def _compact_and_go_on(sim: Simulator, ready: PreparedRequest, edit: Json) -> FinishedMessage:
    """Summarise at a threshold, then answer from the summary, unless the request asks for a pause."""
    plan = sim.cache.plan((*ready.head, *ready.shown), ready.salts, ready.profile.cache, sim.clock.now())
    summary = _summary(sim, ready, edit.get("instructions"))
    block: dict[str, Any] = {"type": "compaction", "content": summary if isinstance(summary, str) else None}
    size = sim.scales.counter.text(block["content"] or "", ready.profile.tokenizer)
    spent = ModelTurn((block,), Output((block,), "compaction", None, size, 0), plan)
    costs = _iteration("compaction", spent)
    if isinstance(summary, str):
        ready = _from_summary(sim, ready, block)
        if edit.get("pause_after_compaction"):
            nothing = replace(plan, billing=Billing(0, 0, 0, 0))
            paused = replace(spent, output=replace(spent.output, tokens=0), plan=nothing)
            return FinishedMessage(_message(sim, ready, paused, (block,), [costs]), (plan,))
    turn = _speak(sim, ready)
    iterations = [costs, _iteration("message", turn)]
    return FinishedMessage(_message(sim, ready, turn, (block, *turn.blocks), iterations), (plan, turn.plan))


def _from_summary(sim: Simulator, ready: PreparedRequest, block: Json) -> PreparedRequest:
    """The prompt that is left when a summary has taken the place of all messages."""
    piece = sim.scales.weigh(block, ready.profile.tokenizer, "assistant")
    sized = BlockDigest(piece.digest, piece.tokens + sim.scales.counter.per_message)
    shown = PromptPart("summary", "user", "compaction", text(str(block["content"])), sized, None, 0, 0)
    prefix = chained(digest(*ready.talk.seals), piece.digest)
    return replace(
        ready, shown=(shown,), bindings=Bindings(ready.bindings.findings, (prefix,), ThinkingRun())
    )


def _summary(sim: Simulator, ready: PreparedRequest, instructions: str | None) -> str | NoSummary:
    request = SummaryRequest(
        ready.body["model"], system_text(ready.body), messages_of(ready.shown), instructions
    )
    return sim.summarise(request) or NoSummary()


def system_text(body: Json) -> str:
    """The system prompt as plain text."""
    system = body.get("system") or ""
    return system if isinstance(system, str) else "\n".join(str(block["text"]) for block in system)


def _message(
    sim: Simulator,
    ready: PreparedRequest,
    turn: ModelTurn,
    blocks: Sequence[Json],
    iterations: list[Json] | None,
) -> dict[str, Any]:
    body = ready.body
    print_ = fingerprint(ready.talk, ready.salts.root.hex(), ready.salts.system + ready.salts.messages)
    message_id = sim.new_id("msg_")
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(blocks),
        "stop_reason": turn.output.stop_reason,
        "stop_sequence": turn.output.stop_sequence,
        "stop_details": None,
        "container": None,
        "usage": _usage(ready, turn, iterations),
        "diagnostics": sim.diagnosis.explain(body.get("diagnostics"), print_),
    }
    sim.diagnosis.remember(message_id, print_)
    if BINDING in ready.dialect.betas and ready.profile.thinking.modes:
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
        "cache_creation_input_tokens": billing.written,
        "cache_read_input_tokens": billing.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billing.write_5m,
            "ephemeral_1h_input_tokens": billing.write_1h,
        },
    }


def _iteration(kind: str, turn: ModelTurn) -> Json:
    return {"type": kind, **_tokens(turn.plan.billing), "output_tokens": turn.output.tokens}


def count(ready: PreparedRequest) -> dict[str, Any]:
    """The answer to a request to count tokens."""
    counted: dict[str, Any] = {"input_tokens": ready.tokens}
    if ready.body.get("context_management") is not None:
        counted["context_management"] = {"original_input_tokens": ready.original}
    return counted
