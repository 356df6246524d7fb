"""Plain calls: single requests of their own, to any model, billed to the conversation on whose behalf they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.aside import ASIDE, Aside
from sevenfold.conversation.epoch_state import EpochState
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.request import Outcome, Pending, Prepared, call_for
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.record import blocks
from sevenfold.record.decisions import Request
from sevenfold.record.gauge import Gauge
from sevenfold.record.usage import Usage
from sevenfold.record.weight import Estimator, opening
from sevenfold.record.wire import Message
from sevenfold.request.frame import Body, Frame, Lifetimes, assemble
from sevenfold.request.watch import Forecast

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class PlainCall(Aside):
    """One request with a body of its own; only its bill is recorded."""

    def __init__(
        self,
        parent: Conversation,
        model: Profile,
        frame: Frame,
        body: Body,
        source: str,
        cache_key: str = "",
    ) -> None:
        """``cache_key`` is that of the conversation if the body begins with its bytes."""
        super().__init__(parent, source, model, EpochState(frame, frame, Lifetimes(), Gauge.of(model)))
        self.cache_key = cache_key
        self.billed_source = self.source.name
        self._body = body

    @property
    def edited(self) -> int:
        """No edits apply to it."""
        return 0

    def prepared(self, fields: Mapping[str, bytes]) -> Flow[Pending]:
        """Return the request: there is nothing to make fit."""
        yield from ()
        return Pending(ASIDE, None, fields)

    def write(self, pending: Pending) -> Prepared:
        """Give the request an id, under which it is billed; the request itself is not recorded."""
        parent = self._parent
        body = self._body
        epoch = parent.transcript.view.epoch
        record = Request(
            id=parent.transcript.new_id(),
            epoch=epoch.id if epoch else "",
            tip=None,
            source=self.source.name,
        )
        estimated = round(Estimator.of(self.profile.tokenizer).tokens(opening(body.raw)))
        whole = parent.size()
        size = replace(whole, tokens=min(estimated, whole.tokens))
        return Prepared(body, call_for(self, body, self.epoch.frame), (), size, Forecast(), record)

    def take_answer(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Bill the answer."""
        return self.settle(prepared, reply, Usage.read(reply.answer.usage))


def plain_call(
    c: Conversation, model: Profile, messages: Sequence[Message], source: str, most: int, system: str = ""
) -> PlainCall:
    """A call that shares nothing with the conversation: no tools, no reasoning, at most ``most`` output tokens."""
    settings = {"thinking": {"type": model.thinking.off}} if model.thinking.off else {}
    frame = Frame.of(model.model, most, system=[blocks.text(system).raw] if system else [], **settings)
    return PlainCall(c, model, frame, assemble(frame, messages), source)
