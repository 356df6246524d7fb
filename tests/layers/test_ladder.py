"""When to stop climbing, and what to tell a user who is stuck."""

from __future__ import annotations

import pytest

from sevenfold.conversation import room as ladder
from sevenfold.conversation.room import Budget, Check, Parts
from sevenfold.layers.breaker import Progress
from sevenfold.profiles import find
from sevenfold.record.gauge import Size
from sevenfold.record.window import Window

WINDOW = Window.of(find("claude-sonnet-4-5"))


def progress(*passes: tuple[int, int, int]) -> Progress:
    found = Progress()
    for request, freed, size in passes:
        found = found.after(request, freed, size)
    return found


@pytest.mark.spec("S2.8")
def test_a_layer_that_keeps_freeing_next_to_nothing_rests_until_the_conversation_has_grown() -> None:
    wasted = progress((1, 500, 168_000), (4, 400, 168_500), (7, 300, 169_000))
    assert "next to nothing" in wasted.rests(WINDOW, 169_500)
    assert not wasted.rests(WINDOW, 175_000)


@pytest.mark.spec("S2.8")
def test_a_layer_whose_gain_is_filled_again_at_once_rests_while_it_is_as_full_as_then() -> None:
    filled = progress((1, 30_000, 140_000), (2, 30_000, 141_000), (3, 30_000, 142_000))
    assert "filled again" in filled.rests(WINDOW, 172_000)
    assert not filled.rests(WINDOW, 150_000)


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize(
    "passes",
    [
        ((1, 500, 168_000), (4, 400, 168_500)),
        ((1, 30_000, 140_000), (2, 30_000, 110_000), (3, 30_000, 80_000)),
        ((1, 30_000, 140_000), (9, 30_000, 140_000), (17, 30_000, 140_000)),
    ],
)
def test_progress_is_no_reason_to_rest_however_often_a_layer_acts(
    passes: tuple[tuple[int, int, int], ...],
) -> None:
    assert not progress(*passes).rests(WINDOW, 171_000)


def check(budget: Budget = "tokens") -> Check:
    size = Size(
        tokens=178_000,
        low=177_600,
        high=178_400,
        sent=178_000,
        anchored=True,
        freed=0,
        wire=40_000_000,
        images=120,
    )
    return Check(size, "blocked", budget)


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize(
    ("budget", "says"),
    [("tokens", "178,000 tokens"), ("bytes", "40,000,000 bytes"), ("images", "120 pictures")],
)
def test_a_user_who_is_stuck_is_told_the_parts_the_limit_and_the_next_step(
    budget: Budget, says: str
) -> None:
    parts = Parts(system=4_000, tools=6_000, pinned=1_000, newest=2_000, rest=165_000)
    steps = ladder.steps(parts, budget, clears=True, compacts=False, snips=True)
    told = ladder.too_full(check(budget), WINDOW, parts, limit=177_000, steps=steps)
    for part in (
        says,
        "177,000",
        "system 4,000",
        "tools 6,000",
        "newest messages 2,000",
        "165,000",
        "snip",
        "unpin",
    ):
        assert part in told
    assert "switches" not in told
    assert ("larger window" in told) is (budget == "tokens")


@pytest.mark.spec("S2.8")
def test_only_steps_that_are_legal_and_could_help_are_named() -> None:
    def steps(rest: int = 9, *, clears: bool = True, compacts: bool = False, snips: bool = True) -> str:
        parts = Parts(system=1, tools=1, pinned=0, newest=1, rest=rest)
        return "; ".join(ladder.steps(parts, "tokens", clears=clears, compacts=compacts, snips=snips))

    assert "snip" not in steps(snips=False)
    assert steps(clears=False).startswith("let old tool results be cleared")
    assert steps(compacts=True).startswith("compact the conversation")
    assert steps(0, compacts=True) == (
        "rewind to before the newest round and send less in it; "
        "go on in a new session, or with a model that has a larger window"
    )


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize(("budget", "unit"), [("bytes", "bytes"), ("images", "pictures and documents")])
def test_a_newest_message_that_is_too_heavy_alone_is_named_as_the_cause(budget: Budget, unit: str) -> None:
    parts = Parts(system=0, tools=0, pinned=0, newest=101, rest=20)
    told = ladder.too_full(check(budget), WINDOW, parts, limit=100, steps=("compact",))
    assert f"newest messages 101, everything before 20 {unit}" in told
    assert "send less at once, or smaller pictures" in told
    assert "compact" not in told


@pytest.mark.spec("S2.8")
def test_a_fixed_part_that_does_not_fit_alone_is_named_as_such() -> None:
    parts = Parts(system=150_000, tools=20_000, pinned=0, newest=8_000, rest=0)
    told = ladder.too_full(check(), WINDOW, parts, limit=177_000, steps=("snip",))
    assert "already exceed the limit" in told
    assert "shorten the system prompt" in told
    assert "snip" not in told


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize("budget", ["tokens", "bytes"])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "some-model-of-nobody"])
def test_a_window_that_was_only_assumed_is_named_where_it_is_what_stops_the_user(
    budget: Budget, model: str
) -> None:
    parts = Parts(system=4_000, tools=6_000, pinned=0, newest=2_000, rest=165_000)
    told = ladder.too_full(check(budget), Window.of(find(model)), parts, limit=177_000, steps=("snip",))
    assert ("context_window" in told) is (budget == "tokens" and model != "claude-sonnet-4-5")
