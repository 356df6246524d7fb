"""Whether what we send pays is judged by the provider's own figures, and given up where it does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sevenfold.doors.follower.follower import CallEnd, FollowedCall
from sevenfold.doors.follower.judging import JudgedRequest, ProgramsCompaction, RequestJudge
from sevenfold.doors.follower.keeper import KeepingFollower
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.log import Answer
from sevenfold.record.usage import Usage
from tests.doors.keeping import MODEL, following, prepared

pytestmark = pytest.mark.spec("S40.12")

PROFILE = find(MODEL)
FILLER = "The build ran, and nobody had anything to add to it. " * 24


NEVER = ProgramsCompaction(1_000_000)


def judged(
    judge: RequestJudge,
    own: int,
    sent: int,
    usage: Usage,
    *,
    at: float,
    continues: bool = True,
    alone: ProgramsCompaction = NEVER,
) -> None:
    judge.sent(JudgedRequest(own, sent, at, own != sent, continues))
    judge.answered(usage, PROFILE, at + 1, alone)


def reads(tokens: int, *, written: int = 1_000) -> Usage:
    return Usage(cache_read_input_tokens=tokens, cache_creation_5m=written, output_tokens=100)


def test_the_first_request_behind_a_summary_is_dearer_and_the_next_ones_are_not() -> None:
    judge = RequestJudge()
    judged(judge, 400_000, 400_000, reads(99_000), at=0)
    judged(judge, 404_000, 100_000, reads(1_000, written=24_000), at=60)
    assert judge.savings.dearer == 1
    assert judge.savings.usd < 0
    judged(judge, 408_000, 104_000, reads(25_000), at=120)
    assert judge.savings.dearer == 0
    for minute in range(3, 30):
        judged(judge, 408_000, 104_000, reads(25_000), at=60.0 * minute)
    assert judge.savings.usd > 0


def test_beside_a_program_that_would_have_compacted_only_its_own_summary_is_saved_for_certain() -> None:
    judge = RequestJudge()
    alone = ProgramsCompaction(threshold=100_500, summary_usd=0.15)
    judged(judge, 400_000, 400_000, reads(99_000), at=0, alone=alone)
    judged(judge, 402_000, 101_000, reads(24_250, written=750), at=60, alone=alone)
    below = judge.savings
    assert below.certain_usd == below.usd > 0
    judged(judge, 408_000, 105_000, reads(25_250), at=120, alone=alone)
    beyond = judge.savings
    assert beyond.usd > below.usd
    assert beyond.certain_usd == pytest.approx(below.certain_usd + 0.15)
    judged(judge, 412_000, 109_000, reads(26_250), at=180, alone=alone)
    assert judge.savings.usd > beyond.usd
    assert judge.savings.certain_usd == beyond.certain_usd
    judged(judge, 800_000, 115_000, reads(27_750), at=240, alone=alone)
    assert judge.savings.certain_usd == pytest.approx(beyond.certain_usd + 0.15)


def test_requests_whose_cache_is_always_lost_are_dearer_each_time() -> None:
    judge = RequestJudge()
    judged(judge, 400_000, 400_000, reads(99_000), at=0)
    for minute in (1, 2, 3):
        judged(judge, 404_000, 300_000, reads(0, written=75_000), at=60.0 * minute)
    assert judge.savings.dearer == 3


@pytest.mark.parametrize(
    ("at", "continues"),
    [(60.0, False), (3_000.0, True)],
    ids=["rewritten by the program", "after a long pause"],
)
def test_a_request_whose_cache_the_program_lost_itself_is_not_held_against_us(
    at: float, *, continues: bool
) -> None:
    judge = RequestJudge()
    judged(judge, 400_000, 400_000, reads(99_000), at=0)
    judged(judge, 404_000, 300_000, reads(0, written=75_000), at=at, continues=continues)
    assert judge.savings.dearer == 0


def answered_cold(
    follower: KeepingFollower, followed: FollowedCall, sent: bytes, number: int, *, is_held: bool
) -> list[dict[str, Any]]:
    """An answer of a provider that reads what is unchanged from its cache and nothing else, as it reports."""
    tokens = len(sent) // 4
    held = "cache_read_input_tokens" if is_held else "cache_creation_input_tokens"
    usage = msgspec.json.encode({held: tokens, "input_tokens": 0, "output_tokens": 50})
    content = [{"type": "text", "text": f"Day {number} was calm. {FILLER}"}]
    parts = tuple(blocks.read(msgspec.json.encode(block)) for block in content)
    answer = Answer(f"msg_{number}", MODEL, parts, msgspec.Raw(usage), "end_turn")
    follower.ended(followed, CallEnd(200, answer))
    follower.settle()
    return content


def test_after_three_dearer_requests_in_a_row_the_programs_own_bytes_are_sent_and_it_is_said() -> None:
    said: list[str] = []
    follower = following([], note=said.append, window=40_000)
    messages: list[dict[str, Any]] = []
    changed: list[bool] = []
    for number in range(110):
        messages.append({"role": "user", "content": f"And day {number}? {FILLER}"})
        followed, sent = prepared(follower, messages, {"x-sevenfold-session": "work"})
        is_changed = followed.body is not None
        changed.append(is_changed)
        content = answered_cold(follower, followed, sent, number, is_held=not is_changed)
        messages.append({"role": "assistant", "content": content})
        if said:
            break
    conversation = followed.conversation
    assert isinstance(conversation, KeptConversation)
    assert changed[-3:] == [True, True, True]
    assert "3 requests of work in a row were dearer" in said[0]
    messages.append({"role": "user", "content": "And now?"})
    followed, _ = prepared(follower, messages, {"x-sevenfold-session": "work"})
    assert followed.body is None
    follower.close()


@pytest.mark.spec("S40.4")
def test_a_refusal_that_the_programs_own_request_gets_too_is_not_held_against_our_changes() -> None:
    follower = following([])
    messages: list[dict[str, Any]] = []
    headers = {"x-sevenfold-session": "work"}
    refusals = 0
    for number in range(60):
        messages.append({"role": "user", "content": f"And day {number}? {FILLER}"})
        followed, sent = prepared(follower, messages, headers)
        if followed.body is not None and refusals < 3:
            refusals += 1
            follower.refused(followed)
            follower.ended(followed, CallEnd(400, None, "there is no such field"))
            followed, sent = prepared(follower, messages, headers)
            assert followed.body is not None
        content = answered_cold(follower, followed, sent, number, is_held=True)
        messages.append({"role": "assistant", "content": content})
    assert refusals == 3
    follower.close()
