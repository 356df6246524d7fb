"""A request of a conversation: why it was made as it is, how it is built and recorded, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.conversation.brokered import name_of
from sevenfold.conversation.epoch import amend
from sevenfold.conversation.server_thread import ServerThread
from sevenfold.events import CacheBroke
from sevenfold.ports import Call, Reply, Thread
from sevenfold.profiles import Profile
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, ToolUse, encode_json, read_fields
from sevenfold.record.decisions import (
    Keep,
    Offloaded,
    OwnDecision,
    Pin,
    Request,
    Rewound,
    Snip,
    Undone,
    Why,
)
from sevenfold.record.entries import Clearing
from sevenfold.record.gauge import Size
from sevenfold.record.layout import Measured
from sevenfold.record.usage import BilledCall, Usage, ideal_cost
from sevenfold.record.wire import Message
from sevenfold.request.frame import (
    Body,
    Frame,
    Marker,
    Sizes,
    Tail,
    assemble,
    edge_of,
    excluded_tools,
    plan,
    shared_edge,
    tail_of,
)
from sevenfold.request.watch import SECONDS, Forecast, Sent, first_change

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.turn import Exchange


BINDING = frozenset({"model", "tool", "tool_order", "system", "message"})
"""Causes of a change that invalidate later thinking, which is not bound to settings or lifetimes."""


DIAGNOSTICS = "diagnostics"
"""The field that asks a provider why its cache was missed; it is not part of the prompt."""


class _MissReason(Struct, frozen=True):
    type: str
    cache_missed_input_tokens: int | None = None


class _Diagnostics(Struct, frozen=True):
    cache_miss_reason: _MissReason | None = None


class Pending(Struct, frozen=True):
    """The next request, not yet recorded."""

    why: Why
    tip: str | None
    fields: Mapping[str, bytes] = {}
    """Encoded fields of this request alone; they override those of every request."""


class Prepared(Struct, frozen=True):
    """A recorded request, and what is expected of it."""

    body: Body
    call: Call
    messages: tuple[Message, ...]
    size: Size
    forecast: Forecast
    record: Request
    last: str | None = None
    """The newest record in view when the request was built."""
    version: tuple[int, int] = (0, 0)
    """The version of the view the request was built from."""

    @property
    def after_compaction(self) -> str:
        """The compaction that this is the first request after; empty if there is none."""
        return self.record.why.after_compaction if self.record.why else ""


class Outcome(Struct, frozen=True):
    """An answered request, and its cost."""

    reply: Reply
    prepared: Prepared
    broken: CacheBroke | None
    cost: float | None
    uncached_cost: float | None
    """The cost if nothing had been cached."""
    ideal_cost: float | None
    """The cost if every token of the previous request had been read from the cache."""
    usage: Usage


class ToolCall(Struct, frozen=True):
    """A tool call of the model."""

    id: str
    name: str
    input: Any
    """A mapping, or text if the answer was cut off inside it."""


class Completion(Struct, frozen=True):
    """An answer, and its cost."""

    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    usd: float | None
    outcome: Outcome
    """Everything else known about the answer and its request."""


def completed(outcome: Outcome) -> Completion:
    """Extract the text, tool calls, stop reason and cost from an outcome."""
    answer = outcome.reply.answer
    bodies = (block.body() for block in answer.blocks)
    tool_uses = (body for body in bodies if isinstance(body, ToolUse))
    calls = tuple(ToolCall(use.id, use.name, read_fields(use.input)) for use in tool_uses)
    return Completion(blocks.text_of(answer.blocks), calls, answer.stop_reason or "", outcome.cost, outcome)


def write_request(c: Conversation, pending: Pending) -> Prepared:
    """Build and record the next request, and return it ready to send."""
    view = c.transcript.view
    changed = c.epoch.amended != (view, view.version, c.epoch.wanted)
    if changed:
        amend(c)
    fields = _with_diagnostics(c, pending.fields) if c.diagnoses else pending.fields
    frame = c.epoch.frame.with_fields(fields)
    view = c.transcript.view
    messages = tuple(view.messages())
    if _drop_invalid_thinking(c, frame, messages):
        changed = True
        messages = tuple(view.messages())
    size = c.measure() if changed else c.last_size
    edge = shared_edge(messages) if c.epoch.new_fork else None
    if c.edits.uses and frame.edits and not c.epoch.new_fork:
        # The last result that the provider cleared from the last request.
        edge = edge_of(messages, c.edits.uses, excluded_tools(frame.edits))
    if c.resumed is not None:
        c.resume_watch()
    body, forecast = compose(c, frame, messages, c.part_sizes(), edge=edge, pieces=view.pieces())
    newest = view.layout.items[-1] if view.layout.items else None
    record = Request(
        epoch=view.epoch.id if view.epoch else "",
        tip=view.tip,
        source=c.source.name,
        parameters={name: Raw(raw) for name, raw in fields.items()},
        why=replace(pending.why, usd=_expected_usd(c, size, forecast)),
    )
    # A broker may give a recorded answer to a later request, too, so the answer belongs to no thread.
    thread = None if c.settings.broker else c.state(ServerThread).next(messages)
    call = call_for(c, body, frame, thread)
    if c.settings.broker:
        record = replace(record, again=c.brokered.again(body.sha256))
        record = c.record_request(record, body, sends_to=view.tip)
        call = replace(call, name=name_of(record), recorded=c.brokered.recorded)
        c.brokered.sent(record)
    else:
        record = c.record_request(record, body, sends_to=view.tip)
    return Prepared(
        body,
        call,
        messages,
        size,
        forecast,
        record,
        newest.record.uuid if newest else None,
        view.version,
    )


def compose(
    exchange: Exchange,
    frame: Frame,
    messages: tuple[Message, ...],
    sizes: Sizes,
    *,
    shared: int | None = None,
    edge: Tail | None = None,
    pieces: list[bytes] | None = None,
) -> tuple[Body, Forecast]:
    """The body of a request with its cache markers, and what it will find in the cache.

    ``shared`` and ``edge`` are as in `plan`; ``pieces`` are those of the messages, if they are known.
    """
    epoch = exchange.epoch
    markers = plan(
        frame,
        messages,
        exchange.profile.cache,
        sizes,
        epoch.lifetimes,
        last_tail=epoch.tail,
        shared=shared,
        edge=edge,
    )
    body = assemble(frame, messages, markers, message_pieces=pieces)
    return body, _look(exchange, frame, messages, markers)


def call_for(exchange: Exchange, body: Body, frame: Frame, thread: Thread | None = None) -> Call:
    """The call that sends a body, or of it what the provider does not hold in a thread."""
    return Call(
        body.raw,
        frame.betas,
        exchange.source.name,
        exchange.cache_key,
        content_seconds=exchange.settings.content_seconds,
        thread=thread,
    )


def _look(
    exchange: Exchange, frame: Frame, messages: tuple[Message, ...], markers: tuple[Marker, ...] = ()
) -> Forecast:
    """Look what a request will find in the cache."""
    epoch = exchange.epoch
    sending = Sent(frame, messages, epoch.lifetimes, exchange.clock.now(), markers)
    watched = epoch.watched.look(sending, exchange.profile)
    exchange.set_epoch(replace(epoch, watched=watched))
    return watched.forecast


def _with_diagnostics(c: Conversation, fields: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The fields of a request that also asks why its cache was missed, compared with the newest answer in view."""
    if (
        not c.profile.cache.reports_misses
        or DIAGNOSTICS in fields
        or DIAGNOSTICS in dict(c.epoch.frame.settings)
    ):
        return fields
    c.clearable.follow(c.transcript.view)
    newest = c.clearable.answered
    previous = c.transcript.view.items[newest].record.message_id if newest >= 0 else ""
    if not previous:
        return fields
    return {**fields, DIAGNOSTICS: encode_json({"previous_message_id": previous})}


def provider_says(diagnostics: bytes) -> str:
    """What a provider reports about a miss, in words; empty if it reports nothing."""
    try:
        report = msgspec.json.decode(diagnostics, type=_Diagnostics | None)
    except msgspec.MsgspecError:
        return ""
    reason = report.cache_miss_reason if report else None
    if reason is None:
        return ""
    missed = reason.cache_missed_input_tokens
    reason_in_words = reason.type.replace("_", " ")
    return reason_in_words if missed is None else f"{reason_in_words}, {missed:,} tokens"


def _drop_invalid_thinking(c: Conversation, frame: Frame, messages: tuple[Message, ...]) -> bool:
    """Drop thinking that follows a changed part, because it would be refused; True if that changed the messages.

    Does nothing if the code that made the change vouched that the remaining thinking is valid.
    """
    if (
        c.epoch.thinking_known_valid
        or not c.profile.thinking.bound
        or not c.transcript.view.weight.thoughts
    ):
        return False
    if c.resumed is not None:
        c.resume_watch()
    change = _look(c, frame, messages).change
    watched = c.epoch.watched
    sent = watched.sent
    sending = watched.pending
    unlooked = change is None and not watched.cached
    if sent is not None and sending is not None and (unlooked or (change and change.cause not in BINDING)):
        # If nothing is cached, the forecast did not compare; and a changed setting may hide a later change.
        settled = replace(sent.frame, settings=sending.frame.settings, betas=sending.frame.betas)
        change = first_change(replace(sent, frame=settled, lifetimes=sending.lifetimes), sending)
    if change is None:
        return False
    c.open_epoch(f"{change.part} changed", drops_thinking=True)
    return True


def _expected_usd(c: Conversation, size: Size, forecast: Forecast) -> float | None:
    """The expected cost of the prompt: cached tokens are read, the rest is written."""
    rate = c.profile.price(size.tokens)
    if rate is None:
        return None
    read = max(0, min(c.epoch.watched.cached - forecast.tokens, size.tokens))
    written = (size.tokens - read) * rate.write(SECONDS[c.epoch.lifetimes.tail])
    return (read * rate.read + written) / 1e6


def take_answer(c: Conversation, prepared: Prepared, reply: Reply) -> Outcome:
    """Record the answer to a request, learn from the usage it reports, and return the outcome."""
    answer = reply.answer
    reply = replace(reply, answer=c.transcript.distinct(answer))
    edits_before = c.edits
    measured = _answer(c, prepared, reply)
    c.brokered.answered()
    edits = c.edits
    usage = measured.usage if measured else Usage.read(reply.answer.usage)
    epoch = c.epoch
    watched = epoch.watched
    if edits != edits_before and not watched.announced:
        watched = watched.announce("provider edits")
    if (deleted := edits.deleted - edits_before.deleted) > 0:
        # Deleted tokens are no longer read from the cached prefix, and the rest of it need not be written again.
        watched = replace(watched, cached=max(0, watched.cached - deleted))
    watched, broken = watched.judge(usage, c.profile)
    if broken is not None and (says := provider_says(bytes(reply.diagnostics))):
        broken = replace(broken, provider_says=says)
    c.state(ServerThread).answered(prepared.call.thread, prepared.messages, answer)
    cost = usage.cost(c.profile)
    call = BilledCall(usage.prompt, usage.output_tokens, SECONDS[epoch.lifetimes.tail])
    ideal = _ideal_cost(epoch.billed, call, c.profile)
    c.has_answer(
        replace(
            epoch,
            watched=watched,
            gauge=epoch.gauge.observe(measured) if measured else epoch.gauge,
            tail=tail_of(prepared.body.markers) or epoch.tail,
            billed=call,
            thinking_known_valid=False,
            new_fork=False,
        ),
        cost,
    )
    return Outcome(reply, prepared, broken, cost, usage.uncached_cost(c.profile), ideal, usage)


def _answer(c: Conversation, prepared: Prepared, reply: Reply) -> Measured | None:
    """Record the answer directly after what it answers; messages added in the meantime are moved after it."""
    transcript = c.transcript
    view = c.transcript.view
    behind = view.items_from(view.layout.index.get(prepared.last or "", len(view)) + 1)
    if not behind and view.version == prepared.version:
        return transcript.model(reply.answer)
    log = transcript.log
    sent = transcript.log.decided_at(prepared.record.id)
    # Records that an undo brought back are older than the request.
    late = [item for item in behind if log.record(item.record.uuid, sent) is None]
    decided = view.decisions()
    with c.atomic():
        if late:
            c.announce("said meanwhile")
            # The request's tip may be a clearing after the last message: the request was built after it.
            restored = behind[: len(behind) - len(late)]
            transcript.decide(Rewound(to=restored[-1].record.uuid if restored else prepared.record.tip))
        changed = tuple(transcript.view.messages()) != prepared.messages
        measured = transcript.model(replace(reply.answer, outdated=changed))
        moved = {item.record.uuid: transcript.again(item.record) for item in late}
        _decide_again(c, decided, moved)
        thinks = any(block.kind in THINKING for block in reply.answer.blocks)
        if thinks and c.profile.thinking.bound:
            messages_now = transcript.view.messages()[: len(prepared.messages)]
            if tuple(messages_now) != prepared.messages:
                c.open_epoch("changed while the model answered", drops_thinking=True)
    return measured


def _decide_again(
    c: Conversation, decided: Sequence[OwnDecision | Clearing], moved: Mapping[str, str]
) -> None:
    """Repeat what was decided after messages that had to be moved: the rewind left it on the abandoned branch.

    ``moved`` has the new id of each of these messages.
    """
    transcript = c.transcript
    holding = {earlier.id for earlier in transcript.view.decisions() if not isinstance(earlier, Clearing)}
    renamed = dict(moved)
    for earlier in decided:
        again: Snip | Pin | Undone | Offloaded | Keep
        match earlier:
            case Snip(id=name, first=first, last=last) if name not in holding:
                again = replace(earlier, first=renamed.get(first, first), last=renamed.get(last, last))
            case Pin(id=name, record=record) if name not in holding:
                again = replace(earlier, record=renamed.get(record, record))
            case Undone(id=name, decision=decision) if name not in holding:
                again = replace(earlier, decision=renamed.get(decision, decision))
            case Offloaded(id=name) | Keep(id=name) if name not in holding:
                again = earlier
            case _:
                continue
        renamed[earlier.id] = transcript.decide(again).id


def _ideal_cost(previous: BilledCall | None, call: BilledCall, profile: Profile) -> float | None:
    """The cost of a call if it had read every token of the one before from the cache."""
    cost_of_both = ideal_cost([previous, call] if previous else [call], profile)
    cost_before = ideal_cost([previous], profile) if previous else 0.0
    return None if cost_of_both is None or cost_before is None else cost_of_both - cost_before
