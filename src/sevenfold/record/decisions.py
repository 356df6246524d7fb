"""Decisions: the records that change what the model sees, without changing the content records.

Two shapes come from the transcript format that other tools share: the boundary of a compaction and that of a
clearing. All others are our own: ``{"type":"sevenfold","v":1,"kind":…,"id":…,"at":…}``, with no ``uuid`` and no
parent, so they are never part of the parent chain, and other tools skip them. ``at`` is the record that was the
newest when the decision was made; a decision counts on every branch that contains that record.

Any text that a decision adds to the context is stored in it exactly as it will be sent: folding a log never renders
texts again.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

FORMAT_VERSION = 1
"""Written in every own record; raised only when an older reader would misread one."""


class Segment(Struct, frozen=True, rename="camel"):
    """Messages kept verbatim by a compaction; ``anchor`` is the record they now follow."""

    head_uuid: str
    anchor_uuid: str
    tail_uuid: str


class CompactionChain(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The place of a compaction among the compactions of its session."""

    recompaction: bool = False
    turns_since: int = -1
    """Answers since the previous compaction; -1 for the first."""
    previous_turn: str | None = None
    """The boundary of the previous compaction."""
    turn: str = ""
    """The boundary of this compaction."""
    threshold: int = 0
    query_source: str = "main"


class Fidelity(Struct, frozen=True, rename="camel"):
    """How many of the probed facts are in the context, reachable by recall, or lost; and how many were invented."""

    in_context: int
    reachable: int
    lost: int
    invented: int = 0


class CompactMetadata(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A compaction's metadata; other tools ignore the fields they do not know."""

    trigger: str = ""
    """auto or manual; empty in logs of older versions, where it means auto."""
    pre_tokens: int | None = None
    post_tokens: int | None = None
    messages_summarized: int | None = None
    user_context: str | None = None
    pre_compact_discovered_tools: list[str] | None = None
    preserved_segment: Segment | None = None
    engine: str | None = None
    chain: CompactionChain | None = None
    fidelity: Fidelity | None = None
    taken_out: tuple[str, ...] = ()
    """Statements removed from a model's summary because the record does not support them."""


class MicrocompactMetadata(Struct, frozen=True, rename="camel"):
    """A clearing's metadata, with the results it cleared."""

    trigger: str = "auto"
    pre_tokens: int | None = None
    tokens_saved: int | None = None
    compacted_tool_ids: list[str] = []
    cleared_attachment_uuids: list[str] = msgspec.field(default_factory=list, name="clearedAttachmentUUIDs")


class Own(Struct, frozen=True, tag_field="kind", omit_defaults=True, kw_only=True):
    """Base of all our own records; id, ``at`` and time are set when one is written."""

    id: str = ""
    at: str | None = None
    timestamp: str = ""


ADOPTED = "adopted"
"""The reason of the epoch that opens when another program's transcript is continued."""
OTHER_MODEL = ("model", "API")
"""Reasons of epochs in which another model answers, or the same through another API."""


class Epoch(Own, frozen=True, tag="epoch"):
    """Starts a stretch in which requests only grow; stores everything that precedes the messages once."""

    reason: str
    model: str
    max_tokens: int = 0
    system: list[Raw] = []
    sections: list[tuple[str, int]] = []
    """The sections of the system prompt, if known: name and number of characters of each."""
    tools: list[Raw] = []
    settings: dict[str, Raw] = {}
    """Other fields of its requests: thinking, the provider's edits and so on."""
    betas: list[str] = []
    lifetimes: dict[str, str] = {}
    renderer: int = 1
    drops_thinking: bool = False
    """Whether reasoning from before this record is no longer sent."""
    drops_thinking_after: str | None = None
    """An exception at the beginning: reasoning up to this record is still sent."""
    drops_thinking_before: str | None = None
    """An exception at the end: reasoning from this record on is still sent."""
    boundary: str | None = None
    """The boundary of the compaction it was written together with, if any."""
    window: int = 0
    """The context window its requests were measured by; 0 if it is not known."""
    window_source: str = ""
    """Where the window is from: the model's profile, a setting, the provider."""
    unsupported: list[str] = []
    """What its model or API does not take although an earlier one did: `SYSTEM_MESSAGES`, `SEALED_REASONING`."""


class Option(Struct, frozen=True, omit_defaults=True):
    """Something the engine could do before a request."""

    name: str
    """nothing, wait, clear, provider, compact…"""
    tokens: int = 0
    """Estimated tokens it would free."""
    usd: float | None = None
    """Estimated savings until the end of the session; negative: its cost."""
    because: str = ""
    """Why it was chosen, or why not."""


class Why(Struct, frozen=True, omit_defaults=True):
    """What was known and considered before a request was sent."""

    used: int
    band: int
    threshold: int
    rule: str
    """The rule that decided."""
    chosen: str = "nothing"
    options: list[Option] = []
    usd: float | None = None
    """The expected cost of the request without its answer."""
    after_compaction: str = ""
    """The compaction this is the first request after; empty for later requests."""
    owed: float | None = None
    """How many US dollars more the session has cost with clearing than without, this request included; negative: less.
    None: no difference."""
    ahead: int = 0
    """How many tokens larger the request is with clearing than without; negative: smaller."""


class Request(Own, frozen=True, tag="request"):
    """One request as it was sent: enough, with its epoch and tip, to rebuild the body byte for byte."""

    epoch: str
    tip: str | None
    source: str = "main"
    markers: list[tuple[str, int, int, str]] = []
    """Level, index, block and lifetime of each cache marker."""
    parameters: dict[str, Raw] = {}
    """Fields that only this request has."""
    sha256: str = ""
    appended: list[Raw] = []
    """Messages that a fork adds to those of the view; they are recorded only here."""
    upto: str | None = None
    """The last record of the view that a fork starts with, if not the newest."""
    why: Why | None = None
    spent: float | None = None
    """US dollars the session had cost before it; None if a price is unknown."""
    number: int = 0
    """How many requests of the session came before it."""
    again: str = ""
    """The first request with the same bytes, if that one was never answered: the process that sent it was killed."""


class Billed(Own, frozen=True, tag="billed"):
    """The usage of a model call the engine made for itself; its answer is not part of the conversation."""

    request: str
    model: str
    usage: Raw = Raw(b"{}")
    source: str = ""
    """The query source, if the request is not on record."""


class Relayed(Own, frozen=True, tag="relayed"):
    """A request that another program sent through our gateway, written before its answer."""

    api: str
    """messages, chat or responses"""
    model: str
    purpose: str = "turn"
    """turn, compaction or side: whether it continues the conversation, summarises it or is about something else."""
    status: int = 0
    """The status of the answer; 0 if there was none."""
    answer: str = ""
    """The id of the answer."""
    error: str = ""
    """What the provider said instead of an answer, or how the answer ended early."""
    size: int = 0
    """Bytes of the body, as the program sent it."""
    sha256: str = ""
    changes: list[str] = []
    """What precedes or is among the messages that differs from the request before: model, system, tools, settings,
    messages. Each of them costs the cache from there on."""
    changed_message: int | None = None
    """The first message that differs from the one in its place in the request before."""
    milliseconds: int | None = None
    """From the end of the request to the first byte of the answer."""
    principal: str = ""
    """A keyed hash of the credential, which cannot be recovered from it; only its owner may continue here."""
    client: str = ""
    """The program, if its requests show it."""


class Lasting(Struct, frozen=True, omit_defaults=True):
    """A part of a user message that a model named as lasting, by its place in the message's text."""

    start: int
    end: int
    kind: str = ""
    """What it does, as the model said: forbids, allows, decides, corrects…"""
    replaces: str = ""
    """The record of an earlier message of the user that it replaces."""
    number: int = 0
    """How many were named before it in the session: when room is short, those named first stay."""


class CarriedWords(Struct, frozen=True, omit_defaults=True):
    """A message of the user that stands in a summary message: where it is on record, not its text."""

    record: str
    position: int = -1
    """Where the log has the record; -1 if unknown."""
    kind: Literal["message", "answer", "task"] = "message"
    """A task is what a model gave a sub-agent to do: not the user's word, but kept like it."""
    date: str = ""
    tool: str = ""
    """The tool whose call an answer was the reply to."""
    summary: str = ""
    """The record of the summary message that shows it."""
    lasting: tuple[Lasting, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()
    """The parts of it that the summary message shows, if not all: the first character and the one after the last."""


class LeftOutWords(Struct, frozen=True, omit_defaults=True):
    """A message of the user that found no room in any summary message in view."""

    words: CarriedWords
    sort: str
    """The sort by which it is counted among those left out."""
    offered: int = 0
    """In how many compactions a model was asked whether it lasts."""


class Carry(Own, frozen=True, tag="carry"):
    """What a reader that stops at a boundary must know about the time before it."""

    boundary: str
    previous_boundary: str | None = None
    epoch: str | None = None
    pins: list[str] = []
    breaker: int = 0
    epoch_offset: int | None = None
    segment_offset: int | None = None
    """The position from which to read so as to see all messages that the compaction keeps."""
    words: list[CarriedWords] | None = None
    """The user's messages in the summary messages in view, in the order of the record; None: not known, as in records
    of older versions."""
    left_out: dict[str, int] = {}
    """How many of the user's messages of each sort found no room in them, in this and earlier compactions."""
    left_out_ends: list[str] = []
    """The first and the last record among those, if any."""
    not_shown: list[LeftOutWords] = []
    """Those among them that are offered to a model again, in the order of the record: a bounded number."""


class Commit(Own, frozen=True, tag="commit"):
    """Ends a compaction's single write, which is void without it; or announces records that count only together."""

    boundary: str
    """The boundary of the compaction; empty in an announcement."""
    together: list[str] = []
    """The ids of the records that follow. If one is missing because the write was cut off, none of them counts."""


class Signed(Own, frozen=True, tag="signed"):
    """A summary made by the provider: sent, byte for byte, to the model it was made for.

    A signed summary, which is readable, is sent in place of ours; an encrypted one is sent before it.
    """

    boundary: str
    block: Raw
    model: str = ""
    """The model it was made for; other models get only our summary. Empty in older records: for any model."""


class Offloaded(Own, frozen=True, tag="offload"):
    """A large tool result moved to disk; ``preview`` permanently takes its place."""

    tool_use_id: str
    preview: str
    path: str
    size: int
    sha256: str


class ShownResult(Own, frozen=True, tag="shown"):
    """A layer shows other content in place of a tool result; the result itself stays as it was recorded.

    Written before the result is first sent, and undoable. Reading it needs nothing of the layer that wrote it.
    """

    tool_use_id: str
    content: Raw
    """The content of the tool result that is sent, as JSON."""
    layer: str
    reason: str = ""


class SentAsText(Own, frozen=True, tag="sent_as_text"):
    """A provider refused a block of a record: it is sent as text, wherever the record is in view."""

    record: str
    block: int
    """The index of the block in the record."""
    why: str = ""
    """What the provider said."""


class Keep(Own, frozen=True, tag="keep"):
    """Tool results that were checked and are permanently left unchanged."""

    tool_use_ids: list[str]


class Pinned(Own, frozen=True, tag="pinned"):
    """Results deleted from the cached prefix by reference; sent again in the same place as long as the cache lives.

    One without any results starts over: results carry references, and nothing is deleted.
    """

    calls: list[str] = []
    record: str = ""
    """The record it follows."""


class Snip(Own, frozen=True, tag="snip"):
    """Whole rounds removed from view without a summary: ``first`` to ``last`` in the order of the view."""

    first: str
    last: str


class Fold(Own, frozen=True, tag="fold"):
    """Whole rounds replaced with one summary."""

    first: str
    last: str
    summary: str
    words: str = ""
    """The user's messages among them, sent as a block of its own behind the summary; empty in older records."""
    named: list[CarriedWords] = []
    """The messages in which a model named something as lasting."""


class Pin(Own, frozen=True, tag="pin"):
    """A record the user wants kept verbatim; with ``off``, no longer."""

    record: str
    off: bool = False


class Forked(Own, frozen=True, tag="fork"):
    """A fork starts here: the next record starts a new message, so that the messages before it stay unchanged."""

    name: str
    source: str = ""


class NotesMark(Own, frozen=True, tag="notes"):
    """How far the session notes cover the conversation."""

    covered: str | None
    boundary: str | None = None
    """The boundary the view started with then; after another compaction, the mark no longer counts."""


class Remembered(Own, frozen=True, tag="remembered"):
    """How far the conversation was searched for lasting facts."""

    covered: str


class Remarked(Own, frozen=True, tag="remarked"):
    """What the user said when they refused a tool call.

    The result of the call has the words too, for the model; but a tool could write them there, and nothing but the
    program writes this.
    """

    call: str
    words: str


class LayerNote(Own, frozen=True, tag="note"):
    """What a layer keeps for itself; it changes nothing that is sent."""

    layer: str
    note: Raw
    """Any JSON; only the layer knows what it means."""


class AgentStart(Own, frozen=True, tag="agent_started"):
    """A sub-agent was given work: its first, or, for an ``agent`` that exists, more."""

    agent: str
    """Its id, derived from the session that started it and the tool call."""
    owner: str = ""
    """The agent that started it; empty: the session's main agent."""
    name: str = ""
    agent_type: str = ""
    call: str = ""
    """The tool call that started it, or that waits for its result."""
    description: str = ""
    prompt: str = ""
    model: str = ""
    fork: bool = False
    background: bool = False
    because: str = ""
    """Why it is a fork, or why not."""
    worktree: str = ""
    """Its own working copy of the project, if it has one."""


class AgentEnd(Own, frozen=True, tag="agent_ended"):
    """A sub-agent finished its work; the result is pending until this log contains it."""

    agent: str
    owner: str = ""
    state: Literal["completed", "failed", "cancelled"] = "completed"
    text: str = ""
    detail: str = ""
    """Why it failed or was cancelled."""
    usd: float | None = 0.0
    """What this work cost, including its own sub-agents; None if a price is unknown."""
    turns: int = 0
    tokens: int = 0
    """Output tokens."""
    saved_usd: float = 0.0
    """How much more its own requests would have cost without the cache, where prices are known."""


class Undone(Own, frozen=True, tag="undone"):
    """Undoes an earlier decision, or, with ``redo``, redoes it."""

    decision: str
    redo: bool = False


class Amended(Own, frozen=True, tag="amended"):
    """The caller's system prompt or tools changed; the epoch's are still sent, and the change was appended."""

    system: list[Raw] = []
    sections: list[tuple[str, int]] = []
    tools: list[Raw] = []


class Purged(Own, frozen=True, tag="purged"):
    """Leaked secrets were masked in this file: the hashes of earlier requests no longer match."""

    masks: list[str]
    """The masks that replaced them."""
    count: int
    """How many places were masked in this file."""
    results: dict[str, str] = {}
    """Stored results that were masked too: path → the new SHA-256."""


class Rewound(Own, frozen=True, tag="rewound"):
    """A rewind: the conversation continues from ``to``; later records are on an abandoned branch."""

    to: str | None


_Requests = Epoch | Amended | Request | Billed | Relayed
_Compactions = Carry | Commit | Signed
_Changes = Offloaded | ShownResult | Keep | Pinned | Snip | Fold | Pin | Undone | Purged | Rewound
_Marks = SentAsText | Forked | NotesMark | Remembered | Remarked | LayerNote | AgentStart | AgentEnd
OwnDecision = _Requests | _Compactions | _Changes | _Marks

Trigger = Literal["auto", "manual"]

_own: msgspec.json.Decoder[OwnDecision] = msgspec.json.Decoder(OwnDecision)


def read_own(line: bytes) -> OwnDecision:
    """The own record in ``line``; raises `msgspec.DecodeError` for a kind this version does not know."""
    return _own.decode(line)
