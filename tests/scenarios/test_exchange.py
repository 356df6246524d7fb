"""Requests on the wire: they only grow, they are read from the cache, and they are on record."""

from __future__ import annotations

import pytest

from sevenfold.conversation.history import rebuild
from sevenfold.conversation.resume import read
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.decisions import Request
from sevenfold.record.entries import Decision
from sevenfold.record.usage import BilledCall, Usage, ideal_cost
from sevenfold.record.view import View
from sevenfold.stores.memory import MemoryLog
from tests.scenarios.conversing import Conversation, conversation

ADAPTIVE = {"type": "adaptive"}


@pytest.mark.spec("S6.2", "S9.2", "S6.7")
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-4-6"])
def test_every_request_extends_the_one_before(model):
    with conversation(model, thinking=ADAPTIVE) as held:
        held.say("begin")
        for _ in range(12):
            held.ask()
        assert held.moved() == []
        assert [outcome.broken for outcome in held.outcomes] == [None] * 13


@pytest.mark.spec("S6.3")
def test_a_long_session_is_read_from_the_cache_and_costs_next_to_the_ideal():
    with conversation(thinking=ADAPTIVE) as held:
        held.say("begin")
        for _ in range(99):
            held.ask()
        used = [Usage.of(request.usage or {}) for request in held.simulator.requests]
        read = sum(usage.cache_read_input_tokens for usage in used)
        assert read / sum(usage.prompt for usage in used) > 0.97
        spent = sum(outcome.cost or 0 for outcome in held.outcomes)
        ideal = ideal_cost(
            [BilledCall(usage.prompt, usage.output_tokens, 300) for usage in used], find(held.model)
        )
        assert ideal is not None
        assert spent <= 1.03 * ideal


@pytest.mark.spec("S10.1", "S8.4")
def test_every_request_can_be_made_again_from_its_record():
    log = MemoryLog()
    with conversation(log=log, thinking=ADAPTIVE) as held:
        held.say("begin")
        for _ in range(6):
            held.ask()
        sent = [request.raw for request in held.simulator.requests]
    view, rebuilt = View(), []
    for offset, entry in read(log):
        if isinstance(entry, Decision) and isinstance(entry.record, Request):
            assert view.epoch is not None
            body = rebuild(view.epoch, entry.record, view.messages())
            assert body.sha256 == entry.record.sha256
            rebuilt.append(body.raw)
        view.add(entry, offset)
    assert [body[:-1] + b',"stream":true}' for body in rebuilt] == sent


@pytest.mark.spec("S8.4", "S9.2")
def test_a_resumed_session_goes_on_with_the_bytes_it_sent_before():
    log = MemoryLog()
    with conversation(log=log, thinking=ADAPTIVE) as held:
        held.say("begin")
        held.ask()
        again = Conversation(held.url, held.simulator, held.model, log, thinking=ADAPTIVE)
        assert again.exchange.epoch.frame == held.exchange.epoch.frame
        outcome = again.ask()
        assert held.moved() == []
        assert outcome.broken is None
        again.client.close()


@pytest.mark.spec("S9.2")
def test_other_tools_open_a_new_epoch_that_a_bound_model_accepts():
    with conversation(thinking=ADAPTIVE) as held:
        held.say("begin")
        held.ask()
        frame = held.exchange.epoch.frame
        held.exchange.reframe(
            type(frame)(frame.model, 4_000, frame.system, frame.tools[:1], frame.settings), "tools"
        )
        outcome = held.ask()
        assert outcome.broken is not None
        assert (outcome.broken.cause, outcome.broken.part) == ("tool", "tool Grep is gone")
        assert held.moved() != []


@pytest.mark.spec("S9.3")
def test_an_instruction_in_mid_session_is_appended_and_moves_nothing():
    with conversation(thinking=ADAPTIVE) as held:
        held.say("begin")
        held.script.attach("instruction", {}, [blocks.text("From now on, be brief.")], role="system")
        held.ask()
        held.ask()
        assert held.moved() == []


@pytest.mark.spec("S9.6")
def test_each_request_says_what_it_cost_and_what_it_would_have_cost_uncached():
    with conversation() as held:
        held.say("begin")
        outcome = held.ask()
        assert outcome.cost is not None
        assert outcome.uncached_cost is not None
        assert outcome.cost < outcome.uncached_cost
        assert outcome.ideal_cost == pytest.approx(outcome.cost, rel=0.03)
