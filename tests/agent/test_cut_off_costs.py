"""Answers that are cut off cost what the provider had reported by then: for the account, the log and listeners."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec import Raw

import sevenfold
from sevenfold.cli.chat.reports import Spending
from sevenfold.conversation.history import account_of
from sevenfold.errors import InputError
from sevenfold.events import Failed
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.ports import Call, HeadWatcher, Piece, Reply, Watcher
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.record.log import Answer
from sevenfold.record.usage import Usage
from tests.agent.test_agent_interrupting import stop_when
from tests.agent.working import MODEL, QUIET, World, world

LONG = " ".join(f"word{number}" for number in range(600))
THOUGHT = [{"type": "thinking", "thinking": LONG}, {"type": "text", "text": "So."}]
SHOWN = {"type": "adaptive", "display": "summarized"}
pytestmark = pytest.mark.spec("S9.8")


def books(session: sevenfold.Session) -> list[float | None]:
    """What the session has cost: as it knows, as its log says, and as the terminal adds it up."""
    log = session.conversation.transcript.log
    return [session.gauge.usd, account_of(log).usd, Spending.of(log).usd]


class Interrupting(AnthropicClient):
    """Interrupts the agent at the first piece of a kind, in the answer to a request of one source."""

    def __init__(self, there: World, kind: str, source: str = "main") -> None:
        super().__init__(there.sdk)
        self.kind, self.source = kind, source
        self.agent: sevenfold.Agent

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        def stop(piece: Piece) -> None:
            if (piece.kind, call.source) == (self.kind, self.source):
                self.agent.interrupt()
            assert watch is not None
            watch(piece)

        return super().ask(call, stop)


@pytest.mark.parametrize("at", ["thinking", "text"])
def test_an_interrupted_answer_costs_what_was_reported_before(at: str) -> None:
    heard: list[Any] = []
    with world([THOUGHT if at == "thinking" else LONG]) as there:
        client = Interrupting(there, at)
        with there.agent(client=client, listen=[heard.append], thinking=SHOWN) as client.agent:
            assert client.agent.run("Talk.").end == "interrupted"
            costs = books(client.agent.session)
    failed = [event for event in heard if isinstance(event, Failed)]
    assert costs[0] is not None
    assert costs[0] > 0
    assert costs == pytest.approx([costs[0]] * 3)
    assert [event.usd for event in failed] == pytest.approx([costs[0]])
    assert failed[0].prompt_tokens > 0


def test_a_budget_counts_interrupted_answers() -> None:
    with world([LONG, "Never asked for."]) as there:
        client = Interrupting(there, "text")
        with there.agent(client=client, max_usd=1e-6) as client.agent:
            assert client.agent.run("Talk.").end == "interrupted"
            assert client.agent.run("And now?").end == "budget"


def test_a_stream_that_breaks_is_paid_for_as_well_as_the_one_that_follows() -> None:
    with world([LONG, "Short."], Faults({1: Fault("cut_stream")})) as there, there.agent() as made:
        assert made.run("Talk.").text == "Short."
        costs = books(made.session)
        last = made.session.why(-1)
    assert costs[0] is not None
    assert last.usd is not None
    assert costs[0] > last.usd * 1.5
    assert costs == pytest.approx([costs[0]] * 3)


class Silent(OfflineClient):
    """A model that begins to answer, and then says nothing until the test is over."""

    def __init__(self) -> None:
        super().__init__(Script(["Here I am."]))
        self.reached, self.released = threading.Event(), threading.Event()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        if self.reached.is_set():
            return super().ask(call, watch)
        watching: object = watch
        assert isinstance(watching, HeadWatcher)
        watching.begin(Answer("msg_1", MODEL, (), Raw(b'{"input_tokens":120000,"output_tokens":1}')))
        self.reached.set()
        self.released.wait(60)
        raise AssertionError("nobody waits for this any more")


def test_a_request_that_is_left_behind_costs_what_its_head_reported() -> None:
    client = Silent()
    with sevenfold.Agent(MODEL, client=client, settings=QUIET, system="Be brief.", tools=[]) as made:
        stop_when(client.reached, made)
        assert made.run("Say something.").end == "interrupted"
        paid = Usage.cost(Usage(input_tokens=120_000, output_tokens=1), find(MODEL))
        assert books(made.session) == pytest.approx([paid] * 3)
        client.released.set()


def test_a_watcher_is_given_the_head_of_an_answer_before_its_first_piece() -> None:
    class Watching:
        def __init__(self) -> None:
            self.came: list[str] = []

        def begin(self, head: Answer) -> None:
            self.came.append(f"{head.model} {Usage.read(head.usage).prompt > 0}")

        def __call__(self, piece: Piece) -> None:
            self.came.append(piece.kind)

    with world(["Hello."]) as there, sevenfold.Session.in_memory(model=MODEL, client=there.sdk) as session:
        session.user("Talk.")
        watching = Watching()
        AnthropicClient(there.sdk).ask(Call(session.prepare().body), watching)
    assert watching.came[:2] == [f"{MODEL} True", "text"]


def test_an_interrupted_summary_is_paid_for_and_not_taken_for_an_answer() -> None:
    def brain(prompt: Any) -> str:
        return f"<summary>{LONG}</summary>" if "summary" in prompt.last_text else "Noted."

    fact = "a fact worth keeping " * 500
    with world(brain) as there:
        client = Interrupting(there, "text", "compact")
        settings = {"compact_window": 40_000, "compact_engines": ["fork"]}
        with there.agent(client=client, settings=settings, tools=[]) as made:
            client.agent = made
            while (done := made.run(fact)).end == "done":
                before = made.session.gauge.usd
            assert done.end == "interrupted"
            assert made.assembly.conversation.transcript.view.items[-1].record.role == "user"
            assert before is not None
            assert made.session.gauge.usd is not None
            assert made.session.gauge.usd > before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, asyncio.CancelledError])
def test_a_session_pays_for_an_answer_that_its_caller_breaks_off(stop: type[BaseException]) -> None:
    def watch(piece: Piece) -> None:
        raise stop

    async def awaited(there: World) -> list[float | None]:
        async with sevenfold.AsyncSession.in_memory(model=MODEL, client=there.async_sdk) as session:
            await session.user("Talk.")
            with pytest.raises(asyncio.CancelledError):
                await session.complete(watch)
            paid = books(session._session)
        await there.async_sdk.close()
        return paid

    with world([LONG]) as there:
        if stop is asyncio.CancelledError:
            costs = asyncio.run(awaited(there))
        else:
            with sevenfold.Session.in_memory(model=MODEL, client=there.sdk) as session:
                session.user("Talk.")
                with pytest.raises(KeyboardInterrupt):
                    session.complete(watch)
                costs = books(session)
    assert costs[0]
    assert costs == pytest.approx([costs[0]] * 3)


def test_an_answer_of_which_nothing_is_whole_is_paid_for() -> None:
    begun = {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "usage": {"input_tokens": 120_000, "output_tokens": 1},
        },
    }
    with sevenfold.Session.in_memory(model=MODEL) as session:
        session.user("Talk.")
        assert session.prepare().body
        with pytest.raises(InputError, match="the answer has no complete block"):
            session.observe([begun], partial=True)
        paid = Usage.cost(Usage(input_tokens=120_000, output_tokens=1), find(MODEL))
        assert books(session) == pytest.approx([paid] * 3)
        assert session.prepare().body
