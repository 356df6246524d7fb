"""What the user may want to say next: a fork of one turn after an answer, in the background.

It reads the cached prefix and adds one instruction; nothing of it enters the conversation, and what it costs is on the
bill under a source of its own. It is off unless the setting `prompt_suggestion` is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.agent.texts import SuggestPrompt
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.fork import fork
from sevenfold.record import blocks

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "prompt_suggestion"
LONGEST = 120
"""Characters of a suggestion; a longer one is none."""


class Suggestion:
    """Suggests the next prompt of one conversation."""

    def __init__(self, c: Conversation) -> None:
        self.text = ""
        """The suggestion; empty if there is none."""
        self._c = c
        self._asked = 0

    def begin(self) -> None:
        """After an answer: ask for a suggestion, if that is switched on and money may be spent on it."""
        self.forget()
        if self._c.settings.prompt_suggestion and self._c.may_spend():
            asked = self._asked
            self._c.run_background(self._ask(), lambda came: self._done(asked, came), "suggestion")

    def forget(self) -> None:
        """The conversation goes on: what was suggested, or is still being asked for, is out of date."""
        self.text = ""
        self._asked += 1

    def _ask(self) -> Flow[str]:
        asked = fork(self._c, SOURCE)
        asked.user(SuggestPrompt().render())
        outcome = yield from asked.turn()
        answer = outcome.reply.answer.blocks
        if any(block.kind == "tool_use" for block in answer):
            return ""
        said = blocks.text_of(answer).strip()
        line = said.strip("\"'“”")
        return line if line and len(line) <= LONGEST and "\n" not in line and "<" not in line else ""

    def _done(self, asked: int, came: str | Exception) -> None:
        if isinstance(came, Exception):
            self._c.events.aside("suggestion", str(came), source=SOURCE, error=came)
        elif asked == self._asked:
            self.text = came
