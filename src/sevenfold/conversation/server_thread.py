"""History that the provider holds: with the setting `threads`, only what is new is sent.

The log has the full body, as if it had been sent; what a request may leave out is decided here, by comparison with what
the provider was last sent and what it answered. A compaction, a clearing, an undo, a rewind or another model changes
that, and then all of it is sent, which begins a new thread. So does a loss of the thread. Forks never take part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.errors import RequestRefused, ThreadLost
from sevenfold.ports import Thread
from sevenfold.record.blocks import Block
from sevenfold.record.wire import Message

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.record.log import Answer

WIRES = ("messages", "responses")
"""The APIs that can hold a history."""
_DECLINED = re.compile(
    r"\b(?:thread|previous_response_id|store)\b.*(?:not permitted|not supported|unsupported|unknown|unexpected)"
    r"|(?:not supported|unsupported|unknown|unexpected)\b.*\b(?:thread|previous_response_id|store)\b",
    re.I | re.S,
)
"""Wordings of servers that know no such field."""
MOST_LOSSES = 2
"""After so many losses in a row, threads are left alone for the rest of the run."""


class HeldThread(Struct, frozen=True):
    """What the provider holds."""

    answer: str
    """The id of its newest answer, which the next request names."""
    epoch: str
    messages: tuple[Message, ...]
    """The messages that it answered."""
    blocks: tuple[Block, ...]
    """The answer as the provider gave it."""


class ServerThread:
    """Follows what the provider holds of one conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._held: HeldThread | None = None
        self._losses = 0
        self._asked: Thread | None = None
        """The thread of the newest request; None if it has none."""
        self._given_up = False

    def next(self, messages: tuple[Message, ...]) -> Thread | None:
        """What the next request, with these messages, says about its thread; None if it has none."""
        self._asked = self._next(messages)
        return self._asked

    def _next(self, messages: tuple[Message, ...]) -> Thread | None:
        if not self._c.settings.threads or self._c.profile.wire not in WIRES or self._given_up:
            return None
        held = self._held
        if held is None or not self._extends(messages, held):
            return Thread()
        return Thread(held.answer, len(held.messages) + 1)

    def _extends(self, messages: tuple[Message, ...], held: HeldThread) -> bool:
        """Whether these messages are what the provider holds, its own answer included, and something new."""
        count = len(held.messages)
        if self._epoch() != held.epoch or len(messages) < count + 2:
            return False
        begins = [message.raw for message in messages[:count]]
        if begins != [message.raw for message in held.messages]:
            return False
        answer = messages[count]
        return answer.role == "assistant" and [part.raw for part in answer.parts] == [
            block.raw for block in held.blocks
        ]

    def answered(self, thread: Thread | None, messages: tuple[Message, ...], answer: Answer) -> None:
        """Note what the provider holds after an answer, as it gave it."""
        if thread is not None and thread.previous:
            self._losses = 0
        whole = thread is not None and bool(answer.id) and not answer.outdated
        self._held = HeldThread(answer.id, self._epoch(), messages, answer.blocks) if whole else None

    def refused(self, error: RequestRefused) -> bool:
        """Leave the thread if the provider does not hold it, or holds none; True if all is to be sent again."""
        lost = isinstance(error, ThreadLost)
        declined = error.unsupported if isinstance(error, ThreadLost) else _DECLINED.search(str(error))
        if self._asked is None or not (lost or declined):
            return False
        self._held = None
        self._asked = None
        self._losses += 1
        if declined or self._losses >= MOST_LOSSES:
            self._given_up = True
            reason = (
                "the provider holds no threads for this account: the whole conversation is sent from now on"
            )
        else:
            reason = "the provider no longer holds the conversation: all of it is sent again"
        self._c.events.aside("threads", reason)
        return True

    def _epoch(self) -> str:
        epoch = self._c.transcript.view.epoch
        return epoch.id if epoch else ""
