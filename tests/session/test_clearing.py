"""Layer 2 in whole sessions: what is cleared when, what never is, and what that does to cache, reasoning and money."""

from __future__ import annotations

import json
from itertools import count, pairwise
from typing import Any

import pytest

from sevenfold.events import Proposed
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.record import entries
from sevenfold.record.decisions import Epoch
from sevenfold.record.entries import Clearing, Decision
from tests.session.holding import LINE, PICTURE, Held, calls, scripted, simulated, working

PLACEHOLDER = "[Old tool result content cleared]"
FREE, BOUND = "claude-opus-4-6", "claude-sonnet-5-5"
"""A model that takes any change of its history, and one whose reasoning is bound to what precedes it."""
SMALL = {"context_window": 40_000}


def clearings(held: Held) -> list[Clearing]:
    found = (entries.read(line) for _, line in held.store.log.read())
    return [entry for entry in found if isinstance(entry, Clearing)]


def epochs(held: Held) -> list[Epoch]:
    found = (entries.read(line) for _, line in held.store.log.read())
    return [
        entry.record for entry in found if isinstance(entry, Decision) and isinstance(entry.record, Epoch)
    ]


def worked(rounds: int = 9, *tools: str, content: Any = LINE * 60, **options: Any) -> Held:
    """A session with that many rounds of tool calls behind it, and new words of the user."""
    held = scripted(*[calls(*(tools or ("Read",)))] * rounds, **options)
    held.session.user("Begin.")
    held.run(rounds, content)
    held.ask()
    held.session.user("What next?")
    return held


def refused(simulator: Simulator) -> list[int]:
    return [request.status for request in simulator.requests if request.status != 200]


def unexpected(held: Held) -> list[Any]:
    return held.told("CacheBroke", expected=False)


# -- what may go ---------------------------------------------------------------------------------


@pytest.mark.spec("S2.1")
def test_only_results_that_can_be_had_again_go_and_the_calls_stay() -> None:
    held = worked(8, "Read", "Ask", "Shell", "Grep", "Edit")
    before = json.loads(held.session.prepare().body)["messages"]
    names = {
        block["id"]: block["name"]
        for message in before
        for block in message["content"]
        if block["type"] == "tool_use"
    }
    held.clock.advance(400)
    after = json.loads(held.session.prepare().body)["messages"]
    gone = held.cleared()
    assert gone == [call for call, name in names.items() if name != "Ask"][:-5]
    for was, now in zip(before, after, strict=True):
        for one, other in zip(was["content"], now["content"], strict=True):
            if one["type"] != "tool_result" or one["tool_use_id"] not in gone:
                assert _bare(one) == _bare(other)
            else:
                assert other == {
                    "type": "tool_result",
                    "tool_use_id": one["tool_use_id"],
                    "content": PLACEHOLDER,
                }


@pytest.mark.spec("S2.1", "S10.1")
def test_everything_that_was_cleared_can_be_fetched() -> None:
    held = worked()
    held.clock.advance(400)
    held.session.prepare()
    assert held.cleared()
    for call in held.cleared():
        assert held.session.fetch(call) == (LINE * 60).encode()


@pytest.mark.spec("S2.4")
def test_errors_and_what_is_cleared_already_use_up_no_slots() -> None:
    held = scripted(*[calls("Shell")] * 30)
    held.session.user("Begin.")
    made: list[str] = []
    for n in range(10):
        (call,) = (one.id for one in held.ask().calls)
        made.append(call)
        content = [
            {"type": "tool_result", "tool_use_id": call, "content": LINE * 200, "is_error": n in (6, 7)}
        ]
        held.session.tool_results(content)
    held.clock.advance(400)
    held.session.prepare()
    assert held.cleared() == made[:3], "five good ones stay, and the two errors between them"
    for _ in range(2):
        held.session.tool_results({one.id: LINE * 200 for one in held.ask().calls})
    held.clock.advance(400)
    held.session.prepare()
    assert [call for call in held.shown() if call not in held.cleared()] == [*list(held.shown())[5:]]


@pytest.mark.spec("S2.4")
def test_a_result_the_model_has_not_seen_is_never_cleared() -> None:
    held = scripted(calls("Read"), calls(*["Read"] * 8), settings={"offload": False})
    held.session.user("Begin.")
    held.run(1, LINE * 200)
    (first,) = held.shown()
    held.session.tool_results({call.id: LINE * 200 for call in held.ask().calls})
    held.clock.advance(4_000)
    held.session.prepare()
    assert held.cleared() == [first]


@pytest.mark.spec("S2.4")
def test_pinned_results_stay() -> None:
    held = scripted(*[calls("Read")] * 9)
    held.session.user("Begin.")
    held.run(9)
    items = held.session.conversation.transcript.view.items
    record, (call,) = next((item.record.uuid, item.record.answers) for item in items if item.record.answers)
    held.session.pin(record)
    held.clock.advance(400)
    held.session.prepare()
    assert held.cleared()
    assert call not in held.cleared()


# -- after a pause -------------------------------------------------------------------------------


@pytest.mark.spec("S2.2")
@pytest.mark.parametrize(("lifetime", "warm", "cold"), [("5m", 290, 301), ("1h", 3_500, 3_601)])
@pytest.mark.parametrize("resumed", [False, True])
def test_after_the_caches_lifetime_all_but_the_newest_five_go(
    lifetime: str, warm: int, cold: int, resumed: bool
) -> None:
    held = worked(lifetime=lifetime)
    held.clock.advance(warm - 5)
    if resumed:
        held.opened()
    held.session.prepare()
    assert not held.cleared()
    held.clock.advance(cold - warm)
    if resumed:
        held.opened()
    held.session.prepare()
    assert held.cleared() == list(held.shown())[:-5]
    assert len(clearings(held)) == 1


@pytest.mark.spec("S2.2", "S2.4")
def test_a_clearing_is_made_once() -> None:
    held = worked()
    held.clock.advance(400)
    first = held.session.prepare().body
    assert held.session.prepare().body == first
    held.opened()
    assert held.session.prepare().body == first
    assert len(clearings(held)) == 1


@pytest.mark.spec("S2.2")
def test_a_pause_in_the_middle_of_a_turn_counts_too() -> None:
    held = scripted(*[calls("Shell")] * 20)
    held.session.user("Begin.")
    held.run(9)
    held.clock.advance(400)
    held.session.prepare()
    assert held.cleared() == list(held.shown())[:-5]


@pytest.mark.spec("S2.2", "S2.6")
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_after_an_hour_reasoning_of_turns_before_the_last_is_left_out_once(model: str) -> None:
    thought = [
        {"type": "thinking", "thinking": "", "signature": "s" * 9_000},
        {"type": "text", "text": "Yes."},
    ]
    held = scripted(*[thought] * 5, model=model)
    for number in range(5):
        held.session.user(f"Question {number}")
        held.ask()
    held.session.user("And now?")
    held.clock.advance(400)
    held.session.prepare()
    assert held.thoughts() == 5
    held.clock.advance(3_600)
    body = held.session.prepare().body
    assert held.thoughts() == 1
    assert [epoch.reason for epoch in epochs(held)] == ["start", "clear"]
    assert held.told("Acted", layer="clear")[0].what == "leave out earlier reasoning"
    held.clock.advance(9_000)
    assert held.session.prepare().body == body
    assert len(epochs(held)) == 2


@pytest.mark.spec("S8.2", "S2.2")
@pytest.mark.parametrize("switch", ["layers", "gap_clearing"])
def test_switched_off_a_pause_changes_nothing(switch: str) -> None:
    held = worked(settings={switch: False})
    held.clock.advance(4_000)
    held.session.prepare()
    assert not held.cleared()


# -- by size -------------------------------------------------------------------------------------


@pytest.mark.spec("S2.4", "S2.5", "S2.12")
def test_large_results_go_in_a_warm_cache_only_when_the_session_has_cost_enough() -> None:
    held = scripted(*[calls("Read")] * 150)
    held.session.user("Begin.")
    held.run(20, LINE * 400)
    assert not held.cleared()
    (option,) = held.session.why(-1).why.options  # type: ignore[union-attr]  # every request has its reasons
    assert "can bear" in option.because
    while not held.cleared() and held.session.gauge.requests < 140:
        spent = held.session.gauge.usd or 0.0
        held.run(1, LINE * 400)
    (acted,) = held.told("Acted", layer="clear")
    assert 0 < acted.usd <= 0.01 * (held.session.gauge.usd or 0.0)
    assert spent > 0
    held.run(1, LINE * 400)
    assert len(clearings(held)) == 1, "the next request does not clear again"
    left = [said for call, said in held.shown().items() if said != PLACEHOLDER]
    assert len(left) < 20


@pytest.mark.spec("S2.8", "S0.5")
def test_at_the_threshold_results_go_and_the_pass_ends_there() -> None:
    held = scripted(*[calls("Read")] * 60, settings=SMALL)
    held.session.user("Begin.")
    held.run(60, LINE * 100)
    assert clearings(held)
    assert held.session.gauge.seen < held.session.gauge.threshold
    for one, other in pairwise(held.told("Acted", layer="clear")):
        assert other.at - one.at > 15, "cleared to well below the threshold, so not again at once"
    for acted in held.told("Acted", layer="clear"):
        assert acted.tokens_after < held.session.gauge.threshold - 5_000


@pytest.mark.spec("S17.1", "S4.1", "S2.8", "S9.5")
def test_a_long_series_of_readings_is_cleared_and_never_summarised() -> None:
    settings = {"context_window": 100_000, "compaction": True}
    with simulated(FREE, working(prompt_calls=100), settings=settings) as (held, simulator):
        for _ in range(60):
            held.run(1, LINE * 330)
            held.session.settle(30)
        assert not held.told("Compacted")
        assert len(simulator.requests) == 60, "no summary was prepared either"
        cleared = [event for event in held.told("Acted", layer="clear") if "threshold" in event.why]
        assert cleared
        assert all(event.tokens_after <= 47_000 for event in cleared), "the threshold less a fifth"
        assert list(held.shown().values())[-3:] == [LINE * 330] * 3


@pytest.mark.spec("S17.1", "S2.6", "S9.2")
@pytest.mark.parametrize("edits", [True, False])
def test_in_a_turn_that_goes_on_bound_reasoning_is_not_given_up_and_why_says_what_was_weighed(
    edits: bool,
) -> None:
    settings = {
        "context_window": 100_000,
        "compaction": True,
        "background_compaction": False,
        "provider_edits": edits,
    }
    with simulated(BOUND, working(prompt_calls=100), settings=settings) as (held, simulator):
        while not (acted := held.told("Acted", layer="clear")) and not held.told("Compacted"):
            held.run(1, LINE * 330)
        why = held.session.why(-1).why
        assert why is not None
        assert not acted
        assert held.told("Compacted")
        assert why.chosen == "compact"
        weighed = {option.name: option.because for option in why.options}
        assert "a turn that goes on" in weighed["clear"]
        # Nobody promises that the cut of this provider's edit holds.
        assert ("move with every call" in weighed.get("provider", "")) is edits
        held.run(3, LINE * 330)
        assert not refused(simulator)
        assert not unexpected(held)


@pytest.mark.spec("S2.11", "S0.9")
def test_a_clearing_is_a_record_in_the_chain_and_an_event() -> None:
    held = worked()
    before = held.session.gauge.seen
    held.clock.advance(400)
    turn = held.session.prepare()
    (clearing,), (acted,) = clearings(held), held.told("Acted", layer="clear")
    assert clearing.about.pre_tokens == before == acted.tokens_before
    assert list(clearing.about.compacted_tool_ids) == held.cleared()
    assert acted.items == len(held.cleared())
    assert (acted.mechanism, acted.reference) == ("local", clearing.uuid)
    assert acted.usd < 0
    assert held.session.gauge.seen == acted.tokens_after < before
    assert turn.body
    assert held.session.conversation.transcript.view.tip == clearing.uuid
    lines = [json.loads(line) for _, line in held.store.log.read()]
    (raw,) = (line for line in lines if line.get("subtype") == "microcompact_boundary")
    assert raw["type"] == "system"
    assert set(raw["microcompactMetadata"]) == {
        "trigger",
        "preTokens",
        "tokensSaved",
        "compactedToolIds",
        "clearedAttachmentUUIDs",
    }
    held.ask()
    assert abs(held.session.gauge.seen - acted.tokens_after) < 200, "the estimate came true"


# -- bytes and pictures --------------------------------------------------------------------------


@pytest.mark.spec("S2.4")
def test_too_many_pictures_are_cleared_before_the_provider_refuses_them() -> None:
    held = scripted(*[calls("Read")] * 12, settings={"images_limit": 6})
    held.session.user("Begin.")
    held.run(8, [PICTURE, {"type": "text", "text": "seen"}])
    assert len(held.cleared()) == 3
    assert held.session.gauge.images == 5
    (acted,) = held.told("Acted", layer="clear")
    assert "7 pictures of at most 6" in acted.why


@pytest.mark.spec("S2.4")
def test_too_many_bytes_are_cleared_before_the_provider_refuses_them() -> None:
    heavy = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    held = scripted(*[calls("Read")] * 12, settings={"wire_bytes_limit": 200_000})
    held.session.user("Begin.")
    held.run(10, [heavy])
    assert held.cleared()
    assert held.session.gauge.wire < 200_000
    assert "bytes of at most 200,000" in held.told("Acted", layer="clear")[0].why


# -- refusing and looking ------------------------------------------------------------------------


@pytest.mark.spec("S2.11")
def test_a_veto_and_a_dry_run_leave_everything_as_it_was() -> None:
    held = worked(
        veto=lambda event: getattr(event, "layer", "") == "clear" and type(event).__name__ == "Proposed"
    )
    held.clock.advance(400)
    size, lines = held.session.gauge.seen, len(list(held.store.log.read()))
    (proposed,) = held.session.dry_run()
    assert proposed.layer == "clear"
    assert proposed.items == len(proposed.targets) == 4
    assert proposed.session == "s-1"
    assert len(list(held.store.log.read())) == lines
    held.session.prepare()
    assert not held.cleared()
    assert held.session.gauge.seen == size
    assert not clearings(held)
    (refusal,) = held.told("Vetoed")
    assert refusal.reason == "not now"


@pytest.mark.spec("S2.7")
def test_a_fork_leaves_the_clearing_state_alone() -> None:
    held = worked()
    held.clock.advance(400)
    fork = held.session.fork()
    fork.user("Aside?")
    fork.prepare()
    assert not clearings(held)
    assert not held.told("Acted")
    held.session.prepare()
    assert held.cleared()
    assert len(clearings(held)) == 1


@pytest.mark.spec("S2.11", "S10.1")
def test_undo_puts_back_the_very_bytes_and_what_was_put_back_stays() -> None:
    held = worked()
    before = json.loads(held.session.prepare().body)["messages"]
    held.clock.advance(400)
    held.session.prepare()
    held.session.undo()
    held.session.prepare()
    assert json.loads(held.session.prepare().body)["messages"] == before
    assert not held.cleared()
    held.session.redo()
    held.session.prepare()
    assert held.cleared()


# -- whole sessions against a provider that refuses ----------------------------------------------


@pytest.mark.spec("S2.2", "S9.2", "S6.6")
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_pauses_never_lead_to_a_request_the_server_refuses(model: str) -> None:
    with simulated(model, working(thinks=400)) as (held, simulator):
        for pause in (5, 400, 5, 4_000, 400, 9_000):
            held.run(7, LINE * 200)
            held.clock.advance(pause)
            held.run(2, LINE * 200)
            held.clock.advance(400)
        held.run(2)
        assert not refused(simulator)
        assert not unexpected(held)
        assert held.told("Acted", layer="clear")
        _every_change_was_decided(held, simulator)
        bodies = [request.raw for request in simulator.requests]
        for number in range(0, held.session.gauge.requests, 13):
            assert bodies[number].startswith(held.session.at(number)[:-1])


@pytest.mark.spec("S2.6", "S2.8", "S9.2")
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_a_small_window_is_worked_in_far_beyond_its_size_without_a_refusal(model: str) -> None:
    with simulated(model, settings=SMALL) as (held, simulator):
        held.run(60, LINE * 100)
        gauge = held.session.gauge
        assert not refused(simulator)
        assert gauge.seen < gauge.blocking
        assert not unexpected(held)
        assert sum(len(LINE * 100) for _ in range(40)) / 4 > gauge.effective, "more was read than fits"
        assert max(event.used for event in held.told("Checked")) < gauge.blocking
        _every_change_was_decided(held, simulator)


@pytest.mark.spec("S9.2")
def test_where_reasoning_is_bound_it_goes_together_with_the_results_in_a_new_epoch() -> None:
    settings = {**SMALL, "provider_edits": False}
    with simulated(BOUND, settings=settings) as (held, simulator):
        while not held.cleared():
            held.run(1, LINE * 100)
        assert held.thoughts() <= 1
        assert epochs(held)[-1].drops_thinking
        assert epochs(held)[-1].reason == "clear"
        held.run(6, LINE * 100)
        assert not refused(simulator)
        assert not unexpected(held)


@pytest.mark.spec("S9.2", "S2.2")
def test_a_turn_that_goes_on_keeps_its_bound_reasoning_through_a_pause() -> None:
    with simulated(BOUND, working(prompt_calls=30), settings={"provider_edits": False}) as (
        held,
        simulator,
    ):
        held.run(12, LINE * 300)
        thoughts = held.thoughts()
        held.clock.advance(400)
        held.run(1)
        assert not held.cleared()
        assert held.thoughts() == thoughts + 1
        assert not refused(simulator)
        considered = held.session.why(-1).why
        assert considered
        assert "a turn that goes on" in considered.options[0].because


@pytest.mark.spec("S2.2", "S9.2", "S2.6")
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_with_old_reasoning_left_out_that_of_the_last_turn_is_still_valid(model: str) -> None:
    with simulated(model, working(prompt_calls=1)) as (held, simulator):
        held.run(12)
        spoken = [
            item.record.uuid
            for item in held.session.conversation.transcript.view.items
            if not item.record.answers
        ]
        held.session.conversation.open_epoch("clear", drops_thinking=True, before=spoken[-4])
        held.session.conversation.vouch_for_thinking()
        held.ask()
        assert 1 < held.thoughts() < 6
        assert not refused(simulator)
        assert not unexpected(held)
        assert [epoch.reason for epoch in epochs(held)] == ["start", "clear"]


@pytest.mark.spec("S2.2", "S9.6")
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_a_pause_saves_what_was_foreseen_to_a_tenth(model: str) -> None:
    bills = []
    for clears in (True, False):
        with simulated(model, working(thinks=0), settings={"gap_clearing": clears}) as (held, _):
            held.run(23, LINE * 300)
            held.clock.advance(400)
            held.session.complete()
            bills.append((held.session.why(-1).actual_usd, held))
    (with_clearing, held), (without, _) = bills
    (acted,) = held.told("Acted", layer="clear")
    assert with_clearing is not None
    assert without is not None
    assert without - with_clearing == pytest.approx(-acted.usd, rel=0.1)


# -- the provider's own edits --------------------------------------------------------------------


@pytest.mark.spec("S2.6")
def test_the_provider_is_asked_once_per_epoch_and_what_it_did_is_read_back() -> None:
    with simulated(BOUND, settings=SMALL) as (held, simulator):
        held.run(40, LINE * 100)
        (proposed,) = held.told("Proposed", layer="clear")
        (acted,) = held.told("Acted", layer="clear")
        assert (acted.mechanism, acted.undoable) == ("provider", False)
        assert proposed.usd == acted.usd > 0
        assert held.told("EpochOpened", reason="provider edits")
        asked = [json.dumps(request.body.get("context_management")) for request in simulator.requests]
        begun = asked.index(next(one for one in asked if one != "null"))
        assert set(asked[:begun]) == {"null"}, "nothing is asked for before it is due"
        assert len(set(asked[begun:])) == 1
        assert "clear_tool_uses_20250919" in asked[begun]
        assert [
            "context-management-2025-06-27" in request.headers.get("anthropic-beta", "")
            for request in simulator.requests
        ] == [one != "null" for one in asked]
        why = held.session.why(begun).why
        assert why is not None
        assert (why.chosen, why.options[-1].name) == ("provider", "provider")
        assert not held.cleared(), "nothing was cleared on this side"
        gauge = held.session.gauge
        assert gauge.sent - gauge.seen == held.told("Answered")[-1].cleared_by_provider > 5_000
        assert held.told("CacheBroke", cause="provider edits")
        assert not unexpected(held)
        for answered in held.told("Answered")[2:]:
            prompt = answered.input_tokens + answered.cache_read_tokens + answered.cache_write_tokens
            if answered.cleared_by_provider == 0:
                assert abs(answered.estimated - prompt) < 0.1 * prompt


@pytest.mark.spec("S2.6", "S8.2")
@pytest.mark.parametrize("switch", ["layers", "provider_edits"])
def test_switched_off_the_provider_is_asked_for_nothing(switch: str) -> None:
    held = scripted("Hello.", model=BOUND, settings={switch: False})
    held.session.user("Begin.")
    request = held.session.prepare()
    assert b"context_management" not in request.body


@pytest.mark.spec("S2.6")
def test_a_listener_who_refuses_the_providers_edits_is_not_asked_again_in_that_epoch() -> None:
    with simulated(BOUND, settings=SMALL, veto=lambda event: isinstance(event, Proposed)) as (
        held,
        simulator,
    ):
        held.run(14, LINE * 100)
        assert len(held.told("Proposed", mechanism="provider")) == 1
        assert len(held.told("Vetoed", mechanism="provider")) == 1
        assert not any("context_management" in request.body for request in simulator.requests)


@pytest.mark.spec("S2.6")
def test_the_providers_edits_are_not_used_where_waiting_for_a_compaction_costs_less() -> None:
    with simulated(BOUND, settings={**SMALL, "compaction": True}) as (held, simulator):
        held.run(10, LINE * 100)
        while held.session.gauge.seen < 0.9 * held.session.gauge.threshold:
            held.run(1, LINE * 100)
        why = held.session.why(-1).why
        assert why is not None
        (option,) = why.options
        assert (option.name, (option.usd or 0.0) < 0) == ("provider", True)
        assert "costs more than waiting" in option.because
        assert not any("context_management" in request.body for request in simulator.requests)


@pytest.mark.spec("S2.6", "S8.4")
def test_a_resumed_session_goes_on_with_the_providers_edits_of_its_epoch() -> None:
    with simulated(BOUND, settings=SMALL) as (held, simulator):
        while not held.told("Acted", mechanism="provider"):
            held.run(1, LINE * 100)
        held.run(1, LINE * 100)
        before = list(simulator.requests)[-1].body["context_management"]
        held.opened()
        held.run(1, LINE * 100)
        assert list(simulator.requests)[-1].body["context_management"] == before
        assert len(held.told("EpochOpened")) == 2


@pytest.mark.spec("S0.9", "S2.6")
def test_what_the_provider_has_cleared_already_is_not_subtracted_twice() -> None:
    with simulated(BOUND, working(prompt_calls=6), settings=SMALL) as (held, simulator):
        while held.session.gauge.sent - held.session.gauge.seen < 10_000:
            held.run(1, LINE * 100)
        while held.ask().calls:
            held.session.tool_results(
                dict.fromkeys(held.session.conversation.transcript.view.pending_calls, LINE)
            )
        held.session.user("Go on.")
        held.clock.advance(9_000)
        held.session.prepare()
        (acted,) = held.told("Acted", layer="clear", mechanism="local")
        held.ask()
        answered = held.told("Answered")[-1]
        prompt = answered.input_tokens + answered.cache_read_tokens + answered.cache_write_tokens
        assert acted.tokens_after == pytest.approx(prompt, rel=0.15)
        assert not refused(simulator)


PRICED = {"context_window": 60_000, "compaction": True, "background_compaction": False}


def weighed(held: Held, number: int) -> tuple[str, float, int]:
    """One more request, every fourth after a pause: what was chosen, and how the session differs from the other."""
    held.run(1, LINE * 200, seconds=5 if number % 4 else 400)
    why = held.session.why(-1).why
    assert why is not None
    return why.chosen, round(why.owed or 0.0, 9), why.ahead


@pytest.mark.spec("S2.12", "S8.4")
def test_a_session_that_is_resumed_before_every_request_clears_and_spends_like_one_that_is_not() -> None:
    histories = []
    for resumed in (False, True):
        with simulated(FREE, working(prompt_calls=2), settings=PRICED) as (held, _):
            history = []
            for number in range(48):
                if resumed:
                    held.opened()
                history.append(weighed(held, number))
            histories.append((history, held.session.gauge.usd))
    assert histories[0] == histories[1]
    assert any(chosen == "clear" and ahead < 0 and owed < 0 for chosen, owed, ahead in history)
    assert any(ahead > 0 for *_, ahead in history), "a compaction that clearing has put off"


@pytest.mark.spec("S2.12", "S8.4")
def test_a_compaction_before_a_resume_settles_what_clearing_had_put_off() -> None:
    found = []
    for resumed in (False, True):
        with simulated(FREE, working(prompt_calls=2), settings=PRICED) as (held, _):
            next(number for number in count() if weighed(held, number)[2] > 0)
            held.session.compact()
            if resumed:
                held.opened()
            found.append(weighed(held, 1))
    (_, owed, ahead), resumed_as = found
    assert resumed_as[1] == pytest.approx(owed, abs=0.002), "sizes are estimated again"
    assert resumed_as[2] == ahead
    assert ahead == 0


def _every_change_was_decided(held: Held, simulator: Simulator) -> None:
    """Each request extends the one before, but where a decision announced that it would not."""
    bodies = [request.raw for request in simulator.requests]
    moved = sum(bool(extends(before, now)) for before, now in pairwise(bodies))
    assert moved <= len(held.told("Acted", layer="clear")) + len(held.told("EpochOpened"))


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}
