"""One turn: settle new content, make the conversation fit, ask the model, record the answer. Read this file first."""

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
"""How many times a refused request is retried, with changes, before its error is raised."""


def turn(c: Conversation, fields: Mapping[str, bytes] = {}) -> Flow[Outcome]:
    """Ask the model and return its answer; if a refusal can be remedied, retry instead of raising the error.

    ``fields`` apply to this request only.
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
    """Settle new content, make it all fit, and return the next request, unrecorded; may raise `ContextFull`."""
    c.begin_pass()
    for layer in c.ladder.settles:
        if layer.on(c.settings):
            yield from layer.settle(c)
    yield from make_room(c)
    check = check_room(c, c.last_size)
    for _ in range(len(c.ladder.layers)):
        # A layer that has made a little room may leave it to a costlier one to make enough.
        if check.verdict != "blocked" or not (yield from c.ladder.refused(c, TooFull(check))):
            break
        c.last_size = c.size()
        check = check_room(c, c.last_size)
    if check.verdict == "blocked":
        raise ContextFull(explain(c, check))
    return c.pending(check, fields)


def make_room(c: Conversation) -> Flow[None]:
    """Let layers act until none has an offer.

    This terminates: after a layer has acted, only cheaper ones are asked, and one that declined is not asked again.
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
    """Record the answer, then let layers start background work."""
    with c.lock:
        outcome = c.observe(reply)
        if c.may_spend():
            for layer in c.ladder.follows:
                if layer.on(c.settings):
                    layer.after_answer(c)
        return outcome


def refused(c: Conversation, error: ModelError) -> Flow[bool]:
    """Remedy a refusal: leave out what the provider refused, else ask the ladder. True if a retry may succeed."""
    with c.lock:
        again = c.request_out and recover(c, error)
    if not again:
        again = yield from c.ladder.refused(c, error)
    c.failed(error, again=again)
    return again
