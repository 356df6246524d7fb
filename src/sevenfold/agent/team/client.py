"""The client of a sub-agent: it stops with the agent, and tells when an answer begins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sevenfold.agent.interrupt import AsyncInterruptibleClient, InterruptibleClient
from sevenfold.conversation.flow import Ask, Flow, Run, Signal

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.ports import Piece
    from sevenfold.record.log import Answer

R = TypeVar("R")


class Warming:
    """Hears when an answer begins: what was sent is in the cache then."""

    def __init__(self, warm: Signal) -> None:
        self._warm = warm

    def begin(self, head: Answer) -> None:
        """The answer has begun."""
        self._warm.happen()

    def __call__(self, piece: Piece) -> None:
        """What the answer says is heard elsewhere."""


def with_client(flow: Flow[R], child: Assembly, warm: Signal) -> Flow[R]:
    """The flow of a sub-agent with a client of its own, which stops with it, and shows its answers to no one.

    ``warm`` happens when its first answer begins.
    """
    client: Any = child.client  # of the kind that fits the driver, which makes one of the two calls
    stopped = lambda: child.loop.stopped  # noqa: E731
    ask, ask_async = InterruptibleClient(client, stopped).ask, AsyncInterruptibleClient(client, stopped).ask
    clock, limit = child.conversation.clock, child.descent.definition.timeout if child.descent else None
    until = None if limit is None else clock.now() + limit
    try:
        effect = next(flow)
        while True:
            try:
                if until is not None and clock.now() >= until:
                    child.loop.interrupt()
                if isinstance(effect, Ask):
                    given = effect.call, Warming(warm)
                    got: Any = yield from Run(partial(ask, *given), partial(ask_async, *given))
                    warm.happen()
                else:
                    got = yield effect
            except Exception as error:  # noqa: BLE001 (the flow decides what to do about any error)
                effect = flow.throw(error)
            else:
                effect = flow.send(got)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()
