"""The pass before a request: the order of the layers, when it ends, and what is said when nothing helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sevenfold.conversation.reporting import Events
from sevenfold.conversation.room import overloaded
from sevenfold.errors import ContextFull, PromptTooLong, Refused
from sevenfold.events import Event, SteppedAside
from sevenfold.lab.simulator.clock import VirtualClock
from tests.session.holding import LINE, PICTURE, Held, calls, scripted
from tests.session.talking import ALONE, BOUND, FREE, alone, calling, fake_reply, hear, thought, world

SMALL = {"context_window": 40_000}


def stuck(held: Held) -> str:
    with pytest.raises(ContextFull) as raised:
        held.session.prepare()
    return str(raised.value)


@pytest.mark.spec("S2.8")
def test_offloading_comes_before_clearing_and_may_be_all_it_takes() -> None:
    held = scripted(*[calls("Read")] * 6, calls("Shell", "Shell"), settings={**SMALL, "offload": False})
    held.session.user("Begin.")
    held.run(6, LINE * 200)
    results = {call.id: LINE * 1_300 for call in held.ask().calls}
    held.session.tool_results(results)
    held.settings.set(**SMALL)
    full = held.session.gauge
    assert full.seen >= full.threshold
    held.session.prepare()
    assert not held.cleared()
    assert held.session.gauge.high < full.threshold
    assert [event.layer for event in held.told("Acted")] == ["offload", "offload"]


@pytest.mark.spec("S2.8", "S8.2")
@pytest.mark.parametrize("off", [("layers",), ("size_clearing", "gap_clearing")])
def test_with_clearing_off_a_full_window_names_its_parts_and_the_next_legal_step(
    off: tuple[str, ...],
) -> None:
    held = scripted(*[calls("Read")] * 40, settings={**SMALL, **dict.fromkeys(off, False)})
    held.session.user("Begin.")
    with pytest.raises(ContextFull) as raised:
        held.run(40, LINE * 200)
    told = str(raised.value)
    for part in ("tokens", "system ", "tools ", "newest messages", "everything before", "size_clearing"):
        assert part in told
    assert not held.cleared()
    assert not held.told("Proposed")
    assert ("snip" in told) is ("layers" not in off)
    if "snip" in told:
        held.session.snip(*_rounds(held))
        held.session.prepare()


@pytest.mark.spec("S2.8")
def test_a_compaction_is_not_named_where_no_answer_is_left_in_view_to_summarise(tmp_path: Path) -> None:
    file, settings = tmp_path / "s.jsonl", {**ALONE, **SMALL}
    with world() as here:
        with here.open(file, model=BOUND, settings=settings) as session:
            session.user(LINE * 1_000)
            hear(session, fake_reply(thought(), prompt=17_000))
        # Another model gets no reasoning of this one, so nothing of the answer is left.
        with here.open(file, model=FREE, settings=settings) as session:
            session.user(LINE * 1_900)
            with pytest.raises(ContextFull, match="next: ") as raised:
                session.prepare()
            assert "compact()" not in str(raised.value)
            with pytest.raises(Refused, match="nothing to compact"):
                session.compact()


@pytest.mark.spec("S2.8")
@pytest.mark.parametrize("calls_a_tool", [False, True])
def test_a_compaction_is_named_if_an_answer_comes_before_the_newest_round(calls_a_tool: bool) -> None:
    session = alone(settings={**SMALL, "offload": False, "size_clearing": False})
    session.user(LINE * 1_000)
    hear(session, fake_reply(*([calling("c1")] if calls_a_tool else []), prompt=17_000))
    if calls_a_tool:
        session.tool_results({"c1": LINE * 1_600})
    else:
        session.user(LINE * 1_600)
    with pytest.raises(ContextFull, match="next: ") as raised:
        session.prepare()
    assert ("compact()" in str(raised.value)) is not calls_a_tool
    if not calls_a_tool:
        assert session.compact(engine="extractive") is not None
        session.prepare()


@pytest.mark.spec("S2.8")
def test_images_and_documents_of_the_newest_message_are_not_blamed_on_the_conversation() -> None:
    document = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    session = alone(settings={"images_limit": 3})
    session.user([PICTURE, {"type": "text", "text": "Look."}])
    hear(session, fake_reply())
    conversation = session.conversation
    session.user([PICTURE, document, {"type": "text", "text": "And these."}])
    assert not overloaded(conversation, conversation.size())
    session.user([PICTURE, {"type": "text", "text": "And this."}])
    assert overloaded(conversation, conversation.size())
    session.user([document, {"type": "text", "text": "And that."}])
    assert not overloaded(conversation, conversation.size())


@pytest.mark.spec("S2.8")
def test_a_system_prompt_that_does_not_fit_alone_is_named_as_the_cause() -> None:
    held = scripted("Hello.", settings=SMALL, system="Always be careful about this. " * 8_000)
    held.session.user("Begin.")
    assert "already exceed the limit" in stuck(held)


@pytest.mark.spec("S2.8")
def test_too_many_pictures_in_the_users_own_words_are_counted_as_such() -> None:
    held = scripted("Hello.", settings={"images_limit": 2})
    held.session.user([PICTURE, PICTURE, PICTURE, {"type": "text", "text": "Look."}])
    assert "3 pictures and documents, and sending stops at 2" in stuck(held)


@pytest.mark.spec("S2.8", "S0.9")
def test_a_request_refused_as_too_long_is_made_again_with_less() -> None:
    held = scripted(*[calls("Read")] * 20)
    held.session.user("Begin.")
    held.run(12, LINE * 500)
    first = held.session.prepare().body
    error = PromptTooLong("prompt is too long")
    error.used, error.limit = 1_030_000, 1_000_000
    assert held.session.failed(error)
    before = held.cleared()
    assert before
    assert len(held.session.prepare().body) < len(first) / 2
    error.used = 1_900_000
    assert held.session.failed(error) == (held.cleared() != before)


@pytest.mark.spec("S2.8")
def test_a_session_that_fills_up_again_at_once_goes_on_as_long_as_it_can() -> None:
    held = scripted(*[calls(*["Read"] * 4)] * 30, settings=SMALL)
    held.session.user("Begin.")
    held.run(20, LINE * 200)
    assert held.session.gauge.requests == 20
    assert not held.session.gauge.at_blocking


@pytest.mark.spec("S2.8", "S0.10")
def test_every_request_says_what_was_known_and_considered() -> None:
    held = scripted(*[calls("Read")] * 9)
    held.session.user("Begin.")
    held.run(9)
    held.clock.advance(400)
    held.ask()
    quiet, cleared = held.session.why(3).why, held.session.why(-1).why
    assert quiet
    assert cleared
    assert (quiet.chosen, quiet.rule) == ("nothing", "everything fits")
    assert cleared.chosen == "clear"
    assert "7 minutes" in cleared.rule
    assert cleared.options[-1].tokens > 1_000
    assert len(held.told("Checked")) == 10


@pytest.mark.spec("S2.10")
def test_a_file_is_unchanged_only_while_its_reading_is_in_view_whole() -> None:
    held = scripted(*[calls("Read")] * 9, calls("Shell"))
    core = held.session.conversation
    held.session.user("Begin.")
    held.run(9)
    first, *_, last = held.shown()
    core.remember_read("a.py", first, "v1")
    core.remember_read("b.py", last, "v1")
    assert core.unchanged("a.py", "v1") == first
    assert core.unchanged("b.py", "v1") == last
    assert core.unchanged("a.py", "v2") is None
    assert core.unchanged("c.py", "v1") is None
    held.clock.advance(400)
    held.session.prepare()
    assert first in held.cleared()
    assert core.unchanged("a.py", "v1") is None
    assert core.unchanged("b.py", "v1") == last
    held.session.undo()
    assert core.unchanged("a.py", "v1") == first, "put back, it is in view again"
    core.remember_read("a.py", "another", "v1")
    assert core.unchanged("a.py", "v1") is None


@pytest.mark.spec("S2.10", "S1.1")
def test_a_reading_that_was_offloaded_or_snipped_does_not_count() -> None:
    held = scripted(calls("Shell", "Read"), calls("Read"), calls("Read"))
    core = held.session.conversation
    held.session.user("Begin.")
    shell, read = (call.id for call in held.ask().calls)
    held.session.tool_results({shell: LINE * 2_000, read: LINE})
    core.remember_read("big", shell, "v1")
    core.remember_read("small", read, "v1")
    assert core.unchanged("big", "v1") is None
    assert core.unchanged("small", "v1") == read
    held.run(2, LINE)
    first, last = _rounds(held, 1)
    held.session.snip(first, last)
    assert core.unchanged("small", "v1") is None


@pytest.mark.spec("S2.8")
def test_that_a_layer_rests_is_told_once_until_it_no_longer_does() -> None:
    heard: list[Event] = []
    announcer = Events("s", VirtualClock(), [heard.append])
    for reason in ("full again", "full again", "", "", "full again", "next to nothing"):
        announcer.rests("clear", reason)
    assert [(event.layer, event.reason) for event in heard if isinstance(event, SteppedAside)] == [
        ("clear", "full again"),
        ("clear", "full again"),
        ("clear", "next to nothing"),
    ]


def _rounds(held: Held, count: int = 4) -> tuple[str, str]:
    """The first and last record of so many rounds after the user's first words."""
    items = held.session.conversation.transcript.view.items
    return items[1].record.uuid, items[2 * count].record.uuid


def test_what_is_shown_is_what_is_sent() -> None:
    held = scripted(calls("Read"))
    held.session.user("Begin.")
    held.run(1, LINE)
    sent = json.loads(held.session.prepare().body)["messages"][-1]["content"]
    assert [block["content"] for block in sent] == list(held.shown().values())
