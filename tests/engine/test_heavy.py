"""Three budgets of a request: tokens, bytes and pictures. Over any of them the conversation is compacted."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import ContextFull
from sevenfold.events import Acted, Checked
from sevenfold.events import Compacted as CompactedEvent
from tests.engine.working import FREE, Mind, World, begun, tool, world

SHOTS = 6_000
"""Bytes of a picture, about."""
TIGHT = {"wire_bytes_limit": 40_000, "context_window": 200_000}
FEW = {"images_limit": 4, "context_window": 200_000}
BUDGETS = [pytest.param(TIGHT, "bytes", id="bytes"), pytest.param(FEW, "images", id="pictures")]


class Viewer(Mind):
    """Looks at pictures and says so."""

    def _work(self) -> list[dict[str, Any]]:
        return [{"type": "text", "text": "A house with a green door."}]


class Screens(Mind):
    """Takes one picture of the screen after the other."""

    def _work(self) -> list[dict[str, Any]]:
        number = next(self._numbers)
        return [{"type": "tool_use", "id": f"toolu_{number}", "name": "Ask", "input": {"n": number}}]


def picture() -> dict[str, Any]:
    data = base64.b64encode(bytes(SHOTS * 3 // 4)).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def shown(session: sevenfold.Session, number: int, pictures: int = 1) -> None:
    session.user([*(picture() for _ in range(pictures)), {"type": "text", "text": f"Picture {number}."}])


def show_all(session: sevenfold.Session, many: int) -> None:
    for number in range(many):
        shown(session, number)
        session.complete()


@contextmanager
def showing(settings: dict[str, Any], **more: Any) -> Iterator[tuple[World, sevenfold.Session]]:
    with (
        world(Viewer()) as here,
        here.session(model=FREE, thinking=None, settings=settings, **more) as session,
    ):
        yield here, session


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize(("settings", "budget"), BUDGETS)
def test_more_bytes_or_pictures_than_a_request_may_have_are_compacted(
    settings: dict[str, Any], budget: str
) -> None:
    with showing(settings) as (here, session):
        show_all(session, 20)
        made = here.told(CompactedEvent, trigger="auto")
        assert len(made) >= 2
        assert not any(one.fires_again for one in made)
        assert "Picture 19." in here.bodies[-1].decode()
        assert max(map(len, here.bodies)) < 80_000
        warned = [event for event in here.told(Checked, verdict="warning") if event.budget == budget]
        assert here.events.index(warned[0]) < here.events.index(made[0])


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize(("settings", "budget"), BUDGETS)
def test_with_compaction_by_itself_off_it_is_named_as_the_next_step(
    settings: dict[str, Any], budget: str
) -> None:
    with showing({**settings, "auto_compact": False}) as (_, session), pytest.raises(ContextFull) as raised:
        show_all(session, 20)
    told = str(raised.value)
    assert "next: compact the conversation" in told
    assert {"bytes": " bytes)", "images": " pictures and documents)"}[budget] in told
    assert "larger window" not in told
    assert "-" not in told.partition("(")[2].partition(")")[0]


@pytest.mark.spec("S2.8")
def test_the_gauge_says_what_there_is_nearly_too_much_of() -> None:
    with showing(TIGHT) as (_, session):
        seen = []
        for number in range(6):
            shown(session, number)
            seen.append(session.gauge.heavy)
            session.complete()
        assert seen[0] == ()
        assert seen[-1] == ("bytes",)


@pytest.mark.spec("S2.8")
def test_what_is_too_heavy_by_itself_is_not_compacted_for_nothing() -> None:
    with showing(TIGHT) as (here, session):
        shown(session, 0)
        session.complete()
        shown(session, 1, pictures=8)
        with pytest.raises(ContextFull, match="send less at once, or smaller pictures"):
            session.prepare()
        assert not here.told(CompactedEvent)


@pytest.mark.spec("S4.18")
def test_what_was_never_sent_and_is_too_heavy_by_itself_makes_no_compaction_due_again() -> None:
    with showing(FEW) as (_, session):
        show_all(session, 3)
        shown(session, 3, pictures=6)
        done = session.compact()
        assert done is not None
        assert done.kept == 1
        assert not done.fires_again


@pytest.mark.spec("S2.8")
def test_clearing_comes_first_if_it_is_enough() -> None:
    settings = {**TIGHT, "size_clearing": True}
    tools = [tool("Ask", "read")]
    with (
        world(Screens()) as here,
        here.session(model=FREE, thinking=None, tools=tools, settings=settings) as session,
    ):
        session.user("Go through all screens.")
        for _ in range(12):
            done = session.complete()
            session.tool_results({call.id: [picture()] for call in done.calls})
        assert here.told(Acted, layer="clear")
        assert not here.told(CompactedEvent)


@pytest.mark.spec("S2.8", "S4.3")
def test_no_engine_is_asked_to_read_more_than_a_request_may_have() -> None:
    with showing(TIGHT) as (here, session):
        look, house = [picture(), {"type": "text", "text": "Look."}], "A house."
        session.messages([{"role": "user", "content": look}, {"role": "assistant", "content": house}] * 8)
        done = session.compact()
        assert done is not None
        assert done.engine == "plain"
        assert any("more bytes or pictures" in one.reason for one in done.left if one.engine == "fork")
        assert max(map(len, here.bodies)) < TIGHT["wire_bytes_limit"]


@pytest.mark.spec("S4.10", "S9.4")
def test_what_the_providers_own_compaction_used_is_told() -> None:
    with world() as here, begun(here, 8) as session:
        done = session.compact(engine="provider")
        assert done is not None
        assert done.engine == "provider"
        assert done.usage is not None
        assert done.usage.prompt > 5_000
        assert done.usage.output_tokens > 0
        assert done.cached_share is not None
        assert done.cached_share > 0.5
        told = here.told(CompactedEvent)[-1]
        assert told.input_tokens + told.cache_read_tokens + told.cache_write_tokens == done.usage.prompt
        assert (told.output_tokens, told.cached_share) == (done.usage.output_tokens, done.cached_share)
