"""A compaction can be interrupted at any moment before it is done, and then nothing has happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.hooks.registry import AsyncHooks, Hooks
from sevenfold.errors import Aborted, Refused
from sevenfold.layers.compact.offline import summarise
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers.offline import OfflineClient, Script

from .working import MODEL, agent, async_agent, model_of, options, texts, use

pytestmark = [pytest.mark.spec("S4.16"), pytest.mark.usefixtures("compactions_of_any_size")]


def no_commands(*_: Any, **__: Any) -> Any:
    raise AssertionError("there are no commands here")


def hooks(kind: type[Any] = Hooks) -> Any:
    return kind(None, run=no_commands, environ={}, project_dir=".")


def talked(made: sevenfold.Agent) -> list[bytes]:
    for words in ("the door is green", "the key is under the mat"):
        made.run(words)
    return made.session.conversation.transcript.view.encoded()


class Silent(OfflineClient):
    """Answers the conversation, and is silent when a summary is asked for."""

    def __init__(self) -> None:
        super().__init__(Script(["Yes.", "I see.", "Still here."], jobs={"compact": summarise}))
        self.asked = threading.Event()
        self.over = threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if call.source == "compact":
            self.asked.set()
            self.over.wait(60)
        return super().ask(call, watch)


def interrupted_when(happens: threading.Event, made: sevenfold.Agent) -> threading.Thread:
    def stop() -> None:
        assert happens.wait(60)
        made.interrupt()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    return thread


def test_while_the_model_is_asked():
    client = Silent()
    with sevenfold.Agent(MODEL, client=client, **options(None, {})) as made:
        before = talked(made)
        stopping = interrupted_when(client.asked, made)
        with pytest.raises(Aborted):
            made.compact()
        stopping.join()
        client.over.set()
        assert made.session.conversation.transcript.view.encoded() == before
        assert made.session.health.status == ""
        assert made.run("and now?").text == "Still here."


@pytest.mark.parametrize("event", ["PreCompact", "SessionStart"])
def test_while_hooks_run(event):
    registry = hooks()
    with agent(["Yes.", "I see.", "Still here."], hooks=registry) as made:
        before = talked(made)
        registry.add(event, lambda _: made.interrupt())
        with pytest.raises(Aborted):
            made.compact()
        assert made.session.conversation.transcript.view.encoded() == before
        assert made.session.conversation.transcript.view.boundary is None


def test_once_it_is_written_down_it_is_done():
    registry = hooks()
    with agent(["Yes.", "I see."], hooks=registry) as made:
        talked(made)
        registry.add("PostCompact", lambda _: made.interrupt())
        done = made.compact()
        assert done is not None
        assert made.session.conversation.transcript.view.boundary == done.boundary


def test_what_stopped_one_does_not_stop_the_next():
    with agent(["Yes.", "I see."]) as made:
        talked(made)
        made.interrupt()
        assert made.compact("keep the colours") is not None


def test_it_does_not_go_on_beside_a_run():
    refused: list[str] = []
    made: sevenfold.Agent

    def compact_now() -> str:
        """Compact in the middle of a turn."""
        try:
            made.compact()
        except Refused as error:
            refused.append(str(error))
        return "tried"

    with agent([[use("compact_now")], "Done."], tools=[compact_now]) as made:
        made.run("go")
    assert "the agent is working" in refused[0]


@pytest.mark.parametrize("event", ["PreCompact", "SessionStart"])
def test_the_same_for_an_agent_that_is_awaited(event):
    async def main() -> None:
        registry = hooks(AsyncHooks)
        async with async_agent(["Yes."], hooks=registry) as made:
            await made.run("the door is green")
            before = made.session.conversation.transcript.view.encoded()
            waiting = asyncio.Event()
            undo: list[Callable[[], None]] = [made.interrupt]

            async def stop(_: Any) -> None:
                if undo:
                    undo.pop()()
                    await waiting.wait()

            registry.add(event, stop)
            with pytest.raises(Aborted):
                await made.compact()
            assert made.session.conversation.transcript.view.encoded() == before
            waiting.set()
            assert await made.compact() is not None

    asyncio.run(main())


def test_a_message_that_hooks_had_not_agreed_to_is_not_taken_in():
    registry = hooks()
    with agent(["Yes."], hooks=registry) as made:
        registry.add("UserPromptSubmit", lambda _: made.interrupt())
        finished = made.run("hello")
        assert finished.end == "interrupted"
        assert "not taken in" in finished.detail
        assert len(made.session.conversation.transcript.view) == 0


def test_what_a_tool_did_is_told_even_if_hooks_behind_it_are_cut_short():
    registry = hooks()

    def strike() -> str:
        """Ring the bell."""
        made.interrupt()
        return "the bell rang"

    with agent([[use("strike", "c1")]], tools=[strike], hooks=registry) as made:
        registry.add("PostToolUse", lambda _: None)
        made.run("ring")
        answered = made.session.conversation.transcript.view.items[-1]
        assert "the bell rang" in answered.record.blocks[0].raw.decode()


ON_THE_OWN = "this is not a first start"


@pytest.mark.spec("S4.9")
@pytest.mark.parametrize(("mode", "told"), [("autonomous", True), ("ask", False)])
def test_an_agent_that_works_on_its_own_is_told_so_behind_an_automatic_summary(mode, told):
    answers = ["word " * 8_000, "word " * 8_000, "I go on."]
    with agent(answers, settings={"context_window": 20_000}, mode=mode) as made:
        for number in range(3):
            made.run(f"part {number}")
        body = model_of(made).requests[-1]
        assert made.session.health.compactions == 1
        assert ((ON_THE_OWN in texts(body)), ("Go on at once" in texts(body))) == (told, not told)


@pytest.mark.spec("S4.9")
def test_behind_a_summary_the_user_asked_for_nobody_is_told_to_go_on():
    with agent(["Yes.", "I see.", "Hello."], mode="autonomous") as made:
        talked(made)
        made.compact()
        made.run("And now?")
        assert ON_THE_OWN not in texts(model_of(made).requests[-1])
