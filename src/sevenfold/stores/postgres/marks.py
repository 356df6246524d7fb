"""Which marks a line bears, as an index keeps them: 64-bit digests of a mark and a name.

Names come from models and other tools and may hold anything, also what a database does not take as text. Two names with
the same digest cost one more line to look at: every query checks the lines that it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import cast

from sevenfold.record import entries
from sevenfold.record.entries import Boundary, Decision, Said
from sevenfold.stores.log import Mark, decisions_named

SEARCHED: frozenset[Mark] = frozenset({"said", "identity"})
"""Marks that nearly all lines bear. They are in no index; whoever looks for them reads the lines from the end."""


def digest(mark: Mark, name: str = "") -> int:
    """The digest of a mark, as a signed 64-bit number."""
    text = f"{mark}:{name}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def marks_of(line: bytes) -> set[int]:
    """The digests of all marks that a line bears, but for those that are searched."""
    return {digest(mark, name) for mark, name in _marks(line)}


def _marks(line: bytes) -> Iterator[tuple[Mark, str]]:
    entry = entries.read(line)
    if uuid := getattr(entry, "uuid", ""):
        yield "record", uuid
    for decision in decisions_named(entry):
        yield "decided", decision
    match entry:
        case Boundary():
            yield "boundary", ""
        case Decision(made=made):
            yield "decision", cast(str, type(made).__struct_config__.tag)
        case Said():
            yield from _marks_of_message(entry)


def _marks_of_message(said: Said) -> Iterator[tuple[Mark, str]]:
    if said.role == "assistant":
        yield "answer", ""
    if said.key:
        yield "key", said.key
    if said.stored:
        yield "stored", ""
    for call in said.answers:
        yield "result", call
    for call in said.calls:
        yield "call", call
