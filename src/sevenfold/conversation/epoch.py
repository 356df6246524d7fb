"""How a session continues: with the frame of its last epoch, with that and an amendment, or with a new epoch.

The frame is sent exactly as first recorded for as long as possible, because a change to it costs the whole cache and,
on some models, the thinking in view. If the caller's system prompt or tools have changed, the change is appended to
the conversation, provided the model accepts such amendments.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from sevenfold.conversation.refused_blocks import send_as_text
from sevenfold.conversation.server_thread import ServerThread
from sevenfold.errors import BoundThinking, ModelError, RequestRefused
from sevenfold.profiles import Profile
from sevenfold.prompts.context import Replaced
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, is_deferred, is_providers_own, read_field
from sevenfold.record.decisions import (
    ADOPTED,
    OTHER_MODEL,
    Amended,
    Epoch,
    MicrocompactMetadata,
    Signed,
    Undone,
)
from sevenfold.record.gauge import Gauge
from sevenfold.record.layout import Measured
from sevenfold.record.sendable import SEALED_REASONING, SYSTEM_MESSAGES, is_sealed_reasoning
from sevenfold.record.view import View
from sevenfold.request.frame import EDITS, Frame, Lifetimes, excluded_tools, tool_name
from sevenfold.request.sections import BETWEEN, announcement
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.epoch_keeping import EpochKeeping
    from sevenfold.conversation.epoch_state import EpochState
    from sevenfold.conversation.resume import SizeReport
    from sevenfold.conversation.transcript import Transcript
    from sevenfold.ports import Log

_LIFETIME = re.compile(r"\bttl\b", re.IGNORECASE)
AMENDED = "amended"
"""The kind of attachment that tells the model about a change."""

REFUSED_LIFETIME = "the provider refused the long lifetime"
"""The reason of the epoch that falls back to the short cache lifetime."""
REPLACED = (*OTHER_MODEL, "system or tools")
"""Reasons of epochs that send the new system prompt and tools whole, instead of the stored ones."""


def enter(c: Conversation, *, lifetimes_asked_for: bool) -> None:
    """Continue the last epoch with its frame, unless the frame wanted now must be sent at once.

    If the last epoch continues with a different frame than wanted, the difference is appended before the next request.
    The cache lifetimes continue too, unless the caller ``asked`` for others and the provider has not refused them.
    """
    settled, opens, drops_thinking = _settle(c, lifetimes_asked_for)
    gauge = learned(c.profile, c.transcript.size_reports, *settled.frame.tools, *settled.frame.system)
    if opens == ADOPTED:
        gauge = replace(gauge, overhead=None)
    c.set_epoch(replace(settled, gauge=gauge))
    if opens and not c.transcript.read_only:
        with c.transcript.atomic():
            c.open_epoch(opens, drops_thinking=drops_thinking, announced=opens in ("start", ADOPTED))
            if opens in REPLACED:
                withdraw_changes(c.transcript)


def _settle(c: Conversation, lifetimes_asked_for: bool) -> tuple[EpochState, str, bool]:
    """Decide which frame is sent, and how long it is cached.

    Returns the state, the reason for a new epoch (empty if the last one continues) and whether it drops thinking.
    """
    begun = c.epoch
    wanted = begun.frame
    epoch = c.transcript.view.epoch
    if epoch is None:
        adopts = bool(c.transcript.view.items)
        return begun, ADOPTED if adopts else "start", adopts
    if epoch.model != wanted.model:
        return begun, "model", True
    if _is_for_another_api(c, epoch):
        return begun, "API", True
    stored = frame_of(epoch)
    recorded_lifetimes = Lifetimes(**epoch.lifetimes)
    if _changes(c, stored, wanted, recorded_lifetimes) is None:
        return begun, "system or tools", c.profile.thinking.bound
    settled = replace(begun, frame=_with_settings(stored, wanted))
    if not lifetimes_asked_for or epoch.reason == REFUSED_LIFETIME:
        settled = replace(settled, lifetimes=recorded_lifetimes)
    unchanged = (settled.frame, settled.lifetimes) == (stored, recorded_lifetimes)
    return settled, "" if unchanged else "settings", False


def _with_settings(stored: Frame, wanted: Frame) -> Frame:
    """The stored frame with the settings wanted now."""
    other_settings = [(name, raw) for name, raw in wanted.settings if name != EDITS]
    edits = wanted.edits
    if stored.edits and edits and not excluded_tools(edits) - excluded_tools(stored.edits):
        # The epoch's provider edits change only if they were switched on or off, or must spare more tools.
        edits = stored.edits
    return replace(
        stored,
        settings=tuple(sorted([*other_settings, (EDITS, edits)] if edits else other_settings)),
        betas=tuple(sorted({*stored.betas, *wanted.betas})),
        max_tokens=wanted.max_tokens,
    )


def frame_of(epoch: Epoch) -> Frame:
    """The frame stored in an epoch's record."""
    return Frame(
        epoch.model,
        epoch.max_tokens,
        tuple(bytes(raw) for raw in epoch.system),
        tuple(bytes(raw) for raw in epoch.tools),
        tuple((name, bytes(raw)) for name, raw in epoch.settings.items()),
        tuple(epoch.betas),
        _sections(epoch),
    )


def recorded_frame(log: Log) -> Frame | None:
    """The frame at the end of a log, including the last amendment; None before the first epoch."""
    newest = next(log.decisions(Epoch), None)
    if newest is None:
        return None
    position, epoch = newest
    frame = frame_of(epoch)
    changed = next(log.decisions(Amended), None)
    if changed is None or changed[0] < position:
        return frame
    amendment = changed[1]
    return replace(
        frame,
        system=tuple(map(bytes, amendment.system)),
        tools=tuple(map(bytes, amendment.tools)),
        sections=_sections(amendment),
    )


def sizes(frame: Frame) -> list[tuple[str, int]]:
    """The name and length of each section of a system prompt, as recorded."""
    return [(name, len(text)) for name, text in frame.sections]


def _sections(record: Epoch | Amended) -> tuple[tuple[str, str], ...]:
    """The sections of a recorded system prompt; none if they are unknown or a purge changed its text."""
    remaining = deque(record.sections)
    sections = list[tuple[str, str]]()
    for text in (read_field(bytes(raw), "text") for raw in record.system):
        position = 0
        while remaining and position < len(text):
            name, size = remaining.popleft()
            sections.append((name, text[position : position + size]))
            position += size + len(BETWEEN)
        if position != len(text) + len(BETWEEN):
            return ()
    return () if remaining else tuple(sections)


def learned(profile: Profile, reports: Iterable[SizeReport], *before_messages: bytes) -> Gauge:
    """The gauge of a continued session, with everything learned from the recorded size reports."""
    gauge = Gauge.of(profile, *before_messages)
    for report in reports:
        match report:
            case Epoch(system=system, tools=tools, reason=reason):
                if reason == ADOPTED:
                    # Earlier reports concern another program's system prompt and tools.
                    gauge = replace(gauge, overhead=None)
                gauge = gauge.opened(*map(bytes, tools), *map(bytes, system))
            case Measured():
                gauge = gauge.observe(report)
            case foreseen:
                gauge = gauge.after_compaction(foreseen.tokens, foreseen.weight, foreseen.model)
    return gauge.opened(*before_messages).switched(profile)


def in_force(view: View, stored: Frame) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The system prompt and tools the model knows: the epoch's, or those of the last amendment in view."""
    source = _last_amendment(view) or stored
    return tuple(map(bytes, source.system)), tuple(map(bytes, source.tools))


def in_known_order(known_tools: Sequence[bytes], wanted: Sequence[bytes]) -> tuple[bytes, ...]:
    """The wanted tools in the order in which the model knows them; those it does not know follow as given.

    A caller may list the same tools in another order at each start, which must not change a byte of the request.
    """
    positions = {raw: number for number, raw in enumerate(known_tools)}
    return tuple(sorted(wanted, key=lambda raw: positions.get(raw, len(known_tools))))


def _last_amendment(view: View) -> Amended | None:
    for decision in reversed(view.decisions()):
        if isinstance(decision, Amended) and (item := view.item(decision.at or "")) and item.shown:
            return decision
    return None


def amend(c: Conversation) -> None:
    """Append changes to the system prompt or tools that the model does not know from the view.

    If the model accepts no such amendments, or if a new epoch costs nothing, they are sent whole instead.
    """
    with c.atomic():
        view = c.transcript.view
        c.set_epoch(replace(c.epoch, amended=(view, view.version, c.epoch.wanted)))
        added = _changes(c, c.epoch.frame, c.epoch.wanted, c.epoch.lifetimes)
        if added is None:
            c.reframe(c.epoch.wanted, "system or tools")
            withdraw_changes(c.transcript)
        elif added:
            _tell_changes(c, added)


def _tell_changes(c: Conversation, added: tuple[Block, ...]) -> None:
    attached = [item for item in c.transcript.view.items if item.record.attachment == AMENDED]
    if not attached or attached[-1].shown != added:
        # The attachment may exist already, if writing was interrupted before the second record.
        c.transcript.attach(AMENDED, {}, added, role="system" if c.profile.system_messages else "user")
    _, known_tools = in_force(c.transcript.view, c.epoch.frame)
    c.transcript.decide(
        Amended(
            system=[Raw(raw) for raw in c.epoch.wanted.system],
            sections=sizes(c.epoch.wanted),
            tools=[Raw(raw) for raw in in_known_order(known_tools, c.epoch.wanted.tools)],
        )
    )


def _changes(
    c: Conversation, stored: Frame, wanted: Frame, lifetimes: Lifetimes
) -> tuple[Block, ...] | None:
    """The blocks that announce a changed system prompt or tools; None if these must, or may, be sent whole."""
    view = c.transcript.view
    profile = c.profile
    system, tools = in_force(view, stored)
    wanted_tools = in_known_order(tools, wanted.tools)
    if (system, tools) == (wanted.system, wanted_tools):
        return ()
    added: list[Block] = []
    if system != wanted.system:
        amendment = _last_amendment(view)
        announcement = _told(_sections(amendment) if amendment else stored.sections, wanted, profile)
        if not announcement:
            return None
        added.append(blocks.text(announcement))
    if tools != wanted_tools:
        # Such changes need headers that were sent from the start: adding them now would change the prefix.
        announced = {profile.betas.tool_changes, profile.betas.inline_tools} <= {*stored.betas, None}
        if not (profile.system_messages and profile.tool_changes and announced):
            return None
        # Only tools of the caller's can be added in a message, and only so that the model sees them at once.
        if any(is_deferred(raw) or is_providers_own(raw) for raw in {*tools} ^ {*wanted_tools}):
            return None
        added += _tool_changes(tools, wanted_tools)
    cold = c.idle_seconds() > SECONDS[lifetimes.tail]
    thinks = profile.thinking.bound and view.weight.thoughts > 0
    return None if cold and not thinks else tuple(added)


def _told(sections: Sequence[tuple[str, str]], wanted: Frame, profile: Profile) -> str:
    """The text that announces a changed system prompt; empty if the prompt must be sent whole.

    For a prompt in sections it contains the changed sections, which any model accepts. Any other prompt replaces the
    previous one entirely, which only a model with system messages accepts.
    """
    if sections and wanted.sections:
        return announcement(dict(sections), dict(wanted.sections))
    if not (profile.system_messages and wanted.system):
        return ""
    return Replaced(wanted.words()).render()


def _tool_changes(tools_before: Sequence[bytes], tools_now: Sequence[bytes]) -> list[Block]:
    before = {tool_name(raw): raw for raw in tools_before}
    now = {tool_name(raw): raw for raw in tools_now}
    removed = [name for name in before if now.get(name) != before[name]]
    added = [name for name in now if now[name] != before.get(name)]
    removals: list[object] = [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}} for name in removed
    ]
    additions: list[object] = [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": Raw(now[name])}}
        for name in added
    ]
    return [blocks.read(msgspec.json.encode(change)) for change in (*removals, *additions)]


def unsupported_by(profile: Profile) -> list[str]:
    """What a model does not take that a conversation may contain from another model or API."""
    if not profile.sends_blocks_as_recorded:
        return []  # the other APIs are sent a translation, which leaves out what they do not know
    return [SEALED_REASONING] if profile.system_messages else [SEALED_REASONING, SYSTEM_MESSAGES]


def _is_for_another_api(c: Conversation, epoch: Epoch) -> bool:
    """Whether the epoch's messages are not as the API takes them through which the same model is asked now."""
    wanted = unsupported_by(c.profile)
    if set(epoch.unsupported) - set(wanted):
        return True
    items = c.transcript.view.items if set(wanted) - set(epoch.unsupported) else []
    for item in items:
        if item.role == "system" and SYSTEM_MESSAGES in wanted and item.record.attachment != AMENDED:
            return True
        may_be_sealed = item.weight.thoughts or item.record.new_kinds
        if may_be_sealed and SEALED_REASONING in wanted and any(map(is_sealed_reasoning, item.shown)):
            return True
    return False


def epoch_record(c: EpochKeeping, frame: Frame, reason: str, drops_thinking: bool) -> Epoch:
    """The record of an epoch with this frame.

    What the model does not take is recorded where another model or tool may have brought it, and from there on.
    """
    lifetimes = c.next_lifetimes()
    window = c.window
    newest = c.transcript.view.epoch
    unsupported_before = newest.unsupported if newest else []
    unsupported = unsupported_by(c.profile) if reason in (ADOPTED, *OTHER_MODEL) else unsupported_before
    return Epoch(
        reason=reason,
        model=frame.model,
        max_tokens=frame.max_tokens,
        system=[Raw(raw) for raw in frame.system],
        sections=sizes(frame),
        tools=[Raw(raw) for raw in frame.tools],
        settings={name: Raw(raw) for name, raw in frame.settings},
        betas=list(frame.betas),
        lifetimes={"fixed": lifetimes.fixed, "tail": lifetimes.tail},
        drops_thinking=drops_thinking,
        window=window.context,
        window_source=window.source,
        unsupported=unsupported,
    )


def withdraw_changes(transcript: Transcript) -> None:
    """Clear all amendments in view: system prompt and tools are now sent whole, so they no longer apply."""
    items = transcript.view.items
    void = [item.record.uuid for item in items if item.record.attachment == AMENDED and item.shown]
    if void:
        transcript.clear(MicrocompactMetadata(cleared_attachment_uuids=void))


def clear_unsupported_amendments(c: Conversation) -> None:
    """Clear amendments that an undo or rewind restored, if the view has system messages and the model accepts none."""
    if not c.profile.system_messages and any(item.role == "system" for item in c.transcript.view.items):
        withdraw_changes(c.transcript)


# -- continuing without what a provider refused -----------------------------------------------------
# First we drop a summary that only the provider could read and no longer can (another account, a changed key); our own
# summary, sent with it, stays. Then thinking. A cache lifetime of an hour becomes five minutes for the whole session.


def recover(c: Conversation, error: ModelError) -> bool:
    """Leave what was refused out of the next request; False if that is not possible."""
    match error:
        case BoundThinking():
            return _without_opaque_summary(c) or _without_reasoning(c)
        case RequestRefused() if c.state(ServerThread).refused(error):
            return True
        case RequestRefused() if _LIFETIME.search(str(error)):
            return _without_long_lifetime(c)
        case RequestRefused():
            return send_as_text(c, error)
        case _:
            return False


def _without_opaque_summary(c: Conversation) -> bool:
    view = c.transcript.view
    summaries = chain.from_iterable(item.shown for item in view.items if item.record.summary)
    shown = {block.raw for block in summaries}
    signed = (decision for decision in view.decisions() if isinstance(decision, Signed))
    in_force = (decision for decision in signed if decision.id not in view.undone)
    decision = next((decision for decision in in_force if bytes(decision.block) in shown), None)
    if decision is None or not blocks.is_encrypted_summary(blocks.read(bytes(decision.block))):
        return False
    c.announce("the provider refused its summary")
    c.transcript.decide(Undone(decision=decision.id))
    reason = "the provider can no longer read its own summary: the readable one goes on without it"
    c.events.aside("compact", reason)
    return True


def _without_reasoning(c: Conversation) -> bool:
    if not c.transcript.view.weight.thoughts:
        return False
    c.open_epoch("the provider refused the reasoning", drops_thinking=True)
    return True


def _without_long_lifetime(c: Conversation) -> bool:
    if c.epoch.lifetimes == Lifetimes():
        return False
    c.set_epoch(replace(c.epoch, lifetimes=Lifetimes()))
    # Thinking is not bound to cache markers.
    c.open_epoch(REFUSED_LIFETIME, thinking_stays_valid=True)
    reason = "the provider does not keep the cache for an hour: five minutes for the rest of the session"
    c.events.aside("cache", reason)
    return True
