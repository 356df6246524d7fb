"""The calls of engines that ask in a request of their own: each is reported, and is on the session's bill.

A fork's requests are on record by themselves. These cannot be made again from the transcript, so only what they cost is
written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.conversation import events
from sevenfold.conversation.flow import Ask
from sevenfold.errors import ModelError
from sevenfold.events import Answered, Sending
from sevenfold.record.blocks import read_fields
from sevenfold.record.decisions import Billed
from sevenfold.record.tokens import Estimator
from sevenfold.record.usage import Usage
from sevenfold.record.weight import opening
from sevenfold.request import price

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.ports import Call, Reply
    from sevenfold.profiles import Profile


def billed(c: Conversation, call: Call, model: Profile) -> Flow[Reply]:
    """Make a call, report it and what came of it, and put it on the bill."""
    sent = _sending(c, call, model)
    try:
        reply = yield from Ask(call)
    except ModelError as error:
        events.failed(c, error, sent.request, source=sent.source, model=model)
        raise
    _answered(c, sent, reply, model)
    return reply


def _sending(c: Conversation, call: Call, model: Profile) -> Sending:
    epoch = c.transcript.view.epoch
    most = round(Estimator.of(model.tokenizer).tokens(opening(call.body)))
    sent = c.events.stamped(
        Sending(
            source=call.source,
            request=c.transcript.new_id(),
            model=model.model,
            provider=model.provider,
            epoch=epoch.id if epoch else "",
            tokens=min(most, c.size().tokens),
            body_bytes=len(call.body),
            max_tokens=int(read_fields(call.body).get("max_tokens", 0)),
        )
    )
    c.events.tell(sent)
    return sent


def _answered(c: Conversation, sent: Sending, reply: Reply, model: Profile) -> None:
    answer, read = reply.answer, Usage.read(reply.answer.usage)
    usage, usd = read.billed, price.cost(read, model)
    c.charge(usd)
    c.transcript.decide(
        Billed(request=sent.request, model=answer.model, usage=answer.usage, source=sent.source)
    )
    told = Answered(
        source=sent.source,
        request=sent.request,
        model=answer.model,
        provider=sent.provider,
        response=answer.id,
        stop_reason=answer.stop_reason or "",
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        estimated=sent.tokens,
        usd=usd,
        uncached_usd=price.uncached_cost(read, model),
        ideal_usd=usd,
        seconds=c.events.stamped(sent).at - sent.at,
    )
    c.events.tell(told)
