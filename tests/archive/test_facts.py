"""What left the context, within so many characters: `ArchivedSession.facts`."""

from __future__ import annotations

from pathlib import Path

import pytest

import sevenfold
from sevenfold.archive import facts
from sevenfold.errors import InputError
from tests.profile.making import Rollout, Tape, call, result, text, usage

pytestmark = pytest.mark.spec("S23.1")


def worked(tape: Tape, number: int) -> Tape:
    """A turn: the user asks, a file is changed, a test fails."""
    tape.user(f"Please build part {number} of the harbour, with the codeword granite-{number}.")
    edit = call(
        "Edit",
        f"e{number}",
        file_path=f"/projects/harbour/pier_{number}.py",
        old_string="a",
        new_string="b",
    )
    tape.answer(f"a{number}", usage(100, output=10), text(f"I change pier {number}."), edit)
    run = call("Bash", f"b{number}", command=f"pytest tests/test_pier_{number}.py")
    tape.user(result(f"e{number}", "done")).answer(f"b{number}", usage(200, output=5), run)
    tape.user(result(f"b{number}", f"PierError: plank {number} is missing", is_error=True))
    return tape.answer(
        f"c{number}", usage(300, output=5), text(f"Plank {number} is missing, I look for it.")
    )


@pytest.fixture
def three_times(tmp_path: Path) -> Path:
    """A session that another tool compacted three times, with summaries that say nothing."""
    tape = Tape(cwd="/projects/harbour")
    for number in range(3):
        worked(tape, number).compacted("Work on the harbour.")
    return worked(tape, 3).save(tmp_path / "harbour.jsonl")


def test_what_the_first_compaction_hid_comes_back_after_the_third(three_times: Path) -> None:
    with sevenfold.transcript(three_times) as transcript:
        words = transcript.facts(9_500, "words")
        things = transcript.facts(9_500, "things")
        state = transcript.facts(9_500, "state")
    for number in range(3):
        assert f"granite-{number}." in words
        assert f"/projects/harbour/pier_{number}.py" in things
        assert f"PierError: plank {number} is missing" in state


def test_a_compaction_that_names_a_record_which_was_never_written_hides_nothing(tmp_path: Path) -> None:
    tape = worked(Tape(), 0)
    tape.parent = "never-written"
    worked(tape.compacted(), 1)
    with sevenfold.transcript(tape.save(tmp_path / "harbour.jsonl")) as transcript:
        assert "granite-0" in transcript.facts(9_500, "words")
        assert "granite-0" in transcript.records()[0].text


def test_nothing_is_brought_back_that_the_model_still_sees(three_times: Path) -> None:
    with sevenfold.transcript(three_times) as transcript:
        everything = transcript.facts(30_000)
        leaving = transcript.facts(30_000, all_leaves=True)
    assert "granite-3" not in everything
    assert "pier_3.py" not in everything
    assert "granite-3" in leaving
    assert "/projects/harbour/pier_3.py" in leaving


def test_the_three_parts_repeat_nothing(three_times: Path) -> None:
    with sevenfold.transcript(three_times) as transcript:
        lines: list[str] = []
        for part in facts.PARTS:
            lines += [line for line in transcript.facts(9_500, part).splitlines() if line.startswith("- ")]
    assert len(lines) > 10
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("characters", [0, 1, 40, 100, 333, 1_500, 9_500])
def test_no_text_is_longer_than_its_limit(three_times: Path, characters: int) -> None:
    with sevenfold.transcript(three_times) as transcript:
        assert len(transcript.facts(characters, all_leaves=True)) <= characters
        for part in facts.PARTS:
            assert len(transcript.facts(characters, part, all_leaves=True)) <= characters


def test_what_one_part_has_no_room_for_stands_in_another(tmp_path: Path) -> None:
    tape = Tape()
    for number in range(60):
        tape.user(f"Request {number}: {'lorem ipsum ' * 14}end of {number}.")
        tape.answer(f"a{number}", usage(100, output=1), text("Done."))
    with sevenfold.transcript(tape.save(tmp_path / "talk.jsonl")) as transcript:
        blocks = [transcript.facts(6_000, part, all_leaves=True) for part in facts.PARTS]
    assert "end of 59." in blocks[0]
    together = "\n".join(blocks)
    assert all(f"end of {number}." in together for number in range(60))


def test_a_long_message_keeps_its_ends_and_what_it_rules(tmp_path: Path) -> None:
    rule = "Never touch the lighthouse."
    message = f"Start of the plan. {'Some detail here. ' * 200}{rule} {'More detail there. ' * 200}End of the plan."
    tape = Tape().user(message).answer("a1", usage(100, output=1), text("Understood."))
    with sevenfold.transcript(tape.save(tmp_path / "talk.jsonl")) as transcript:
        words = transcript.facts(1_500, "words", all_leaves=True)
    assert "Start of the plan." in words
    assert rule in words
    assert "End of the plan." in words
    assert "characters …]" in words


def test_open_work_and_what_a_yes_meant_come_first(tmp_path: Path) -> None:
    todo = call("TodoWrite", "t1", todos=[{"content": "Paint the pier", "status": "pending"}])
    tape = Tape().user("Begin with the pier.").answer("a1", usage(100, output=1), text("On it."), todo)
    tape.user(result("t1", "ok")).answer("a2", usage(100, output=1), text("Shall I order the blue paint?"))
    tape.user("yes").answer("a3", usage(100, output=1), text("Ordered."))
    with sevenfold.transcript(tape.save(tmp_path / "talk.jsonl")) as transcript:
        words = transcript.facts(300, "words", all_leaves=True)
    assert "- Paint the pier" in words
    assert "yes: “yes” to “Shall I order the blue paint?”" in words


def test_a_rollout_gives_its_facts_too(tmp_path: Path) -> None:
    rollout = Rollout().record("session_meta", id="s1", cwd="/work")
    rollout.item(
        "message", role="user", content=[{"type": "input_text", "text": "Use the codeword basalt."}]
    )
    rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "I will."}]).count(
        prompt=5
    )
    with sevenfold.transcript(rollout.save(tmp_path / "rollout.jsonl")) as transcript:
        assert "Use the codeword basalt." in transcript.facts(2_000, all_leaves=True)


def test_a_part_that_does_not_exist_is_named(three_times: Path) -> None:
    with (
        sevenfold.transcript(three_times) as transcript,
        pytest.raises(InputError, match="words, things, state"),
    ):
        transcript.facts(100, "errors")  # type: ignore[arg-type]
