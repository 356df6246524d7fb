"""Whatever a layer does is seen, says what it saved and how to take it back, and opens to all that is known."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sevenfold import events
from sevenfold.archive.profile.figures import CacheBreak
from sevenfold.cli.chat.pages import WindowBreakdown, WindowItem, cache_page, cost_page, window_page
from sevenfold.cli.chat.reports import EventLine, Spending, event_line
from sevenfold.cli.chat.screen import ASCII, UNICODE
from sevenfold.cli.chat.status import StatusLine, draw_status

from .gauges import gauge
from .printed import printed

CLEARED = events.Acted(
    layer="clear",
    mechanism="size",
    what="cleared 14 results",
    why="over the threshold",
    items=14,
    tokens_before=151_000,
    tokens_after=120_000,
    usd=0.0,
    reference="dec-1",
)
BROKE = events.CacheBroke(
    cause="tools_changed",
    part="tool Read",
    tokens=50_000,
    usd=0.25,
    elapsed=3.0,
    expected=False,
    diff="-a\n+b",
)


def test_a_layer_that_acts_says_what_it_freed_and_how_to_undo_it():
    shown = event_line(CLEARED)
    assert shown is not None
    assert shown.line == "cleared 14 results (31k tokens freed, /undo reverts it)"
    assert dict(shown.detail)["undo"] == "/undo dec-1"
    assert dict(shown.detail)["why"] == "over the threshold"


def test_what_cannot_be_undone_does_not_offer_it():
    shown = event_line(
        events.Acted(layer="offload", mechanism="result", what="stored", why="big", undoable=False)
    )
    assert shown is not None
    assert "/undo" not in shown.line
    assert dict(shown.detail)["undo"] == "cannot be undone"


@pytest.mark.parametrize(
    ("event", "level", "words"),
    [
        (BROKE, "warning", "cache lost: tools changed (tool Read), 50k tokens charged again, $0.25"),
        (events.SteppedAside(layer="hooks", reason="none yet"), "note", "hooks could not help: none yet"),
        (
            events.SteppedAside(layer="fork", reason="cut", error="Aborted"),
            "warning",
            "could not help: cut",
        ),
        (events.Masked(kinds=("key",), count=2), "warning", "2 secrets masked (key)"),
        (
            events.AgentChanged(
                agent="agent-1", name="reader", type="general", state="completed", turns=3, usd=0.5
            ),
            "note",
            "agent reader (general): completed, 3 turns, $0.50",
        ),
        (events.Vetoed(layer="clear", mechanism="", what="x", reason="no"), "note", "clear was vetoed"),
        (
            events.Compacted(boundary="b", trigger="auto", engine="fork", lost=2, fires_again=True),
            "warning",
            "2 facts lost, the window is full again at once",
        ),
        (
            events.Compacted(boundary="b", trigger="auto", engine="fork", lasting_left_out=2),
            "warning",
            "no room for 2 lasting messages of yours: raise the setting user_words",
        ),
    ],
)
def test_losses_and_failures_are_told(event, level, words):
    shown = event_line(event)
    assert shown is not None
    assert shown.level == level
    assert words in shown.line


@pytest.mark.spec("S37.6")
def test_what_a_compaction_kept_and_added_back_is_told():
    shown = event_line(
        events.Compacted(
            boundary="b",
            trigger="auto",
            engine="fork",
            kept=3,
            in_context=28,
            reachable=3,
            restored=("src/app.py", "the plan"),
        )
    )
    assert shown is not None
    assert shown.line == (
        "after the compaction: 28 of 31 facts still in view, the rest by recall; 3 records verbatim; added back: "
        "src/app.py, the plan; /summary shows it"
    )


def test_what_is_of_no_concern_is_not_shown():
    quiet = events.CacheBroke(
        cause="compaction", part="", tokens=9_000, usd=None, elapsed=1.0, expected=True
    )
    assert event_line(quiet) is None
    assert event_line(events.SteppedAside(layer="notes", reason="none yet")) is None
    assert event_line(events.EpochOpened(reason="compact", epoch="e", drops_thinking=True)) is None


def answered(**more: Any) -> events.Answered:
    return events.Answered(request="r", model="m", provider="p", response="x", **more)


def test_the_books_add_up_and_an_unknown_price_makes_the_sum_unknown():
    books = Spending()
    books = books.add(answered(input_tokens=10, cache_read_tokens=80, cache_write_tokens=10, usd=0.5))
    books = books.add(answered(input_tokens=100, usd=0.25, source="compact")).add(BROKE)
    assert (books.prompt, books.usd, books.cached) == (200, 0.75, 0.4)
    assert books.by_source == {"main": 0.5, "compact": 0.25}
    assert books.add(answered(usd=None)).usd is None


@pytest.mark.spec("S19.24")
def test_the_cost_page_says_what_the_look_at_the_end_will_cost_about():
    books = Spending().add(answered(input_tokens=1_000, usd=0.5))
    shown = printed(cost_page(books, books, gauge(0), at_end=0.0125))
    assert "memory, at the end" in shown
    assert "about $0.01" in shown


def test_the_cost_and_cache_pages_say_what_was_lost_and_why():
    books = (
        Spending().add(answered(input_tokens=1_000, usd=0.02, uncached_usd=0.1, ideal_usd=0.01)).add(BROKE)
    )
    assert "5.0× as much" in printed(cost_page(books, books, gauge(0)))
    assert "at the end" not in printed(cost_page(books, books, gauge(0)))
    idle = CacheBreak("expired", 9_000, 4, 7_200, 0.04)
    shown = printed(cache_page(books, books, [idle]), width=100)
    assert (
        "answer 4: idle past the cache lifetime after 2 h 0 min, 9,000 tokens charged again, $0.04" in shown
    )
    assert "tools changed (tool Read), 50,000 tokens charged again, $0.25: not expected" in shown
    assert "+b" in shown


# -- the status line -------------------------------------------------------------------------


def status(seen: int = 76_000, **more: Any) -> StatusLine:
    return StatusLine(model="claude-sonnet-5-5", gauge=gauge(seen), **more)


def test_the_status_line_says_who_answers_how_full_it_is_and_how_far_it_is_to_compaction():
    shown = draw_status(status(cached=0.96, background=("npm run watch",)), UNICODE, 120).plain
    assert shown == (
        "sonnet-5-5 · ask · █████░░░░░░┊ · 42% of 180k · compacts in 90k · cache 96% · $0.42 · running: npm run watch"
    )


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100])
@pytest.mark.parametrize("signs", [UNICODE, ASCII])
def test_the_status_line_fits_and_keeps_how_full_it_is_to_the_last(width, signs):
    shown = draw_status(status(cached=0.5, mode="plan", background=("x" * 99,), queued=2), signs, width)
    assert shown.cell_len < width
    assert "plan" in shown.plain


def test_a_full_window_is_told_in_words():
    assert "compacts next" in draw_status(status(169_000), UNICODE, 100).plain
    assert "compacts next" in draw_status(status(179_500), UNICODE, 100).plain
    assert "compacts next" in draw_status(status(179_500, compaction_undone=True), UNICODE, 100).plain
    assert "FULL: /compact or /clear" in draw_status(status(179_500, compacts=False), UNICODE, 100).plain
    assert "no auto-compaction" in draw_status(status(compacts=False), UNICODE, 100).plain


def test_an_unknown_cost_and_an_undone_compaction_are_told():
    shown = draw_status(
        StatusLine(model="m", gauge=gauge(9_000, usd=None), compaction_undone=True), UNICODE, 100
    ).plain
    assert "cost unknown" in shown
    assert "compaction undone" in shown
    assert "compacts" not in shown


def test_the_offline_model_is_named_and_has_no_price():
    shown = draw_status(status(offline=True), UNICODE, 60).plain
    assert "offline model" in shown
    assert "$" not in shown


# -- the window ------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_window_is_drawn_to_scale_with_a_letter_for_each_category(width):
    items = (
        WindowItem("system", 20_000),
        WindowItem("tool_result:Read", 60_000, "src/a.py"),
        WindowItem("user_text", 10_000, "hi"),
    )
    shown = printed(window_page(WindowBreakdown(items, gauge(90_000)), UNICODE, width), width=width)
    assert max(map(len, shown.splitlines())) <= width
    drawn = "".join(row for row in shown.splitlines()[1:] if "░" in row or set(row) <= set("RSU┊"))
    assert drawn.count("R") > drawn.count("S") > drawn.count("U") > 0
    assert "Read results" in shown
    assert "src/a.py" in shown
    assert "50.0%" in shown


@pytest.mark.spec("S2.8")
def test_bytes_and_pictures_are_shown_when_they_become_many() -> None:
    heavy = replace(gauge(20_000), wire=28_500_000, wire_limit=32_000_000, images=90, images_limit=100)
    shown = draw_status(StatusLine(model="claude-sonnet-5-5", gauge=heavy), UNICODE, 200).plain
    assert "28.5 of 32.0 MB" in shown
    assert "90 of 100 images" in shown
    light = replace(heavy, wire=10_000_000, images=3)
    assert " MB" not in draw_status(StatusLine(model="claude-sonnet-5-5", gauge=light), UNICODE, 200).plain


@pytest.mark.spec("S4.8")
def test_that_a_layer_gave_up_asking_is_a_line_of_its_own() -> None:
    shown = event_line(
        events.SteppedAside(layer="breaker", reason="the session notes failed 3 times in a row")
    )
    assert shown == EventLine("warning", "the session notes failed 3 times in a row")


@pytest.mark.spec("S0.4")
@pytest.mark.parametrize(("seen", "style"), [(100_000, "green"), (150_000, "yellow"), (165_000, "red")])
def test_the_gauge_turns_yellow_at_the_warning_level_and_red_at_the_error_level(seen, style):
    line = draw_status(status(seen), UNICODE, 100)
    filled = next(span for span in line.spans if "% of " in line.plain[span.start : span.end])
    assert filled.style == style


@pytest.mark.spec("S4.8")
def test_a_long_reason_is_folded_behind_its_first_words() -> None:
    reason = "the session notes could not be brought up to date 3 times in a row (overloaded): they are tried again"
    shown = event_line(events.SteppedAside(layer="breaker", reason=reason))
    assert shown is not None
    assert shown.line == "the session notes could not be brought up to date 3 times in a row"
    assert shown.detail == (("why", reason),)


def test_many_small_parts_take_no_more_of_the_map_than_they_have() -> None:
    items = tuple(WindowItem(f"kind {n}", 10) for n in range(12))
    shown = printed(window_page(WindowBreakdown(items, gauge(120)), UNICODE, 80), width=80)
    cells = "".join(shown.split("\n")[1:6])
    assert sum(cell.isalpha() for cell in cells) <= 1


def test_an_agent_is_called_by_what_it_works_on_and_a_break_without_a_known_part_has_no_brackets():
    ended = events.AgentChanged(
        agent="agent-1",
        name="",
        description="look around",
        type="general",
        state="completed",
        turns=1,
        usd=0.5,
    )
    told = [event_line(one) for one in (ended, replace(BROKE, part=""))]
    assert [one.line for one in told if one] == [
        "agent look around (general): completed, 1 turn, $0.50",
        "cache lost: tools changed, 50k tokens charged again, $0.25",
    ]


@pytest.mark.spec("S16.5")
def test_the_status_line_says_that_lasting_words_found_no_room():
    assert (
        "2 of your lasting messages left out" in draw_status(status(lasting_left_out=2), UNICODE, 120).plain
    )
