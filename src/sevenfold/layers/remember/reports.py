"""What memory's work in a conversation tells the conversation's listeners."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sevenfold.events import Acted
from sevenfold.layers.remember import policy
from sevenfold.memory.admission import Admission
from sevenfold.memory.entry import shortened
from sevenfold.record.quoting import quotation

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.memory.memory import Memory

SOURCE = "extract_memories"
"""The source under which requests for memory are billed and reported."""


def acted(c: Conversation, mechanism: str, description: str, reference: str) -> None:
    """Report that something was recalled, stored or closed."""
    c.events.tell(
        Acted(
            source=SOURCE,
            layer="remember",
            mechanism=mechanism,
            what=description,
            why="memory outlives a session",
            reference=reference,
            undoable=False,
        )
    )


def aside(c: Conversation, reason: str) -> None:
    """Report something that changes nothing in the conversation."""
    c.events.aside("remember", reason, source=SOURCE)


def report_admitted(c: Conversation, memory: Memory, admitted: Iterable[Admission]) -> None:
    """Report what was stored, what was not and why, and what was closed."""
    admitted = list(admitted)
    if line := policy.outcome(admitted):
        acted(c, "extract", line, memory.path)
    for admission in admitted:
        if admission.refused:
            aside(c, f"not remembered{_beginning(admission, memory)}: {admission.refused}")
        for closing in admission.closed:
            if closing.change:
                acted(c, "close", policy.closed(closing), memory.path)
            else:
                earlier = shortened(closing.earlier, policy.LONGEST_SOURCE)
                aside(c, f'"{earlier}" still counts: {closing.refused}')


def _beginning(admission: Admission, memory: Memory) -> str:
    """The beginning of a refused fact, so that the user sees what was meant; empty if it contains a secret.

    Events go to logs and telemetry.
    """
    text = " ".join((*admission.fact.quotations, admission.fact.note)).strip()
    if not text or memory.refuses(text.encode(errors="replace")):
        return ""
    return f" ({quotation(text, policy.LONGEST_SOURCE)})"
