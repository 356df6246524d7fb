"""Writing records: each function returns the line to append and the entry that reading it back would give.

User, assistant and attachment records and the two boundaries have the shapes that tools for such transcripts already
read; our own records follow `decisions`. Content is written as the bytes it already has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from sevenfold.record.authorship import users_words
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import (
    FORMAT_VERSION,
    CompactMetadata,
    MicrocompactMetadata,
    OwnDecision,
)
from sevenfold.record.entries import (
    NOT_STORED,
    SAID_BY_USER,
    VERSION,
    Boundary,
    Clearing,
    Decision,
    Entry,
    Label,
    Said,
    Stored,
    read_usage,
)
from sevenfold.record.sendable import new_kinds
from sevenfold.record.usage import DELETED, UNEDITED, UNMANAGED, Edits

if TYPE_CHECKING:
    from sevenfold.record.layout import Item

BOUNDARY_TEXT = "Conversation compacted"
CLEARING_TEXT = "Old tool results cleared"
LABEL_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "custom-title": "customTitle",
        "ai-title": "aiTitle",
        "summary": "summary",
        "last-prompt": "lastPrompt",
    }
)
"""Type of a label record → the field with its text. In older transcripts, a summary is a title."""
TITLES = ("custom-title", "ai-title", "summary")
"""The kinds of titles, the preferred ones first: the user's own title comes before any other."""
LONGEST_LABEL = 200
"""Maximum characters in a label."""


_encoder = msgspec.json.Encoder()
_encode = _encoder.encode


class Place(Struct, frozen=True):
    """Where a session runs; every record carries it."""

    session: str
    cwd: str = ""
    version: str = ""
    branch: str = ""
    sidechain: bool = False
    own: bool = False
    """Whether one of our sessions writes here; derived from the version."""
    head: bytes = b""
    """The encoded fields that a record has between its parent and its type; derived from the other fields."""

    def __post_init__(self) -> None:
        force_setattr(self, "own", self.version.startswith(VERSION))
        fields = _PlaceFields(self.sidechain, "external", self.cwd, self.session, self.version, self.branch)
        force_setattr(self, "head", b',%b,"type":' % _encode(fields)[1:-1])


class Stamp(Struct, frozen=True, gc=False):
    """What every record begins with: where it was written, its id, its parent, and the time."""

    place: Place
    uuid: str
    parent: str | None
    timestamp: str


class Answer(Struct, frozen=True, gc=False):
    """A model's answer, kept as bytes where these matter."""

    id: str
    model: str
    blocks: tuple[Block, ...]
    usage: Raw = Raw(b"{}")
    stop_reason: str | None = None
    request_id: str | None = None
    context_management: Raw = UNMANAGED
    outdated: bool = False
    """Whether the conversation changed since the request, so that the usage does not measure the view before it."""

    @property
    def blank(self) -> bool:
        """Whether all of its blocks are blank."""
        return all(block.blank for block in self.blocks)


class Written(Struct, frozen=True, gc=False):
    """A line to append, and the entry it holds."""

    line: bytes
    entry: Entry


class _PlaceFields(Struct, gc=False, rename="camel"):
    is_sidechain: bool
    user_type: str
    cwd: str
    session_id: str
    version: str
    git_branch: str


class _AnswerFields(Struct, gc=False):
    """The fields after the content in the message of an answer."""

    id: str
    type: str
    model: str
    stop_reason: str | None
    stop_sequence: str | None
    usage: Raw
    context_management: Raw | UnsetType = UNSET


class _OptionalFields(Struct, gc=False, rename="camel"):
    """The optional fields after the message in a record with content."""

    attachment: Raw | UnsetType = UNSET
    is_meta: bool | UnsetType = UNSET
    is_compact_summary: bool | UnsetType = UNSET
    is_visible_in_transcript_only: bool | UnsetType = UNSET
    key: str | UnsetType = msgspec.field(default=UNSET, name="sevenfold_key")
    stored: dict[str, Stored] | UnsetType = msgspec.field(default=UNSET, name="sevenfold_results")
    origin: str | UnsetType = msgspec.field(default=UNSET, name="sevenfold_origin")
    typed: str | UnsetType = msgspec.field(default=UNSET, name="sevenfold_typed")


class _BoundaryFields(Struct, gc=False, rename="camel"):
    """The fields that only a boundary or a clearing has."""

    subtype: str
    content: str
    level: str = "info"
    is_meta: bool = False
    compact_metadata: CompactMetadata | UnsetType = UNSET
    microcompact_metadata: MicrocompactMetadata | UnsetType = UNSET
    sevenfold: int | UnsetType = UNSET


_OWN = b'{"type":"sevenfold","v":%d,' % FORMAT_VERSION


def said_by_user(
    at: Stamp,
    blocks: Sequence[Block],
    *,
    role: str = "user",
    meta: bool = False,
    summary: bool = False,
    key: str = "",
    stored: dict[str, Stored] | None = None,
    attachment: str = "",
    facts: Mapping[str, object] = {},
    origin: str = "",
    typed: str | None = None,
) -> Written:
    """A record on the user's side: from the user, a tool, or (``meta``) the program itself.

    ``origin`` and ``typed`` are recorded for a message that the user did not type, or not all of. ``attachment`` is the
    kind of an attachment, which is recorded with its ``facts`` and the message it is sent as.
    """
    extra_fields = b""
    if attachment or meta or summary or key or stored or origin:
        optional = _OptionalFields()
        if attachment:
            optional.attachment = Raw(_encode({"type": attachment, **facts}))
        if meta:
            optional.is_meta = True
        if summary:
            optional.is_compact_summary = optional.is_visible_in_transcript_only = True
        optional.key = key or UNSET
        optional.stored = stored or UNSET
        if origin:
            optional.origin = origin
            optional.typed = UNSET if typed is None else typed
        extra_fields = b"," + _encode(optional)[1:-1]
    line = _content_line(
        at, b'"attachment"' if attachment else b'"user"', role, blocks, b"}" + extra_fields
    )
    record = Said(
        at.uuid,
        at.parent,
        role,
        tuple(blocks),
        at.timestamp,
        sidechain=at.place.sidechain,
        meta=meta or attachment not in SAID_BY_USER,
        summary=summary,
        attachment=attachment,
        key=key,
        stored=stored or NOT_STORED,
        own=at.place.own,
        origin=origin,
        typed=typed,
    )
    return Written(line, record)


def said_by_model(at: Stamp, answer: Answer) -> Written:
    """The record of a model's answer: one record per response."""
    stop = answer.stop_reason
    own = at.place.own
    edits = UNEDITED
    managed = answer.context_management
    if managed is not UNMANAGED or DELETED in bytes(answer.usage):
        edits = Edits.read(managed, answer.usage)
    applied_edits = managed if edits.cleared else UNSET
    reply = _encode(
        _AnswerFields(answer.id, "message", answer.model, stop, None, answer.usage, applied_edits)
    )
    extra_fields = b',"requestId":' + _encode(answer.request_id) if answer.request_id else b""
    extra_fields += b',"sevenfold_outdated":true' if answer.outdated else b""
    kinds = new_kinds(answer.blocks)
    if kinds:
        extra_fields += b',"sevenfold_kinds":' + _encode(kinds)
    line = _content_line(at, b'"assistant"', "assistant", answer.blocks, b"," + reply[1:] + extra_fields)
    record = Said(
        at.uuid,
        at.parent,
        "assistant",
        answer.blocks,
        at.timestamp,
        answer.id,
        answer.model,
        read_usage(answer.usage),
        at.place.sidechain,
        own=own,
        cut=own and stop is None,
        edits=edits,
        outdated=answer.outdated,
        new_kinds=kinds,
    )
    return Written(line, record)


def compacted(at: Stamp, about: CompactMetadata, *, own: bool = True) -> Written:
    """The boundary of a compaction, after the newest record; one of our ``own`` counts once its commit is written."""
    system = _BoundaryFields(
        "compact_boundary", BOUNDARY_TEXT, compact_metadata=about, sevenfold=1 if own else UNSET
    )
    head = _head(at, None, b'"system"') + b',"logicalParentUuid":' + _encode(at.parent)
    boundary = Boundary(at.uuid, at.parent, about, at.timestamp, own, at.place.sidechain)
    return Written(b"%b,%b\n" % (head, _encode(system)[1:]), boundary)


def cleared(at: Stamp, about: MicrocompactMetadata) -> Written:
    """The record of a clearing."""
    system = _BoundaryFields("microcompact_boundary", CLEARING_TEXT, microcompact_metadata=about)
    clearing = Clearing(at.uuid, at.parent, about, at.timestamp, at.place.sidechain)
    return Written(b"%b,%b\n" % (_head(at, at.parent, b'"system"'), _encode(system)[1:]), clearing)


def labelled(place: Place, kind: str, text: str, leaf: str | None) -> Written:
    """A label of a session, for lists of sessions; ``leaf`` is the session's newest record."""
    about = {"type": kind, LABEL_FIELDS[kind]: text, "sessionId": place.session}
    if kind == "last-prompt":
        about["leafUuid"] = leaf or ""
    return Written(_encoder.encode_lines((about,)), Label(kind, text))


def decided(decision: OwnDecision) -> Written:
    """One of our own records."""
    return Written(_OWN + _encode(decision)[1:] + b"\n", Decision(decision))


def _head(at: Stamp, parent: str | None, kind: bytes) -> bytes:
    """The beginning of every record that has a parent field."""
    fields = _encode(parent), at.place.head, kind, _encode(at.uuid), _encode(at.timestamp)
    return b'{"parentUuid":%b%b%b,"uuid":%b,"timestamp":%b' % fields


def _content_line(
    at: Stamp, kind: bytes, role: str, blocks: Sequence[Block], after_content: bytes
) -> bytes:
    """The line of a record with content; ``after_content`` is the rest of the message and of the record."""
    # Fast path: nearly every message is one block.
    content = blocks[0].raw if len(blocks) == 1 else b",".join([block.raw for block in blocks])
    names = _encode(at.parent), at.place.head, kind, _encode(at.uuid), _encode(at.timestamp), _encode(role)
    head = b'{"parentUuid":%b%b%b,"uuid":%b,"timestamp":%b,"message":{"role":%b,"content":[' % names
    return b"".join((head, content, b"]", after_content, b"}\n"))


# -- labels: what a list of sessions shows -------------------------------------------------------


def title_of(labels: Mapping[str, str]) -> str:
    """The title among labels; empty if there is none."""
    return next((labels[kind] for kind in TITLES if labels.get(kind)), "")


def renew_labels(
    labels: Mapping[str, str], items: Sequence[Item], clean: Callable[[str], str] = str
) -> dict[str, str]:
    """The labels of a session for its current view; without a title, the user's first words become one.

    Text taken from the conversation goes through ``clean`` first, because labels are shown outside the session.
    """

    def prompts(ordered: Iterable[Item]) -> Iterator[str]:
        # Cleaning a long message takes time, and only the first and the last prompt are needed.
        for item in ordered:
            if prompt := shorten_label(clean(users_words(item.record))):
                yield prompt

    # In older transcripts a "summary" is a title; from here on the title has a kind of its own.
    renewed = {kind: label for kind, label in labels.items() if kind != "summary"}
    if last_prompt := next(prompts(reversed(items)), ""):
        renewed["last-prompt"] = last_prompt
    if not title_of(renewed):
        title = title_of(labels) or next(prompts(items), "")
        if title:
            renewed["ai-title"] = title
    return renewed


def shorten_label(text: str) -> str:
    """The text on one line, cut after a whole word to the length of a label."""
    line = " ".join(text.split())
    if len(line) <= LONGEST_LABEL:
        return line
    whole = line[:LONGEST_LABEL].rpartition(" ")[0]
    return f"{whole} …" if whole else ""
