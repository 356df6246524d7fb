"""History that the provider holds: only what is new is sent, and the log is as if all of it had been."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from typing import Any

import anthropic
import openai
import pytest

import sevenfold
from sevenfold.conversation.flow import drive
from sevenfold.events import SteppedAside
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import Received, Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.wire.messages_request import threaded

pytestmark = pytest.mark.spec("S37.15")

MODELS = {"messages": "claude-opus-4-6", "responses": "gpt-5.6"}
PATHS = {"messages": "/v1/messages", "responses": "/v1/responses"}
QUIET = {"notes": False, "background_compaction": False, "auto_compact": False, "model_listing": False}
SCHEMA = {"name": "read", "description": "reads a file", "input_schema": {"type": "object"}}
both = pytest.mark.parametrize("wire", MODELS)


class World:
    """A simulated provider that holds histories, and what its model was shown."""

    def __init__(self, wire: str, *, threads: bool = True) -> None:
        self.wire = wire
        self.clock = VirtualClock()
        self.seen: list[Any] = []
        self.events: list[Any] = []
        self._numbers = count(1)
        self.simulator = Simulator(ScriptedBrain(self._reply), Setup(threads=threads), clock=self.clock)
        self.url = ""

    def _reply(self, prompt: ModelPrompt) -> list[dict[str, Any]]:
        self.seen.append((prompt.system, [(said["role"], _words(said)) for said in prompt.messages]))
        number = next(self._numbers)
        said: list[dict[str, Any]] = [{"type": "text", "text": f"Part {number}."}]
        if number % 3:
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": "a"}}
            said.append(call)
        return said

    @property
    def sdk(self) -> Any:
        if self.wire == "messages":
            return anthropic.Anthropic(api_key="simulated-key", base_url=self.url, max_retries=0)
        return openai.OpenAI(api_key="simulated-key", base_url=f"{self.url}/v1", max_retries=0)

    def options(self, **settings: Any) -> dict[str, Any]:
        return {
            "model": MODELS[self.wire],
            "wire": self.wire,
            "system": "You are careful. " * 50,
            "tools": [sevenfold.tool(SCHEMA, kind="read")],
            "max_tokens": 2_000,
            "clock": self.clock,
            "listen": [self.events.append],
            "settings": {**QUIET, "threads": True, **settings},
        }

    @property
    def sent(self) -> list[Received]:
        return [request for request in self.simulator.requests if request.path == PATHS[self.wire]]

    @property
    def continued(self) -> list[bool]:
        """Which of the answered requests continued a thread."""
        return [continues(request.body) for request in self.sent if request.status == 200]


def _words(message: Any) -> str:
    return " ".join(
        str(block.get("text", block.get("content", block["type"]))) for block in message["content"]
    )


def continues(body: Any) -> bool:
    return bool(body.get("previous_response_id") or body.get("thread", {}).get("previous_message_id"))


@contextmanager
def world(wire: str, **more: Any) -> Iterator[World]:
    here = World(wire, **more)
    with serve(here.simulator) as here.url:
        yield here


def work(session: sevenfold.Session, turns: int = 5, more: str = "") -> None:
    for turn in range(turns):
        if not session.conversation.waiting:
            session.user(f"message {turn}")
        done = session.complete()
        session.tool_results({call.id: f"result of {call.id}{more}" for call in done.calls})


@both
def test_only_what_is_new_is_sent_the_model_sees_all_and_the_log_has_all(wire: str) -> None:
    seen = []
    for threads in (False, True):
        with world(wire) as here, here.sdk as sdk:
            with sevenfold.Session.in_memory(**here.options(threads=threads), client=sdk) as session:
                work(session)
                bodies = [session.at(number) for number in range(5)]
            assert here.continued == [False, *[threads] * 4]
            seen.append((here.seen, [len(request.raw) for request in here.sent], bodies))
    (plainly, sizes, bodies), (threaded_seen, smaller, logged) = seen
    assert threaded_seen == plainly
    assert [sha256(body).hexdigest() for body in logged] == [sha256(body).hexdigest() for body in bodies]
    assert all(small < size for small, size in zip(smaller[1:], sizes[1:], strict=True))


@both
def test_without_the_setting_nothing_is_stored(wire: str) -> None:
    with world(wire) as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(threads=False), client=sdk) as session:
            work(session, 2)
        for request in here.sent:
            assert "thread" not in request.body
            assert request.body.get("store", False) is False


@both
def test_a_lost_thread_is_begun_again_with_the_whole_conversation(wire: str) -> None:
    with world(wire) as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(), client=sdk) as session:
            work(session, 2)
            here.simulator.histories.forget()
            work(session, 2)
        assert [request.status for request in here.sent].count(200) == 4
        assert here.continued == [False, True, False, True]
        (told,) = [event for event in here.events if isinstance(event, SteppedAside)]
        assert (told.layer, told.reason) == (
            "threads",
            "the provider no longer holds the conversation: all of it is sent again",
        )
        assert "message 0" in str(here.seen[-1])


@both
def test_where_no_history_is_held_all_is_sent_and_threads_are_given_up(wire: str) -> None:
    with world(wire) as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(), client=sdk) as session:
            for turn in range(4):
                here.simulator.histories.forget()
                session.user(f"message {turn}")
                done = session.complete()
                session.tool_results({call.id: "result" for call in done.calls})
        answered = [request for request in here.sent if request.status == 200]
        assert len(answered) == 4
        assert here.continued == [False] * 4
        assert "thread" not in answered[-1].body
        assert answered[-1].body.get("store", False) is False
        assert len([event for event in here.events if isinstance(event, SteppedAside)]) == 2


def test_a_provider_that_declines_threads_is_asked_without_them_from_then_on() -> None:
    with world("messages", threads=False) as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(), client=sdk) as session:
            work(session, 3)
        assert [request.status for request in here.sent] == [400, 200, 200, 200]
        assert "thread" not in here.sent[-1].body


@both
def test_a_fork_a_compaction_and_a_rewind_leave_the_thread(wire: str) -> None:
    with (
        world(wire) as here,
        here.sdk as sdk,
        sevenfold.Session.in_memory(**here.options(), client=sdk) as session,
    ):
        work(session, 12, " and more words" * 400)
        fork = session.fork("question")
        fork.user("aside")
        here.simulator.requests.clear()
        drive(fork.turn(), session._asker())
        (aside,) = here.sent
        assert not continues(aside.body)
        assert "thread" not in aside.body
        assert aside.body.get("store", False) is False
        work(session, 1)
        assert continues(here.sent[-1].body), "the fork has not moved it"
        work(session, 1)
        compacted = session.compact()
        assert compacted is not None
        assert compacted.made
        here.simulator.requests.clear()
        session.user("after the compaction")
        session.complete()
        assert here.continued[-1] is False
        first = session.conversation.transcript.view.items[0].record.uuid
        session.rewind(first)
        here.simulator.requests.clear()
        session.user("after the rewind")
        session.complete()
        assert here.continued == [False]


@both
def test_a_clients_own_call_of_the_sdk_continues_the_thread_as_well(wire: str) -> None:
    with world(wire) as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(), client=sdk) as session:
            for turn in range(3):
                session.user(f"message {turn}")
                request = session.prepare()
                create = sdk.messages.create if wire == "messages" else sdk.responses.create
                reply = create(**request)
                done = session.observe(reply)
                session.tool_results({call.id: "result" for call in done.calls})
        assert here.continued == [False, True, True]


@both
def test_an_async_session_continues_its_thread(wire: str) -> None:
    async def run(here: World) -> None:
        asynchronous = anthropic.AsyncAnthropic if wire == "messages" else openai.AsyncOpenAI
        url = here.url if wire == "messages" else f"{here.url}/v1"
        async with (
            asynchronous(api_key="simulated-key", base_url=url, max_retries=0) as sdk,
            sevenfold.AsyncSession.in_memory(**here.options(), client=sdk) as session,
        ):
            for turn in range(3):
                await session.user(f"message {turn}")
                done = await session.complete()
                await session.tool_results({call.id: "result" for call in done.calls})

    with world(wire) as here:
        asyncio.run(run(here))
        assert here.continued == [False, True, True]


def test_a_thread_expires_and_is_begun_again() -> None:
    with world("messages") as here, here.sdk as sdk:
        with sevenfold.Session.in_memory(**here.options(), client=sdk) as session:
            work(session, 2)
            here.clock.advance(400)
            work(session, 2)
        assert here.continued == [False, True, False, True]


def test_a_continued_body_has_the_new_messages_alone_and_no_create_only_fields() -> None:
    body = b'{"model":"m","system":"s","tools":[],"messages":[{"a":1},{"b":2},{"c":3}],"max_tokens":5}'
    assert threaded(body, "", 0) == body[:-1] + b',"thread":{"type":"create"}}'
    assert threaded(body, "msg_1", 2) == (
        b'{"model":"m","messages":[{"c":3}],"max_tokens":5,'
        b'"thread":{"type":"continue","previous_message_id":"msg_1"}}'
    )
