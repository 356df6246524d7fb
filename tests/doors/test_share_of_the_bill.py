"""Our own calls for a program's conversation have a small share of its bill, and pay for themselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sevenfold.doors.follower import paying
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.doors.follower.paying import SummaryOutlook
from sevenfold.profiles import find
from sevenfold.record.usage import Account
from tests.doors.keeping import MODEL, answered, following, prepared

FILLER = "The build ran, and nobody had anything to add to it. " * 24


@pytest.mark.spec("S40.11")
def test_a_summary_beyond_the_threshold_is_asked_for_once_the_conversation_has_cost_eight_times_as_much() -> (
    None
):
    follower = following([])
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"Please look after the harbour. {FILLER}"}
    ]
    followed, sent = prepared(follower, messages, {"x-sevenfold-session": "work"})
    answered(follower, followed, sent, "msg_1", [{"type": "text", "text": "Gladly."}])
    kept = followed.conversation
    assert isinstance(kept, KeptConversation)
    conversation = kept.led
    assert conversation is not None
    conversation.account = Account(usd=0.01)
    assert not paying.may_ask(conversation)
    conversation.account = Account(usd=0.5)
    assert paying.may_ask(conversation)
    conversation.own_usd = 0.1
    assert not paying.may_ask(conversation)
    conversation.account = Account(usd=None)
    assert paying.may_ask(conversation)
    follower.close()


OUTLOOK = SummaryOutlook(
    find(MODEL),
    size=50_000,
    threshold=67_000,
    first=20_000,
    behind_ours=28_000.0,
    behind_programs=48_000.0,
    usual=1_000.0,
)


@pytest.mark.spec("S40.17")
def test_a_summary_pays_where_it_leaves_less_behind_than_the_programs_compaction() -> None:
    assert OUTLOOK.pays
    assert not replace(OUTLOOK, behind_ours=48_000.0).pays
    assert not replace(OUTLOOK, behind_ours=51_000.0).pays
    assert replace(OUTLOOK, behind_ours=48_000.0, behind_programs=67_000.0).pays


@pytest.mark.spec("S40.17")
def test_a_summary_pays_the_later_the_faster_a_conversation_grows() -> None:
    outlook = replace(OUTLOOK, threshold=167_000, behind_programs=28_000.0)
    sizes = range(30_000, 167_000, 1_000)

    def first_that_pays(usual: float) -> int:
        return next(size for size in sizes if replace(outlook, size=size, usual=usual).pays)

    assert first_that_pays(500.0) < first_that_pays(2_000.0) < first_that_pays(6_000.0)


@pytest.mark.spec("S40.17")
def test_right_before_the_threshold_a_summary_only_has_to_leave_no_more_than_the_programs_own() -> None:
    assert OUTLOOK.leaves_less
    assert not replace(OUTLOOK, behind_ours=50_000.0, behind_programs=55_000.0).leaves_less
    assert not replace(OUTLOOK, behind_programs=27_000.0).leaves_less
    fast = replace(OUTLOOK, size=62_000, behind_programs=28_000.0, usual=12_000.0)
    assert fast.leaves_less
    assert not fast.pays


@pytest.mark.spec("S40.17")
def test_what_a_summary_costs_is_known_before_it_is_asked_for() -> None:
    read = 50_000 * 0.5
    output = 4_000 * 25
    written = 8_000 * (6.25 - 0.5)
    assert OUTLOOK.outlay_usd == pytest.approx((read + output + written) / 1_000_000)
    unknown = replace(OUTLOOK, profile=find("some-model"))
    assert unknown.outlay_usd is None
    assert unknown.pays


@pytest.mark.spec("S40.17")
def test_a_summary_is_funded_by_what_was_saved_and_an_eighth_of_the_bill() -> None:
    assert paying.is_funded(0.10, own_usd=0.0, saved_usd=0.0, bill_usd=0.8)
    assert not paying.is_funded(0.11, own_usd=0.0, saved_usd=0.0, bill_usd=0.8)
    assert paying.is_funded(0.11, own_usd=0.0, saved_usd=0.02, bill_usd=0.8)
    assert not paying.is_funded(0.11, own_usd=0.05, saved_usd=0.02, bill_usd=0.8)
    assert not paying.is_funded(0.10, own_usd=0.0, saved_usd=-0.01, bill_usd=0.8)
    assert paying.is_funded(None, own_usd=0.0, saved_usd=0.0, bill_usd=0.8)
    assert paying.is_funded(0.11, own_usd=0.0, saved_usd=0.0, bill_usd=None)
