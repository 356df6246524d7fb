"""The size of the conversation: what it rests on, what it leaves out, and what is made of it."""

from __future__ import annotations

import random
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sevenfold.conversation.room import Limits
from sevenfold.profiles import find
from sevenfold.record import blocks, entries
from sevenfold.record.gauge import Gauge, Size
from sevenfold.record.layout import Anchor
from sevenfold.record.view import View
from sevenfold.record.weight import measure
from sevenfold.record.window import Window
from sevenfold.settings import Settings
from tests.support import Story, call, result, usage

OLDER, STRIPS, NEWER, LOCAL = "claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-5", "llama3:8b"
WINDOW, LIMITS = Window.of(find(OLDER)), Limits.of(find(OLDER), Settings())
FILE = "def fold(entries):\n    return [entry for entry in entries if entry.live]\n" * 40


def thinking(size: int = 4000) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": "s" * size}


def followed(story: Story, model: str = NEWER, *before: bytes) -> tuple[Gauge, View]:
    """The gauge and the view after a whole story."""
    gauge, view = Gauge.of(find(model), *before), View()
    for line in story.lines:
        measured = view.add(entries.read(line))
        if measured:
            gauge = gauge.observe(measured)
    return gauge, view


def size(story: Story, model: str = NEWER) -> Size:
    gauge, view = followed(story, model)
    return gauge.size(view)


def tokens(gauge: Gauge, *words: str) -> float:
    return sum(gauge.estimator.tokens(measure(blocks.text(each))) for each in words)


# Anchored


@pytest.mark.spec("S0.6")
def test_right_after_an_answer_the_size_is_what_was_reported_cached_tokens_and_output_included():
    story = Story()
    story.user("hello")
    story.assistant("hi there", model=NEWER, used=usage(20_000, 700, read=15_000, written=4_000))
    found = size(story)
    assert (found.tokens, found.anchored) == (20_700, True)
    assert found.low <= 20_700 <= found.high


@pytest.mark.spec("S0.6")
def test_what_was_said_after_the_newest_report_is_estimated_on_top_of_it():
    story = Story()
    story.user("hello")
    story.assistant("hi there", model=NEWER, used=usage(20_000, 700))
    story.user(FILE)
    gauge, view = followed(story)
    assert gauge.size(view).tokens == pytest.approx(20_700 + tokens(gauge, FILE), abs=1)


@pytest.mark.spec("S0.6")
def test_a_synthetic_error_message_carries_no_usage():
    story = Story()
    story.user("hello")
    story.assistant("hi there", model=NEWER, used=usage(20_000, 700))
    before = size(story)
    story.assistant("API Error: overloaded", model="<synthetic>", used=usage(0, 0), isApiErrorMessage=True)
    assert size(story).tokens == before.tokens


@pytest.mark.spec("S0.6")
def test_an_output_noted_before_the_answer_was_complete_gives_way_to_an_estimate_of_the_answer():
    story = Story()
    story.user("hello")
    story.assistant(FILE, model=OLDER, used=usage(20_000, 3))
    gauge, view = followed(story, OLDER)
    assert gauge.size(view).tokens == pytest.approx(20_000 + tokens(gauge, FILE), abs=1)


@pytest.mark.spec("S0.6")
def test_a_call_of_several_rounds_on_the_server_is_measured_by_its_last():
    def iteration(prompt: int, output: int) -> dict[str, Any]:
        return {"type": "message", **usage(prompt, output)}

    story = Story()
    story.user("search")
    used = usage(30_000, 900) | {"iterations": [iteration(10_000, 300), iteration(20_000, 600)]}
    story.assistant("found", model=NEWER, used=used)
    assert size(story).tokens == 20_600


@pytest.mark.spec("S0.6")
def test_a_server_that_reports_nothing_is_not_taken_at_its_word():
    story = Story()
    story.user(FILE)
    story.assistant("hi", model=LOCAL, used=usage(0, 0))
    story.user("go on")
    story.assistant("yes", model=LOCAL, used=usage(0, 0))
    found = size(story, LOCAL)
    assert not found.anchored
    assert found.tokens > len(FILE) / 4


@pytest.mark.spec("S0.7")
def test_parallel_calls_stored_as_records_of_one_response_are_counted_once_and_their_results_each():
    used = usage(20_000, 700)
    story = Story()
    story.user("read both")
    story.assistant(call("a"), id="m1", model=NEWER, used=used)
    story.user([result("a", FILE)])
    story.assistant(call("b"), id="m1", model=NEWER, used=used)
    story.user([result("b", FILE)])
    gauge, view = followed(story)
    results = 2 * gauge.estimator.tokens(measure(blocks.result("a", FILE)))
    assert gauge.size(view).tokens == pytest.approx(20_700 + results, abs=1)


@pytest.mark.spec("S0.7")
def test_one_response_teaches_the_estimator_once_however_many_records_it_has():
    whole, split = Story(), Story()
    for story in (whole, split):
        story.user("go")
        story.assistant("ready", id="m0", model=NEWER, used=usage(9_000, 20))
        story.user(FILE)
    whole.assistant("one", "two", id="m1", model=NEWER, used=usage(10_000, 90))
    split.assistant("one", id="m1", model=NEWER, used=usage(10_000, 90))
    split.assistant("two", id="m1", model=NEWER, used=usage(10_000, 90))
    assert followed(whole)[0] == followed(split)[0]


# What leaves


@pytest.mark.spec("S0.9")
def test_what_is_cleared_is_subtracted_by_estimate_until_the_next_report():
    story = Story()
    story.user("read")
    story.assistant(call("a"), model=NEWER, used=usage(20_000, 60))
    story.user([result("a", FILE)])
    story.assistant("done", model=NEWER, used=usage(21_500, 10))
    before = size(story)
    story.clearing("a")
    gauge, view = followed(story)
    after = gauge.size(view)
    assert after.freed == pytest.approx(tokens(gauge, FILE), rel=0.05)
    assert after.tokens == pytest.approx(before.tokens - after.freed, abs=2)
    story.user("more")
    story.assistant("ok", model=NEWER, used=usage(20_400, 5))
    assert (size(story).tokens, size(story).freed) == (20_405, 0)


@pytest.mark.spec("S0.9")
def test_a_report_from_before_a_boundary_is_never_used_after_it():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(30_000, 5))
    story.user(FILE * 50)
    story.assistant("long", model=NEWER, used=usage(160_000, 5))
    story.boundary()
    story.summary("We said hello.")
    found = size(story)
    assert not found.anchored
    assert found.tokens < 31_000


@pytest.mark.spec("S0.9")
@given(st.integers(0, 2_000_000))
def test_after_a_boundary_it_makes_no_difference_how_large_the_last_prompt_before_it_was(last):
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(20_000, 5))
    story.user("more")
    story.assistant("yes", model=NEWER, used=usage(last, 5))
    story.boundary()
    story.summary("We said hello.")
    assert size(story).tokens == pytest.approx(20_000, abs=50)


@pytest.mark.spec("S0.9")
def test_the_first_report_after_a_boundary_is_the_new_anchor():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(160_000, 5))
    story.boundary()
    story.summary("We said hello.")
    story.assistant("on with it", model=NEWER, used=usage(41_000, 8))
    assert (size(story).tokens, size(story).anchored) == (41_008, True)


def test_reasoning_of_earlier_turns_is_left_out_where_the_model_does_not_keep_it():
    change = {}
    for model in (OLDER, STRIPS):
        story = Story()
        story.user("think")
        story.assistant(thinking(40_000), "thought", model=model, used=usage(20_000, 8_000))
        before = size(story, model).tokens
        story.user("and now")
        change[model] = size(story, model).tokens - before
    assert change[STRIPS] < -6_000
    assert change[OLDER] > 0


def test_reasoning_stays_while_tools_are_at_work():
    story = Story()
    story.user("think")
    story.assistant(thinking(40_000), call("a"), model=STRIPS, used=usage(20_000, 8_000))
    story.user([result("a", "ok")])
    assert size(story, STRIPS).tokens > 28_000


# Without a report


@pytest.mark.spec("S0.6")
def test_without_a_report_too_reasoning_of_earlier_turns_is_left_out_where_the_model_does_not_keep_it():
    sizes = {}
    for model in (OLDER, STRIPS):
        story = Story()
        story.user("think")
        story.assistant(thinking(40_000), "thought", model=model, used=usage(0, 0))
        story.user("and now")
        sizes[model] = size(story, model)
    assert not sizes[STRIPS].anchored
    assert sizes[STRIPS].tokens < 100
    assert sizes[OLDER].tokens > 6_000


@pytest.mark.spec("S0.6", "S0.8")
def test_before_any_report_system_and_tools_are_counted_from_their_bytes():
    story = Story()
    story.user("hello")
    bare, view = followed(story)
    system = FILE.encode() * 20
    with_system = Gauge.of(find(NEWER), system).size(view)
    assert len(system) / 4 < with_system.tokens - bare.size(view).tokens < len(system) / 1.5
    assert with_system.wire - bare.size(view).wire == len(system)
    assert not with_system.anchored


@pytest.mark.spec("S0.9")
def test_the_overhead_the_first_report_shows_is_counted_after_a_boundary():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(33_000, 5))
    story.boundary()
    story.summary(FILE)
    gauge, view = followed(story)
    found = gauge.size(view)
    assert found.tokens == pytest.approx(33_000 + tokens(gauge, FILE), rel=0.002)
    assert found.low < 33_000 + tokens(gauge, FILE) < found.high


def test_other_system_bytes_change_the_overhead_by_what_they_differ():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(33_000, 5))
    story.boundary()
    story.summary("so far")
    gauge, view = followed(story, NEWER, FILE.encode())
    grown = gauge.opened(FILE.encode() * 3)
    assert grown.size(view).tokens - gauge.size(view).tokens == pytest.approx(
        2 * tokens(gauge, FILE), rel=0.1
    )


def test_an_overhead_seen_through_a_large_conversation_hardly_moves_one_seen_clearly():
    clear, large = Story(), Story()
    clear.user("hello")
    clear.assistant("hi", model=NEWER, used=usage(30_000, 5))
    large.user(FILE * 60)
    large.assistant("long", model=NEWER, used=usage(145_000, 5))
    gauge, _ = followed(clear)
    assert gauge.overhead is not None
    view, measured = View(), None
    for line in large.lines:
        measured = view.add(entries.read(line)) or measured
    assert measured is not None
    shown = gauge.observe(measured).overhead
    alone = Gauge.of(find(NEWER)).observe(measured).overhead
    assert shown is not None
    assert alone is not None
    assert abs(shown.tokens - gauge.overhead.tokens) < abs(alone.tokens - gauge.overhead.tokens) / 4


# Another model


@pytest.mark.spec("S0.9")
def test_a_switch_to_another_tokenizer_rescales_the_overhead_and_how_uncertain_it_is():
    story = Story()
    story.user(FILE)
    story.assistant("hi", model=OLDER, used=usage(100_000, 5))
    gauge, _ = followed(story, OLDER)
    before, after = gauge.overhead, gauge.switched(find(NEWER)).overhead
    assert before is not None
    assert after is not None
    scale = after.tokens / before.tokens
    assert scale != 1
    assert after.variance == pytest.approx(before.variance * scale**2)


@pytest.mark.spec("S0.9")
def test_a_switch_to_another_tokenizer_rescales_the_report():
    story = Story()
    story.user(FILE)
    story.assistant("hi", model=OLDER, used=usage(100_000, 5))
    gauge, view = followed(story, OLDER)
    there = gauge.switched(find(NEWER))
    assert 1.15 * 100_000 < there.size(view).tokens < 1.6 * 100_000
    assert there.size(view).band > gauge.size(view).band
    assert there.switched(find(OLDER)).size(view).tokens == gauge.size(view).tokens


def test_a_switch_within_a_generation_changes_nothing():
    story = Story()
    story.user(FILE)
    story.assistant("hi", model=OLDER, used=usage(100_000, 5))
    gauge, view = followed(story, OLDER)
    assert gauge.switched(find("claude-opus-4-6")).size(view).tokens == gauge.size(view).tokens


def test_the_first_report_of_another_tokenizer_is_taken_as_it_is_and_teaches_nothing():
    story = Story()
    story.user(FILE)
    story.assistant("hi", model=OLDER, used=usage(100_000, 5))
    story.user("go on")
    story.assistant("yes", model=NEWER, used=usage(131_000, 5))
    gauge, view = followed(story, OLDER)
    assert gauge.size(view).tokens == 131_005
    assert gauge.estimator == Gauge.of(find(NEWER)).estimator


def test_a_profile_of_the_users_own_making_survives_reports_of_that_model():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(30_000, 5))
    view, measured = View(), None
    for line in story.lines:
        measured = view.add(entries.read(line)) or measured
    assert measured is not None
    own = replace(find(NEWER), images=3)
    assert Gauge.of(own).observe(measured).profile == own


# A whole session


@pytest.mark.spec("S0.6", "S0.8")
@pytest.mark.parametrize("model", [OLDER, NEWER, LOCAL])
def test_sizes_follow_a_server_that_counts_its_own_way(model):
    """The server makes a token of every three bytes, whatever they are, and adds a few per round."""
    chance, story = random.Random(2), Story()
    gauge, view, read = Gauge.of(find(model)), View(), 0
    prompt, errors, held = 25_000, [], []
    for turn in range(60):
        words = FILE[: chance.randint(40, len(FILE))]
        story.user([result(f"c{turn - 1}", words)] if turn else words)
        prompt += len(words) // 3 + 20
        while read < len(story.lines):
            view.add(entries.read(story.lines[read]))
            read += 1
        found = gauge.size(view)
        errors.append(abs(found.tokens - prompt) / prompt)
        held.append(found.low <= prompt <= found.high)
        output = 35
        story.assistant(call(f"c{turn}", path="x" * 60), model=model, used=usage(prompt, output))
        measured = view.add(entries.read(story.lines[read]))
        read += 1
        assert measured is not None
        gauge, prompt = gauge.observe(measured), prompt + output
    assert max(errors[30:]) < 0.004
    assert sum(held[1:]) / len(held[1:]) >= 0.95


# Checks


def sized(**counts: int) -> Size:
    least = {"tokens": 0, "low": 0, "high": counts.get("tokens", 0), "freed": 0, "wire": 0, "images": 0}
    return Size(anchored=True, **{"sent": counts.get("tokens", 0)} | least | counts)


@pytest.mark.spec("S0.10")
@pytest.mark.parametrize(
    ("used", "verdict"),
    [
        (146_999, "fits"),
        (147_000, "warning"),
        (166_999, "warning"),
        (167_000, "compact"),
        (177_000, "blocked"),
    ],
)
def test_a_check_records_the_size_the_limits_what_was_freed_and_the_verdict(used, verdict):
    size = sized(tokens=used, freed=321, wire=9, images=1)
    check = LIMITS.check(size, WINDOW)
    assert (check.size, WINDOW.threshold, WINDOW.effective) == (size, 167_000, 180_000)
    assert (check.verdict, check.budget) == (verdict, "tokens")


@pytest.mark.spec("S0.4", "S0.10")
def test_the_upper_end_of_the_band_is_what_meets_a_threshold():
    check = LIMITS.check(sized(tokens=166_500, high=167_000), WINDOW)
    assert (check.size.tokens, check.size.band, check.verdict) == (166_500, 500, "compact")


@pytest.mark.spec("S0.10", "S21.3")
@pytest.mark.parametrize(
    ("anchored", "tokens", "high", "verdict"),
    [
        (False, 90_000, 200_000, "compact"),
        (False, 90_000, 200_001, "blocked"),
        (True, 90_000, 200_000, "blocked"),
        (False, 100_000, 180_000, "blocked"),
    ],
)
def test_a_mere_guess_stops_no_request_before_any_report_unless_it_may_exceed_the_window(
    anchored, tokens, high, verdict
):
    size = replace(sized(tokens=tokens, high=high), anchored=anchored)
    assert LIMITS.check(size, WINDOW).verdict == verdict


def test_too_many_pictures_or_bytes_stop_a_request_that_has_tokens_to_spare():
    pictures = LIMITS.check(sized(tokens=10, images=101), WINDOW)
    heavy = LIMITS.check(sized(tokens=10, wire=32_000_001), WINDOW)
    assert (pictures.verdict, pictures.budget) == ("blocked", "images")
    assert (heavy.verdict, heavy.budget) == ("blocked", "bytes")


def test_pictures_documents_and_bytes_are_counted_with_the_tokens():
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 50_000},
    }
    paper = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "B" * 50_000},
    }
    story = Story()
    story.user([picture, paper])
    found = size(story)
    assert (found.images, found.tokens) == (2, 4_000)
    assert found.wire > 100_000


def test_what_the_providers_edits_take_out_is_sent_but_not_seen():
    story = Story()
    story.user("hello")
    story.assistant("hi", model=NEWER, used=usage(50_000, 5))
    gauge, view = followed(story)
    found = gauge.size(view, edited=12_000)
    assert (found.tokens, found.sent) == (50_005, 62_005)


@pytest.mark.spec("S0.9")
def test_results_taken_out_by_the_provider_and_then_here_are_taken_out_once():
    story = Story()
    story.user("read it all")
    calls = [call(f"c{number}", path=f"{number}.py") for number in range(60)]
    story.assistant(*calls, model=NEWER, used=usage(5_000, 900))
    story.user([result(f"c{number}", FILE) for number in range(60)])
    # A report with other edits than the one before teaches nothing about sizes.
    gauge, _ = followed(story)
    held = round(tokens(gauge, FILE) * 60)
    story.assistant("read", model=NEWER, used=usage(9_000, 5))
    before = gauge.size(followed(story)[1], edited=held)
    story.clearing(*(f"c{number}" for number in range(60)))
    after = gauge.size(followed(story)[1], edited=held)
    assert held > 5 * before.tokens
    assert after.low <= after.tokens <= after.high
    assert after.high < 3 * before.tokens
    assert after.sent < before.sent


# What a report is worth


def edited(words: str, prompt: int, cleared: int) -> dict[str, Any]:
    """An answer's message that reports so many tokens removed by the provider's own edits."""
    return {
        "role": "assistant",
        "type": "message",
        "id": f"msg_{prompt}",
        "model": NEWER,
        "content": [{"type": "text", "text": words}],
        "usage": usage(prompt),
        "context_management": {"applied_edits": [{"cleared_input_tokens": cleared}]},
    }


@pytest.mark.spec("S21.21")
def test_a_report_after_other_edits_of_the_provider_than_before_teaches_nothing():
    story = Story()
    story.user("hello")
    story.assistant("hi there", model=NEWER, used=usage(20_000, 700))
    story.user(FILE)
    before, _ = followed(story)
    story.assistant("done", message=edited("done", 9_000, cleared=15_000))
    after, view = followed(story)
    assert after == before
    assert after.size(view).tokens == 9_010
    # From here on the same edits apply, so the growth of the prompt is that of its content again.
    story.user(FILE)
    story.assistant("done", message=edited("done again", 9_500, cleared=15_000))
    assert followed(story)[0] != after


@pytest.mark.spec("S21.21")
def test_a_first_answer_that_reports_edits_teaches_nothing_about_the_overhead():
    story = Story()
    story.user("hello")
    story.assistant("done", message=edited("done", 9_000, cleared=15_000))
    assert followed(story)[0].overhead is None


@pytest.mark.spec("S21.21")
def test_the_first_report_of_a_server_that_had_counted_nothing_shows_the_overhead_beyond_all_messages():
    story = Story()
    story.user(FILE)
    story.assistant(FILE, model=LOCAL, used=usage(0, 0))
    story.user("go on")
    story.assistant(FILE, model=LOCAL, used=usage(9_000, 700))
    gauge, _ = followed(story, LOCAL)
    assert gauge.overhead is not None
    fresh = Gauge.of(find(LOCAL))
    assert gauge.overhead.tokens == pytest.approx(9_000 - tokens(fresh, FILE, FILE, "go on"), rel=0.01)


@pytest.mark.spec("S21.21")
def test_an_answer_on_another_branch_is_compared_with_what_that_branch_holds():
    story = Story()
    first = story.user("hello")
    story.assistant(FILE, model=NEWER, used=usage(9_000, 700))
    story.user(FILE)
    story.assistant("another answer " * 50, model=NEWER, used=usage(3_000, 200), parentUuid=first)
    view = View()
    measured = [view.add(entries.read(line)) for line in story.lines][-1]
    assert measured is not None
    assert measured.previous is None
    assert measured.sent == measure(blocks.text("hello"))


@pytest.mark.spec("S0.11")
@pytest.mark.parametrize(
    ("cut", "share", "counted"),
    [(False, 0.7, True), (False, 0.5, False), (True, 0.7, False), (True, 0.99, False), (True, 1.0, True)],
)
def test_a_reported_output_counts_if_it_may_be_whole_and_that_of_a_cut_answer_only_if_it_is_no_less(
    cut: bool, share: float, counted: bool
) -> None:
    gauge, reply = Gauge.of(find(NEWER)), measure(blocks.text(FILE))
    estimated = gauge.estimator.tokens(reply)
    reported = ceil(estimated * share) if share == 1.0 else round(estimated * share)
    anchor = Anchor(20_000, reported, NEWER, "msg_1", 1, 2, reply, cut=cut)
    expected = reported if counted else estimated
    assert gauge.expected(anchor).tokens == pytest.approx(20_000 + expected, abs=1)
