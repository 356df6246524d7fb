"""Taking back, doing again, branching, keeping and leaving out; and going on from all of that in another process."""

from __future__ import annotations

from typing import Any

from tests.recorded.form import LINE
from tests.recorded.playing import ASKED, FREE, options, refused, scenario, summary, work
from tests.recorded.rig import Mind, Rig

THINKS: dict[str, Any] = {"thinking": {"type": "adaptive"}}
GAP = {"gap_clearing": True, "gap_keep": 1}


@scenario
async def a_clearing_undone_and_made_again(rig: Rig) -> None:
    given = options(rig, model=FREE, settings=GAP)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3, 1_500)
        rig.clock.advance(4_000)
        await work(rig, session, 1, 100)
        rig.note("undone", await session.undo())
        await prepared(rig, session)
        await work(rig, session, 1, 100)
        rig.note("made again", await session.redo())
        await prepared(rig, session)
    async with rig.open(**given) as session:
        await prepared(rig, session)
        await refused(rig, session.redo())


@scenario
async def a_compaction_undone_and_made_again(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await prepared(rig, session)
        await summary(rig, await session.compact(engine="extractive"))
        await work(rig, session, 1)
        rig.note("undone", await session.undo())
        await prepared(rig, session)
    async with rig.open(**given) as session:
        await work(rig, session, 1)
        rig.note("made again", await session.redo())
        await work(rig, session, 1)
    async with rig.open(**given) as session:
        await prepared(rig, session)


@scenario
async def a_providers_compaction_undone_and_made_again(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await summary(rig, await session.compact(engine="provider"))
        await work(rig, session, 1)
    async with rig.open(**given) as session:
        await session.undo()
        await work(rig, session, 1)
        await session.redo()
        await work(rig, session, 1)


@scenario
async def two_decisions_taken_back(rig: Rig) -> None:
    async with rig.open(**options(rig, model=FREE)) as session:
        await session.user(ASKED)
        await work(rig, session, 5)
        said = rig.records("user", "assistant")
        rig.note("snipped", await session.snip(said[1], said[4]))
        await summary(rig, await session.compact(engine="extractive"))
        rig.note("undone", await session.undo())
        rig.note("undone", await session.undo())
        await refused(rig, session.undo())
        await prepared(rig, session)


@scenario
async def a_fork_asked_aside(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    client = rig.client()
    async with rig.open(**options(rig, client=client, **THINKS)) as session:
        await session.user(ASKED)
        await work(rig, session, 2)
        fork = await session.fork("prompt_suggestion")
        fork.user("What next?")
        await rig.ask_aside(fork, client)
        await work(rig, session, 1)
        rig.note("gauge", session.gauge)


@scenario
async def rewound(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await session.rewind(rig.records("user")[1])
        await prepared(rig, session)
        await work(rig, session, 1)
    async with rig.open(**given) as session:
        await prepared(rig, session)
        await session.rewind(None)
        await session.user("From the start.")
        await work(rig, session, 1)


@scenario
async def rewound_to_before_a_boundary(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        record = rig.records("user")[2]
        await summary(rig, await session.compact(engine="extractive"))
        await work(rig, session, 1)
        await session.rewind(record)
        await prepared(rig, session)
        await session.user("Another way.")
        await work(rig, session, 1)
    async with rig.open(**given) as session:
        await prepared(rig, session)


@scenario
async def snipped(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 4)
        said = rig.records("user", "assistant")
        rig.note("snipped", await session.snip(said[3], said[6]))
        await work(rig, session, 1)
        await refused(rig, session.snip("nobody", said[4]))
    async with rig.open(**given) as session:
        await prepared(rig, session)
        rig.note("undone", await session.undo())
        await prepared(rig, session)


@scenario
async def pinned_through_clearing_and_compaction(rig: Rig) -> None:
    given = options(rig, model=FREE, settings=GAP)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3, 1_500)
        record = await session.user("The budget is 4,711 euros and not a cent more.")
        await session.pin(record)
        await session.pin(rig.records("user")[1])
        await refused(rig, session.pin("nobody"))
        rig.clock.advance(4_000)
        await work(rig, session, 2, 100)
        await summary(rig, await session.compact(engine="extractive"))
        await work(rig, session, 1, 100)
    async with rig.open(**given) as session:
        await session.unpin(record)
        await summary(rig, await session.compact(engine="extractive"))
        await prepared(rig, session)


@scenario
async def recalled_after_a_compaction(rig: Rig) -> None:
    rig.provider(Mind([f"Answer {number}." for number in range(9)]))
    async with rig.open(**options(rig, settings={"recall_meaning": False})) as session:
        for words in (ASKED, "The ledger key is HV-4417.", "The harbour opens at seven.", LINE):
            await session.user(words)
            await session.complete()
        await summary(rig, await session.compact(engine="extractive"))
        await session.user("What was the key?")
        hits = await session.recall("ledger key", most=3)
        rig.note("found", [(hit.uuid, hit.excerpt) for hit in hits])
        await session.complete()


@scenario
async def two_compactions_in_a_row(rig: Rig) -> None:
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await summary(rig, await session.compact(engine="fork"))
        await session.user("Rename nothing in lib/ledger.go, ticket PAY-4711 says why.")
        await work(rig, session, 2)
        await summary(rig, await session.compact("look after the tickets", engine="plain"))
        await work(rig, session, 1)
        rig.note("health", session.health)


async def prepared(rig: Rig, session: Any) -> None:
    """Note the bytes of the next request; they are sent, or told again, in another place."""
    rig.note("prepared", (await session.prepare()).body)
