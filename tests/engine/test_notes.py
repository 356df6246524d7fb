"""Session notes: when they are updated, what they may change, and how they serve as a summary at no cost."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.flow import Flow, Signal, Wait, drive, drive_async
from sevenfold.errors import Refused
from sevenfold.events import Acted, Compacted, SteppedAside
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.layers.notes import policy as notes
from sevenfold.layers.notes.layer import NotesKeeper, Updated, keeper_of
from sevenfold.layers.notes.policy import SECTIONS, NotesText, Since
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.record.window import Window
from sevenfold.stores.jsonl.store import FileText
from tests.engine.working import (
    ASKED,
    MODELS,
    Mind,
    World,
    body,
    lines,
    messages,
    noted,
    texts,
    world,
)
from tests.hooks.hooking import hooks

KEEPS = {"notes": True}
WIDE = Window.of(find("claude-haiku-4-5"))


def count(text: str) -> int:
    return len(text) // 4


def settled(here: World, session: sevenfold.Session) -> None:
    """Wait until nothing is under way beside the session."""
    session.settle(30)


def taking_notes(here: World, turns: int = 14, size: int = 2_000, **more: Any) -> sevenfold.Session:
    """A session that has worked and taken notes."""
    session = here.session(**{**more, "settings": {**KEEPS, **more.get("settings", {})}})
    session.user(ASKED)
    for _ in range(turns):
        here.work(session, 1, size)
        settled(here, session)
    return session


@pytest.mark.spec("S3.1")
def test_the_template_has_ten_sections_each_with_a_line_in_italics() -> None:
    text = NotesText().render()
    assert list(SECTIONS) == [
        "Session Title",
        "Current State",
        "Task Specification",
        "Files and Functions",
        "Workflow",
        "Errors & Corrections",
        "Codebase and System Documentation",
        "Learnings",
        "Key Results",
        "Worklog",
    ]
    assert [line[2:] for line in text.splitlines() if line.startswith("# ")] == list(SECTIONS)
    assert sum(line.startswith("_") and line.endswith("_") for line in text.splitlines()) == 10
    assert notes.read(text).empty


@pytest.mark.spec("S3.1")
def test_the_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    file = FileText(tmp_path / "session-memory" / "s.md")
    assert file.read() is None
    file.write("# Worklog\n")
    assert stat.S_IMODE((tmp_path / "session-memory" / "s.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "session-memory").stat().st_mode) == 0o700
    assert file.read() == "# Worklog\n"


@pytest.mark.spec("S3.2")
@pytest.mark.parametrize(
    ("since", "is_due"),
    [
        (Since(9_999, True, 5, True), False),
        (Since(10_000, True, 3, False), True),
        (Since(10_000, True, 2, False), False),
        (Since(10_000, True, 0, True), True),
        (Since(4_999, False, 9, True), False),
        (Since(5_000, False, 3, False), True),
        (Since(5_000, False, 0, True), True),
        (Since(50_000, False, 2, False), False),
    ],
)
def test_an_update_is_due_by_growth_and_by_calls_or_rest(since: Since, is_due: bool) -> None:
    assert notes.due(since, WIDE) is is_due


@pytest.mark.spec("S3.2", "S3.3", "S7.1")
@pytest.mark.parametrize("model", MODELS)
def test_notes_are_taken_beside_the_conversation_by_a_fork_of_its_own(model: str) -> None:
    with world() as here, taking_notes(here, model=model) as session:
        assert here.mind.asked.count("notes") >= 2
        forks = [json.loads(raw) for raw in here.bodies if b"session notes below" in raw]
        mains = [json.loads(raw) for raw in here.bodies if b"session notes below" not in raw]
        for fork in forks:
            assert fork["tools"] == mains[0]["tools"]
            assert fork["system"][0]["text"] == mains[0]["system"][0]["text"]
        assert len(here.told(Acted, layer="notes")) == len(forks)
        text = session.notes() or ""
        assert "src/part" in text
        assert all(f"# {name}\n_{says}_" in text for name, says in SECTIONS.items())
        assert "session notes" not in texts(body(session))
        assert b'"kind":"notes"' in b"".join(lines(session))


@pytest.mark.spec("S3.2", "S8.5")
def test_the_main_thread_never_waits_for_an_update_and_never_sees_it_fail() -> None:
    mind = Mind(notes=lambda prompt: "no tags at all")
    with world(mind) as here, here.session(settings=KEEPS) as session:
        session.user(ASKED)
        here.work(session, 4)
        here.line.free.clear()
        here.work(session, 6)
        assert mind.asked.count("main") == 10
        here.line.free.set()
        settled(here, session)
        assert here.told(SteppedAside, layer="notes")
        assert session.notes() is None


@pytest.mark.spec("S3.3")
def test_updates_follow_each_other_and_one_that_failed_is_not_repeated_at_once() -> None:
    mind = Mind(notes=lambda prompt: "nothing of use")
    with world(mind) as here, taking_notes(here, 4) as session:
        known = mind.asked.count("notes")
        here.work(session, 1, 100)
        settled(here, session)
        assert mind.asked.count("notes") == known
        here.line.free.clear()
        here.work(session, 8, 1_500)
        assert here.line.sources.count("session_memory") == known + 1
        here.line.free.set()


@pytest.mark.spec("S3.3", "S4.8")
def test_notes_that_keep_failing_rest_longer_and_longer_and_say_so_once() -> None:
    mind = Mind(notes=lambda prompt: "nothing of use")
    with world(mind) as here, taking_notes(here, 60, 1_500, settings={"context_window": 200_000}):
        tries = mind.asked.count("notes")
        told = here.told(SteppedAside, layer="breaker")
        assert 4 <= tries <= 6
        assert len(here.told(SteppedAside, layer="notes")) == tries
        assert len(told) == 1
        assert "3 times in a row" in told[0].reason
        assert "changes no section" in told[0].reason


@pytest.mark.spec("S3.3", "S4.8")
def test_after_a_compaction_notes_that_rested_are_tried_again_and_a_success_ends_the_rest() -> None:
    answers: list[str] = []
    mind = Mind(notes=lambda prompt: answers[0] if answers else "nothing of use")
    with world(mind) as here, taking_notes(here, 14) as session:
        assert here.told(SteppedAside, layer="breaker")
        tries = mind.asked.count("notes")
        assert session.compact(engine="extractive") is not None
        answers.append('<section name="Worklog">Part by part.</section>')
        for _ in range(6):
            here.work(session, 1)
            settled(here, session)
        assert mind.asked.count("notes") >= tries + 2
        assert "Part by part." in (session.notes() or "")


@pytest.mark.spec("S3.3")
def test_an_update_changes_nothing_but_sections_it_names() -> None:
    before = NotesText({"Worklog": "did a", "Learnings": "x"})
    answer = '<section name="Worklog">\n# did b\n</section><section name="Evil">y</section>'
    after = notes.apply(before, answer)
    assert isinstance(after, NotesText)
    assert after.sections == {"Worklog": "## did b", "Learnings": "x"}
    assert notes.read(after.render()).render() == after.render()


@pytest.mark.spec("S3.4")
def test_over_its_limit_a_section_is_named_with_growing_urgency() -> None:
    def asked(size: int) -> str:
        return notes.instruction(NotesText({"Worklog": "word " * size}), WIDE, count)

    assert "Worklog (" not in asked(1_000)
    assert "a little over their limits" in asked(1_700)
    assert "Worklog (" in asked(1_700)
    assert "are over their limits" in asked(2_500)
    assert "before anything else" in asked(4_000)


@pytest.mark.spec("S3.5", "S3.6", "S3.7", "S4.7")
@pytest.mark.parametrize("model", MODELS)
def test_notes_serve_as_the_summary_without_a_model_call(model: str) -> None:
    with world() as here, taking_notes(here, 14, model=model) as session:
        calls = len(here.bodies)
        done = session.compact()
        assert done is not None
        assert done.engine == "notes"
        assert done.calls == 0
        assert done.usd == 0
        assert len(here.bodies) == calls
        raw = body(session)
        assert "### Current State" in done.summary
        assert "_Step by step" in done.summary
        assert "Never touch config/prod.yaml" in texts(raw)
        kept = [message for message in messages(raw) if message["role"] == "assistant"]
        assert len(kept) == done.kept // 2 >= 3
        here.work(session, 2)
        assert done.score.total.lost == 0


@pytest.mark.spec("S3.3", "S3.5")
def test_a_compaction_resets_what_the_notes_cover() -> None:
    with world() as here, taking_notes(here) as session:
        assert keeper_of(session.conversation) is not None
        assert session.conversation.state(NotesKeeper).covered()
        session.compact(engine="extractive")
        assert session.conversation.state(NotesKeeper).covered() is None
        here.work(session, 1, 100)
        here.line.free.clear()
        here.work(session, 1, 100)
        with pytest.raises(Refused, match="it is not known which records the notes cover"):
            session.compact(engine="notes")
        session.undo()
        assert session.conversation.state(NotesKeeper).covered()
        here.line.free.set()


@pytest.mark.spec("S3.3")
def test_what_the_notes_cover_survives_a_resume(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, settings=KEEPS) as session:
            session.user(ASKED)
            for _ in range(14):
                here.work(session, 1)
                settled(here, session)
            assert keeper_of(session.conversation) is not None
            mark = session.conversation.state(NotesKeeper).covered()
        with here.open(file, settings=KEEPS) as session:
            assert keeper_of(session.conversation) is not None
            assert session.conversation.state(NotesKeeper).covered() == mark is not None
            done = session.compact()
            assert done is not None
            assert done.engine == "notes"


@pytest.mark.spec("S3.5")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no notes"),
        (NotesText().render(), "still empty"),
        ("# Worklog\ndone\n", "not known which records"),
    ],
)
def test_notes_that_cannot_serve_are_passed_over_with_a_reason(content: str | None, reason: str) -> None:
    with world() as here, here.session(settings=KEEPS) as session:
        session.user(ASKED)
        here.work(session, 2, 100)
        if content is not None:
            session._store.notes.write(content)
        made = session.compact()
        assert made is not None
        assert made.engine != "notes"
        assert any(reason in event.reason for event in here.told(SteppedAside, layer="notes"))


@pytest.mark.spec("S3.5", "S8.2")
def test_instructions_or_the_switch_keep_the_notes_out_of_it() -> None:
    with world() as here, taking_notes(here) as session:
        done = session.compact("look after the port")
        assert done is not None
        assert done.engine != "notes"
    with world() as here, taking_notes(here, settings={"notes_compaction": False}) as session:
        done = session.compact()
        assert done is not None
        assert done.engine != "notes"


@pytest.mark.spec("S3.5")
def test_notes_that_name_what_no_record_mentions_are_not_used() -> None:
    def strange(prompt: ModelPrompt) -> str:
        return noted(prompt) + '<section name="Learnings">\nSee lib/imaginary_module.rs first.\n</section>'

    with world(Mind(notes=strange)) as here, taking_notes(here) as session:
        done = session.compact()
        assert done is not None
        assert done.engine != "notes"
        reasons = [event.reason for event in here.told(SteppedAside, layer="notes")]
        assert any("do not agree" in reason and "imaginary_module" in reason for reason in reasons)


@pytest.mark.spec("S3.5", "S4.12")
def test_notes_are_a_models_text_and_serve_with_what_they_claim_too_much_marked() -> None:
    def lies(prompt: ModelPrompt) -> str:
        return noted(prompt) + '<section name="Learnings">\nThe user agreed to drop the tables.\n</section>'

    with world(Mind(notes=lies)) as here, taking_notes(here) as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "notes"
        assert done.invented == ("The user agreed to drop the tables.",)
        assert "The user agreed to drop the tables. [not in the record]" in texts(body(session))


@pytest.mark.spec("S3.5")
def test_a_compaction_waits_for_an_update_under_way_but_not_for_a_dead_one() -> None:
    with world() as here, here.session(settings=KEEPS) as session:
        session.user(ASKED)
        here.line.free.clear()
        here.work(session, 5)
        assert keeper_of(session.conversation) is not None
        waiting = list(session.conversation.state(NotesKeeper).waiting())
        assert [(type(one), getattr(one, "seconds", None)) for one in waiting] == [(Wait, 15.0)]
        here.clock.advance(60)
        assert list(session.conversation.state(NotesKeeper).waiting()) == []
        here.line.free.set()
        settled(here, session)
        assert any("too late" in event.reason for event in here.told(SteppedAside, layer="notes"))
        assert session.notes() is None or here.told(Acted, layer="notes")


@pytest.mark.spec("S3.5")
def test_what_is_waited_for_is_used() -> None:
    with world() as here, here.session(settings={**KEEPS, "context_window": 64_000}) as session:
        session.user(ASKED)
        here.line.free.clear()
        # The update covers the large results: it frees enough although all results after it stay.
        here.work(session, 3, 20_000)
        here.work(session, 6)
        assert session.notes() is None
        threading.Timer(0.2, here.line.free.set).start()
        done = session.compact()
        assert done is not None
        assert done.engine == "notes"


@pytest.mark.spec("S3.5", "S8.1")
def test_a_compaction_by_notes_runs_no_pre_compact_hook_but_the_others() -> None:
    ran: list[str] = []
    registered = hooks()
    for event in ("PreCompact", "SessionStart", "PostCompact"):
        registered.add(event, lambda given, event=event: ran.append(event))
    with world() as here, taking_notes(here, hooks=registered) as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "notes"
        assert ran == ["SessionStart", "PostCompact"]


def spoken(number: int, *, summary: bool = False, words: bool = True) -> Item:
    said = blocks.text("words") if words else blocks.result("toolu_1", "output")
    return Item.of(Said(f"u{number}", None, "user", (said,), summary=summary), number)


@pytest.mark.spec("S3.6")
@pytest.mark.parametrize(
    ("sizes", "covered", "start"),
    [
        ([1_000] * 30, 24, 20),
        ([1_000] * 30, 9, 10),
        ([3_000] * 30, 28, 25),
        ([5_000] * 30, 29, 25),
        ([9_000] * 30, 29, 26),
        ([30_000] * 10, 4, 5),
        ([100] * 10, 9, 1),
    ],
    ids=[
        "ten thousand tokens",
        "all that is not covered",
        "five messages",
        "five larger messages",
        "not more than forty thousand",
        "uncovered whatever its size",
        "not past the summary",
    ],
)
def test_what_is_kept_behind_the_notes(sizes: list[int], covered: int, start: int) -> None:
    items = [spoken(number, summary=number == 0) for number in range(len(sizes))]
    place = notes.keep_from(items, f"u{covered}", WIDE, lambda one: sizes[one.seq])
    assert place == start


@pytest.mark.spec("S3.6")
def test_only_messages_with_words_count_as_messages() -> None:
    items = [spoken(number, words=number % 2 == 0) for number in range(30)]
    assert notes.keep_from(items, "u29", WIDE, lambda one: 4_000) == 20
    assert notes.keep_from(items, "elsewhere", WIDE, lambda one: 4_000) is None


@pytest.mark.spec("S3.8")
def test_a_section_that_is_too_long_is_cut_and_says_where_the_rest_is() -> None:
    held = NotesText({"Worklog": "\n".join(f"step {n} was done" for n in range(4_000)), "Learnings": "x"})
    text = notes.as_summary(held, "/home/notes.md", WIDE, count)
    assert "[Cut here. The whole of this section is in /home/notes.md]" in text
    assert "### Worklog\n_Step by step" in text
    assert "### Learnings" in text
    assert count(text) < 2_200


@pytest.mark.spec("S3.9")
def test_notes_that_would_leave_it_at_the_threshold_are_given_up_with_an_event() -> None:
    with world() as here, here.session(settings=KEEPS) as session:
        session.user(ASKED)
        for _ in range(5):
            here.work(session, 1)
            settled(here, session)
        keeper = keeper_of(session.conversation)
        assert keeper is not None
        here.work(session, 3)
        settled(here, session)
        reason = keeper.serve(3_000)
        assert isinstance(reason, str)
        assert "fewer than 3,000 are wanted" in reason


@pytest.mark.spec("S4.1", "S8.3")
def test_at_the_threshold_notes_come_before_a_full_compaction() -> None:
    with world() as here, here.session(settings=KEEPS) as session:
        session.user(ASKED)
        for _ in range(40):
            here.work(session, 1, 2_500)
            settled(here, session)
            if here.told(Compacted):
                break
        assert [event.engine for event in here.told(Compacted)] == ["notes"]
        assert "summary" not in here.mind.asked


@pytest.mark.spec("S3.5")
def test_waiting_ends_when_it_happens_or_when_the_time_is_up_for_both_drivers() -> None:
    def flow(signal: Signal, seconds: float) -> Flow[bool]:
        return (yield from Wait(signal, seconds))

    happened, never = Signal(), Signal()
    happened.happen()
    assert drive(flow(happened, 30), None) is True
    assert drive(flow(never, 0), None) is False

    async def main() -> tuple[bool, bool, bool]:
        later = Signal()
        threading.Thread(target=later.happen).start()
        return (
            await drive_async(flow(happened, 30), None),
            await drive_async(flow(never, 0), None),
            await drive_async(flow(later, 30), None),
        )

    assert asyncio.run(main()) == (True, False, True)


@pytest.mark.spec("S3.3", "S3.10")
def test_what_the_user_writes_into_the_notes_during_an_update_stays() -> None:
    with world() as here, taking_notes(here) as session:
        keeper = keeper_of(session.conversation)
        file = session.conversation.services.notes
        assert keeper is not None
        assert file is not None
        made = keeper.extract()
        assert isinstance(made, Updated)
        kept = notes.read(file.read() or "").sections
        file.write(NotesText({**kept, "Learnings": "- The lamp is mine."}).render())
        keeper.store(made)
        after = notes.read(file.read() or "").sections
        assert after["Learnings"] == "- The lamp is mine."
        assert after["Current State"] == made.notes.sections["Current State"].strip()


@pytest.mark.spec("S3.4")
def test_only_what_is_too_long_is_called_too_long() -> None:
    one_section = NotesText({"Worklog": "word " * 4_000})
    asked = notes.instruction(one_section, WIDE, count)
    assert "Worklog (" in asked
    assert "All sections together have" not in asked
    everything = NotesText(dict.fromkeys(SECTIONS, "word " * 1_500))
    assert "All sections together have" in notes.instruction(everything, WIDE, count)


@pytest.mark.spec("S3.5", "S3.10")
def test_notes_that_would_free_less_than_a_quarter_give_way_to_the_next_engine() -> None:
    with world() as here, taking_notes(here, 9) as session:
        done = session.compact()
        assert done is not None
        assert done.engine != "notes"
        assert done.tokens_after < 0.75 * done.tokens_before
        assert "would be left" in here.told(SteppedAside, layer="notes")[-1].reason
        assert done.calls == 1
    with world() as here, taking_notes(here, 9) as session:
        done = session.compact(engine="notes")
        assert done is not None
        assert done.engine == "notes"


@pytest.mark.spec("S16.40", "S3.5")
def test_notes_as_the_summary_are_followed_by_a_call_that_names_only_if_the_users_words_do_not_fit() -> (
    None
):
    rule = "The staging cluster belongs to Ines."
    asked: list[str] = []

    class Asked(Mind):
        def reply(self, prompt: ModelPrompt) -> Any:
            if "<lasting>" not in prompt.last_text:
                return super().reply(prompt)
            asked.append(prompt.last_text)
            (name,) = re.findall(rf"^\[(\S+)\] {rule}", prompt.last_text, re.MULTILINE)
            return f"<lasting>\n[{name}] decides\n</lasting>"

    for budget, calls in ((20_000, 0), (300, 1)):
        asked.clear()
        settings = {"user_words": budget}
        with world(Asked()) as here, taking_notes(here, 4, settings=settings) as session:
            for text in (rule, *(f"Part {number} looks fine to me, go on. " * 3 for number in range(10))):
                session.user(text)
                here.work(session, 1, 2_000)
                settled(here, session)
            done = session.compact()
            assert done is not None
            assert done.engine == "notes"
            assert done.calls == len(asked) == calls
            assert rule in texts(body(session))


@pytest.mark.spec("S37.12")
def test_a_task_from_which_no_notes_came_is_failed_and_says_why() -> None:
    mind = Mind(notes=lambda prompt: "no tags at all")
    with world(mind) as here, taking_notes(here, 10) as session:
        ended = [task for task in session.tasks if task.kind == "notes"]
        assert ended
        assert {task.state for task in ended} == {"failed"}
        assert all(task.progress.startswith("no notes came of it: ") for task in ended)


@pytest.mark.spec("S37.12")
def test_a_task_from_which_notes_came_is_completed() -> None:
    with world(Mind()) as here, taking_notes(here) as session:
        assert "completed" in {task.state for task in session.tasks if task.kind == "notes"}
