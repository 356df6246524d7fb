"""What going on with a session costs in a pause: every choice with its price."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.archive.lifetimes import LaneHistory
from sevenfold.archive.profile.cache import CallReport
from sevenfold.archive.profile.context import HeldPiece
from sevenfold.archive.profile.figures import Shrinking
from sevenfold.archive.profile.labels import SYSTEM, ContextPiece
from sevenfold.doors.inspector.idle_view import idle_view
from sevenfold.profiles import find
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING

pytestmark = pytest.mark.spec("S33.16")
MODEL = "claude-opus-4-6"


def lane(usage: Usage, model: str = MODEL) -> LaneHistory:
    """A conversation of one request, ten thousand tokens of which are the system prompt."""
    history = LaneHistory(0)
    held = HeldPiece(ContextPiece(SYSTEM, NOTHING), since=0, tokens=10_000.0)
    history.entered(SYSTEM, held, 0)
    history.called(0)
    history.answered(1, CallReport(model, usage, at=1000.0))
    return history


def prices(view: Any) -> dict[str, Any]:
    """Each choice with what it costs at once, and then."""
    return {choice["name"]: (choice["atOnceUsd"], choice["promptUsd"]) for choice in view}


def test_every_choice_of_a_pause_is_priced_with_the_models_own_prices() -> None:
    usage = Usage(cache_read_input_tokens=90_000, cache_creation_5m=9_000, output_tokens=1_000)
    view = idle_view(lane(usage), [])
    assert view is not None
    price = find(MODEL).price(99_000)
    assert price is not None
    read = price.read / 1e6
    write = price.write(300) / 1e6
    alive = prices(view["alive"])
    assert alive["Go on before it expires"] == (0.0, pytest.approx(100_000 * read))
    assert alive["Go on after it has expired"] == (0.0, pytest.approx(100_000 * write))
    assert alive["Begin a new session"] == (0.0, pytest.approx(10_000 * write))
    at_once, following = alive["Compact it before it expires"]
    assert at_once == pytest.approx(100_000 * read + 4_000 * price.output / 1e6)
    assert following == pytest.approx(14_000 * write)
    expired = prices(view["expired"])
    assert expired["Go on"] == (0.0, view["coldUsd"])
    assert expired["Compact it first"][0] > at_once


def test_what_the_last_compaction_left_is_what_the_next_one_is_expected_to_leave() -> None:
    usage = Usage(cache_read_input_tokens=90_000, cache_creation_1h=10_000)
    event = Shrinking(call=1, trigger="auto", tokens_before=80_000, tokens_after=30_000)
    of_an_agent = Shrinking(call=1, trigger="auto", tokens_after=5_000, lane=1)
    view = idle_view(lane(usage), [event, of_an_agent])
    assert view is not None
    assert view["lifetime"] == 3600
    tokens = {choice["name"]: choice["tokens"] for choice in view["alive"]}
    assert tokens["Compact it before it expires"] == 30_000


def test_without_a_price_or_a_time_there_is_no_clock() -> None:
    usage = Usage(input_tokens=100)
    assert idle_view(LaneHistory(0), []) is None
    assert idle_view(lane(usage, "a-model-of-nobody"), []) is None
