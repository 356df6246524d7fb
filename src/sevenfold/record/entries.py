"""One parsed line of a transcript: content, a decision, or something that is merely kept.

    Said        a message of the user, the model or a tool, or an attachment
    Boundary    a compaction; Clearing: old tool results cleared   (shapes shared with other tools)
    Decision    one of our own records; UnknownDecision: one that only a newer version understands
    Link        not for the model, but other records name it as their parent
    Queued      a message typed while the agent was busy enters or leaves the client's queue
    Label       a title, or the user's last prompt, for lists of sessions
    Passed      skipped: the view does not need it
    Damaged     a line that is not a record; it is counted and left in place

Reading never fails: any line becomes one of these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from sevenfold.record import blocks, decisions
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import CompactMetadata, MicrocompactMetadata, OwnDecision
from sevenfold.record.usage import DELETED, UNEDITED, UNMANAGED, Edits, Usage

RESULT = "result:"
"""How the name of a stored result begins wherever it is kept; tools that read results take it in place of a path."""


class Stored(Struct, frozen=True, gc=False):
    """Where the full content of an offloaded result is stored; the record holds only a preview."""

    path: str
    size: int
    sha256: str

    def is_at(self, reference: str) -> bool:
        """Whether a path, or ``result:`` and a name, names this result."""
        if not reference.startswith(RESULT):
            return reference == self.path
        name = PurePath(self.path.removeprefix(RESULT)).name
        return bool(name) and reference.removeprefix(RESULT) == name


NOT_STORED: Mapping[str, Stored] = MappingProxyType({})
"""Shared by the many records without offloaded results."""


class Said(Struct, frozen=True, gc=False):
    """A message or an attachment, as recorded."""

    uuid: str
    parent: str | None
    role: str
    blocks: tuple[Block, ...]
    timestamp: str = ""
    message_id: str = ""
    model: str = ""
    usage: Usage | None = None
    sidechain: bool = False
    meta: bool = False
    summary: bool = False
    synthetic: bool = False
    attachment: str = ""
    key: str = ""
    """The caller's own id for it: content recorded again under the same key is recorded only once."""
    stored: Mapping[str, Stored] = NOT_STORED
    """Tool call → where its result is stored, for results of which the record holds only a preview."""
    own: bool = False
    """Whether one of our sessions wrote it: then everything unflagged is the user's own words, unchanged."""
    cut: bool = False
    """Whether it is an interrupted answer in one of our sessions: its reported usage may not count all of it."""
    edits: Edits = UNEDITED
    """What the provider's own edits removed from the prompt of this answer."""
    outdated: bool = False
    """Whether the answer's prompt differs from the view before it, so that its usage does not measure the view."""
    calls: tuple[str, ...] = ()
    """Ids of the tool calls it makes; derived from its blocks."""
    answers: tuple[str, ...] = ()
    """Ids of the tool calls it has results for; derived from its blocks."""
    origin: str = ""
    """Where the text of a user message comes from, if they did not type all of it: an `authorship.MessageOrigin`."""
    typed: str | None = None
    """What the user typed of such a message; None if that is not recorded."""
    new_kinds: tuple[str, ...] = ()
    """Kinds of blocks in an answer that the provider sent although this version of the engine did not know them."""

    def __post_init__(self) -> None:
        calls: list[str] = []
        answers: list[str] = []
        for block in self.blocks:
            if not block.id:
                # Damage or another tool's log: nothing can be paired with it.
                continue
            if block.kind == "tool_use":
                calls.append(block.id)
            elif block.kind == "tool_result":
                answers.append(block.id)
        if calls:
            force_setattr(self, "calls", tuple(calls))
        if answers:
            force_setattr(self, "answers", tuple(answers))


class Boundary(Struct, frozen=True, gc=False):
    """A compaction: the view restarts here."""

    uuid: str
    logical_parent: str | None
    about: CompactMetadata
    timestamp: str = ""
    own: bool = False
    sidechain: bool = False


class Clearing(Struct, frozen=True, gc=False):
    """Old tool results cleared from the view."""

    uuid: str
    parent: str | None
    about: MicrocompactMetadata
    timestamp: str = ""
    sidechain: bool = False


class Decision(Struct, frozen=True, gc=False):
    """One of our own records."""

    record: OwnDecision


class UnknownDecision(Struct, frozen=True, gc=False):
    """An own record that only a newer version understands."""

    kind: str


class Link(Struct, frozen=True, gc=False):
    """A record the model never sees, but that other records may have as parent."""

    uuid: str
    parent: str | None


class Queued(Struct, frozen=True, gc=False):
    """An operation on the client's queue of messages typed while the agent is busy."""

    operation: str
    message: Said
    """The queued message, without a parent; empty if the operation does not contain its text."""


class Label(Struct, frozen=True, gc=False):
    """What a list of sessions shows: a title, or the user's last prompt."""

    kind: str
    text: str


class Passed(Struct, frozen=True, gc=False):
    """A record that is skipped: it stays in the file, but the view does not need it."""

    type: str = ""


class Damaged(Struct, frozen=True, gc=False):
    """A line that is not a valid record, and why; with its id and parent if they can be read."""

    problem: str
    uuid: str | None = None
    parent: str | None = None


Entry = Said | Boundary | Clearing | Decision | UnknownDecision | Link | Queued | Label | Passed | Damaged


def name_of(entry: Entry) -> str:
    """The id of a record; empty for one that has none."""
    named = entry.record.id if isinstance(entry, Decision) else getattr(entry, "uuid", "")
    return named or ""


_ABSENT = Raw(b"null")


class _Envelope(Struct, frozen=True, gc=False, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    timestamp: str | None = None
    message: Raw = _ABSENT
    attachment: Raw = _ABSENT
    compact_metadata: Raw = _ABSENT
    microcompact_metadata: Raw = _ABSENT
    sevenfold: int | None = None
    version: Raw = _ABSENT
    key: str | None = msgspec.field(default=None, name="sevenfold_key")
    stored: dict[str, Stored] | None = msgspec.field(default=None, name="sevenfold_results")
    outdated: bool | None = msgspec.field(default=None, name="sevenfold_outdated")
    text_origin: str | None = msgspec.field(default=None, name="sevenfold_origin")
    typed: str | None = msgspec.field(default=None, name="sevenfold_typed")
    new_kinds: tuple[str, ...] | None = msgspec.field(default=None, name="sevenfold_kinds")
    v: int | None = None
    kind: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    last_prompt: str | None = None
    origin: Raw = _ABSENT
    operation: Any = None
    reason: Any = None
    content: Raw = _ABSENT


class _Message(Struct, frozen=True, gc=False):
    role: str | None = None
    id: str | None = None
    model: str | None = None
    content: str | list[Raw] | None = None
    stop_reason: Any = None
    usage: Raw = _ABSENT
    context_management: Raw = UNMANAGED


class _Record(_Envelope, frozen=True, gc=False, rename="camel"):
    """An envelope whose message is decoded in the same pass."""

    message: _Message | None = None  # type: ignore[assignment]


_record = msgspec.json.Decoder(_Record)
_envelope = msgspec.json.Decoder(_Envelope)
_message = msgspec.json.Decoder(_Message | None)
_compact = msgspec.json.Decoder(CompactMetadata | None)
_microcompact = msgspec.json.Decoder(MicrocompactMetadata | None)

_NOT_SENT = frozenset(
    {"command_permissions", "hook_system_message", "hook_cancelled", "async_hook_response"}
)
_FACTS = ("filename", "path", "hookName", "newDate", "planFilePath", "condition")
_TEXTS = ("content", "snippet", "addedLines", "addedBlocks", "removedNames", "stderr", "files")
QUEUED_COMMAND = "queued_command"
"""The attachment that holds a prompt the user typed while the agent was busy."""
KEPT_MESSAGE = "kept_message"
"""The attachment that holds a message of the user that another tool's compaction put after its summary."""
SAID_BY_USER = ("", QUEUED_COMMAND, KEPT_MESSAGE)
"""The kinds of attachments whose text a user said, and no attachment at all."""
ABSORBED = "absorbed_mid_turn"
_HUMAN = frozenset({None, "human"})

SYNTHETIC_MODEL = "<synthetic>"
VERSION = "sevenfold-"
"""How the version field begins in our records."""
_OURS = f'"{VERSION}'.encode()
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read(line: bytes) -> Entry:
    """Parse a line; never fails. Blank lines become `Passed`."""
    if not line or line.isspace():
        return Passed()
    try:
        # The decoder does not check parts that are kept raw, and invalid UTF-8 in them must not reach a request.
        if not line.isascii():
            line.decode()
        return _read(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as first:
        return _second_look(line, first)


def _second_look(line: bytes, first: Exception) -> Entry:
    """Parse a line that the fast decoder rejects: replace lone surrogates, or else say what is wrong with it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Damaged(f"not JSON: {error}")
    if not isinstance(value, dict):
        return Damaged(f"a {type(value).__name__} where a record should be")
    repaired = _without_lone_surrogates(value)
    if repaired != value:
        try:
            return _read(msgspec.json.encode(repaired))
        except (msgspec.DecodeError, RecursionError) as error:
            first = error
    uuid = value.get("uuid")
    parent = value.get("parentUuid")
    return Damaged(
        f"not a record: {first}",
        uuid if isinstance(uuid, str) else None,
        parent if isinstance(parent, str) else None,
    )


def _read(line: bytes) -> Entry:
    head: _Envelope
    try:
        head = _record.decode(line)
    except (msgspec.DecodeError, RecursionError):
        # Leave the message raw: in some kinds of records it does not matter that it is invalid.
        head = _envelope.decode(line)
    written = head.timestamp or ""
    aside = bool(head.is_sidechain)
    match head.type:
        case "user" | "assistant" | "attachment" if head.uuid:
            return _content_record(head, head.uuid)
        case "system" if head.uuid and head.subtype == "compact_boundary":
            summary = _compact.decode(head.compact_metadata) or CompactMetadata()
            own = bool(head.sevenfold)
            return Boundary(head.uuid, head.logical_parent_uuid, summary, written, own, aside)
        case "system" if head.uuid and head.subtype == "microcompact_boundary":
            cleared = _microcompact.decode(head.microcompact_metadata) or MicrocompactMetadata()
            return Clearing(head.uuid, head.parent_uuid, cleared, written, aside)
        case "sevenfold" if (head.v or 0) > decisions.FORMAT_VERSION:
            return UnknownDecision(head.kind or "")
        case "sevenfold":
            try:
                return Decision(decisions.read_own(line))
            except msgspec.DecodeError:
                return UnknownDecision(head.kind or "")
        case "custom-title" | "ai-title" | "last-prompt":
            return Label(head.type, getattr(head, head.type.replace("-", "_")) or "")
        case "summary" if not head.uuid:
            return Label(head.type, head.summary or "")
        case "queue-operation":
            # Newer versions give the reason for a removal: only what a running turn absorbed was really said.
            withdrawn = head.operation == "remove" and head.reason not in (None, ABSORBED)
            return Queued("withdraw" if withdrawn else str(head.operation or ""), _queued(head))
        case _:
            return Link(head.uuid, head.parent_uuid) if head.uuid else Passed(head.type or "")


def _content_record(head: _Envelope, uuid: str) -> Said:
    message = head.message if isinstance(head, _Record) else _message.decode(head.message)
    kind = ""
    if head.type == "attachment":
        kind, content = _read_attachment(head.attachment)
        message = message or _Message(role="user", content=content)
    message = message or _Message()
    synthetic = bool(head.is_api_error_message) or message.model == SYNTHETIC_MODEL
    own = bytes(head.version).startswith(_OURS)
    edits = UNEDITED
    managed = message.context_management
    if bytes(managed) != b"null" or DELETED in bytes(message.usage):
        edits = Edits.read(managed, message.usage)
    return Said(
        uuid,
        head.parent_uuid,
        message.role or ("assistant" if head.type == "assistant" else "user"),
        _blocks(message.content),
        head.timestamp or "",
        message.id or "",
        message.model or "",
        None if synthetic else read_usage(message.usage),
        bool(head.is_sidechain),
        bool(head.is_meta) or kind not in SAID_BY_USER or not _human(head.origin),
        bool(head.is_compact_summary),
        synthetic,
        kind,
        head.key or "",
        head.stored or NOT_STORED,
        own,
        own and head.type == "assistant" and message.stop_reason is None,
        edits,
        bool(head.outdated),
        origin=head.text_origin or "",
        typed=head.typed,
        new_kinds=head.new_kinds or (),
    )


def _queued(head: _Envelope) -> Said:
    """The message in a queue operation; its id is a hash of its text and the time."""
    text = _text_in(msgspec.json.decode(head.content))
    name = hashlib.blake2b(f"{head.timestamp} {text}".encode(errors="replace"), digest_size=12).hexdigest()
    content = (blocks.text(text),) if text else ()
    notice = _is_task_notice(text)
    return Said(
        f"queued-{name}",
        None,
        "user",
        content,
        head.timestamp or "",
        meta=notice,
        attachment=QUEUED_COMMAND,
    )


def _is_task_notice(text: str) -> bool:
    """Whether a queued text is a client's notice about a background task: an object with the task's id and type.

    Some versions queue it in this form, without any flag that says who wrote it.
    """
    if not text.startswith("{"):
        return False
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(fields, dict) and {"task_id", "task_type"} <= fields.keys()


def _human(origin: Raw) -> bool:
    """Whether a message comes from a person; versions that record an origin name every other sender."""
    return origin is _ABSENT or _origin_of({"origin": msgspec.json.decode(origin)}) in _HUMAN


def _origin_of(fields: dict[str, Any]) -> str | None:
    match fields.get("origin"):
        case {"kind": str(kind)} | str(kind):
            return kind
        case _:
            return None


def read_usage(reported: Raw) -> Usage | None:
    """The usage reported in a message; None if it is missing or all zero."""
    if reported is _ABSENT:
        return None
    usage = Usage.read(reported)
    return usage if usage.input_tokens or usage.total else None


def _blocks(content: str | list[Raw] | None) -> tuple[Block, ...]:
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (blocks.text(content),)
    decoded = tuple([blocks.read(bytes(raw)) for raw in content])
    for block in decoded:
        if not block.kind:
            raise msgspec.ValidationError("a content block without a type")
    return decoded


def _read_attachment(raw: msgspec.Raw) -> tuple[str, str | None]:
    """The attachment's kind and the text it adds to the context; None if it adds nothing.

    Our own attachments are stored together with the message they are sent as. Other tools store only the facts (a
    file that changed, a reminder, a prompt typed while the agent was busy) and not how they render them. So their
    text is reconstructed here from the fields that hold it, always the same way: close enough to weigh and to read.
    """
    fields = msgspec.json.decode(raw)
    if not isinstance(fields, dict):
        return "unknown", None
    kind = str(fields.get("type") or "unknown")
    if kind == QUEUED_COMMAND:
        # A program's notice may be in the queue too.
        prompt = _text_in(fields.get("prompt"))
        human = _origin_of(fields) in _HUMAN and fields.get("commandMode") != "task-notification"
        return kind if human and not _is_task_notice(prompt) else "queued_notice", prompt or None
    if kind in _NOT_SENT or (kind == "hook_success" and not fields.get("content")):
        return kind, None
    texts = [_text_in(fields.get(name)) for name in _TEXTS]
    content = "\n".join(filter(None, texts))
    labels = " ".join(str(fields[name]) for name in _FACTS if isinstance(fields.get(name), str))
    if not content and not labels:
        return kind, None
    return kind, f"<reminder kind={kind!r}>\n{labels}\n{content}\n</reminder>"


def _text_in(value: Any) -> str:
    """The text in a field of an attachment, whatever shape the field has in this version of the other tool."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(filter(None, map(_text_in, value)))
        case {"type": "text", "text": str() as text}:
            return text
        case {"file": dict() as file}:
            return _text_in(file.get("content"))
        case {"content": inner}:
            return _text_in(inner)
        case dict():
            return msgspec.json.encode(value).decode()
        case _:
            return ""


def _without_lone_surrogates(value: Any) -> Any:
    match value:
        case str():
            return _LONE_SURROGATE.sub("\ufffd", value)
        case list():
            return [_without_lone_surrogates(inner) for inner in value]
        case dict():
            return {_without_lone_surrogates(k): _without_lone_surrogates(v) for k, v in value.items()}
        case _:
            return value
