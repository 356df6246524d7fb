"""How a record is written: the line, and at the same time the entry that reading it back would give.

User, assistant and attachment records and the two boundaries have the shapes that tools for such
transcripts already read; our own records follow `decisions`. What was said goes in as the bytes it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""The field that holds the words, by the type of the record. A summary is a title in older transcripts."""
TITLES = ("custom-title", "ai-title", "summary")
"""The user's own title counts before any other."""
LONGEST_LABEL = 200
"""Characters of a label."""


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
    """Is it a session of ours that writes here? Follows from the version."""
    head: bytes = b""
    """What a record says of it, between its parent and its type; follows from the rest."""

    def __post_init__(self) -> None:
        force_setattr(self, "own", self.version.startswith(VERSION))
        where = _Where(self.sidechain, "external", self.cwd, self.session, self.version, self.branch)
        force_setattr(self, "head", b',%b,"type":' % _encode(where)[1:-1])


class Stamp(Struct, frozen=True, gc=False):
    """What every record begins with: its place, its id, the record before it, and the time."""

    place: Place
    uuid: str
    parent: str | None
    timestamp: str


class Answer(Struct, frozen=True, gc=False):
    """What came back from a model, as bytes where it matters."""

    id: str
    model: str
    blocks: tuple[Block, ...]
    usage: Raw = Raw(b"{}")
    stop_reason: str | None = None
    request_id: str | None = None
    context_management: Raw = UNMANAGED
    outdated: bool = False
    """Has the conversation changed since the request? Then what it reports is not the size of what it follows."""

    @property
    def blank(self) -> bool:
        """Whether it says nothing."""
        return all(block.blank for block in self.blocks)


class Written(Struct, frozen=True, gc=False):
    """A line to append, and the entry it holds."""

    line: bytes
    entry: Entry


class _Where(Struct, gc=False, rename="camel"):
    is_sidechain: bool
    user_type: str
    cwd: str
    session_id: str
    version: str
    git_branch: str


class _Reply(Struct, gc=False):
    """What the message of an answer holds behind its content."""

    id: str
    type: str
    model: str
    stop_reason: str | None
    stop_sequence: str | None
    usage: Raw
    context_management: Raw | UnsetType = UNSET


class _More(Struct, gc=False, rename="camel"):
    """What a record of something said may hold behind its message."""

    attachment: Raw | UnsetType = UNSET
    is_meta: bool | UnsetType = UNSET
    is_compact_summary: bool | UnsetType = UNSET
    is_visible_in_transcript_only: bool | UnsetType = UNSET
    key: str | UnsetType = msgspec.field(default=UNSET, name="sevenfold_key")
    stored: dict[str, Stored] | UnsetType = msgspec.field(default=UNSET, name="sevenfold_results")


class _System(Struct, gc=False, rename="camel"):
    """What a boundary or a clearing holds of its own."""

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
) -> Written:
    """What the user, a tool or we ourselves (``meta``) said on the user's side.

    An ``attachment`` of that kind is recorded with its ``facts``, and with the message it is sent as.
    """
    more = b""
    if attachment or meta or summary or key or stored:
        held = _More()
        if attachment:
            held.attachment = Raw(_encode({"type": attachment, **facts}))
        if meta:
            held.is_meta = True
        if summary:
            held.is_compact_summary = held.is_visible_in_transcript_only = True
        held.key, held.stored = key or UNSET, stored or UNSET
        more = b"," + _encode(held)[1:-1]
    line = _spoken(at, b'"attachment"' if attachment else b'"user"', role, blocks, b"}" + more)
    said = Said(
        at.uuid,
        at.parent,
        role,
        tuple(blocks),
        at.timestamp,
        sidechain=at.place.sidechain,
        meta=meta or attachment != "",
        summary=summary,
        attachment=attachment,
        key=key,
        stored=stored or NOT_STORED,
        own=at.place.own,
    )
    return Written(line, said)


def said_by_model(at: Stamp, answer: Answer) -> Written:
    """What the model answered: one record a response."""
    stop, own = answer.stop_reason, at.place.own
    edits, managed = UNEDITED, answer.context_management
    if managed is not UNMANAGED or DELETED in bytes(answer.usage):
        edits = Edits.read(managed, answer.usage)
    kept = managed if edits.cleared else UNSET
    reply = _encode(_Reply(answer.id, "message", answer.model, stop, None, answer.usage, kept))
    more = b',"requestId":' + _encode(answer.request_id) if answer.request_id else b""
    more += b',"sevenfold_outdated":true' if answer.outdated else b""
    line = _spoken(at, b'"assistant"', "assistant", answer.blocks, b"," + reply[1:] + more)
    said = Said(
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
    )
    return Written(line, said)


def compacted(at: Stamp, about: CompactMetadata) -> Written:
    """The boundary of a compaction of ours, behind the newest record; it counts once its commit is written."""
    system = _System("compact_boundary", BOUNDARY_TEXT, compact_metadata=about, sevenfold=1)
    head = _head(at, None, b'"system"') + b',"logicalParentUuid":' + _encode(at.parent)
    made = Boundary(at.uuid, at.parent, about, at.timestamp, True, at.place.sidechain)
    return Written(b"%b,%b\n" % (head, _encode(system)[1:]), made)


def cleared(at: Stamp, about: MicrocompactMetadata) -> Written:
    """A clearing of old tool results."""
    system = _System("microcompact_boundary", CLEARING_TEXT, microcompact_metadata=about)
    made = Clearing(at.uuid, at.parent, about, at.timestamp, at.place.sidechain)
    return Written(b"%b,%b\n" % (_head(at, at.parent, b'"system"'), _encode(system)[1:]), made)


def labelled(place: Place, kind: str, text: str, leaf: str | None) -> Written:
    """What a session is known by; ``leaf`` is its newest record."""
    about = {"type": kind, LABEL_FIELDS[kind]: text, "sessionId": place.session}
    if kind == "last-prompt":
        about["leafUuid"] = leaf or ""
    return Written(_encoder.encode_lines((about,)), Label(kind, text))


def decided(made: OwnDecision) -> Written:
    """One of our own records."""
    return Written(_OWN + _encode(made)[1:] + b"\n", Decision(made))


def _head(at: Stamp, parent: str | None, kind: bytes) -> bytes:
    """What every record in the chain begins with."""
    fields = _encode(parent), at.place.head, kind, _encode(at.uuid), _encode(at.timestamp)
    return b'{"parentUuid":%b%b%b,"uuid":%b,"timestamp":%b' % fields


def _spoken(at: Stamp, kind: bytes, role: str, blocks: Sequence[Block], rest: bytes) -> bytes:
    """The line of something said; ``rest`` is what its message holds behind its content, and the record behind that."""
    # Nearly every message is one block.
    content = blocks[0].raw if len(blocks) == 1 else b",".join([block.raw for block in blocks])
    names = _encode(at.parent), at.place.head, kind, _encode(at.uuid), _encode(at.timestamp), _encode(role)
    head = b'{"parentUuid":%b%b%b,"uuid":%b,"timestamp":%b,"message":{"role":%b,"content":[' % names
    return b"".join((head, content, b"]", rest, b"}\n"))


# -- labels: what a session is known by in a list of sessions ------------------------------------


def title_of(labels: Mapping[str, str]) -> str:
    """The title among labels; empty if there is none."""
    return next((labels[kind] for kind in TITLES if labels.get(kind)), "")


def renew_labels(
    labels: Mapping[str, str], items: Iterable[Item], clean: Callable[[str], str] = str
) -> dict[str, str]:
    """The labels of a session as its view is now: without a title the user's first words are one.

    What is taken from the conversation goes through ``clean`` first: it leaves the place where it was said.
    """
    said = [words for item in items if (words := shorten_label(clean(users_words(item.said))))]
    kept = {kind: text for kind, text in labels.items() if kind != "summary"}
    if said:
        kept["last-prompt"] = said[-1]
    if not title_of(kept) and (first := title_of(labels) or next(iter(said), "")):
        kept["ai-title"] = first
    return kept


def shorten_label(words: str) -> str:
    """Words as a label has them: as many as there is room for, each of them whole."""
    line = " ".join(words.split())
    if len(line) <= LONGEST_LABEL:
        return line
    whole = line[:LONGEST_LABEL].rpartition(" ")[0]
    return f"{whole} …" if whole else ""
