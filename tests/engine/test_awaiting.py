"""A session that is awaited: what takes its time is done in a thread, and the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.flow import Flow, drive, drive_async, in_thread
from sevenfold.errors import Refused
from tests.engine.test_growing import counting, history
from tests.engine.working import FREE, QUIET

HEAVY = {"facts", "judge", "probes", "extractive", "verify", "_read_on", "search"}
"""What goes through everything that was said."""
WIDE = {**QUIET, "context_window": 200_000}


def opened() -> Any:
    return sevenfold.AsyncSession.in_memory(model=FREE, settings=WIDE)


@pytest.mark.spec("S4.12", "S7.2")
def test_nothing_that_reads_the_whole_conversation_is_done_in_the_event_loop() -> None:
    async def main() -> set[str]:
        async with opened() as session:
            await session.messages(history(20))
            with counting() as called:
                assert await session.recall("keep port 8003")
                assert (await session.compact_preview()).summarised
                assert (await session.compact(engine="extractive")) is not None
            return set(called)

    called = asyncio.run(main())
    assert "drive_async" in called
    assert not HEAVY & called


@pytest.mark.spec("S4.9", "S4.12")
def test_what_is_said_while_a_summary_is_checked_is_not_lost() -> None:
    async def main() -> None:
        async with opened() as session:
            await session.messages(history(20))
            before = len(session.conversation.transcript.view)
            compacting = asyncio.ensure_future(session.compact(engine="extractive"))
            await asyncio.sleep(0)
            await session.user("And mind the gap.")
            with pytest.raises(Refused, match="went on while it was being compacted"):
                await compacting
            assert len(session.conversation.transcript.view) == before + 1
            assert await session.compact(engine="extractive") is not None
            assert "And mind the gap." in (await session.prepare()).body.decode()

    asyncio.run(main())


@pytest.mark.spec("S4.9")
def test_a_compaction_that_is_cancelled_changes_nothing() -> None:
    async def main() -> None:
        async with opened() as session:
            await session.messages(history(20))
            await session.user("And now?")
            before = (await session.prepare()).body
            compacting = asyncio.ensure_future(session.compact(engine="extractive"))
            await asyncio.sleep(0)
            compacting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await compacting
            assert session.health.status == ""
            assert (await session.prepare()).body == before
            assert await session.compact(engine="extractive") is not None

    asyncio.run(main())


NAME: ContextVar[str] = ContextVar("name", default="")


def asking(work: Any) -> Flow[Any]:
    try:
        return (yield from in_thread(work))
    except ZeroDivisionError:
        return "caught"


def test_work_put_aside_has_its_own_thread_where_that_matters_and_the_same_context() -> None:
    def who() -> tuple[int, str]:
        return threading.get_ident(), NAME.get()

    async def main() -> tuple[int, str]:
        NAME.set("here")
        return await drive_async(asking(who), None)

    thread, name = asyncio.run(main())
    assert (thread != threading.get_ident(), name) == (True, "here")
    assert drive(asking(who), None) == (threading.get_ident(), "")


def test_what_goes_wrong_in_work_put_aside_is_the_flows_to_deal_with() -> None:
    failing = partial(divmod, 1, 0)
    assert drive(asking(failing), None) == "caught"
    assert asyncio.run(drive_async(asking(failing), None)) == "caught"
