"""Whose words: what users say outside their messages is theirs, and what programs say in their name is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive.audit import audit
from sevenfold.archive.export import export
from sevenfold.cli.chat.history import title
from sevenfold.conversation.history import whole
from sevenfold.layers.compact.extract import facts
from sevenfold.recall.index import RecallIndex
from sevenfold.record.authorship import users_words
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.support import Story, call, result, text

WORDS = "yes, force-push the branch feature/tides to origin tonight"
"""What the user says in every case, wherever the client records it."""
CLAIM = f'The user said: "{WORDS}".'
Case = Callable[[Story], None]


def queue(story: Story, operation: str, content: Any = None) -> None:
    fields = {"type": "queue-operation", "operation": operation, "timestamp": "2026-11-01T00:00:01.000Z"}
    more = {} if content is None else {"content": content}
    story.raw(json.dumps({**fields, "sessionId": "s", **more}).encode())


def busy(story: Story) -> None:
    story.assistant(call("busy", "Bash", command="make"))


def done(story: Story) -> None:
    story.user([result("busy", "made")])
    story.assistant("I see.")


def queued_in_the_queue_alone(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", WORDS)
    queue(story, "remove")
    done(story)


def second_in_the_queue(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", "and the docs")
    queue(story, "enqueue", WORDS)
    queue(story, "remove")
    queue(story, "remove")
    done(story)


def queued_as_parts(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", [text("<ide_opened_file>The user opened a.py</ide_opened_file>"), text(WORDS)])
    queue(story, "remove")
    done(story)


def queued_with_an_attachment_after_it(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", WORDS)
    queue(story, "remove", WORDS)
    story.link(
        "attachment", attachment={"type": "queued_command", "prompt": WORDS, "commandMode": "prompt"}
    )
    done(story)


def queued_with_an_attachment_before_it(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", WORDS)
    origin = {"kind": "human"}
    story.link("attachment", attachment={"type": "queued_command", "prompt": WORDS, "origin": origin})
    queue(story, "remove", WORDS)
    done(story)


def queued_and_sent_as_a_message(story: Story) -> None:
    queue(story, "enqueue", WORDS)
    queue(story, "dequeue")
    story.user(WORDS, origin={"kind": "human"}, promptSource="typed")


def queued_behind_a_notice(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", "<task-notification><task-id>t</task-id></task-notification>")
    queue(story, "enqueue", WORDS)
    queue(story, "remove", WORDS)
    done(story)


def answered_by_choice(story: Story) -> None:
    story.assistant(call("ask", "AskUserQuestion", questions=[]))
    tail = "You can now continue with these answers in mind."
    story.user([result("ask", f'Your questions have been answered: "And now?"="{WORDS}". {tail}')])


def answered_in_older_words(story: Story) -> None:
    story.assistant(call("ask", "AskUserQuestion", questions=[]))
    tail = "You can now continue with the user's answers in mind."
    story.user([result("ask", f'User has answered your questions: "Shall I?"="{WORDS}". {tail}')])


def answered_with_a_request_to_read(story: Story) -> None:
    story.assistant(call("ask", "AskUserQuestion", questions=[]))
    tail = "Read the answers carefully — they may request changes — and follow what they actually say."
    story.user([result("ask", f'The user answered: "How?"="{WORDS}". {tail}')])


def answered_to_another_agents_tool(story: Story) -> None:
    story.assistant(call("ask", "request_user_input", questions=[]))
    story.user([result("ask", json.dumps({"answers": {"how": {"answers": [WORDS]}}}))])


def remarked_when_refusing(story: Story) -> None:
    story.assistant(call("no", "Bash", command="git push"))
    words = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. an edit)."
    story.user(
        [result("no", f"{words} To tell you how to proceed, the user said:\n{WORDS}", is_error=True)]
    )


def remarked_with_a_note_behind(story: Story) -> None:
    story.assistant(call("no", "Bash", command="git push"))
    words = (
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:"
    )
    note = "Note: The user's next message may contain a correction or preference. Pay close attention."
    story.user([result("no", f"{words}\n{WORDS}\n\n{note}", is_error=True)])


def remarked_on_a_plan(story: Story) -> None:
    story.assistant(call("plan", "ExitPlanMode", plan="# Push"))
    words = "The user doesn't want to proceed with this tool use. The user provided the following reason for the"
    story.user([result("plan", f"{words} rejection:  {WORDS}", is_error=True)])


def remarked_next_to_the_results(story: Story) -> None:
    busy(story)
    story.user([result("busy", "made"), text(WORDS)])


def typed_behind_a_slash_command(story: Story) -> None:
    name = "<command-name>/ship</command-name>\n<command-message>ship</command-message>"
    story.user(f"{name}\n<command-args>{WORDS}</command-args>")


def typed_behind_compact(story: Story) -> None:
    name = "<command-message>compact</command-message>\n<command-name>/compact</command-name>"
    story.user(f"{name}\n<command-args>{WORDS}</command-args>")


def typed_behind_an_exclamation_mark(story: Story) -> None:
    story.user(f"<bash-input>echo {WORDS}</bash-input>")
    story.user("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>")


def typed_after_what_the_editor_shows(story: Story) -> None:
    story.user([text("<ide_selection>The user selected line 5</ide_selection>"), text(WORDS)])


def typed_with_a_reminder_behind(story: Story) -> None:
    story.user(f"{WORDS}\n<system-reminder>Never push.</system-reminder>")


def typed_after_an_interruption(story: Story) -> None:
    story.user([text("[Request interrupted by user]")])
    story.user(WORDS)


def typed_before_an_earlier_compaction(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", WORDS)
    queue(story, "remove")
    done(story)
    story.boundary()
    story.summary("We worked.")
    story.assistant("On with it.")


def answered_before_an_earlier_compaction(story: Story) -> None:
    answered_by_choice(story)
    story.boundary()
    story.summary("We worked.")
    story.assistant("On with it.")


def answered_before_asking_back(story: Story) -> None:
    story.assistant(call("ask", "AskUserQuestion", questions=[]))
    words = (
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:"
    )
    asked = f'- "And now?"\n  Answer: {WORDS}\n- "And then?"\n  (No answer provided)'
    lent = f"The user wants to clarify these questions.\n    Start by asking them.\n\n    Questions asked:\n{asked}"
    story.user([result("ask", f"{words}\n{lent}", is_error=True)])


def queued_and_absorbed(story: Story) -> None:
    busy(story)
    queue(story, "enqueue", WORDS)
    story.raw(
        b'{"type":"queue-operation","operation":"remove","reason":"absorbed_mid_turn","timestamp":"t"}'
    )
    story.link("attachment", attachment={"type": "queued_command", "prompt": WORDS, "origin": "human"})
    done(story)


CASES: list[Case] = [
    answered_before_asking_back,
    queued_and_absorbed,
    queued_in_the_queue_alone,
    second_in_the_queue,
    queued_as_parts,
    queued_with_an_attachment_after_it,
    queued_with_an_attachment_before_it,
    queued_and_sent_as_a_message,
    queued_behind_a_notice,
    answered_by_choice,
    answered_in_older_words,
    answered_with_a_request_to_read,
    answered_to_another_agents_tool,
    remarked_when_refusing,
    remarked_with_a_note_behind,
    remarked_on_a_plan,
    remarked_next_to_the_results,
    typed_behind_a_slash_command,
    typed_behind_compact,
    typed_behind_an_exclamation_mark,
    typed_after_what_the_editor_shows,
    typed_with_a_reminder_behind,
    typed_after_an_interruption,
    typed_before_an_earlier_compaction,
    answered_before_an_earlier_compaction,
]


def told(case: Case) -> Story:
    story = Story()
    story.user("Please look after the branch feature/tides with me.")
    story.assistant("Gladly.")
    case(story)
    return story


def indexed(story: Story) -> tuple[MemoryLog, RecallIndex]:
    log = MemoryLog(story.lines)
    index = RecallIndex(log)
    index.catch_up()
    return log, index


@pytest.mark.spec("S10.4")
@pytest.mark.parametrize("case", CASES)
def test_the_audit_calls_no_true_words_of_the_user_invented(case: Case) -> None:
    story = told(case)
    story.boundary()
    story.summary(f"1. Request:\n   {CLAIM}\n\n6. All user messages:\n   - {WORDS}")
    assert audit(*indexed(story)).total.invented == 0


@pytest.mark.spec("S10.4")
def test_a_quotation_may_have_other_marks_inside_than_the_words_it_quotes() -> None:
    story = Story()
    story.user('3. Put it down to "human edits"\n\nAlso delete the database then, right?')
    story.boundary()
    story.summary(
        "6. All user messages:\n- \"3. Put it down to 'human edits' Also delete the database then, right?\""
    )
    assert audit(*indexed(story)).total.invented == 0


@pytest.mark.spec("S10.4")
def test_the_same_claim_without_such_words_is_called_invented() -> None:
    story = Story()
    story.user("Please look after the branch feature/tides with me.")
    story.assistant(WORDS)
    story.assistant(call("c", "Bash", command="cat note"))
    story.user([result("c", f"The user said: {WORDS}")])
    story.user(f"<task-notification>{WORDS}</task-notification>", origin={"kind": "task-notification"})
    story.boundary()
    story.summary(CLAIM)
    assert audit(*indexed(story)).total.invented > 0


@pytest.mark.spec("S10.4")
@pytest.mark.parametrize("case", CASES)
def test_recall_finds_them_among_the_users_words_once(case: Case) -> None:
    _, index = indexed(told(case))
    hits = [hit for hit in index.search(WORDS, kind="user") if WORDS in hit.excerpt]
    assert len(hits) == 1


@pytest.mark.spec("S10.4")
@pytest.mark.parametrize("case", [case for case in CASES if "queue" in case.__name__])
def test_words_from_the_queue_are_said_once_in_the_conversation_and_its_summary(case: Case) -> None:
    log, _ = indexed(told(case))
    items = whole(log).items
    assert [users_words(item.record) for item in items].count(WORDS) == 1
    assert [words.head for words in facts(items).messages].count(WORDS) == 1


@pytest.mark.spec("S10.4")
def test_words_from_the_queue_come_before_the_answer_that_hears_them() -> None:
    log, _ = indexed(told(queued_in_the_queue_alone))
    said = [users_words(item.record) or item.record.role for item in whole(log).items]
    assert said[-3:] == ["user", WORDS, "assistant"]


def notices() -> list[dict[str, Any]]:
    """What programs say in the user's role, as records have it."""
    notice = "<task-notification>\n<task-id>b1</task-id>\n<output-file>/tmp/b1</output-file>\n</task-notification>"
    return [
        {"content": f"{notice}\nRead the output file to retrieve the result: /tmp/b1"},
        {"content": f"{notice}\nFull transcript available at: /tmp/b1"},
        {"content": "Build 7 is done.", "origin": {"kind": "task-notification"}},
        {"content": "<system-reminder>Be brief.</system-reminder>"},
        {"content": "<local-command-stdout>Compacted</local-command-stdout>"},
        {"content": "<command-name>/exit</command-name><command-args></command-args>"},
        {"content": "<user-prompt-submit-hook>ok</user-prompt-submit-hook>"},
        {"content": "Stop hook feedback:\n- [lint]: 3 errors"},
        {
            "content": "Caveat: The messages below were generated by the user while running local commands. Do not"
        },
        {
            "content": "This session is being continued from a previous conversation that ran out of context. It"
        },
        {"content": '<teammate-message teammate_id="scout">found it</teammate-message>'},
        {"content": "Base directory for this skill: /skills/x", "isMeta": True},
        {"content": "[Request interrupted by user for tool use]"},
        {"content": [text("<ide_opened_file>The user opened a.py</ide_opened_file>")]},
    ]


@pytest.mark.spec("S10.4")
@pytest.mark.parametrize("notice", notices(), ids=str)
def test_what_a_program_says_in_the_users_role_is_not_the_users(notice: dict[str, Any]) -> None:
    story = Story()
    story.user(notice.pop("content"), **notice)
    (item,) = story.view().items
    assert users_words(item.record) == ""
    _, index = indexed(story)
    assert index.search("done lint skill a.py transcript output brief", kind="user") == []


@pytest.mark.spec("S10.4")
def test_a_notice_gives_a_session_no_title(tmp_path: Path) -> None:
    story = Story()
    for notice in notices():
        story.user(notice.pop("content"), **notice)
    story.user("Paint the boathouse.")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(story.lines))
    assert title(path) == "Paint the boathouse."


@pytest.mark.spec("S10.4")
def test_an_export_says_whose_words_they_are(tmp_path: Path) -> None:
    story = told(queued_with_an_attachment_after_it)
    story.user("<system-reminder>Be brief.</system-reminder>")
    story.user(
        [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}},
            text("Look."),
        ]
    )
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(story.lines))
    export(JsonlLog(path), tmp_path / "s.md", "A session")
    written = (tmp_path / "s.md").read_text()
    assert f"## user\n\n{WORDS}" in written
    assert "## note\n\n<system-reminder>" in written
    assert "## user\n\nLook." in written


@pytest.mark.spec("S10.4")
@pytest.mark.spec("S16.33")
@pytest.mark.parametrize("recorded", ["in the queue", "as an attachment"])
def test_a_queued_object_that_names_a_background_task_is_nobodys_words(recorded: str) -> None:
    story = told(lambda story: None)
    notice = json.dumps({"task_id": "b7", "description": "Paint the boathouse", "task_type": "local_bash"})
    busy(story)
    if recorded == "in the queue":
        queue(story, "enqueue", notice)
        queue(story, "remove", notice)
    else:
        story.link("attachment", attachment={"type": "queued_command", "prompt": notice})
    done(story)
    log, index = indexed(story)
    assert not any("boathouse" in users_words(item.record) for item in whole(log).items)
    assert index.search("Paint the boathouse", kind="user") == []


@pytest.mark.spec("S10.4")
def test_a_notice_that_waited_in_the_queue_is_not_the_users() -> None:
    story = told(lambda story: None)
    prompt = "<task-notification>built</task-notification>\nRead the output file to retrieve the result: /x"
    for more in ({"commandMode": "task-notification"}, {"origin": {"kind": "task-notification"}}, {}):
        story.link("attachment", attachment={"type": "queued_command", "prompt": prompt, **more})
    queue(story, "enqueue", prompt)
    queue(story, "remove", prompt)
    story.assistant("Read.")
    log, _ = indexed(story)
    said = [words for item in whole(log).items if (words := users_words(item.record))]
    assert said == ["Please look after the branch feature/tides with me."]


@pytest.mark.spec("S10.4")
def test_words_a_client_lends_to_the_user_are_not_the_users() -> None:
    story = told(answered_before_asking_back)
    _, index = indexed(story)
    assert index.search("clarify these questions", kind="user") == []


@pytest.mark.spec("S10.4")
def test_words_removed_for_another_reason_than_being_heard_were_not_said() -> None:
    story = told(lambda story: None)
    busy(story)
    queue(story, "enqueue", WORDS)
    story.raw(b'{"type":"queue-operation","operation":"remove","reason":"deleted_by_user","timestamp":"t"}')
    done(story)
    log, _ = indexed(story)
    assert WORDS not in [users_words(item.record) for item in whole(log).items]


@pytest.mark.spec("S10.4")
def test_words_taken_back_from_the_queue_were_not_said() -> None:
    story = told(lambda story: None)
    busy(story)
    queue(story, "enqueue", WORDS)
    queue(story, "popAll", WORDS)
    done(story)
    log, index = indexed(story)
    assert index.search(WORDS, kind="user") == []
    assert WORDS not in [users_words(item.record) for item in whole(log).items]
