"""From a request body to the prompt the model would see: every check, every edit, before anything is said.

Counting tokens and answering go through the same steps, so a request that can be counted can be answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.cache import Salts
from sevenfold.lab.simulator.compaction import check_range, check_signed_block
from sevenfold.lab.simulator.conversation import (
    PromptPart,
    RequestPrompt,
    apply_edits,
    deleted_references,
    read_conversation,
    total,
    visible,
    without_deleted,
)
from sevenfold.lab.simulator.errors import EXTRA, invalid
from sevenfold.lab.simulator.parameters import BINDING, ApiFeatures, check_parameters
from sevenfold.lab.simulator.thinking import Binder, Bindings, ThinkingCheck
from sevenfold.lab.simulator.tokens import Scales, digest, value_digest
from sevenfold.profiles import LONG_WINDOW, Profile
from sevenfold.record.rules import RuleFacts, refusals
from sevenfold.record.rules.cache import Prompt, last_markable, lifetime

Json = Mapping[str, Any]


class PreparedRequest(Struct, frozen=True):
    """A request that passed every check, and the prompt it comes to."""

    body: Json
    profile: Profile
    dialect: ApiFeatures
    talk: RequestPrompt
    bindings: Bindings
    head: tuple[PromptPart, ...]
    """Tools and system."""
    shown: tuple[PromptPart, ...]
    """Messages as the model sees them."""
    original: int
    """Tokens before the edits the request asked for."""
    applied: tuple[Json, ...]
    transformations: tuple[Json, ...]
    salts: Salts
    deleted: int = 0
    """Tokens saved by edits of the cached prefix."""

    @property
    def tokens(self) -> int:
        """The size of the prompt."""
        return total(self.head) + total(self.shown)

    @property
    def window(self) -> int:
        """The room there is; a header makes it long on models that have a price for that."""
        asked = self.profile.betas.window_1m in self.dialect.betas
        priced = any(price.above >= self.profile.window for price in self.profile.prices)
        return LONG_WINDOW if asked and priced else self.profile.window


def prepare(
    body: Json, profile: Profile, dialect: ApiFeatures, *, scales: Scales, binder: Binder, new_account: bool
) -> PreparedRequest:
    """Check a request whose shape is right and work out its prompt."""
    check_parameters(body, profile, dialect)
    _check_rules(body, profile, dialect)
    talk = _with_true_sizes(read_conversation(body, scales, profile.tokenizer), binder, scales)
    check_signed_block(talk, binder.sealer)
    bindings = binder.examine(talk, profile)
    dropped, transformations = _judge(bindings.findings, body, profile, dialect, new_account)
    head = (*talk.tools, *talk.system)
    items = tuple(item for item in talk.items if item.path not in dropped)
    shown, deleted = without_deleted(visible(items, talk.messages, profile), deleted_references(items))
    edited = apply_edits(total(head), shown, body.get("context_management"), profile, scales)
    head, messages = _with_automatic_marker(body, head, edited.items)
    return PreparedRequest(
        body=body,
        profile=profile,
        dialect=dialect,
        talk=talk,
        bindings=bindings,
        head=head,
        shown=messages,
        original=total(head) + total(shown),
        applied=edited.applied,
        transformations=transformations,
        salts=_salts(body, profile, dialect, talk),
        deleted=deleted,
    )


def refuse_long_lifetimes(ready: PreparedRequest) -> None:
    """Raise when something is to be kept for an hour; how a provider words this is not documented."""
    for item in (*ready.head, *ready.shown):
        if item.ttl == "1h":
            raise invalid(f"{item.path}.cache_control.ephemeral.ttl: {EXTRA}")


def _check_rules(body: Json, profile: Profile, dialect: ApiFeatures) -> None:
    facts = RuleFacts.of(profile, strict=dialect.strict)
    if body.get("compaction") is not None:
        facts = replace(facts, prefill=True)
        if not dialect.counting:
            check_range(body["messages"])
    wrong = refusals(
        body["messages"],
        facts=facts,
        tools=body.get("tools") or (),
        system=body.get("system") or (),
        automatic=body.get("cache_control"),
    )
    for refusal in wrong[:1]:
        code = refusal.code if refusal.code.startswith("compaction_") else None
        raise invalid(refusal.message, code=code)


def _with_true_sizes(talk: RequestPrompt, binder: Binder, scales: Scales) -> RequestPrompt:
    """Thinking weighs what was thought, not what is shown of it."""

    def sized(item: PromptPart) -> PromptPart:
        tokens = binder.tokens(item) if item.is_thinking else None
        if tokens is None:
            return item
        opens = scales.counter.per_message if item.index == 0 else 0
        return replace(item, piece=replace(item.piece, tokens=tokens + opens))

    return replace(talk, items=tuple(sized(item) for item in talk.items))


def _judge(
    findings: Sequence[ThinkingCheck], body: Json, profile: Profile, dialect: ApiFeatures, new_account: bool
) -> tuple[frozenset[str], tuple[Json, ...]]:
    """Which blocks are dropped and what is reported; raises where a failed check is an error."""
    asked = ((body.get("thinking") or {}).get("block_binding") or {}).get("prefix_mismatch_behavior")
    rule = profile.thinking.on_mismatch
    enforced = asked == "error" or (
        not asked and (rule == "error" or (rule == "by_account" and new_account))
    )
    last = max(
        (n for n, message in enumerate(body["messages"]) if message["role"] == "assistant"), default=-1
    )
    dropped: set[str] = set()
    told: list[Json] = []
    for finding in findings:
        if finding.tampered:
            raise invalid(_tampered(finding, last))
        if not finding.reason:
            continue
        by_prefix = finding.reason == "prefix_binding_mismatch"
        if by_prefix and enforced:
            raise invalid(_mismatch(finding, dialect))
        allowed = by_prefix and not asked
        if not allowed:
            dropped.add(finding.item.path)
        kind = "thinking_mismatch_allowed" if allowed else "thinking_dropped"
        told.append({"type": kind, "path": finding.item.path, "reason": finding.reason})
    return frozenset(dropped), tuple(told)


def _tampered(finding: ThinkingCheck, last_answer: int) -> str:
    path = finding.item.path
    if finding.changed == "text" and finding.item.message == last_answer:
        return (
            f"{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        )
    return f"{path}: Invalid {_signature_of(finding)}"


def _signature_of(finding: ThinkingCheck) -> str:
    field = "signature" if finding.item.kind == "thinking" else "data"
    return f"`{field}` in `{finding.item.kind}` block"


def _mismatch(finding: ThinkingCheck, dialect: ApiFeatures) -> str:
    changed = {
        "system": "The `system` prompt differs from the one this block was created with.",
        "tools": "The `tools` differ from the ones this block was created with.",
        "messages": "The messages before this block differ from the ones it was created with.",
        "run": "The thinking blocks before this block are not the ones it was created with.",
    }
    needs = f" That setting requires the `{BINDING}` value in the `anthropic-beta` header."
    header = "" if BINDING in dialect.betas else needs
    return (
        f"{finding.item.path}: Invalid {_signature_of(finding)}. "
        "The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        f"{header} {changed[finding.changed]}"
    )


def _with_automatic_marker(
    body: Json, head: tuple[PromptPart, ...], shown: tuple[PromptPart, ...]
) -> tuple[tuple[PromptPart, ...], tuple[PromptPart, ...]]:
    control = body.get("cache_control")
    if control is None:
        return head, shown
    path = last_markable(Prompt(body["messages"], body.get("tools") or (), body.get("system") or ()))

    def marked(item: PromptPart) -> PromptPart:
        return replace(item, ttl=lifetime(control)) if item.path == path else item

    return tuple(map(marked, head)), tuple(map(marked, shown))


def _salts(body: Json, profile: Profile, dialect: ApiFeatures, talk: RequestPrompt) -> Salts:
    thinking = body.get("thinking") or {
        "type": profile.thinking.modes[0] if profile.thinking.bound else None
    }
    output = body.get("output_config") or {}
    settings = [
        body.get("tool_choice") or {"type": "auto"},
        [thinking.get("type"), thinking.get("budget_tokens")],
        output.get("effort") or profile.effort,
        output.get("task_budget"),
        body.get("context_management"),
        sorted(dialect.betas),
        any("image" in _kinds(item) for item in talk.items),
    ]
    cites = any(
        isinstance(c := item.block.get("citations"), dict) and c.get("enabled") for item in talk.items
    )
    return Salts(
        digest(profile.name.encode(), str(body.get("speed") or "standard").encode()),
        value_digest(cites),
        value_digest(settings),
    )


def _kinds(item: PromptPart) -> tuple[str, ...]:
    content = item.block.get("content") if item.kind == "tool_result" else None
    inside = (
        [str(part.get("type")) for part in content if isinstance(part, dict)]
        if isinstance(content, list)
        else []
    )
    return (item.kind, *inside)
