"""The same session awaited: same names, same requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import anthropic
import pytest

import sevenfold
from sevenfold.errors import TranscriptLocked
from sevenfold.lab.simulator.faults import Fault
from tests.session.talking import World, output, reader, streamed, world

Body = Callable[[World, anthropic.AsyncAnthropic, sevenfold.AsyncSession], Awaitable[None]]


def run(here: World, body: Body) -> None:
    """Hold a session inside an event loop."""

    async def main() -> None:
        async with anthropic.AsyncAnthropic(
            api_key="simulated-key", base_url=here.url, max_retries=0
        ) as sdk:
            opened = await sevenfold.AsyncSession.in_memory(**here.options(client=sdk))
            async with opened as session:
                await body(here, sdk, session)

    asyncio.run(main())


@pytest.mark.spec("S9.2", "S8.4")
def test_an_awaited_session_sends_what_one_that_waits_sends() -> None:
    async def body(here: World, sdk: anthropic.AsyncAnthropic, session: sevenfold.AsyncSession) -> None:
        await session.user("begin")
        for turn in range(4):
            request = await session.prepare()
            if turn % 2:
                async with sdk.messages.stream(**request) as stream:
                    done = await session.observe(stream)
            else:
                done = await session.observe(await sdk.messages.create(**request))
            await session.tool_results({call.id: output() for call in done.calls})
        pieces: list[str] = []
        done = await session.complete(lambda piece: pieces.append(piece.words))
        assert done.text in "".join(pieces)
        assert here.moved() == []
        assert streamed(await session.at()) == here.bodies[-1]
        assert (await session.why()).actual_tokens
        assert session.gauge.requests == 5

    with world() as here:
        run(here, body)


@pytest.mark.spec("S8.5")
def test_failures_and_broken_answers_are_taken_in_awaited_too() -> None:
    async def body(here: World, sdk: anthropic.AsyncAnthropic, session: sevenfold.AsyncSession) -> None:
        await session.user("begin")
        request = await session.prepare()
        here.simulator.faults.then(Fault("rate_limited", retry_after=1.0))
        with pytest.raises(anthropic.RateLimitError) as caught:
            await sdk.messages.create(**request)
        assert await session.failed(caught.value) is False
        reply = await sdk.messages.create(**request)
        done = await session.observe(reply.to_dict())
        first = done.calls[0].id
        assert await session.tool_results({first: "one"}) == []
        assert await session.fetch(first) == b"one"

    with world() as here:
        run(here, body)


@pytest.mark.spec("S7.1", "S8.6", "S2.9")
def test_everything_that_can_be_decided_can_be_decided_awaited() -> None:
    async def body(here: World, sdk: anthropic.AsyncAnthropic, session: sevenfold.AsyncSession) -> None:
        heard: list[object] = []
        session.listen(lambda event: heard.append(event))
        await session.messages(
            [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]
        )
        await session.user("one")
        await session.complete()
        await session.user("two")
        await session.complete()
        records = [item.record.uuid for item in session.conversation.transcript.view.items]
        await session.pin(records[0])
        await session.unpin(records[0])
        name = await session.snip(records[1], records[2])
        assert await session.undo() == name
        assert await session.redo() == name
        assert await session.dry_run() == []
        fork = await session.fork()
        fork.user("aside")
        assert fork.prepare().body.raw
        await session.rewind(records[0])
        assert await session.sync([{"role": "user", "content": "hello"}]) == 0
        assert heard

    with world(reader(0)) as here:
        run(here, body)


@pytest.mark.spec("S8.4")
def test_waiting_for_another_writer_does_not_stop_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"

    async def main(here: World) -> list[str]:
        order: list[str] = []

        async def tick() -> None:
            order.append("tick")

        options = here.options(client=None)
        waiting = sevenfold.AsyncSession.open("s", file=file, folder=tmp_path, lock_wait=0.3, **options)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        await tick()
        with pytest.raises(TranscriptLocked, match="process"):
            await task
        return order

    with world() as here, here.open(file):
        assert asyncio.run(main(here)) == ["tick"]
