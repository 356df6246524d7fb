"""How runs with a key ended, in the log, so that the same run is carried out once, however often it is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from sevenfold.agent.agent_events import Finished
from sevenfold.record import blocks
from sevenfold.record.decisions import LayerNote
from sevenfold.record.decoding import NOT_JSON

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

NOTED_AS = "runs"


class RunEnd(Struct, frozen=True):
    """The note about the end of a run."""

    prompt: str
    """The record of the message that the run began with."""
    finished: Finished


def keep_end(c: Conversation, key: str, finished: Finished) -> None:
    """Record how the run with this key ended, if its message is there: a refused one leaves nothing behind."""
    with c.lock:
        prompt = c.finder.keyed(_as_recorded(c, key))
        if not prompt:
            return
        note = msgspec.json.encode(RunEnd(prompt, finished))
        if c.gate is not None:
            note = c.gate.json(note)
        c.transcript.decide(LayerNote(layer=NOTED_AS, note=Raw(note)))


def prompt_of(c: Conversation, key: str) -> str:
    """The record of the message that the run with this key began with; empty if it has not begun."""
    with c.lock:
        return c.finder.keyed(_as_recorded(c, key))


def end_of(c: Conversation, prompt: str) -> Finished | None:
    """How the run that began with this record ended; None if it has not."""
    with c.lock:
        for _, decision in c.transcript.log.decisions(LayerNote):
            if decision.layer != NOTED_AS:
                continue
            try:
                end = msgspec.json.decode(decision.note, type=RunEnd)
            except NOT_JSON:
                continue
            if end.prompt == prompt:
                return end.finished
    return None


def last_text(c: Conversation) -> str:
    """The text of the model's last message."""
    for item in reversed(c.transcript.view.items):
        if item.role == "assistant":
            return blocks.text_of(item.shown)
    return ""


def _as_recorded(c: Conversation, key: str) -> str:
    return c.gate.text(key) if c.gate is not None else key
