"""Marks: what the queries of a log look for in its lines.

A store that keeps its lines in a database records the marks of each line as it is appended, with `marks_of`, and
answers `sevenfold.stores.log.LineLog.marked` from them. A store without an index searches its lines for `text_with`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sevenfold.ports import LogIdentity
from sevenfold.record import entries
from sevenfold.record.decisions import Commit, Undone
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said

Mark = Literal[
    "boundary",
    "record",
    "decision",
    "answer",
    "said",
    "key",
    "result",
    "call",
    "stored",
    "decided",
    "identity",
]
"""What a query looks for: boundaries, answers, all records with content, records with offloaded results, and records
that name the session; and by name, the record with an id, decisions of a kind, the record with a caller's key, the
record with the result of a call or with the call, and the records that make, commit, undo or redo a decision."""

ON_NEARLY_EVERY_LINE: frozenset[Mark] = frozenset({"said", "identity"})
"""A store may leave these out of its index and yield all lines for them: what is looked for is among the newest."""

_TEXTS: Mapping[Mark, bytes] = {
    "boundary": b'"compact_boundary"%b',
    # This also finds the children of the record, which name it as their parent.
    "record": b"%b",
    "decision": b'"kind":%b',
    "answer": b'"assistant"%b',
    "said": b'"type"%b',
    "key": b'"sevenfold_key":%b',
    "result": b"%b",
    "call": b"%b",
    "stored": b'"sevenfold_results"%b',
    "decided": b"%b",
    "identity": b'"sessionId"%b',
}


def text_with(mark: Mark, name: str = "") -> bytes:
    """A text that every line with this mark contains; so do some lines without it."""
    return _TEXTS[mark] % (msgspec.json.encode(name) if name else b"")


def marks_of(line: bytes) -> Iterator[tuple[Mark, str]]:
    """Yield the marks of a line with the names they have, for an index; a mark may come twice."""
    entry = entries.read(line)
    if uuid := getattr(entry, "uuid", None):
        yield "record", uuid
    for decision in decided_by(entry):
        yield "decided", decision
    if isinstance(entry, Boundary):
        yield "boundary", ""
    elif isinstance(entry, Decision):
        yield "decision", str(type(entry.record).__struct_config__.tag)
    elif isinstance(entry, Said):
        yield from _marks_of_content(entry)
    if text_with("identity") in line:
        yield "identity", ""


def _marks_of_content(record: Said) -> Iterator[tuple[Mark, str]]:
    yield "said", ""
    if record.role == "assistant":
        yield "answer", ""
    if record.key:
        yield "key", record.key
    for call in record.answers:
        yield "result", call
    for call in record.calls:
        yield "call", call
    if record.stored:
        yield "stored", ""


def decided_by(entry: Entry) -> tuple[str, ...]:
    """The ids of the decisions that a record makes, commits, undoes or redoes."""
    match entry:
        case Decision(
            record=Commit(id=decision_id, boundary=about) | Undone(id=decision_id, decision=about)
        ):
            return decision_id, about
        case Decision(record=decision):
            return (decision.id,)
        case Boundary(uuid=uuid) | Clearing(uuid=uuid):
            return (uuid,)
        case _:
            return ()


def identity_in(line: bytes) -> LogIdentity | None:
    """The session and its folder, if a line names both."""
    try:
        identity = msgspec.json.decode(line, type=LogIdentity)
    except NOT_JSON:
        return None
    return identity if identity.session and identity.folder else None
