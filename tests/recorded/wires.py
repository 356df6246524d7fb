"""The other wires: Chat Completions, Responses, and the offline model, which has none."""

from __future__ import annotations

from typing import Any

from tests.recorded.history import prepared
from tests.recorded.playing import ASKED, BOUND, options, output, scenario, summary, work
from tests.recorded.rig import Mind, Rig


@scenario
async def chat_completions(rig: Rig) -> None:
    await _conversation(rig, "chat")


@scenario
async def responses(rig: Rig) -> None:
    await _conversation(rig, "responses")


async def _conversation(rig: Rig, wire: str) -> None:
    """Calls, an offload, a compaction, an undo, and all of it opened again."""
    rig.provider(Mind(thinks=True, calls=2))
    offloads = {"offload_characters": 4_000, "preview_bytes": 300, "offload_by_tool": {"Edit": 2_000}}
    given = options(rig, wire, settings={**offloads, "context_window": 100_000})
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3, 3_000)
        await summary(rig, await session.compact(engine="fork"))
        await work(rig, session, 1)
    async with rig.open(**given) as session:
        rig.note("undone", await session.undo())
        await prepared(rig, session)
        await work(rig, session, 1)
        rig.note("the first again", await session.at(0))


@scenario
async def chat_completions_at_the_threshold(rig: Rig) -> None:
    async with rig.open(**options(rig, "chat", settings={"compact_engines": ["plain"]})) as session:
        await session.user(ASKED)
        await work(rig, session, 7, 16_000)


@scenario
async def responses_at_the_threshold(rig: Rig) -> None:
    async with rig.open(**options(rig, "responses", settings={"size_clearing": True})) as session:
        await session.user(ASKED)
        await work(rig, session, 7, 16_000)


@scenario
async def responses_compacted_by_the_provider(rig: Rig) -> None:
    rig.provider(Mind(), summarise=lambda request: f"what only the provider knows: {len(request.messages)}")
    given = options(rig, "responses")
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await summary(rig, await session.compact(engine="provider"))
        await work(rig, session, 1)
        rig.note("undone", await session.undo())
        rig.note("made again", await session.redo())
    async with rig.open(**given) as session:
        await prepared(rig, session)


@scenario
async def from_one_wire_to_another(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    for wire in ("messages", "responses", "chat"):
        async with rig.open(**options(rig, wire)) as session:
            if wire == "messages":
                await session.user(ASKED)
            await work(rig, session, 2)


@scenario
async def an_own_loop_with_chat_completions(rig: Rig) -> None:
    client = rig.client("chat")
    async with rig.open(**options(rig, "chat", client=client)) as session:
        await session.user(ASKED)
        for _ in range(2):
            request = await session.prepare()
            rig.note("shape", (request.wire, sorted(request)))
            reply = client.chat.completions.create(**request)
            answer = await session.observe(await reply if rig.awaited else reply)
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": output(300)} for call in answer.calls
            ]
            rig.note("waiting", await session.tool_results(results))
        await prepared(rig, session)


@scenario
async def offline(rig: Rig) -> None:
    steps: list[Any] = [
        [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "name": "Read", "input": {"path": f"{number}.py"}},
        ]
        for number in range(9)
    ]
    given = options(rig, client=rig.offline([*steps, "Done."]), settings={"notes": True})
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 8, 5_000, settle=True)
        await summary(rig, await session.compact(engine="plain"))
        rig.note("gauge", session.gauge)


@scenario
async def offline_because_there_is_no_key(rig: Rig) -> None:
    async with rig.open(**options(rig, client=None, model=BOUND)) as session:
        await session.user("What does setup.py say?")
        done = await session.complete()
        rig.note("answer", (done.text, done.stop_reason, done.usd))
        await session.user("And now?")
        await session.complete()
        await summary(rig, await session.compact())
