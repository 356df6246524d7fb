"""What was in the context, and how many tokens it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.profile.context import SessionTally, WindowHistory
from sevenfold.archive.profile.labels import ContextPiece
from sevenfold.record import blocks
from sevenfold.record.weight import measure
from tests.profile.making import Tape, call, result, text, usage


def words(number: int) -> str:
    return " ".join(f"word{index}" for index in range(number))


def test_every_kind_of_content_has_its_category(tmp_path: Path) -> None:
    tape = Tape().user("a question")
    tape.answer("m1", usage(3_000), {"type": "thinking", "thinking": "", "signature": "s" * 2_000})
    tape.answer("m1", usage(3_000), text("words"), call("Bash", "t1", command="ls"))
    tape.user(result("t1", words(200)))
    tape.record("attachment", attachment={"type": "task_reminder", "content": words(50), "itemCount": 1})
    tape.user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}})
    tape.user("a hint of the client", isMeta=True)
    tape.answer("m2", usage(9_000), text("more")).compacted()
    session = tape.answer("m3", usage(4_000), text("end")).profile(tmp_path)
    assert session.tokens_by_category.keys() == {
        "assistant_text",
        "attachments",
        "images",
        "summaries",
        "system_and_tools",
        "thinking",
        "tool_inputs",
        "tool_result:Bash",
        "unlogged",
        "user_text",
    }
    assert all(tokens > 0 for tokens in session.tokens_by_category.values())


@pytest.mark.spec("S0.6")
def test_at_every_call_the_pieces_add_up_to_the_reported_prompt(tmp_path: Path) -> None:
    tape = Tape().user(words(100))
    prompts = [4_000, 4_900, 5_200, 9_000, 3_900, 4_100]
    for number, prompt in enumerate(prompts):
        tape.answer(
            f"m{number}", usage(prompt), text(words(40)), call("Read", f"t{number}", file_path="/a")
        )
        tape.user(result(f"t{number}", words(60 * number)))
    session = tape.profile(tmp_path)
    assert sum(session.carried_by_category.values()) == pytest.approx(sum(prompts), abs=len(prompts))


def test_a_growth_is_divided_among_what_was_added(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(2_000), call("Read", "t1", file_path="/big"))
    tape.user(result("t1", words(3_000))).answer("m2", usage(17_000), text("ok"))
    session = tape.profile(tmp_path)
    big = session.largest_items[0]
    assert (big.category, big.tool, big.what, big.calls) == ("tool_result:Read", "Read", "/big", 1)
    assert big.tokens + session.tokens_by_category["tool_inputs"] == pytest.approx(15_000, abs=1)


def test_what_nothing_in_the_transcript_accounts_for_is_unlogged(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(2_000), text("hm")).user("on")
    session = tape.answer("m2", usage(12_000), text("ok")).profile(tmp_path)
    assert 9_800 < session.tokens_by_category["unlogged"] < 10_000


def test_what_left_unrecorded_is_no_longer_carried(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(20_000), text("hm")).user("on")
    session = tape.answer("m2", usage(12_000), text("ok")).profile(tmp_path)
    assert session.carried_by_category["unlogged"] < -7_900
    assert session.tokens_by_category["unlogged"] == 0


def test_an_item_is_carried_from_its_call_to_its_compaction(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(2_000), call("Read", "t1", file_path="/big"))
    tape.user(result("t1", words(3_000)))
    for number in range(2, 6):
        tape.answer(f"m{number}", usage(17_000 + number), text("ok")).user("on")
    tape.compacted().answer("m9", usage(5_000), text("anew")).user("on")
    session = tape.answer("m10", usage(5_100), text("end")).profile(tmp_path)
    assert session.largest_items[0].calls == 4
    assert (session.compactions, session.api_calls) == (1, 7)
    (event,) = session.compaction_events
    assert (event.call, event.trigger) == (5, "auto")
    assert (event.tokens_before, event.tokens_after) == (90_000, 5_000)


def test_a_cleared_result_is_carried_until_it_is_cleared(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(2_000), call("Read", "t1", file_path="/big"))
    tape.user(result("t1", words(3_000))).answer("m2", usage(17_000), text("ok")).user("on")
    tape.answer("m3", usage(17_100), text("ok")).cleared("t1").user("on")
    session = tape.answer("m4", usage(2_300), text("ok")).profile(tmp_path)
    assert session.largest_items[0].calls == 2
    assert session.clearings == 1


def test_messages_that_a_compaction_keeps_stay_in_the_context_and_count_once(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(2_000), call("Read", "t1", file_path="/big"))
    head = tape.parent
    tape.user(result("t1", words(3_000)))
    tail = tape.parent
    tape.answer("m2", usage(17_000), text("ok"))
    kept = {"headUuid": head, "anchorUuid": f"u{len(tape.lines) + 1}", "tailUuid": tail}
    about = {"trigger": "manual", "preTokens": 17_100, "preservedSegment": kept}
    behind, tape.parent = tape.parent, None
    tape.record("system", subtype="compact_boundary", logicalParentUuid=behind, compactMetadata=about)
    tape.user("A summary.", isCompactSummary=True)
    session = tape.user("on").answer("m3", usage(16_900), text("ok")).profile(tmp_path)
    assert session.largest_items[0].calls == 2
    assert 14_000 < session.tokens_by_category["tool_result:Read"] < 15_100


def test_a_compaction_of_ours_counts_at_its_commit(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(9_000), text("one"))
    behind, tape.parent = tape.parent, None
    about = {"trigger": "auto", "preTokens": 9_100}
    fields = {"subtype": "compact_boundary", "logicalParentUuid": behind, "compactMetadata": about}
    tape.record("system", sevenfold=1, **fields)
    boundary = tape.parent
    tape.user("A summary.", isCompactSummary=True)
    uncommitted = tape.profile(tmp_path)
    commit = {"type": "sevenfold", "kind": "commit", "id": "c1", "boundary": boundary}
    tape.line(json.dumps(commit)).user("on").answer("m2", usage(3_000), text("two"))
    assert (uncommitted.compactions, tape.profile(tmp_path).compactions) == (0, 1)


def test_a_session_that_begins_with_a_boundary_was_compacted(tmp_path: Path) -> None:
    tape = Tape().compacted("All that was.", before=998_659)
    session = tape.user("on").answer("m1", usage(60_000), text("ok")).profile(tmp_path)
    assert session.compactions == 1
    assert session.compaction_events[0].tokens_after == 60_000


# -- repeated reads --------------------------------------------------------------------------------


def read_twice(between: int = 0, second: str = "the same text", **more: object) -> Tape:
    tape = Tape().user("go").answer("m1", usage(2_000), call("Read", "t1", file_path="/a.py"))
    tape.user(result("t1", "the same text")).answer("m2", usage(2_200), text("ok"))
    for _ in range(between):
        tape.compacted()
    tape.user("again").answer("m3", usage(2_300), call("Read", "t2", file_path="/a.py"))
    return tape.user(result("t2", second, **more)).answer("m4", usage(2_400), text("ok"))


def test_reading_an_unchanged_file_that_is_in_context_is_waste(tmp_path: Path) -> None:
    repeats = read_twice().profile(tmp_path).repeated_reads
    assert (repeats.reads, repeats.after_loss) == (1, 0)
    assert 0 < repeats.tokens < 100


def test_reading_it_again_after_a_compaction_is_the_price_of_forgetting(tmp_path: Path) -> None:
    repeats = read_twice(between=1).profile(tmp_path).repeated_reads
    assert (repeats.reads, repeats.after_loss) == (0, 1)


def test_a_changed_file_and_a_failed_read_are_no_repeats(tmp_path: Path) -> None:
    assert read_twice(second="other text").profile(tmp_path).repeated_reads.reads == 0
    assert read_twice(is_error=True).profile(tmp_path).repeated_reads.reads == 0


# -- how good four characters per token would have been --------------------------------------------


@pytest.mark.spec("S0.8")
def test_the_growth_is_compared_with_four_characters_per_token(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(1_000), call("Read", "t1", file_path="/a"))
    tape.user(result("t1", "x y " * 1_000)).answer("m2", usage(3_000), text("ok"))
    growth = tape.profile(tmp_path).growth
    counted = (4_000 + len("Read") + len('{"file_path": "/a"}')) / 4
    assert (growth.steps, growth.actual_tokens) == (1, 2_000)
    assert growth.chars4_tokens == pytest.approx(counted, abs=2)
    assert growth.chars4_median_error == pytest.approx(1 - counted / 2_000, abs=0.002)
    assert growth.estimate_tokens > 0


def test_steps_across_a_boundary_or_with_pictures_are_not_compared(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    tape = Tape().user("go").answer("m1", usage(1_000), text("one")).user(image)
    tape.answer("m2", usage(4_000), text("two")).compacted().answer("m3", usage(9_000), text("three"))
    assert tape.profile(tmp_path).growth.steps == 0


# -- the accounting by itself ----------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "call", "restart", "drop"]), st.integers(0, 3_000), st.integers(0, 9_000)
    ),
    max_size=40,
)


@given(steps)
def test_whatever_happens_the_tokens_carried_are_the_tokens_reported(
    happened: list[tuple[str, int, int]],
) -> None:
    tally = SessionTally()
    context, reported = WindowHistory(tally), 0
    live: dict[Hashable, Callable[[], ContextPiece]] = {}
    for number, (what, size, prompt) in enumerate(happened):
        if what == "add":
            piece = ContextPiece("user_text", measure(blocks.text("x" * size)))
            live[number] = partial(ContextPiece, piece.category, piece.weight)
            context.enter(number, live[number])
        elif what == "call":
            context.called(prompt, "claude-a")
            reported += prompt
        elif what == "restart":
            live = dict(list(live.items())[::2])
            context.restart(live)
        elif live:
            live.pop(next(iter(live)))
            context.show(live)
    context.close()
    assert sum(tally.carried().values()) == pytest.approx(reported, abs=4)
