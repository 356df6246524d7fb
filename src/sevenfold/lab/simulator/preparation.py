"""From a request body to the prompt the model would see: all checks and edits that precede the model call.

Counting tokens and answering share these steps, so both see the same prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.rules import RuleFacts, pending_server_calls, refusals
from sevenfold.lab.rules.base import Json, Turn, inner_blocks, kind_of, turns
from sevenfold.lab.simulator.cache import Salts
from sevenfold.lab.simulator.errors import extra, invalid
from sevenfold.lab.simulator.parameters import BINDING, ApiFeatures, check_parameters
from sevenfold.lab.simulator.prompt import Parts, RequestPrompt, apply_edits, read_prompt, total, visible
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.thinking import Binder, Bindings, SummarySeal, ThinkingCheck
from sevenfold.lab.simulator.tokens import digest, value_digest
from sevenfold.lab.simulator.tool_search import check_search
from sevenfold.profiles import LONG_WINDOW, Profile

SYSTEM_MESSAGES = "mid-conversation-system-2026-04-07"
"""The beta header that Claude Code sends with system messages, even to models not documented to accept them."""
DROPPED = "thinking_dropped"
KEPT_ANYWAY = "thinking_mismatch_allowed"
MAX_TOOL_REFERENCES = 1_000
"""How many distinct tools a `compaction` block can record."""
_CHANGED = {
    "system": "The `system` prompt differs from the one this block was created with.",
    "tools": "The `tools` differ from the ones this block was created with.",
    "messages": "The messages before this block differ from the ones it was created with.",
    "run": "The thinking blocks before this block are not the ones it was created with.",
}


class PreparedRequest(Struct, frozen=True):
    """A request that passed every check, and its prompt."""

    body: Json
    profile: Profile
    features: ApiFeatures
    prompt: RequestPrompt
    """The prompt before any edit."""
    bindings: Bindings
    head: Parts
    """Tools and system."""
    shown: Parts
    """Messages as the model sees them."""
    original: int
    """Tokens before the edits the request asked for."""
    applied: tuple[Json, ...]
    transformations: tuple[Json, ...]
    salts: Salts
    deleted: int = 0
    """Tokens saved by deletions from the cached prefix."""

    @property
    def tokens(self) -> int:
        """The size of the prompt."""
        return total(self.head) + total(self.shown)

    @property
    def window(self) -> int:
        """The model's window; the long one if a beta header asks for it and the model has a price for it."""
        wants_long = self.profile.betas.window_1m in self.features.betas
        priced = any(price.above >= self.profile.window for price in self.profile.prices)
        return LONG_WINDOW if wants_long and priced else self.profile.window


def prepare(sim: Simulator, body: Json, profile: Profile, features: ApiFeatures) -> PreparedRequest:
    """Check a request of valid shape and compute its prompt; raises the error if the server would refuse it."""
    check_parameters(body, profile, features)
    check_search(body, profile)
    _check_rules(body, profile, features)
    prompt = _with_true_sizes(sim, read_prompt(body, sim.scales, profile.tokenizer))
    _check_signed_block(prompt, sim.binder)
    bindings = sim.binder.examine(prompt, profile)
    transformations = _transformations_of_thinking(bindings.checks, body, profile, features, sim)
    dropped = {
        transformation["path"] for transformation in transformations if transformation["type"] == DROPPED
    }
    items = tuple(item for item in prompt.items if item.path not in dropped)
    shown, deleted = visible(items, prompt.messages, profile)
    head = (*prompt.tools, *prompt.system)
    edited, applied = apply_edits(
        total(head), shown, body.get("context_management"), profile, sim.scales, holds=sim.setup.edits_hold
    )
    _check_lifetimes((*head, *edited), sim)
    return PreparedRequest(
        body=body,
        profile=profile,
        features=features,
        prompt=prompt,
        bindings=bindings,
        head=head,
        shown=edited,
        original=total(head) + total(shown),
        applied=applied,
        transformations=transformations,
        salts=_salts(body, profile, features, prompt),
        deleted=deleted,
    )


def _check_lifetimes(parts: Parts, sim: Simulator) -> None:
    """Raise for a marker of one hour if this account may not use it."""
    for part in parts:
        if part.ttl == "1h" and not sim.setup.long_lifetime:
            # No provider documents the wording of this error.
            raise extra(f"{part.path}.cache_control.ephemeral.ttl")


def _check_rules(body: Json, profile: Profile, features: ApiFeatures) -> None:
    facts = RuleFacts.of(profile, strict=features.strict)
    if SYSTEM_MESSAGES in features.betas:
        facts = replace(facts, system_messages=True)
    if body.get("compaction") is not None:
        # A conversation that is to be summarised may end with an answer, whether or not the model accepts prefills.
        facts = replace(facts, prefill=True)
        if not features.counting:
            _check_range(body["messages"])
    broken = refusals(
        body["messages"],
        facts=facts,
        tools=body.get("tools") or (),
        system=body.get("system") or (),
        automatic=body.get("cache_control"),
    )
    if broken:
        refusal = broken[0]
        code = refusal.code if refusal.code.startswith("compaction_") else None
        raise invalid(refusal.message, code=code)


def _with_true_sizes(sim: Simulator, prompt: RequestPrompt) -> RequestPrompt:
    """The prompt with thinking counted in full: what a block shows is a summary of it, or nothing."""
    items = []
    for item in prompt.items:
        tokens = sim.binder.tokens(item) if item.is_thinking else None
        opens = sim.scales.counter.per_message if item.index == 0 else 0
        items.append(item if tokens is None else replace(item, tokens=tokens + opens))
    return replace(prompt, items=tuple(items))


def _transformations_of_thinking(
    checks: Sequence[ThinkingCheck], body: Json, profile: Profile, features: ApiFeatures, sim: Simulator
) -> tuple[Json, ...]:
    """Report blocks that are dropped, or kept although a check failed; raises where a failed check is an error."""
    chosen_behavior = ((body.get("thinking") or {}).get("block_binding") or {}).get(
        "prefix_mismatch_behavior"
    )
    if chosen_behavior:
        mismatch_is_error = chosen_behavior == "error"
    else:
        rule = profile.thinking.on_mismatch
        mismatch_is_error = rule == "error" or (rule == "by_account" and sim.setup.account == "new")
    answer_indices = [
        index for index, message in enumerate(body["messages"]) if message["role"] == "assistant"
    ]
    last_answer = max(answer_indices, default=-1)
    reported: list[Json] = []
    for check in checks:
        if check.reason == "tampered":
            raise invalid(_tampered(check, last_answer))
        if not check.reason:
            continue
        is_mismatch = check.reason == "prefix_binding_mismatch"
        if is_mismatch and mismatch_is_error:
            raise invalid(_mismatch(check, features))
        # Where a mismatch is no error by default, as in old accounts, the block is kept and reported.
        kind = KEPT_ANYWAY if is_mismatch and not chosen_behavior else DROPPED
        reported.append({"type": kind, "path": check.item.path, "reason": check.reason})
    return tuple(reported)


def _tampered(check: ThinkingCheck, last_answer: int) -> str:
    if check.changed == "text" and check.item.message == last_answer:
        return (
            f"{check.item.path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        )
    return f"{check.item.path}: Invalid {_signature_of(check)}"


def _signature_of(check: ThinkingCheck) -> str:
    field = "signature" if check.item.kind == "thinking" else "data"
    return f"`{field}` in `{check.item.kind}` block"


def _mismatch(check: ThinkingCheck, features: ApiFeatures) -> str:
    needs = f" That setting requires the `{BINDING}` value in the `anthropic-beta` header."
    return (
        f"{check.item.path}: Invalid {_signature_of(check)}. "
        "The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        f"{'' if BINDING in features.betas else needs} {_CHANGED[check.changed]}"
    )


def _salts(body: Json, profile: Profile, features: ApiFeatures, prompt: RequestPrompt) -> Salts:
    """What decides about a cache hit besides the prompt itself."""
    default_thinking = {"type": profile.thinking.modes[0] if profile.thinking.bound else None}
    thinking = body.get("thinking") or default_thinking
    output = body.get("output_config") or {}
    blocks: list[Json] = []
    for item in prompt.items:
        blocks += [item.block, *inner_blocks(item.block)]
    # A field that is left out and one that has its default value make no difference.
    message_settings = [
        body.get("tool_choice") or {"type": "auto"},
        [thinking.get("type"), thinking.get("budget_tokens")],
        output.get("effort") or profile.effort,
        output.get("task_budget"),
        body.get("context_management"),
        sorted(features.betas),
        "image"
        in map(kind_of, blocks),  # the first image, and the removal of the last, invalidate messages
    ]
    citations = [item.block.get("citations") for item in prompt.items]
    cites = any(isinstance(config, dict) and config.get("enabled") for config in citations)
    speed = str(body.get("speed") or "standard")
    return Salts(
        root=digest(profile.name.encode(), speed.encode()),
        system=value_digest(cites),
        messages=value_digest(message_settings),
    )


def _check_range(messages: Sequence[Json]) -> None:
    """Raise if the messages of a compaction request cannot be summarised."""
    all_turns = turns(messages)
    blocks = chain.from_iterable(turn.blocks for turn in all_turns if turn.role != "system")
    spoken = [block for block in blocks if block.kind != "compaction"]
    if not spoken:
        code = "nothing_to_summarize"
        message = "`messages` holds no `user` or `assistant` content to summarize."
    elif _unfinished(all_turns[-1]):
        code = "incomplete_turn"
        message = "The compaction request ends on an `assistant` turn that is not finished."
    elif (
        len({block.block.get("name") for block in spoken if block.kind == "tool_use"}) > MAX_TOOL_REFERENCES
    ):
        code = "too_many_tool_references"
        message = "The conversation references more distinct tools than a `compaction` block can record."
    else:
        return
    raise invalid(message, code=f"compaction_{code}")


def _check_signed_block(prompt: RequestPrompt, binder: Binder) -> None:
    """Raise if a signed summary in the prompt is not exactly as the server returned it."""
    for item in prompt.items:
        if item.kind != "compaction" or not item.block.get("signature"):
            continue
        seal = binder.open(item.block["signature"], SummarySeal)
        if seal is None:
            code = "signature_invalid"
            problem = "`signature` does not verify."
        elif seal.content != digest(str(item.block.get("content")).encode()):
            code = "content_mismatch"
            problem = "`content` differs from the text its `signature` recorded."
        elif seal.changes != value_digest(item.block.get("tool_changes")):
            code = "tool_changes_mismatch"
            problem = "`tool_changes` differs from what was returned with the block."
        else:
            continue
        raise invalid(f"{item.path}: The `compaction` block's {problem}", code=f"compaction_{code}")


def _unfinished(turn: Turn) -> bool:
    """Whether an assistant turn still waits for a tool result, from the client or the server."""
    if turn.role != "assistant":
        return False
    return bool(pending_server_calls(turn)) or any(block.kind == "tool_use" for block in turn.blocks)
