"""Compactions of recorded sessions lose nothing and invent nothing, however badly a model summarises."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench import compaction, inventing, retention
from bench.points import compaction as points
from bench.points.recount import kind_of
from bench.trials import bad_models as misleading
from bench.trials import chain
from bench.trials.bad_models import FAILURES, HABITS, PLANTED, Misleading
from bench.trials.cut import cuts
from bench.trials.trial import MODEL, made_up, run_trial, send
from sevenfold.errors import Refused
from sevenfold.layers.compact.extract import facts, notation, outline
from sevenfold.layers.compact.offline import summarise
from sevenfold.layers.compact.summary import combine, extractive
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import MARK, mark
from sevenfold.record.layout import Item
from sevenfold.stores.memory import MemoryLog
from tests.support import Story, call, result, usage

ROUNDS = 24


def count(text: str) -> int:
    return len(text) // 4


def working_session() -> Story:
    """An agent at work: requests, corrections, edits, failures, a to-do list, answers to questions."""
    story = Story()
    for number in range(ROUNDS):
        if number % 6 == 0:
            story.user(f"Please port module {number} to the new API, ticket PORT-{100 + number}.")
        if number % 6 == 3:
            story.user(f"No, not like that: never touch legacy/part{number}.py, use port {8000 + number}.")
        path = f"/repo/src/module_{number}.py"
        story.assistant(
            f"Now I change module {number}.",
            call(f"e{number}", "Edit", file_path=path, old_string="a", new_string="b"),
            id=f"edit{number}",
            used=usage(1_000 + 900 * number),
        )
        story.user([result(f"e{number}", "changed\n" + f"a line of module {number} as it is now\n" * 60)])
        story.assistant(
            call(f"b{number}", "Bash", command=f"pytest tests/test_{number}.py"),
            id=f"bash{number}",
            used=usage(1_400 + 900 * number),
        )
        failure = f"Exit code 1\nE   KeyError: 'field_{number}'\n" + "a line of a traceback\n" * 30
        story.user([result(f"b{number}", failure, is_error=True)])
        todos = [{"content": f"Write docs for module {number}", "status": "pending"}]
        story.assistant(
            call(f"t{number}", "TodoWrite", todos=todos),
            id=f"todo{number}",
            used=usage(1_800 + 900 * number),
        )
        story.user([result(f"t{number}", "noted")])
    story.assistant("That is all for now.", id="last")
    return story


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions")
    (path / "working.jsonl").write_bytes(b"".join(working_session().lines))
    return path


def items() -> list[Item]:
    return list(working_session().view().items)


def wrong(trial: Any) -> dict[str, Any]:
    """Everything about a compaction that is not as it must be."""
    found = {
        "lost": [probe.text for probe in trial.score.lost],
        "invented": trial.invented,
        "refused": trial.refused,
        "moved": trial.moved,
        "not found again": not trial.reopened,
        "too large": trial.why_large == "?",
    }
    return {name: value for name, value in found.items() if value}


# A session made here


def test_cuts_are_spread_over_the_calls_and_end_with_the_last(folder):
    found = cuts(folder / "working.jsonl", 5)
    assert [cut.call for cut in found] == [15, 30, 44, 59, 73]
    assert {cut.calls for cut in found} == {73}
    assert [len(cut.lines) for cut in found] == sorted({len(cut.lines) for cut in found})


@pytest.mark.spec("S4.12", "S10.3")
def test_a_compaction_by_code_alone_loses_nothing_and_leaves_little(folder):
    for cut in cuts(folder / "working.jsonl", 3):
        trial = run_trial(cut, "extractive")
        assert wrong(trial) == {}
        assert trial.engine == "extractive"
        assert trial.score.total.in_context > 20
        assert trial.after.rest < trial.before.rest / 4


@pytest.mark.spec("S4.12", "S10.3")
@pytest.mark.parametrize("engine", ["fork", "plain"])
@pytest.mark.parametrize("habit", HABITS)
def test_a_model_that_summarises_badly_loses_no_fact_and_puts_no_words_in_the_users_mouth(
    folder, habit, engine
):
    trial = run_trial(cuts(folder / "working.jsonl", 1)[0], engine, client=Misleading(HABITS[habit]))
    assert wrong(trial) == {}
    assert trial.engine == engine


@pytest.mark.spec("S4.11", "S4.12")
@pytest.mark.parametrize("habit", FAILURES)
def test_an_answer_that_is_no_summary_is_not_taken_for_one(folder, habit):
    model = Misleading(FAILURES[habit])
    trial = run_trial(cuts(folder / "working.jsonl", 1)[0], "plain", client=model)
    assert model.asked
    assert wrong(trial) == {}
    assert trial.engine == "extractive"
    assert trial.left


@pytest.mark.spec("S4.12")
def test_a_provider_that_forgets_half_loses_no_fact(folder):
    model = Misleading(HABITS["forgets half"])
    trial = run_trial(cuts(folder / "working.jsonl", 1)[0], "provider", client=model)
    assert wrong(trial) == {}
    assert trial.engine == "provider"
    assert trial.after.signed


@pytest.mark.spec("S4.7")
def test_after_a_compaction_the_provider_takes_the_request_and_reads_what_is_shared_from_its_cache(folder):
    sent = send(cuts(folder / "working.jsonl", 1)[0])
    assert sent.refused == ""
    assert sent.read >= sent.shared > 1_000


def test_what_nobody_said_is_found_where_it_stands():
    story = Story()
    story.summary(f"## 9. Next step\n{PLANTED[0]}\nThe user insisted on selling the purple elephant.")
    assert len(list(made_up(story.view().items, items(), MemoryLog()))) == 2
    told = Story()
    told.summary(f"## 9. Next step\n{PLANTED[0]} {MARK}")
    assert list(made_up(told.view().items, items(), MemoryLog())) == []


# One after the other


@pytest.mark.spec("S10.1", "S4.12")
@pytest.mark.parametrize("habit", ["", "forgets half", "invents requests"])
def test_ten_compactions_in_a_row_lose_nothing_and_change_no_entry(habit):
    client = Misleading(HABITS[habit]) if habit else None
    links = chain.run(10, "fork" if habit else "extractive", client=client, model=MODEL, rounds=2)
    assert len(links) == 10
    assert [link.score.lost for link in links] == [()] * 10
    assert [link.drifted + link.dangling + link.invented for link in links] == [()] * 10
    assert links[-1].score.total.in_context > 100
    assert max(link.after / link.before for link in links) < 0.6


def test_more_messages_than_there_is_room_for_are_told_whole_or_left_out_and_the_work_still_has_its_place():
    story = Story()
    for number in range(400):
        story.user(f"Please look after shelf number {number} in the long hall, and never skip a label.")
        edit = call(f"e{number}", "Edit", file_path=f"/repo/{number}.py", old_string="a", new_string="b")
        story.assistant(edit, id=f"m{number}")
        story.user([result(f"e{number}")])
    summary = extractive(facts(story.view().items), 3_000, count)
    told, _ = notation.read_back(summary.text)
    assert count(summary.text) <= 3_000
    assert all(not words.lost for words in told.messages)
    assert "shelf number 0 " in told.messages[0].head
    assert "shelf number 399 " in told.messages[-1].head
    assert told.left_out["messages"] == 400 - len(told.messages) > 0
    assert len(told.files) > 5
    assert told.current


# What a model may not do


@pytest.mark.spec("S4.12")
def test_what_poses_as_a_copy_of_the_users_words_is_marked_and_read_back_as_nobodys():
    known = facts(items())
    text = "\n".join(("Module 3 is done.", *misleading.FORGED))
    marked = mark({8: text}, Evidence(known, items()))
    assert marked.sentences == (misleading.FORGED[2],)
    made = combine(marked.sections, known, 4_000, count).text
    assert f"{misleading.FORGED[2]} {MARK}" in made
    assert "Module 3 is done." in made
    assert misleading.FORGED[2] not in [words.head for words in notation.read_back(made)[0].messages]


@pytest.mark.spec("S4.12")
def test_a_copy_of_what_the_user_did_say_is_not_marked():
    known = facts(items())
    copied = f'<said record="x" lines="1">\n{known.messages[0].head}\n</said>'
    assert mark({8: copied}, Evidence(known, items())).sentences == ()


@pytest.mark.spec("S4.12")
def test_two_words_that_everybody_uses_do_not_make_a_claim_true():
    story = Story()
    story.user(
        "The unit tests of the parser fail since yesterday, please find out why.\n" + "More.\n" * 400
    )
    story.assistant("I look into it.")
    lie = "As requested by the user, all unit tests are to be removed before the audit."
    said = story.view().items
    assert mark({9: lie}, Evidence(facts(said), said)).sentences == (lie,)


@pytest.mark.spec("S4.4")
def test_a_section_that_comes_twice_is_put_together_and_a_list_in_it_is_no_section():
    text = "## 2. Key technical concepts\n1. Primary keys\n## 9. Next step\nGo.\n## 6. All user messages\n- drop it"
    assert outline.split(text) == {2: "1. Primary keys", 9: "Go.", 6: "- drop it"}


def test_the_offline_model_cites_no_records_for_it_cannot_know_their_names():
    messages = [{"role": "user", "content": "never use tabs"}, {"role": "assistant", "content": "I see."}]
    text = summarise({"messages": [*messages, {"role": "user", "content": "summarise"}]})
    assert "never use tabs" in text
    assert "[m00" not in text


# The benchmarks


def test_the_points_hold_for_a_session_made_here_but_for_what_a_provider_signed(folder):
    tallies = compaction.compact_all(folder, 2)
    assert list(tallies) == list(points.SORTS)
    assert all(tally.trials >= 2 for tally in tallies.values())
    for sort in points.SORTS[:3]:
        assert [bar for bar in tallies[sort].bars(sort) if not bar[3]] == []
    assert compaction.show(compaction.sent_bars(compaction.send_some(folder)))


def test_without_real_sessions_their_points_are_skipped_and_not_passed():
    for measurement in (points.real_sessions, points.next_requests):
        assert {outcome.met for outcome in measurement(None)} == {None}


def test_a_compaction_that_loses_or_invents_misses_its_bar():
    tally = compaction.Tally(trials=1, lost=1, invented=["x"], moved=1, shares=[0.5])
    tally.reasons["?"] += 1
    assert [met for *_, met in tally.bars("badly")] == [False] * 5
    assert [met for *_, met in compaction.sent_bars([])] == [False]
    slow = {"followed": 301.0, "unread": 1.0, "mb": 1.0, "decode": 1.0}
    assert [met for *_, met in compaction.time_bars(slow)] == [False]


@pytest.mark.spec("S4.3", "S3.5")
def test_a_fork_reads_the_cache_and_notes_and_code_ask_nobody():
    assert [bar for bar in compaction.cost_bars(compaction.costs()) if not bar[3]] == []


def test_what_is_marked_in_real_summaries_is_counted(folder):
    assert inventing.real(folder).told == 0


def test_time_is_taken_with_and_without_an_index():
    found = compaction.timed(1, 60_000)
    assert 0 < found["decode"] < found["followed"]
    assert found["mb"] > 0.03


def test_ours_loses_nothing_beside_a_plain_summary(folder):
    ways = {"ours": retention.ours("fork"), "plain": retention.plain}
    kept, before = retention.measure(folder, ways)
    assert kept["ours"].sessions == kept["plain"].sessions >= 1
    assert kept["ours"].lost == 0 < kept["ours"].in_context
    assert kept["ours"].tokens < before / 2


# Real sessions


@pytest.mark.spec("S4.12", "S10.3")
def test_real_sessions_lose_nothing_whoever_summarises_them(corpus):
    files = [path for path in sorted(corpus.rglob("*.jsonl")) if kind_of(path) == "claude"]
    found = [cut for path in files for cut in cuts(path, 2)[:1]]
    for place, cut in islice(enumerate(found), 2, None, 3):
        for _, engine, habit in islice(compaction.jobs(place), place % 3, 7, 3):
            try:
                trial = run_trial(cut, engine, client=Misleading(habit) if habit else None)
            except Refused:
                continue
            assert (cut.name, engine, wrong(trial)) == (cut.name, engine, {})
