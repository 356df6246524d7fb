"""What it costs to begin forks of a large conversation, and whether the user is asked first.

Each fork reads the whole conversation. One is cheap as long as the cache has it; several at once, or one after the
cache has expired, can cost more than anything the user asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.record.blocks import ToolUse
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.record.entries import Said

AGENT_TOOL = "Agent"
"""The tool that starts agents."""


class ForkPrice(Struct, frozen=True):
    """What some forks of a conversation read before they do anything."""

    forks: int
    tokens: int
    """The size of the conversation, which each of them begins with."""
    usd: float

    @property
    def question(self) -> str:
        """What the user is asked."""
        count = f"{self.forks} \u00d7 " if self.forks > 1 else ""
        begin = "agents begin" if self.forks > 1 else "agent begins"
        return (
            f"{'These' if self.forks > 1 else 'This'} {begin} with the whole conversation: {count}"
            f"{_thousands(self.tokens)} tokens, about ${self.usd:.2f} before they do anything."
        )


class ForkPrices:
    """Asks about the price of the agents that one answer starts, once for all of them."""

    def __init__(self, parent: Assembly) -> None:
        self._parent = parent
        self._agreed_at = ""
        """The answer whose agents the user agreed to pay for."""

    def question(self) -> str:
        """What the user is asked before a fork and its siblings start; empty if they cost little, or were agreed to.

        All agents that the newest answer starts are counted as forks.
        """
        limit = self._parent.store.settings.current().fork_usd
        answer = self._newest_answer()
        if limit is None or answer is None or self._parent.consent is None:
            return ""
        if answer.uuid == self._agreed_at:
            return ""
        price = fork_price(self._parent.conversation, max(1, _agents_started_by(answer)))
        return price.question if price is not None and price.usd > limit else ""

    def agree(self) -> None:
        """Remember that the user agreed to what the agents of the newest answer cost."""
        answer = self._newest_answer()
        self._agreed_at = answer.uuid if answer is not None else ""

    def _newest_answer(self) -> Said | None:
        """The answer whose agents are being started; the result of the first may be on record already."""
        newest_first = reversed(self._parent.conversation.transcript.view.items)
        return next((item.record for item in newest_first if item.record.role == "assistant"), None)


def _agents_started_by(answer: Said) -> int:
    """How many agents the calls of an answer start."""
    calls = [block.body() for block in answer.blocks if block.kind == "tool_use"]
    return sum(isinstance(call, ToolUse) and call.name == AGENT_TOOL for call in calls)


def fork_price(conversation: Conversation, forks: int) -> ForkPrice | None:
    """The price of beginning this many forks now; None if the model's prices are unknown.

    While the cache holds the conversation, all of them read it there. Once it has expired, the first one writes it
    again.
    """
    tokens = conversation.size().tokens
    price = conversation.profile.price(tokens)
    if price is None:
        return None
    sent = conversation.epoch.watched.sent
    lifetime = SECONDS[conversation.epoch.lifetimes.tail]
    is_warm = sent is not None and conversation.clock.now() < sent.at + lifetime
    reading = price.read / 1e6 * tokens
    first = reading if is_warm else price.write(lifetime) / 1e6 * tokens
    return ForkPrice(forks, tokens, first + (forks - 1) * reading)


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:,.0f}K" if tokens >= 1_000 else str(tokens)
