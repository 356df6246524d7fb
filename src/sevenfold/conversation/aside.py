"""What runs aside from a conversation: it asks by the same path, and nothing of it enters the conversation's view.

Its requests and its bill are recorded in the log of the conversation, which is its parent. It is thrown away when its
work is done; a fork that is kept is a conversation of its own, on a branch of the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.request import Outcome, Prepared
from sevenfold.conversation.turn import Exchange
from sevenfold.errors import Aborted, ModelError
from sevenfold.events import CacheBroke
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Billed, Why
from sevenfold.record.usage import Usage
from sevenfold.request.sources import source as rules_of

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.epoch_state import EpochState
    from sevenfold.conversation.waiting import Retries


ASIDE = Why(0, 0, 0, "asked aside from the conversation")
"""Why such a request is made as it is: no layer has decided anything about it."""


class Aside(Exchange):
    """A fork that is thrown away, or a plain call that is billed to a conversation."""

    billed_source = ""
    """The query source in its billing records, if its requests are not on record themselves."""

    def __init__(self, parent: Conversation, source: str, profile: Profile, epoch: EpochState) -> None:
        super().__init__()
        self._parent = parent
        self.lock = parent.lock
        self.clock = parent.clock
        self.events = parent.events
        self.transcript = parent.transcript
        self.settings = parent.settings
        self.break_watch = parent.break_watch
        self.source = rules_of(source)
        self.profile = profile
        self.epoch = epoch

    @property
    def edited(self) -> int:
        """Tokens that the provider's edits remove from what is sent."""
        return self._parent.edited

    def may_spend(self) -> bool:
        """Whether the spending cap allows another call."""
        return self._parent.may_spend()

    def charge(self, usd: float | None, *, own: bool = True) -> None:
        """Add the cost of a call to the bill of the conversation."""
        self._parent.charge(usd, own=own)

    def refused(self, error: ModelError, retries: Retries | None) -> Flow[bool]:
        """Report a failure, and wait before another attempt; False if there is none."""
        self.failed(error, again=False)
        if retries is None or isinstance(error, Aborted):
            return False
        return (yield from retries.again(error, self._parent.closing))

    def settle(
        self, prepared: Prepared, reply: Reply, usage: Usage, broken: CacheBroke | None = None
    ) -> Outcome:
        """Bill an answer to the conversation, and return the outcome."""
        cost = usage.cost(self.profile)
        self.charge(cost)
        answer = reply.answer
        billed = Billed(
            request=prepared.record.id, model=answer.model, usage=answer.usage, source=self.billed_source
        )
        self.transcript.decide(billed)
        uncached = usage.uncached_cost(self.profile)
        return Outcome(reply, prepared, broken, cost, uncached, cost, usage)
