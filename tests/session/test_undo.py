"""Taking back what a layer did, and doing it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.transcript import Attachment
from sevenfold.errors import InputError, Refused
from sevenfold.events import Acted, EpochOpened
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.record import blocks
from sevenfold.record.decisions import MicrocompactMetadata
from sevenfold.record.entries import Clearing
from tests.session.holding import scripted
from tests.session.talking import (
    ALONE,
    BOUND,
    FREE,
    World,
    alone,
    answer,
    calling,
    fake_reply,
    hear,
    kinds_of,
    output,
    reader,
    said,
    talker,
    thought,
    uuids,
    work,
    world,
)

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

LARGE = output(times=900)
SETTINGS = {"offload": False, "gap_keep": 1}


def tired(here: World, session: sevenfold.Session, turns: int = 6) -> None:
    """Work, then pause for so long that the cache is gone, and speak again."""
    session.user("begin")
    work(session, turns, LARGE, clock=here.clock)
    done = session.complete()
    answer(session, done, LARGE)
    here.clock.advance(4_000)


def finish_turn(here: World, session: sevenfold.Session) -> None:
    """The model answers in words, the user speaks after a pause."""
    here.simulator.brain = talker()
    session.complete()
    here.clock.advance(4_000)
    session.user("good morning")


def talk(session: sevenfold.Session, *words: str) -> None:
    """Say each of these and wait for the answer."""
    for one in words:
        session.user(one)
        session.complete()


@pytest.mark.spec("S10.1", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_undo_directly_after_a_clearing_gives_the_bytes_back(model: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, model=model, settings={**SETTINGS, "gap_clearing": False}) as session:
            tired(here, session)
            finish_turn(here, session)
            before = session.prepare().body
        with here.open(file, model=model, settings=SETTINGS) as session:
            request = session.prepare()
            (cleared,) = here.told(Acted)
            assert cleared.layer == "clear"
            assert b"Old tool result content cleared" in request.body
            assert session.undo() == cleared.reference
            assert session.prepare().body == before
            session.complete()


@pytest.mark.spec("S10.1", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_identical_bytes_after_undo_of_a_clearing_and_of_a_snip(model: str) -> None:
    with (
        world() as here,
        here.session(model=model, settings={**SETTINGS, "gap_clearing": False}) as session,
    ):
        tired(here, session)
        finish_turn(here, session)
        before = session.prepare().body
        records = uuids(session)
        snipped = session.snip(records[3], records[4])
        assert session.prepare().body != before
        assert session.undo() == snipped
        assert session.prepare().body == before
        assert session.redo() == snipped
        after = session.prepare().body
        assert after != before
        assert session.undo(snipped) == snipped
        assert session.prepare().body == before
        session.complete()


@pytest.mark.spec("S9.2", "S10.1")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_what_was_said_since_stays_and_the_server_takes_it(model: str) -> None:
    with world() as here, here.session(model=model, settings=SETTINGS) as session:
        tired(here, session)
        finish_turn(here, session)
        before = set(kinds_of(here.bodies[-1]))
        assert "thinking" in before
        session.complete()
        assert here.told(Acted)
        session.user("go on")
        session.complete()
        session.user("and on")
        session.undo()
        session.complete()
        assert b"Old tool result content cleared" not in here.bodies[-1]
        assert b"go on" in here.bodies[-1]
        old = kinds_of(here.bodies[-1]).count("thinking")
        assert old == (8 if model == BOUND else 10)
        session.user("once more")
        session.complete()
        assert kinds_of(here.bodies[-1]).count("thinking") == old + 1
        assert [event.reason for event in here.told(EpochOpened)][-1] == "undo"


@pytest.mark.spec("S10.1")
def test_what_was_put_back_is_left_alone_until_it_is_redone() -> None:
    with world() as here, here.session(model=FREE, settings=SETTINGS) as session:
        tired(here, session)
        finish_turn(here, session)
        session.prepare()
        name = session.undo()
        here.clock.advance(4_000)
        session.prepare()
        assert [event.layer for event in here.told(Acted)] == ["clear"]
        assert session.redo() == name
        assert b"Old tool result content cleared" in session.prepare().body
        assert [event.layer for event in here.told(Acted)] == ["clear"]


@pytest.mark.spec("S10.1", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_two_decisions_are_taken_back_one_after_the_other(model: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file, model=model) as session:
            for words in ("one", "two", "three", "four"):
                session.user(words)
                session.complete()
            session.user("five")
            before = session.prepare().body
            records = uuids(session)
            first = session.snip(records[1], records[2])
            session.complete()
            session.user("six")
            second = session.snip(records[3], records[4])
            session.complete()
            session.user("seven")
        with here.open(file, model=model) as session:
            assert session.undo() == second
            session.complete()
            session.user("eight")
            assert session.undo() == first
            session.complete()
            assert here.bodies[-1].startswith(before[: before.index(b'"five"')])
            session.user("nine")
            assert session.redo() == first
            session.complete()
            assert b'"two"' not in here.bodies[-1]


@pytest.mark.spec("S10.1")
def test_undo_is_refused_with_the_sizes_when_it_would_not_fit() -> None:
    settings = {"context_window": 40_000, "offload": False, "size_keep": 1}
    with alone(
        model=FREE,
        tools=[sevenfold.tool({"name": "Shell", "input_schema": {}}, kind="shell")],
        settings=settings,
    ) as session:
        session.user("begin")
        for number in range(12):
            size = len(session.prepare().body) // 4
            session.observe(fake_reply(calling(f"t{number}"), number=number, prompt=size))
            session.tool_results({f"t{number}": "some words of output " * 700})
        assert any(isinstance(made, Clearing) for made in session.conversation.transcript.view.decisions())
        with pytest.raises(
            Refused, match=r"put back about [\d,]+ tokens.*sending stops; fetch single results, or snip"
        ):
            session.undo()


@pytest.mark.spec("S1.3", "S10.1")
def test_what_cannot_be_undone_says_so() -> None:
    with alone(settings={"offload_characters": 1_000, "preview_bytes": 200}) as session:
        session.user("begin")
        with pytest.raises(Refused, match=r"nothing to undo.*provider_edits"):
            session.undo()
        with pytest.raises(Refused, match="nothing was undone that could be redone"):
            session.redo()
        hear(session, fake_reply(calling("t1"), calling("t2")))
        session.tool_results({"t1": "x" * 5_000, "t2": "small"})
        hear(session, fake_reply(number=2))
        session.user("more")
        with pytest.raises(Refused, match="there is no decision nonsense"):
            session.undo("nonsense")
        records = uuids(session)
        name = session.snip(records[1], records[2])
        session.undo()
        with pytest.raises(Refused, match="was undone already; redo makes it again"):
            session.undo(name)
        session.redo(name)
        with pytest.raises(Refused, match="was not undone"):
            session.redo(name)
        assert session.fetch("t1") == b"x" * 5_000


@pytest.mark.spec("S1.3")
def test_an_offload_decided_before_sending_is_named_as_what_it_is() -> None:
    with alone(settings={"round_characters": 3_000, "preview_bytes": 200}) as session:
        session.user("begin")
        hear(session, fake_reply(calling("t1"), calling("t2")))
        session.tool_results({"t1": "x" * 2_900, "t2": "y" * 900})
        _ = session.prepare().body
        with pytest.raises(Refused, match=r"is an offload.*cannot be undone; fetch gives its whole text"):
            session.undo("t1")
        assert session.fetch("t1") == b"x" * 2_900
        assert session.fetch("t2") == b"y" * 900


@pytest.mark.spec("S8.6", "S10.1")
def test_a_decision_on_a_branch_left_behind_is_not_the_one_to_undo() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        session.user("four")
        records = uuids(session)
        session.snip(records[1], records[2])
        session.rewind(records[3])
        session.user("another way")
        with pytest.raises(Refused, match="nothing to undo"):
            session.undo()
        session.complete()
        assert b'"two"' in here.bodies[-1]


def _talk_and_compact(session: sevenfold.Session) -> None:
    for number in range(4):
        session.user(f"say {number}")
        hear(session, fake_reply(number=number + 1))
    assert session.compact() is not None


def test_a_compaction_is_not_redone_behind_a_newer_one() -> None:
    with alone() as session:
        _talk_and_compact(session)
        older = session.undo()
        session.user("say more")
        hear(session, fake_reply(number=9))
        assert session.compact() is not None
        before = session.conversation.transcript.view.encoded()
        with pytest.raises(Refused, match="nothing was undone that could be redone"):
            session.redo()
        with pytest.raises(Refused, match=r"compacted again since then.*undo the newer compaction"):
            session.redo(older)
        assert session.conversation.transcript.view.encoded() == before
        newer = session.undo()
        assert session.redo() == newer


def test_undoing_a_compaction_is_refused_when_what_comes_back_might_not_be_sent() -> None:
    with alone(settings={"context_window": 60_000}) as session:
        for number in range(4):
            session.user(f"say {number} " + "some words of it " * 2_000)
            size = len(session.prepare().body) // 4
            session.observe(fake_reply(number=number, prompt=size))
        assert session.compact() is not None
        session.user("and more " + "words of another kind " * 4_000)
        before = session.conversation.transcript.view.encoded()
        with pytest.raises(
            Refused, match=r"would make [\d,]+ tokens, perhaps [\d,]+ more.*sending stops at"
        ):
            session.undo()
        assert session.conversation.transcript.view.encoded() == before


def test_a_compaction_is_redone_once() -> None:
    with alone() as session:
        _talk_and_compact(session)
        name = session.undo()
        assert session.redo() == name
        with pytest.raises(Refused, match="nothing was undone that could be redone"):
            session.redo()


def test_redo_makes_again_what_was_undone_last() -> None:
    with alone() as session:
        _talk_and_compact(session)
        session.undo()
        records = uuids(session)
        snipped = session.snip(records[1], records[2])
        assert session.undo() == snipped
        assert session.redo() == snipped


@pytest.mark.spec("S10.1")
def test_undone_and_redone_a_snip_leaves_the_reasoning_that_came_after_it() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        records = uuids(session)
        session.snip(records[1], records[2])
        session.user("four")
        session.complete()
        session.user("five")
        before = session.prepare().body
        assert "thinking" in kinds_of(before)
        session.undo()
        session.redo()
        assert session.prepare().body == before
        session.complete()


@pytest.mark.spec("S9.2", "S10.1")
def test_reasoning_stays_away_from_a_redone_compaction_if_rounds_were_snipped_meanwhile() -> None:
    with world(reader(0, thinks=False)) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        assert session.compact(engine="extractive") is not None
        here.simulator.brain = talker()
        for words in ("four", "five", "six"):
            session.user(words)
            session.complete()
        boundary = session.undo()
        since = [
            item.record.uuid for item in session.conversation.transcript.view.items if not item.hidden_by
        ]
        session.snip(since[-5], since[-4])
        assert session.redo(boundary) == boundary
        session.user("seven")
        session.complete()
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S10.1")
def test_the_epoch_of_a_snip_is_not_undone_without_it() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        records = uuids(session)
        session.snip(records[1], records[2])
        epoch = here.told(EpochOpened)[-1]
        with pytest.raises(Refused, match="nothing to undo"):
            session.undo(epoch.epoch)


@pytest.mark.spec("S10.1")
def test_undo_directly_after_a_snip_is_not_refused_where_the_request_fitted() -> None:
    with alone(model=FREE, settings={"context_window": 30_000}) as session:
        for number in range(4):
            session.user("some words of it " * 700)
            hear(session, fake_reply(number=number, prompt=5_000 * (number + 1)))
        session.user("more words " * 300)
        before = session.prepare().body
        records = uuids(session)
        session.snip(records[1], records[4])
        session.undo()
        assert session.prepare().body == before


def test_rewound_to_the_start_a_session_forgets_what_was_decided() -> None:
    with alone() as session:
        for number in range(4):
            session.user(f"say {number}")
            hear(session, fake_reply(number=number + 1))
        records = uuids(session)
        session.snip(records[1], records[2])
        assert session.compact() is not None
        session.user("and more")
        hear(session, fake_reply(number=9))
        session.rewind(None)
        with pytest.raises(Refused, match="nothing to undo"):
            session.undo()


@pytest.mark.spec("S9.2")
def test_what_another_model_was_told_is_withdrawn_when_a_rewind_brings_it_back(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file) as session:
            session.user("one")
            session.complete()
        with here.open(file, system="Other. " * 600) as session:
            session.user("two")
            session.complete()
            assert "system" in {message["role"] for message in said(here.bodies[-1])}
            session.user("three")
            newest = uuids(session)[-1]
        with here.open(file, model=FREE, system="Other. " * 600) as session:
            session.rewind(newest)
            fork = session.fork()
            fork.user("in short?")
            assert "system" not in {message["role"] for message in said(fork.prepare().body.raw)}
            session.complete()
            assert "system" not in {message["role"] for message in said(here.bodies[-1])}


@pytest.mark.spec("S8.6")
def test_results_in_part_wait_for_the_rest_behind_what_an_undo_left() -> None:
    with alone() as session:
        for number in range(2):
            session.user("go on")
            hear(session, fake_reply(number=number))
        session.user("go on")
        hear(session, fake_reply(calling("t1"), calling("t2"), number=3))
        assert session.compact() is not None
        session.undo()
        session.tool_results({"t1": "done"})
        records = uuids(session)
        session.snip(records[1], records[2])
        with pytest.raises(InputError, match="calls still wait for results: t2"):
            session.prepare()


@pytest.mark.spec("S9.2", "S10.1")
def test_reasoning_stays_away_from_a_redone_snip_if_the_rounds_before_were_compacted_meanwhile() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three", "four"):
            session.user(words)
            session.complete()
        records = uuids(session)
        session.snip(records[3], records[4])
        session.user("five")
        session.complete()
        snip = session.undo()
        assert session.compact(engine="provider", span="up_to", record=records[3]) is not None
        assert session.redo(snip) == snip
        session.user("six")
        session.complete()
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S8.6")
def test_opened_again_after_a_compaction_was_undone_the_request_has_the_same_markers(
    tmp_path: Path,
) -> None:
    with world(talker()) as here:
        with here.open(tmp_path / "s.jsonl") as session:
            for _ in range(3):
                session.user(output(times=900))
                session.complete()
            session.compact(engine="extractive")
            for _ in range(3):
                session.user(output(times=900))
                session.complete()
            session.undo()
            session.user("go on")
            before = session.prepare().body
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.prepare().body == before


@pytest.mark.spec("S9.2")
def test_what_was_cleared_for_a_request_stays_so_if_the_user_speaks_before_its_answer() -> None:
    with alone() as session:
        session.user("go on")
        hear(session, fake_reply(calling("t1")))
        session.tool_results({"t1": output()})
        hear(session, fake_reply(calling("t2"), number=2))
        session.tool_results({"t2": "done"})
        session.conversation.transcript.clear(MicrocompactMetadata(compacted_tool_ids=["t1"]))
        sent = session.prepare().body
        session.user("wait")
        session.observe(fake_reply(number=3))
        assert output().encode()[:16] not in sent
        assert output().encode()[:16] not in session.prepare().body


@pytest.mark.spec("S9.2")
def test_no_reasoning_from_behind_another_system_prompt_is_kept_after_a_summary(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file) as session:
            for words in ("one", "two", "three"):
                session.user(words)
                session.complete()
        with here.open(file, system="Other. " * 600) as session:
            session.user("four")
            session.complete()
            assert session.compact(engine="provider", span="up_to", record=uuids(session)[3]) is not None
            session.user("five")
            session.complete()
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S9.2", "S10.1")
@pytest.mark.parametrize("decided", ["compaction", "snip"])
def test_a_result_that_came_late_takes_the_reasoning_behind_it_out_of_what_an_undo_brings_back(
    decided: str,
) -> None:
    with world(reader()) as here, here.session() as session:
        session.user("one")
        work(session, 3)
        waiting = session.complete().calls
        session.user("never mind")
        reads, here.simulator.brain = here.simulator.brain, ScriptedBrain(lambda prompt: [thought()])
        session.complete()
        here.simulator.brain = reads
        records = uuids(session)
        if decided == "snip":
            session.snip(records[1], records[2])
        else:
            assert session.compact(engine="extractive", span="up_to", record=records[3]) is not None
        session.tool_results({call.id: "late" for call in waiting})
        answer(session, session.complete())
        session.undo()
        session.complete()
        assert [request.status for request in here.simulator.requests if request.status != 200] == []


@pytest.mark.spec("S8.6", "S9.2")
def test_rounds_a_compaction_kept_can_be_folded_after_a_rewind_into_them() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three", "four", "five"):
            session.user(words)
            session.complete()
        records = uuids(session)
        assert session.compact(engine="extractive", span="up_to", record=records[3]) is not None
        session.rewind(records[7])
        for words in ("six", "seven"):
            session.user(words)
            session.complete()
        assert (
            session.compact(engine="extractive", span="range", record=records[3], until=records[4])
            is not None
        )
        session.user("eight")
        session.complete()
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S8.6", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_rewind_to_a_record_before_a_compaction_shows_the_rounds_it_summarised(
    model: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file, model=model) as session:
            talk(session, "one", "two", "three", "four")
            records = uuids(session)
            # The rounds before it are kept in front of the summary.
            assert session.compact(engine="extractive", span="from", record=records[3]) is not None
            session.rewind(records[-1])
            assert uuids(session) == records
            view = session.conversation.transcript.view.encoded()
            assert b"four" in b"".join(view)
        with here.open(file, model=model) as session:
            assert session.conversation.transcript.view.encoded() == view
            talk(session, "five")
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S9.2", "S10.1")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_an_undo_while_the_model_answers_repeats_nothing_and_is_not_sized_by_that_answer(
    model: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file, model=model) as session:
            talk(session, "one", *[LARGE] * 3)
            full, records = session.gauge.seen, uuids(session)
            assert session.compact(engine="extractive", span="from", record=records[3]) is not None
            session.user("said before the request")
            assert b"said before the request" in session.prepare().body
            session.undo()
            session.user("said after it")
            session.observe(fake_reply(model=model))
            shown = session.conversation.transcript.view
            assert uuids(session)[: len(records)] == records
            words = b"".join(shown.encoded())
            assert words.index(b"said before the request") < words.index(b"answer 1")
            assert words.index(b"answer 1") < words.index(b"said after it")
            assert words.count(b"a line of output") == 3 * LARGE.count("a line of output")
            # The answer reports the size of a prompt without the rounds that came back.
            assert session.gauge.seen > 0.9 * full
            seen = session.gauge.seen
        with here.open(file, model=model) as session:
            assert b"".join(session.conversation.transcript.view.encoded()) == words
            assert session.gauge.seen == pytest.approx(seen, rel=0.1)
            talk(session, "five")
        assert all(request.status == 200 for request in here.simulator.requests)


@pytest.mark.spec("S9.2", "S10.1")
@pytest.mark.parametrize("again", [False, True])
def test_reasoning_from_behind_another_system_prompt_does_not_come_back_with_an_undo(
    again: bool, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file) as session:
            talk(session, "one", "two", "three", "four")
            records = uuids(session)
            session.snip(records[3], records[4])
            # No reasoning is left in view, so the rewind below has none to drop.
            here.simulator.brain = reader(0, thinks=False)
            talk(session, "five")
            tip = uuids(session)[-1]
        # A message announces the change at first; a compaction makes it the system prompt.
        with here.open(file, system="You are a quick assistant. " * 600) as session:
            talk(session, "six")
            assert session.compact(engine="extractive") is not None
            talk(session, "seven")
            session.rewind(tip)
            if again:
                session.undo()
                session.redo()
            session.undo()
            talk(session, "eight")
        assert [request.status for request in here.simulator.requests if request.status != 200] == []


@pytest.mark.spec("S8.6", "S9.2")
def test_what_comes_while_the_model_answers_follows_its_answer(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    options: dict[str, Any] = {"model": BOUND, "settings": ALONE, "file": file, "folder": tmp_path}
    with sevenfold.Session.open("s", **options) as session:
        session.user("one")
        assert b"one" in session.prepare().body
        session.user("two")
        session.conversation.attach(Attachment("note", (blocks.text("three"),)))
        session.observe(fake_reply())
        said = session.conversation.transcript.view.encoded()
        words = b"".join(said)
        places = [words.index(each) for each in (b"one", b"answer 1", b"two", b"three")]
        assert places == sorted(places)
        assert words.count(b"two") == words.count(b"three") == 1
        newest = session.conversation.transcript.view.items[-1].record
        assert (newest.attachment, newest.meta) == ("note", True)
    with sevenfold.Session.open("s", **options) as session:
        assert session.conversation.transcript.view.encoded() == said


@pytest.mark.spec("S8.2")
def test_a_snip_heeds_a_switch_that_was_turned_since_the_last_request() -> None:
    held = scripted(*["Yes."] * 4)
    held.session.user("Begin.")
    held.run(4)
    records = uuids(held.session)
    held.settings.set(snip=False)
    with pytest.raises(Refused, match="switched off"):
        held.session.snip(records[1], records[2])
    held.settings.set(snip=True)
    held.session.snip(records[1], records[2])


@pytest.mark.spec("S9.2")
def test_another_model_gets_a_changed_system_prompt_as_its_own_and_not_as_a_message(tmp_path: Path) -> None:
    file, changed = tmp_path / "s.jsonl", "You are a quick assistant. " * 600
    with world(talker()) as here:
        with here.open(file) as session:
            talk(session, "one")
        with here.open(file, system=changed) as session:
            talk(session, "two")
            assert b"changed-instructions" in here.bodies[-1]
        with here.open(file, model=FREE, system=changed) as session:
            talk(session, "three")
            assert b"changed-instructions" not in here.bodies[-1]
            assert changed.strip().encode() in here.bodies[-1]


@pytest.mark.spec("S0.6", "S10.1")
def test_after_an_undo_sizes_rest_on_the_reports_from_before_the_compaction(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": BOUND, "settings": ALONE, "file": tmp_path / "s.jsonl"}
    options["folder"] = tmp_path
    odd = "zq" * 2_000
    with sevenfold.Session.open("s", **options) as session:
        for number in range(1, 9):
            session.user(odd)
            # This server counts one token a character, far more than is expected of such text.
            hear(session, fake_reply(number=number, prompt=1_000 + number * len(odd)))
        session.user(odd)
        live = session.gauge.seen
        session.rewind(uuids(session)[-2])
        assert session.compact(engine="extractive") is not None
    with sevenfold.Session.open("s", **options) as session:
        session.undo()
        session.user(odd)
        assert session.gauge.seen == pytest.approx(live, rel=0.02)
