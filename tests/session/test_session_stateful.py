"""Whatever a user, a model, tools, layers and the passing of time do to a session, the next request is right.

Every request goes to the simulator as bytes, and it enforces the provider's rules, bound thinking included. What was
sent only grows, or something that was told explains why not; and a session that is closed and opened again sends
what it would have sent.
"""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation.intake import must_have_news
from sevenfold.errors import InputError, Refused
from sevenfold.events import Acted, EpochOpened, Event
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.invariant import extends
from sevenfold.profiles import find
from sevenfold.recall.index import SessionRecall
from sevenfold.record.layout import rounds
from sevenfold.session import factory as opened
from sevenfold.stores.memory import MemoryLog, MemoryResults
from tests.session.talking import (
    ADAPTIVE,
    ALONE,
    BOUND,
    FREE,
    OLD,
    SYSTEM,
    TOOLS,
    World,
    said,
    uuids,
    world,
)

NUMBERS = st.integers(0, 2**16)
MODELS = (BOUND, "claude-opus-5-5", FREE, OLD)
OTHER = "Another one. " * 300
SMALL = {
    **ALONE,
    "offload_characters": 3_000,
    "preview_bytes": 300,
    "round_characters": 4_000,
    "gap_keep": 1,
    "size_keep": 1,
    "size_trigger_tokens": 2_000,
    "size_target_tokens": 500,
    "size_least_tokens": 300,
}


def fickle() -> ScriptedBrain:
    """A model that makes no call, one or two, in turn, and thinks where it can."""
    numbers = iter(range(10**9))

    def reply(prompt: ModelPrompt) -> list[dict[str, Any]]:
        number = next(numbers)
        thinks = "thinking" in prompt.body
        answer: list[dict[str, Any]] = (
            [{"type": "thinking", "thinking": f"step {number}"}] if thinks else []
        )
        answer.append({"type": "text", "text": f"Part {number}."})
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}_{each}", "name": "Shell", "input": {"n": number}}
            for each in range(number % 3)
        ]
        return [*answer, *calls]

    return ScriptedBrain(reply)


class Sessions(RuleBasedStateMachine):
    """A session with everything that can happen to it."""

    here: World
    http: httpx2.Client

    def __init__(self) -> None:
        super().__init__()
        self.model = BOUND
        self.system = SYSTEM
        self.sent = b""
        self.explained = True
        self.records: list[str] = []
        self.store = opened.in_memory("s", SMALL)

    @initialize(model=st.sampled_from(MODELS))
    def begin(self, model: str) -> None:
        self.model = model
        self.here.simulator.brain = fickle()
        log, results = MemoryLog(), MemoryResults()
        recall = SessionRecall(log, None, results)
        self.store = replace(self.store, log=log, results=results, recall=recall)
        self.session = self.opened()
        self.session.user("begin")

    def opened(self) -> sevenfold.Session:
        options: Any = {
            "system": self.system,
            "tools": TOOLS,
            "max_tokens": 4_000,
            "clock": self.here.clock,
            "listen": [self.hear],
        }
        if self.model != OLD:
            options["thinking"] = ADAPTIVE
        return sevenfold.Session(opened.conversation(self.store, self.model, options), self.store)

    def hear(self, event: Event) -> None:
        if isinstance(event, EpochOpened) or (isinstance(event, Acted) and event.layer != "offload"):
            self.explained = True

    def may_ask(self) -> bool:
        try:
            must_have_news(self.session.conversation.transcript.view)
        except InputError:
            return False
        return True

    @rule(words=st.sampled_from(["go on", "你好", "x" * 500]), key=st.sampled_from(["", "k1", "k2"]))
    def the_user_speaks(self, words: str, key: str) -> None:
        self.session.user(words, key=key)

    @precondition(lambda self: self.may_ask())
    @rule(
        meanwhile=st.sampled_from(["", "", "", "and hurry"]), undoes=st.sampled_from([False, False, True])
    )
    def the_model_is_asked(self, meanwhile: str, undoes: bool = False) -> None:
        request = self.session.prepare()
        body = request.body
        facts = RuleFacts.of(find(self.model), strict=True)
        wrong = refusals(said(body), facts=facts, tools=request["tools"], system=request["system"])
        assert wrong == []
        moved = extends(self.sent, body) if self.sent else None
        assert moved is None or self.explained, moved
        reply = self.http.post("/v1/messages", content=body, headers=request.headers)
        assert reply.status_code == 200, reply.text
        self.sent, self.explained = body, False
        if meanwhile:
            self.session.user(meanwhile)
        if undoes:
            self.attempt(self.session.undo)
        self.session.observe(reply.content)
        assert self.session.at(-1) == body
        self.records += uuids(self.session)[-3:]

    @precondition(lambda self: self.session.conversation.waiting)
    @rule(size=st.sampled_from([1, 50, 400]), every=st.booleans())
    def tools_answer(self, size: int, every: bool) -> None:
        waiting = self.session.conversation.waiting
        for call in waiting if every else waiting[:1]:
            self.session.tool_results({call: f"line of {call}\n" * size})

    @rule(times=st.integers(1, 4), size=st.sampled_from([1, 50, 400]))
    def the_agent_works(self, times: int, size: int) -> None:
        for _ in range(times):
            if self.session.conversation.waiting:
                self.tools_answer(size, every=True)
            if not self.may_ask():
                self.session.user("go on")
            self.the_model_is_asked("")

    @rule(seconds=st.sampled_from([10, 400, 4_000]))
    def time_passes(self, seconds: int) -> None:
        self.here.clock.advance(seconds)

    @rule(which=NUMBERS)
    def something_is_pinned(self, which: int) -> None:
        records = uuids(self.session)
        if records:
            self.session.pin(records[which % len(records)])

    @rule(first=NUMBERS, length=st.integers(0, 3))
    def rounds_are_snipped(self, first: int, length: int) -> None:
        whole = rounds(self.session.conversation.transcript.view.items)[:-1]
        if whole:
            start = first % len(whole)
            end = min(start + length, len(whole) - 1)
            self.attempt(
                self.session.snip, whole[start].items[0].record.uuid, whole[end].items[-1].record.uuid
            )

    @rule()
    def a_decision_is_undone(self) -> None:
        self.attempt(self.session.undo)

    @rule()
    def a_decision_is_redone(self) -> None:
        self.attempt(self.session.redo)

    @precondition(lambda self: self.records)
    @rule(which=NUMBERS)
    def the_user_rewinds(self, which: int) -> None:
        self.attempt(self.session.rewind, self.records[which % len(self.records)])
        self.explained = True
        self.session.user("another way")

    @rule(another=st.sampled_from([False, False, True]))
    def the_session_is_opened_again(self, another: bool) -> None:
        system = {SYSTEM: OTHER, OTHER: SYSTEM}[self.system] if another else self.system
        expected = self.session.prepare().body if self.may_ask() else b""
        shown = self.session.conversation.transcript.view.encoded()
        same = system == self.system
        self.system = system
        self.session = self.opened()
        self.explained = True
        assert self.session.conversation.transcript.view.encoded() == shown
        if same and expected:
            assert self.session.prepare().body == expected

    def attempt(self, what: Any, *given: Any) -> None:
        """Do it, if it is allowed now."""
        try:
            what(*given)
        except Refused:
            return
        self.explained = True


@pytest.mark.spec("S9.2", "S8.4", "S8.6", "S10.1")
def test_whatever_happens_the_next_request_is_right() -> None:
    headers = {"x-api-key": "simulated-key", "anthropic-version": "2026-10-21"}
    with world(fickle()) as here, httpx2.Client(base_url=here.url, headers=headers) as http:
        machine = type("Held", (Sessions,), {"here": here, "http": http})
        effort = settings(max_examples=settings().max_examples // 2, deadline=None)
        run_state_machine_as_test(machine, settings=effort)
