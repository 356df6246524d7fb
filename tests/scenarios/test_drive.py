"""Flows run the same way with and without `await`."""

from __future__ import annotations

import asyncio

import pytest

from sevenfold.conversation.flow import Ask, Flow, drive, drive_async
from sevenfold.errors import Overloaded
from sevenfold.ports import Call, Reply, Watcher
from tests.support import answer


class Scripted:
    """Answers by script: a reply, or an error to raise."""

    def __init__(self, *steps: Reply | Exception) -> None:
        self.steps, self.asked = list(steps), list[bytes]()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        self.asked.append(call.body)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None: ...


class AsyncScripted:
    """The same, awaited."""

    def __init__(self, *steps: Reply | Exception) -> None:
        self.inner = Scripted(*steps)

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        await asyncio.sleep(0)
        return self.inner.ask(call, watch)

    async def close(self) -> None: ...


def _persistent() -> Flow[str]:
    """Asks twice, the second time shorter if the first was too much."""
    try:
        reply = yield from Ask(Call(b"long"))
    except Overloaded:
        reply = yield from Ask(Call(b"short"))
    return reply.answer.id


def _both(*steps: Reply | Exception) -> list[tuple[str, list[bytes]]]:
    plain, awaited = Scripted(*steps), AsyncScripted(*steps)
    return [
        (drive(_persistent(), plain), plain.asked),
        (asyncio.run(drive_async(_persistent(), awaited)), awaited.inner.asked),
    ]


def test_a_flow_gets_the_reply_it_asked_for():
    assert _both(Reply(answer("yes", id="m1"))) == [("m1", [b"long"])] * 2


def test_an_error_is_thrown_into_the_flow_which_may_go_on():
    assert _both(Overloaded(), Reply(answer("yes", id="m2"))) == [("m2", [b"long", b"short"])] * 2


def test_an_error_the_flow_does_not_handle_reaches_the_caller():
    with pytest.raises(Overloaded):
        drive(_persistent(), Scripted(Overloaded(), Overloaded()))
    with pytest.raises(Overloaded):
        asyncio.run(drive_async(_persistent(), AsyncScripted(Overloaded(), Overloaded())))
