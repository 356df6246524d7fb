"""What a compaction summarised is counted by kind."""

from __future__ import annotations

import pytest

from sevenfold.events import Compacted
from sevenfold.layers.compact.kinds import by_kind
from sevenfold.session.session import Session
from tests.engine.working import begun, world
from tests.session.holding import PICTURE


@pytest.mark.spec("S17.8")
def test_the_event_counts_messages_and_tokens_of_each_kind() -> None:
    with world() as here, begun(here, 6, 2_000) as session:
        session.complete()
        calls = session.conversation.transcript.view.pending_calls
        session.tool_results({call: [PICTURE, {"type": "text", "text": "a house"}] for call in calls})
        session.complete()
        session.user([PICTURE, {"type": "text", "text": "And this one?"}])
        before = session.gauge.seen
        done = session.compact(span="up_to", record=_newest(session), engine="extractive")
        assert done is not None
        (event,) = here.told(Compacted)
        assert event.summarised_user_messages == 1
        assert event.summarised_assistant_messages == 8
        assert (event.summarised_calls, event.summarised_results) == (8, 7)
        assert (event.summarised_images, event.summarised_attachments) == (1, 0)
        assert event.summarised_image_tokens > 0
        assert event.summarised_result_tokens > event.summarised_user_tokens > 0
        names = ("user", "assistant", "call", "result", "attachment", "image")
        total = sum(getattr(event, f"summarised_{name}_tokens") for name in names)
        assert 0 < total < before


@pytest.mark.spec("S17.8")
def test_an_earlier_summary_counts_as_what_a_program_added() -> None:
    with world() as here, begun(here, 6, 2_000) as session:
        session.compact(engine="extractive")
        here.work(session, 2, 1_000)
        items = session.conversation.transcript.view.items
        counts = by_kind(items, session.conversation.epoch.gauge.estimator.tokens)
        assert counts.attachments >= 1
        assert counts.attachment_tokens > counts.user_tokens


def _newest(session: Session) -> str:
    return session.conversation.transcript.view.items[-1].record.uuid
