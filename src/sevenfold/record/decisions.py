"""What was decided: the records that change what the model sees, without touching what was said.

Two shapes come from the transcript format other tools share: the boundary of a compaction and that of a
clearing. All others are our own: ``{"type":"sevenfold","v":1,"kind":…,"id":…,"at":…}``, with no ``uuid``
and no parent, so they are never a link in the chain and other tools pass over them. ``at`` is the record
that was the newest when the decision was made; a decision counts wherever that record is live.

Every text a decision brings into the context is stored in it as it will be sent: folding a log never
renders anything again.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

FORMAT_VERSION = 1
"""Part of every own record; goes up when an older reader would misread one."""


class Segment(Struct, frozen=True, rename="camel"):
    """Messages kept verbatim by a compaction; ``anchor`` is the record they now follow."""

    head_uuid: str
    anchor_uuid: str
    tail_uuid: str


class CompactionChain(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The place of a compaction among those of its session."""

    recompaction: bool = False
    turns_since: int = -1
    """Answers since the compaction before; -1 for the first."""
    previous_turn: str | None = None
    """The turn of the compaction before, by its boundary."""
    turn: str = ""
    """The turn of this compaction, by its boundary."""
    threshold: int = 0
    query_source: str = "main"


class Fidelity(Struct, frozen=True, rename="camel"):
    """How many of the facts that could be asked for are still there."""

    in_context: int
    reachable: int
    lost: int
    invented: int = 0


class CompactMetadata(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a compaction says about itself; what other tools do not know of it they pass over."""

    trigger: str = ""
    """auto or manual; logs of older versions leave auto out."""
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
    """Statements of a model's summary that had no source, and are not in it."""


class MicrocompactMetadata(Struct, frozen=True, rename="camel"):
    """What a clearing says about itself, and the results it took out of sight."""

    trigger: str = "auto"
    pre_tokens: int | None = None
    tokens_saved: int | None = None
    compacted_tool_ids: list[str] = []
    cleared_attachment_uuids: list[str] = msgspec.field(default_factory=list, name="clearedAttachmentUUIDs")


class Own(Struct, frozen=True, tag_field="kind", omit_defaults=True, kw_only=True):
    """Base of all our own records; id, place and time are set when one is written."""

    id: str = ""
    at: str | None = None
    timestamp: str = ""


class Epoch(Own, frozen=True, tag="epoch"):
    """A stretch in which the sent prefix only grows; holds, once, everything that precedes the messages."""

    reason: str
    model: str
    max_tokens: int = 0
    system: list[Raw] = []
    sections: list[tuple[str, int]] = []
    """What the system prompt is made of, if that is known: names, and how many characters each has."""
    tools: list[Raw] = []
    settings: dict[str, Raw] = {}
    """Other fields of its requests: thinking, the provider's edits and so on."""
    betas: list[str] = []
    lifetimes: dict[str, str] = {}
    renderer: int = 1
    drops_thinking: bool = False
    """Reasoning from before this record is no longer sent."""
    drops_thinking_after: str | None = None
    """The exception at the beginning: reasoning up to this record is still sent."""
    drops_thinking_before: str | None = None
    """The exception at the end: reasoning from this record on is still sent."""
    boundary: str | None = None
    """The compaction it opens with, if it was written together with one."""


class Option(Struct, frozen=True, omit_defaults=True):
    """Something that could be done before a request."""

    name: str
    """nothing, wait, clear, provider, compact…"""
    tokens: int = 0
    """What it would free, by estimate."""
    usd: float | None = None
    """What it would save until the end of the session, by estimate; negative: what it would cost."""
    because: str = ""
    """Why it was taken, or why not."""


class Why(Struct, frozen=True, omit_defaults=True):
    """What was known and considered before a request went out."""

    used: int
    band: int
    threshold: int
    rule: str
    """The rule that decided."""
    chosen: str = "nothing"
    options: list[Option] = []
    usd: float | None = None
    """What the request was expected to cost, its answer aside."""
    after_compaction: str = ""
    """The compaction this is the first request after; empty: there was another since."""
    owed: float | None = None
    """US dollars by which the session has cost more, this request included, than without clearing; negative: less.
    None: there is no difference."""
    ahead: int = 0
    """Tokens by which it is larger than without clearing; negative: smaller."""


class Request(Own, frozen=True, tag="request"):
    """One request as it went out: enough, with its epoch and its tip, to rebuild the body byte for byte."""

    epoch: str
    tip: str | None
    source: str = "main"
    markers: list[tuple[str, int, int, str]] = []
    """Level, place in it, block and lifetime of each."""
    parameters: dict[str, Raw] = {}
    """Fields of this request alone."""
    sha256: str = ""
    appended: list[Raw] = []
    """Messages a fork adds to those of the view; they are nowhere else."""
    upto: str | None = None
    """The last record of the view a fork begins with, if not the newest."""
    why: Why | None = None
    spent: float | None = None
    """US dollars the session had cost before it; None where a price is unknown."""
    number: int = 0
    """How many requests of the session came before it."""


class Billed(Own, frozen=True, tag="billed"):
    """What the answer to a call of the engine's own reported; the answer is not part of the conversation."""

    request: str
    model: str
    usage: Raw = Raw(b"{}")
    source: str = ""
    """On whose behalf it was made, where the request is not on record."""


class Carry(Own, frozen=True, tag="carry"):
    """What a reader that stops at a boundary must still know of the time before it."""

    boundary: str
    previous_boundary: str | None = None
    epoch: str | None = None
    pins: list[str] = []
    breaker: int = 0
    epoch_offset: int | None = None
    segment_offset: int | None = None
    """Where reading must start to see all messages the compaction keeps."""


class Commit(Own, frozen=True, tag="commit"):
    """Ends a compaction's one write, without which it never happened; or announces records that count only together."""

    boundary: str
    """The compaction; empty in an announcement."""
    together: list[str] = []
    """The ids of the records that follow. If one of them is missing, because the write was cut off, none counts."""


class Signed(Own, frozen=True, tag="signed"):
    """The summary the provider made: sent, byte for byte, to the model it was made for.

    A signed one, which can be read, is sent in place of ours; an encrypted one in front of it.
    """

    boundary: str
    block: Raw
    model: str = ""
    """Whose it is; to other models ours goes alone. Empty in older records: for any model."""


class Offloaded(Own, frozen=True, tag="offload"):
    """A big result moved to disk; ``preview`` is what stays in its place, for good."""

    tool_use_id: str
    preview: str
    path: str
    size: int
    sha256: str


class Keep(Own, frozen=True, tag="keep"):
    """Results that were looked at and left as they are, for good."""

    tool_use_ids: list[str]


class Pinned(Own, frozen=True, tag="pinned"):
    """Results deleted from the cached prefix by reference, said again at its place while the cache lives.

    Without any results it starts over: results carry references, and nothing is deleted.
    """

    calls: list[str] = []
    record: str = ""
    """The record it follows."""


class Snip(Own, frozen=True, tag="snip"):
    """Whole rounds taken out of sight with no summary; ``first`` to ``last`` in the order of the view."""

    first: str
    last: str


class Fold(Own, frozen=True, tag="fold"):
    """Whole rounds folded into the one text that replaces them."""

    first: str
    last: str
    summary: str


class Pin(Own, frozen=True, tag="pin"):
    """A record the user wants kept word for word."""

    record: str
    off: bool = False


class Forked(Own, frozen=True, tag="fork"):
    """A branch begins here: what is said next starts a message of its own, so that what came before stays as it was."""

    name: str
    source: str = ""


class NotesMark(Own, frozen=True, tag="notes"):
    """How far the session notes cover the conversation."""

    covered: str | None
    boundary: str | None = None
    """The compaction the conversation began with then: another one since, and the mark no longer counts."""


class Remembered(Own, frozen=True, tag="remembered"):
    """How far the conversation was looked through for lasting facts."""

    covered: str


class AgentStart(Own, frozen=True, tag="agent_started"):
    """A sub-agent got work: its first, or, with the same ``agent``, something more to do."""

    agent: str
    """Its id, from the session that started it and the tool call."""
    owner: str = ""
    """The agent that started it; empty: the session's own."""
    name: str = ""
    agent_type: str = ""
    call: str = ""
    """The tool call that waits for its result, or started it."""
    description: str = ""
    prompt: str = ""
    model: str = ""
    fork: bool = False
    background: bool = False
    because: str = ""
    """Why it is a fork, or why not."""
    worktree: str = ""
    """Its working copy of the project, if it has one."""


class AgentEnd(Own, frozen=True, tag="agent_ended"):
    """A sub-agent ended its work; the result is pending until this log holds it."""

    agent: str
    owner: str = ""
    state: Literal["completed", "failed", "cancelled"] = "completed"
    text: str = ""
    detail: str = ""
    """Why it failed or was cancelled."""
    usd: float | None = 0.0
    """What this work cost, that of its own sub-agents included; None if a price is unknown."""
    turns: int = 0
    tokens: int = 0
    """Tokens it wrote."""
    saved_usd: float = 0.0
    """How much more its own requests would have cost without the cache, as far as prices are known."""


class Undone(Own, frozen=True, tag="undone"):
    """Takes back an earlier decision, or, with ``redo``, takes that back."""

    decision: str
    redo: bool = False


class Amended(Own, frozen=True, tag="amended"):
    """The caller's system and tools changed; those of the epoch are still sent, the change was appended."""

    system: list[Raw] = []
    sections: list[tuple[str, int]] = []
    tools: list[Raw] = []


class Purged(Own, frozen=True, tag="purged"):
    """Leaked secrets were masked in this file: of requests made before, the hashes no longer fit."""

    masks: list[str]
    """What replaced them."""
    count: int
    """How many places were masked in this file."""
    results: dict[str, str] = {}
    """Stored results that were masked too, by path, with the SHA-256 they have now."""


class Rewound(Own, frozen=True, tag="rewound"):
    """The conversation goes on from ``to``; what came after it is on a branch that is no longer live."""

    to: str | None


_Requests = Epoch | Amended | Request | Billed
_Compactions = Carry | Commit | Signed
_Changes = Offloaded | Keep | Pinned | Snip | Fold | Pin | Undone | Purged | Rewound
_Marks = Forked | NotesMark | Remembered | AgentStart | AgentEnd
OwnDecision = _Requests | _Compactions | _Changes | _Marks

Trigger = Literal["auto", "manual"]

_own: msgspec.json.Decoder[OwnDecision] = msgspec.json.Decoder(OwnDecision)


def read_own(line: bytes) -> OwnDecision:
    """The own record in ``line``; raises `msgspec.DecodeError` for a kind this version does not know."""
    return _own.decode(line)
