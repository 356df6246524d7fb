"""Whatever is told, in whatever order: a sink neither fails nor keeps more and more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sevenfold.events import Sending
from sevenfold.telemetry.spans import MOST_OPEN
from tests.telemetry.collecting import Collected
from tests.telemetry.making import any_event, stamped


@given(events=st.lists(any_event(), max_size=30))
def test_every_span_that_begins_also_ends(events):
    collected = Collected()(*events)
    assert collected.sink.dropped == 0
    keys = {(event.session, event.source, event.request) for event in events if isinstance(event, Sending)}
    assert collected.open_spans <= len(keys)
    collected.sink.close()
    assert collected.open_spans == 0
    assert all(span.ended >= span.began for span in collected.spans)
    begun = sum(isinstance(event, Sending) for event in events)
    chats = sum(span.name.startswith("chat ") for span in collected.spans)
    assert chats >= begun
    collected.measured()


def test_requests_that_are_never_answered_are_ended_when_there_are_too_many():
    collected = Collected()
    sending = Sending(request="", model="m", provider="p", epoch="e", tokens=1, body_bytes=1)
    for number in range(MOST_OPEN + 20):
        collected(stamped(sending, number, request=f"r{number}"))
    assert collected.open_spans == MOST_OPEN
    assert [span.attributes["sevenfold.request"] for span in collected.spans] == [
        f"r{n}" for n in range(20)
    ]
    assert {span.attributes["error.type"] for span in collected.spans} == {"unanswered"}
