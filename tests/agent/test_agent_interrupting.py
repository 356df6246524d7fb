"""Interrupting an agent: whatever it is doing stops, and the conversation is in order."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.agent_events import Ended, Happened, ToolBegan, ToolEnded, ToolProgress
from sevenfold.agent.executor import LEFT, NOT_DONE
from sevenfold.agent.loop import INTERRUPTED
from sevenfold.agent.tools.context import Context
from sevenfold.conversation.flow import Signal
from sevenfold.events import Compacting, Sending
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.ports import Call, Piece, Reply, Watcher
from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script
from tests.agent.working import (
    MODEL,
    QUIET,
    agent,
    async_agent,
    messages,
    model_of,
    results,
    texts,
    use,
    words,
    world,
)


class Silent(OfflineClient):
    """A model that says a few words, and then nothing until the test is over."""

    def __init__(self, said: str, *steps: Any) -> None:
        super().__init__(Script(steps))
        self.said = said
        self.reached = threading.Event()
        self.released = threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if self.reached.is_set():
            return super().ask(call, watch)
        if self.said and watch is not None:
            watch(Piece("text", self.said))
        self.reached.set()
        self.released.wait(60)
        raise AssertionError("nobody waits for this any more")


def stop_when(reached: threading.Event, made: sevenfold.Agent) -> None:
    def work() -> None:
        reached.wait(30)
        made.interrupt()

    threading.Thread(target=work, daemon=True).start()


@pytest.mark.parametrize("said", ["", "I was about to"])
def test_a_model_that_keeps_silent_is_no_longer_waited_for(said: str) -> None:
    client = Silent(said, "Here I am.")
    with sevenfold.Agent(MODEL, client=client, settings=QUIET, system="Be brief.", tools=[]) as made:
        stop_when(client.reached, made)
        assert made.run("Say something.").end == "interrupted"
        assert made.run("And now?").text == "Here I am."
        body = made.session.at(-1).decode()
        assert (said in body and INTERRUPTED in body) == bool(said)
        client.released.set()


def test_a_stream_is_cut_at_the_next_piece_and_what_was_said_is_kept() -> None:
    # So long that it cannot be over before the thread that interrupts gets its turn.
    long = " ".join(f"word{n}" for n in range(20_000))
    with world([long, "Shorter."]) as there, there.agent(max_tokens=64_000) as made:
        ended: list[Any] = []
        for event in made.stream("Talk."):
            if isinstance(event, Piece):
                made.interrupt()
            ended += [event] if isinstance(event, Ended) else []
        assert ended[0].finished.end == "interrupted"
        assert made.run("Be short.").text == "Shorter."
        request = there.bodies[-1]
        assert [message["role"] for message in messages(request)] == ["user", "assistant", "user"]
        kept = messages(request)[1]["content"][0]["text"]
        assert long.startswith(kept)
        assert 0 < len(kept) < len(long)
        assert INTERRUPTED in texts(request)


def test_calls_of_an_answer_that_was_cut_are_answered_as_not_carried_out() -> None:
    ran: list[str] = []

    def act() -> str:
        """Acts."""
        ran.append("act")
        return "acted"

    steps = [[use("act", "toolu_1"), words("and more of it " * 500)], "Good."]
    with world(steps) as there, there.agent(tools=[act]) as made:
        for event in made.stream("Act."):
            if isinstance(event, Piece) and event.kind == "text":
                made.interrupt()
        assert ran == []
        assert made.run("Go on.").text == "Good."
        assert results(there.bodies[-1]) == {"toolu_1": NOT_DONE}


def test_a_command_ends_with_all_it_started(folder: Path) -> None:
    command = "sleep 300 & echo $! > child; echo $$ > parent; echo ready; wait"
    steps = [[use("Shell", "c1", command=command), use("Shell", "c2", command="touch never")], "Fine."]
    with agent(steps, folder, mode="autonomous") as made:
        for event in made.stream("Run it."):
            if isinstance(event, ToolProgress):
                made.interrupt()
        for name in ("child", "parent"):
            assert not _runs(int((folder / name).read_text()))
        assert made.run("And?").text == "Fine."
        answers = results(model_of(made).requests[-1])
        assert "ready" in answers["c1"]
        assert "stopped" in answers["c1"]
        assert answers["c2"] == NOT_DONE
        assert not (folder / "never").exists()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_tool_that_does_not_stop_is_left_behind() -> None:
    over = threading.Event()

    def stubborn() -> str:
        """Does not listen."""
        over.wait(60)
        return "too late"

    with agent([[use("stubborn", "c1")], "I see."], tools=[stubborn]) as made:
        made.assembly.executor.grace_seconds = 0.01
        for event in made.stream("Go."):
            if isinstance(event, ToolBegan):
                made.interrupt()
        assert made.run("And?").text == "I see."
        assert results(model_of(made).requests[-1]) == {"c1": LEFT}
        over.set()


def test_a_tool_that_listens_answers_what_it_has() -> None:
    def patient(context: Context) -> str:
        """Works until it is told to stop."""
        context.progress("begun")
        while not context.abort.is_set():
            threading.Event().wait(0.001)
        return "half of it"

    with agent([[use("patient", "c1")], "I see."], tools=[patient]) as made:
        for event in made.stream("Go."):
            if isinstance(event, ToolProgress):
                made.interrupt()
        made.run("And?")
        assert results(model_of(made).requests[-1]) == {"c1": "half of it"}


def test_closing_the_iterator_interrupts(folder: Path) -> None:
    steps = [[use("Shell", "c1", command="echo $$ > process; echo on; sleep 300")], "Fine."]
    with agent(steps, folder, mode="autonomous") as made:
        events = made.stream("Run it.")
        for event in events:
            if isinstance(event, ToolProgress):
                break
        events.close()
        assert not made.running
        assert not _runs(int((folder / "process").read_text()))
        assert made.run("And?").text == "Fine."


def test_closing_the_agent_stops_a_run_whose_reader_has_gone(folder: Path) -> None:
    steps = [[use("Shell", "c1", command="echo $$ > process; echo on; sleep 300")]]
    made = agent(steps, folder, mode="autonomous")
    events = made.stream("Run it.")
    for event in events:
        if isinstance(event, ToolProgress):
            break
    made.close()
    assert not _runs(int((folder / "process").read_text()))


def test_an_interrupt_from_the_keyboard_is_raised_once_the_conversation_is_in_order() -> None:
    def act(context: Context) -> str:
        """Presses the keys."""
        os.kill(os.getpid(), signal.SIGINT)
        while not context.abort.is_set():
            threading.Event().wait(0.001)
        return "pressed"

    with agent([[use("act", "c1")], "Fine."], tools=[act]) as made:
        with pytest.raises(KeyboardInterrupt):
            made.run("Go.")
        assert made.assembly.conversation.transcript.view.pending_calls == []
        assert made.run("And?").text == "Fine."
        assert list(results(model_of(made).requests[-1])) == ["c1"]


def test_an_interrupt_ends_a_pause_between_tries() -> None:
    from sevenfold.lab.simulator.faults import Fault, Faults

    class Waiting(Signal):
        def wait(self, seconds: float) -> bool:
            if seconds:
                made.interrupt()
            return super().wait(seconds and 30)

    with world(["Late."], Faults({1: Fault("overloaded")})) as there, there.agent() as made:
        made.assembly.loop.signals = Waiting
        assert made.run("Go.").end == "interrupted"
        assert made.run().text == "Late."


def test_an_interrupt_before_the_first_step_counts() -> None:
    with agent(["Never said."]) as made:
        events = made.stream("Go.")
        made.assembly.conversation.events.listen(
            lambda event: made.interrupt() if isinstance(event, Sending) else None
        )
        assert [event.finished.end for event in events if isinstance(event, Ended)] == ["interrupted"]


@pytest.mark.spec("S4.16")
def test_an_interrupted_compaction_leaves_the_conversation_as_it_was() -> None:
    def stop(event: Any) -> None:
        if isinstance(event, Compacting) and event.stage == "compact_start":
            made.interrupt()

    fact = "a fact worth keeping " * 500
    with (
        world(lambda prompt: "Noted.") as there,
        there.agent(settings={"compact_window": 40_000}, tools=[], listen=[stop]) as made,
    ):
        before: list[str] = []
        while (done := made.run(fact)).end == "done":
            before = [item.record.uuid for item in made.assembly.conversation.transcript.view.items]
        assert done.end == "interrupted"
        view = made.assembly.conversation.transcript.view
        assert view.boundary is None
        assert [item.record.uuid for item in view.items][:-1] == before
        assert made.session.conversation.state(Compactor).status == ""


def test_cancelling_an_awaited_run_leaves_the_conversation_in_order() -> None:
    class SilentAsync(AsyncOfflineClient):
        said = False

        async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
            if self.said:
                return await super().ask(call, watch)
            self.said = True
            if watch is not None:
                watch(Piece("text", "I was about to"))
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    reached: asyncio.Event

    async def work() -> None:
        nonlocal reached
        reached = asyncio.Event()
        client = SilentAsync(Script(["Here I am."]))
        async with sevenfold.AsyncAgent(
            MODEL, client=client, settings=QUIET, system="Be brief.", tools=[]
        ) as made:
            running = asyncio.create_task(made.run("Say something."))
            await reached.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not made.running
            assert (await made.run("And now?")).text == "Here I am."
            body = (await made.session.at(-1)).decode()
            assert "I was about to" in body
            assert INTERRUPTED in body

    asyncio.run(work())


def test_interrupting_an_awaited_run_stops_its_tools() -> None:
    async def work() -> None:
        async def endless() -> str:
            """Never ends by itself."""
            began.set()
            await asyncio.Event().wait()
            return "never"

        began = asyncio.Event()
        async with async_agent(
            [[use("endless", "c1"), use("endless", "c2")], "Fine."], tools=[endless]
        ) as made:
            running = asyncio.create_task(made.run("Go."))
            await began.wait()
            made.interrupt()
            assert (await running).end == "interrupted"
            assert (await made.run("And?")).text == "Fine."
            assert list(results(_decoded(await made.session.at(-1))).values()) == [LEFT, NOT_DONE]

    asyncio.run(work())


def _decoded(body: bytes) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(body)
    return found


def test_closing_an_awaited_stream_interrupts_over_the_wire() -> None:
    long = " ".join(f"word{n}" for n in range(2_000))

    async def work() -> None:
        with world([long, "Shorter."]) as there:
            made = sevenfold.AsyncAgent(
                MODEL, client=there.async_sdk, settings=QUIET, system="Be brief.", tools=[]
            )
            async with made:
                events = made.stream("Talk.")
                async for event in events:
                    if isinstance(event, Piece):
                        break
                await events.aclose()
                assert (await made.run("Be short.")).text == "Shorter."
                kept = messages(there.bodies[-1])[1]["content"][0]["text"]
                assert long.startswith(kept)
                assert 0 < len(kept) < len(long)
            await there.async_sdk.close()

    asyncio.run(work())


def test_what_was_queued_survives_an_interruption() -> None:
    def busy() -> str:
        """Is interrupted."""
        made.queue("Something else.")
        made.interrupt()
        return "busy"

    with agent([[use("busy", "c1")], "Heard."], tools=[busy]) as made:
        assert made.run("Go.").end == "interrupted"
        assert made.waiting == ("Something else.",)
        events = list(made.stream())
        assert isinstance(events[-1], Ended)
        assert events[-1].finished.text == "Heard."
        assert "Something else." in texts(model_of(made).requests[-1])
        assert not any(isinstance(event, ToolEnded) for event in events)
        assert any(isinstance(event, Happened) for event in events)


def test_closing_an_awaited_agent_stops_a_run_whose_reader_has_gone() -> None:
    async def work() -> None:
        async def endless() -> str:
            """Never ends by itself."""
            await asyncio.Event().wait()
            return "never"

        made = async_agent([[use("endless", "c1")]], tools=[endless])
        events = made.stream("Go.")
        async for event in events:
            if isinstance(event, ToolBegan):
                break
        await made.close()
        assert not made.running
        await events.aclose()

    asyncio.run(work())
