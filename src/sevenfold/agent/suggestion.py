"""Suggests what the user may want to say next, with a one-turn fork in the background after an answer.

The fork reads the cached prefix and adds one instruction. Nothing of it enters the conversation, and its cost is billed
under its own query source. It is off unless the setting `prompt_suggestion` is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.agent.speculation import Speculation
from sevenfold.agent.texts import SuggestPrompt
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.fork import fork
from sevenfold.record import blocks

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "prompt_suggestion"
LONGEST = 120
"""The most characters of a suggestion; longer ones are discarded."""


class Suggestion:
    """Suggests the user's next prompt in one conversation."""

    def __init__(self, c: Conversation) -> None:
        self.text = ""
        """The suggestion; empty if there is none."""
        self._c = c
        self._number = 0

    def begin(self) -> None:
        """Ask for a suggestion after an answer, if the setting is on and the spending cap allows it."""
        self.forget()
        if self._c.settings.prompt_suggestion and self._c.may_spend():
            number = self._number
            self._c.run_background(self._ask(), lambda came: self._done(number, came), "suggestion")

    def forget(self) -> None:
        """Drop the suggestion, and ignore one still being asked for, because the conversation continues."""
        self.text = ""
        self._number += 1

    def _ask(self) -> Flow[str]:
        asking_fork = fork(self._c, SOURCE)
        asking_fork.user(SuggestPrompt().render())
        outcome = yield from asking_fork.turn()
        answer = outcome.reply.answer.blocks
        if any(block.kind == "tool_use" for block in answer):
            return ""
        answer_text = blocks.text_of(answer).strip()
        line = answer_text.strip("\"'“”")
        return line if line and len(line) <= LONGEST and "\n" not in line and "<" not in line else ""

    def _done(self, number: int, outcome: str | Exception) -> None:
        if isinstance(outcome, Exception):
            self._c.events.aside("suggestion", str(outcome), source=SOURCE, error=outcome)
        elif number == self._number:
            self.text = outcome
            self._c.state(Speculation).begin(outcome)
