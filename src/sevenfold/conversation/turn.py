"""One turn: settle what is new, make the conversation fit, ask, take the answer in. The file to read first."""

from __future__ import annotations

from collections.abc import Mapping

from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.epoch import recover
from sevenfold.conversation.flow import Ask, Flow
from sevenfold.conversation.layer import TooFull
from sevenfold.conversation.request import Outcome, Pending
from sevenfold.conversation.room import check as check_room
from sevenfold.conversation.room import explain
from sevenfold.errors import ContextFull, ModelError
from sevenfold.ports import Reply

REPEATS = 2
"""How often one request is made again, changed, before its error is raised."""


def turn(c: Conversation, fields: Mapping[str, bytes] = {}) -> Flow[Outcome]:
    """Ask once; if a layer can do something about a refusal, the request is made again instead of raising it.

    ``fields`` are what this request alone has.
    """
    with c.asking():
        for attempt in range(REPEATS + 1):
            pending = yield from prepare(c, fields)
            try:
                reply = yield from Ask(c.send(pending).call)
            except ModelError as error:
                if not (yield from refused(c, error)) or attempt == REPEATS:
                    raise
            else:
                return answered(c, reply)
    raise AssertionError("unreachable")


def prepare(c: Conversation, fields: Mapping[str, bytes] = {}) -> Flow[Pending]:
    """The next request, not yet written: settle what is new, then make the conversation fit."""
    c.begin_pass()
    for layer in c.ladder.settles:
        if layer.on(c.settings):
            yield from layer.settle(c)
    yield from make_room(c)
    check = check_room(c, c.seen)
    if check.verdict == "blocked":
        if (yield from c.ladder.refused(c, TooFull(check))):
            c.seen = c.size()
            check = check_room(c, c.seen)
        if check.verdict == "blocked":
            raise ContextFull(explain(c, check))
    return c.pending(check, fields)


def make_room(c: Conversation) -> Flow[None]:
    """Let layers act until none has anything to offer.

    After a layer has acted, only cheaper ones are looked at again; one that declines is not asked twice. So this ends.
    """
    below, declined = c.ladder.top, frozenset[int]()
    while True:
        c.ladder.freeze(c)
        step = c.ladder.choose(c, below=below, without=declined)
        if step is None:
            return
        if (yield from step.layer.relieve(c, step.offer)):
            below = step.rung
        else:
            declined |= {step.rung}


def answered(c: Conversation, reply: Reply) -> Outcome:
    """Take the answer in, then let layers start background work."""
    with c.lock:
        outcome = c.observe(reply)
        if c.may_spend():
            for layer in c.ladder.follows:
                if layer.on(c.settings):
                    layer.after_answer(c)
        return outcome


def refused(c: Conversation, error: ModelError) -> Flow[bool]:
    """True if the next request may succeed: a quirk of the provider first, then the ladder."""
    with c.lock:
        again = c.request_out and recover(c, error)
    if not again:
        again = yield from c.ladder.refused(c, error)
    c.failed(error, again=again)
    return again
